//! What readers are told of a queue, taken a part at a time.

use std::time::Instant;

use sluice_engine::ClusterQueueName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::unreleased::gated;
use super::*;
use crate::controller::reports::waiting::Taking;
use crate::controller::shell::readers::Readers;
use crate::visibility::{ASKED_MAX, Asked, QueueRef, State, Taken, WorkloadRef};

/// As the shell looks at.
const PART: usize = 1000;
/// For what is there at once.
const DEADLINE: Duration = Duration::from_mins(1);

/// A controller that has queued these jobs, each of which requests more than there is.
fn mk_play(jobs: &[String]) -> Play {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs(jobs.iter().map(|name| {
        let mut job = job(name);
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
            json!("2");
        job
    }));
    let waits = json!({"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota",
        "message": "cpu lacks 1", "lastTransitionTime": "2026-11-23T11:30:00Z"});
    let mut revision = 8;
    loop {
        let created = play.cycle();
        if created.is_empty() {
            return play;
        }
        for write in created {
            let mut stored = stored(&write, revision);
            stored.data["status"] = json!({"conditions": [waits]});
            play.end(write, Reply::Done(Some(Box::new(stored))));
            revision += 1;
        }
    }
}

/// All of it, and how many parts that took.
fn take(play: &Play, mut taking: Taking, part: usize) -> (Taken, usize) {
    let mut parts = 1;
    while !play.controller.go_on_taking(&mut taking, part) {
        parts += 1;
    }
    (taking.end(), parts)
}

#[tokio::test]
async fn a_list_is_the_same_however_small_its_parts_are() {
    let jobs: Vec<String> = (0..5).map(|n| format!("job-{n}")).collect();
    let play = mk_play(&jobs);
    let queue = QueueRef::ClusterQueue(ClusterQueueName::from("q"));
    let begin = |place: &QueueRef| play.controller.begin_taking(place);
    let (whole, parts) = take(&play, begin(&queue).unwrap(), PART);
    assert_eq!((whole.waiting.len(), parts), (5, 1));
    let one = &whole.waiting[0];
    assert_eq!(one.job.as_ref().map(|job| &*job.name), Some("job-0"));
    assert_eq!(&*one.name, "job-0-uidjob0");
    let why = one
        .why
        .as_ref()
        .map(|why| (&*why.reason, why.message.as_deref()));
    assert_eq!(why, Some(("WaitingForQuota", Some("cpu lacks 1"))));
    let since = one.since.map(|since| since.to_string());
    assert_eq!(since.as_deref(), Some("2026-11-23T12:00:00Z"));
    let requests = one.requests.iter().map(|(name, _)| name.as_str());
    assert_eq!(requests.collect::<Vec<_>>(), ["cpu", "pods"]);
    let of_local = QueueRef::LocalQueue(sluice_engine::LocalQueueKey::new("blue", "main"));
    for part in 1..5 {
        for place in [&queue, &of_local] {
            let (taken, parts) = take(&play, begin(place).unwrap(), part);
            assert_eq!(taken, whole, "{part} at a time, {place:?}");
            assert!(5_usize.div_ceil(part) <= parts && parts <= 7, "{parts}");
        }
    }
    for place in [
        QueueRef::ClusterQueue(ClusterQueueName::from("other")),
        QueueRef::LocalQueue(sluice_engine::LocalQueueKey::new("blue", "other")),
        QueueRef::LocalQueue(sluice_engine::LocalQueueKey::new("red", "main")),
    ] {
        assert!(begin(&place).is_none(), "{place:?}");
    }
}

#[tokio::test]
async fn a_workload_is_found_by_its_name_whether_or_not_it_is_there_yet() {
    let mut play = mk_play(&["job-0".to_owned()]);
    let mut held = job("held");
    held["metadata"]["annotations"] = json!({"kueue.x-k8s.io/scheduling-gated-by": "a.io/b"});
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(held)));
    play.cycle();
    let find = |name: &str, namespace: &str| {
        let (namespace, name) = (namespace.into(), name.into());
        let named = WorkloadRef::Workload { namespace, name };
        let mut finding = play.controller.begin_finding(&named)?;
        while !play.controller.go_on_finding(&mut finding, 1) {}
        Some(finding.end())
    };
    let waits = find("job-0-uidjob0", "blue").unwrap();
    assert_eq!(waits.stated.state, State::Pending);
    let reason = waits.stated.why.as_ref().map(|why| &*why.reason);
    assert_eq!(reason, Some("ExceedsMaxQuota"));
    assert!(!waits.trials.unwrap().ever_fits);
    let behind = find("held-uidheld", "blue").unwrap();
    assert_eq!(behind.stated.state, State::Gated);
    assert_eq!(behind.stated.gates, ["a.io/b"]);
    assert!(behind.trials.is_none() && behind.stated.made.is_none());
    for (name, namespace) in [
        ("job-0-uidjob0", "red"),
        ("job-0", "blue"),
        ("held-uidother", "blue"),
        ("held", "blue"),
    ] {
        assert!(find(name, namespace).is_none(), "{namespace}/{name}");
    }
}

/// Nobody who asks about one workload waits until a long list is taken.
#[tokio::test]
async fn answers_under_way_take_turns() {
    let jobs: Vec<String> = (0..=2 * PART).map(|n| format!("job-{n:04}")).collect();
    let play = mk_play(&jobs);
    let (ask, asked) = mpsc::channel(ASKED_MAX);
    let mut readers = Readers::new(asked);
    let (reply, mut list) = oneshot::channel();
    let place = QueueRef::ClusterQueue(ClusterQueueName::from("q"));
    ask.try_send(Asked::Pending { place, reply }).unwrap();
    readers.work(None, &play.controller);
    let (reply, mut found) = oneshot::channel();
    let named = WorkloadRef::Workload {
        namespace: "blue".into(),
        name: "job-0000-uidjob0000".into(),
    };
    ask.try_send(Asked::Workload { named, reply }).unwrap();
    let is_next = async |readers: &mut Readers| timeout(DEADLINE, readers.wait()).await.unwrap();
    for _ in 0..2 {
        let next = is_next(&mut readers).await;
        readers.work(next, &play.controller);
    }
    assert!(found.try_recv().unwrap().is_some(), "it had its turn");
    assert!(list.try_recv().is_err(), "the list is not complete");
    let taken = loop {
        let next = is_next(&mut readers).await;
        readers.work(next, &play.controller);
        if let Ok(taken) = list.try_recv() {
            break taken.unwrap();
        }
    };
    assert_eq!(taken.waiting.len(), jobs.len());
}

/// Measures, and fails if a decision would have to wait. `docs/benchmarks.md` has the command.
#[tokio::test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "a measurement prints its figures")]
async fn what_a_list_of_10_000_costs() {
    let jobs: Vec<String> = (0..10_000).map(|n| format!("job-{n:06}")).collect();
    let play = mk_play(&jobs);
    let queue = QueueRef::ClusterQueue(ClusterQueueName::from("q"));
    for _ in 0..5 {
        let begun = Instant::now();
        let mut taking = play.controller.begin_taking(&queue).unwrap();
        let mut longest = Duration::ZERO;
        loop {
            let part = Instant::now();
            let is_end = play.controller.go_on_taking(&mut taking, PART);
            longest = longest.max(part.elapsed());
            if is_end {
                break;
            }
        }
        let taken = taking.end();
        println!(
            "{} taken in {:?}, the longest part {longest:?}",
            taken.waiting.len(),
            begun.elapsed()
        );
        assert_eq!(taken.waiting.len(), 10_000);
        assert!(longest < Duration::from_millis(50), "{longest:?}");
    }
}

/// What its user holds, and what is deactivated, is told why it does not wait for quota, and is no part of what does.
#[tokio::test]
async fn what_does_not_wait_for_quota_is_not_counted_by_its_reason() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs(["waits", "held", "inactive"].map(job));
    let reasons = ["WaitingForQuota", "OnHold", "Deactivated"];
    let created = play.cycle();
    assert_eq!(created.len(), reasons.len());
    for ((write, reason), revision) in created.into_iter().zip(reasons).zip(8..) {
        let mut stored = stored(&write, revision);
        let told = json!({"type": "QuotaReserved", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-11-23T11:30:00Z"});
        stored.data["status"] = json!({"conditions": [told]});
        stored.data["spec"]["active"] = json!(reason != "Deactivated");
        play.end(write, Reply::Done(Some(Box::new(stored))));
    }
    play.controller.publish_levels();
    let metrics = &play.controller.metrics;
    let text = metrics.text(crate::process::metrics::Exposition::Text);
    let name = "sluice_pending_workloads_by_reason{";
    let told: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
    assert_eq!(
        told,
        ["sluice_pending_workloads_by_reason{cluster_queue=\"q\",reason=\"WaitingForQuota\"} 1"]
    );
}

/// No object says why a pod waits that is admitted by itself.
#[tokio::test]
async fn a_pod_by_itself_has_the_reason_that_was_found_last() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    let mut small = gated("small", "2026-11-23T11:59:00Z");
    let mut large = gated("large", "2026-11-23T11:59:30Z");
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    play.see_pod(small.clone());
    play.see_pod(large);
    let admitted = play.cycle();
    assert_eq!(admitted.len(), 1, "there is quota for one");
    let reasons = |play: &mut Play| {
        let queue = QueueRef::ClusterQueue(ClusterQueueName::from("q"));
        let (taken, _) = take(play, play.controller.begin_taking(&queue).unwrap(), PART);
        let waiting = taken.waiting.into_iter().map(|one| {
            let why = one.why.map(|why| (why.reason.to_string(), why.message));
            (one.name.to_string(), why)
        });
        for _ in 0..10 {
            play.handle(Input::Tick);
        }
        play.controller.publish_levels();
        let metrics = &play.controller.metrics;
        let text = metrics.text(crate::process::metrics::Exposition::Text);
        let lines = text.lines();
        let lines =
            lines.filter_map(|line| line.strip_prefix("sluice_pending_workloads_by_reason"));
        let counted: Vec<String> = lines
            .map(str::to_owned)
            .filter(|l| l.starts_with('{'))
            .collect();
        (waiting.collect::<Vec<_>>(), counted)
    };
    let (listed, _) = reasons(&mut play);
    assert_eq!(listed, [("large".to_owned(), None)], "it is new");
    small["metadata"]["resourceVersion"] = json!("30");
    small["spec"]["schedulingGates"] = json!([]);
    play.see_pod(small);
    for _ in 0..3 {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
    }
    let why = Some(("ExceedsMaxQuota".to_owned(), None));
    let (listed, counted) = reasons(&mut play);
    assert_eq!(listed, [("large".to_owned(), why.clone())]);
    let one = "{cluster_queue=\"q\",reason=\"ExceedsMaxQuota\"} 1";
    assert_eq!(counted, [one]);

    let gone = gated("large", "2026-11-23T11:59:30Z");
    play.observe(
        &Source::Pod,
        Change::Deleted(Box::new(serde_json::from_value(gone).unwrap())),
    );
    let (listed, counted) = reasons(&mut play);
    assert_eq!(
        (listed.len(), counted.len()),
        (0, 0),
        "{listed:?} {counted:?}"
    );
}
