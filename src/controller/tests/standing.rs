//! What readers are told who ask when a job will start: the jobs of its tree, taken a part at a time, and jobs that have
//! finished.

use std::time::Instant;

use sluice_engine::{Event, NodeName};
use sluice_estimates::durations::FOREVER;
use sluice_estimates::play::Start;

use super::*;
use crate::controller::reports::standing::TakingJobs;
use crate::visibility::{TakenJobs, WorkloadRef};

/// A controller that has queued these jobs, and their Workloads. The first of them is admitted.
fn mk_play(jobs: &[String]) -> (Play, Vec<Value>) {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs(jobs.iter().map(|name| job(name)));
    let mut all = Vec::new();
    let mut revision = 8;
    while all.len() < jobs.len() {
        let created = play.cycle();
        for write in created.into_iter().filter(is_created) {
            let stored = stored(&write, revision);
            all.push(serde_json::to_value(&stored).unwrap());
            play.end(write, Reply::Done(Some(Box::new(stored))));
            revision += 1;
        }
    }
    play.cycle();
    (play, all)
}

fn root() -> NodeName {
    NodeName::ClusterQueue("q".into())
}

/// All of it, and the longest part.
fn take(play: &Play, part: usize) -> (TakenJobs, Duration) {
    let mut taking: TakingJobs = play.controller.begin_jobs(&root()).unwrap();
    let mut longest = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let is_end = play.controller.go_on_jobs(&mut taking, part);
        longest = longest.max(begun.elapsed());
        if is_end {
            return (taking.end(), longest);
        }
    }
}

/// The Workload as it is once its job has finished.
fn finished(workload: &Value, revision: u64) -> Value {
    let condition = |kind: &str, at: &str| json!({"type": kind, "status": "True", "reason": "x", "message": "", "lastTransitionTime": at});
    let mut workload = workload.clone();
    workload["metadata"]["resourceVersion"] = json!(revision.to_string());
    workload["status"] = json!({
        "conditions": [
            condition("QuotaReserved", "2026-11-23T11:10:00Z"),
            condition("Admitted", "2026-11-23T11:10:00Z"),
            condition("Finished", "2026-11-23T11:15:00Z"),
        ],
    });
    workload
}

#[tokio::test]
async fn the_jobs_of_a_tree_are_the_same_however_small_their_parts_are() {
    let jobs: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let (play, _) = mk_play(&jobs);
    let (whole, _) = take(&play, 1000);
    let stand = |taken: &TakenJobs| -> Vec<(String, String, bool)> {
        let jobs = taken.jobs.iter();
        let stand = jobs.map(|(id, job)| {
            let is_pending = matches!(job.start, Start::Pending);
            (id.to_string(), job.kind.to_string(), is_pending)
        });
        stand.collect()
    };
    let expected = [("uid-a", false), ("uid-b", true), ("uid-c", true)];
    let expected = expected.map(|(id, waits)| (id.to_owned(), "Job".to_owned(), waits));
    assert_eq!(stand(&whole), expected);
    assert_eq!(whole.too_many, None);
    let made = |event: &Event| match event {
        Event::UpsertFlavor(flavor) => flavor.name.to_string(),
        Event::UpsertClusterQueue(queue) => queue.name.to_string(),
        Event::UpsertLocalQueue(queue) => queue.key.to_string(),
        other => format!("{other:?}"),
    };
    let setup: Vec<String> = whole.setup.iter().map(made).collect();
    assert_eq!(setup, ["any", "q", "blue/main"]);
    for part in 1..3 {
        let (taken, _) = take(&play, part);
        assert_eq!(stand(&taken), expected, "{part} at a time");
        assert_eq!(taken.setup, whole.setup);
    }
    let other = NodeName::ClusterQueue("other".into());
    assert!(play.controller.begin_jobs(&other).is_none());
    let (namespace, name) = ("blue".into(), "b-uidb".into());
    let named = WorkloadRef::Workload { namespace, name };
    let standing = play.controller.standing_workload(&named).unwrap();
    assert_eq!(standing.root, Some(root()));
}

/// Whoever reads a tree holds nobody up for objects of others.
#[tokio::test]
async fn of_a_tree_only_its_own_local_queues_are_looked_at() {
    let mut play = Play::new();
    play.list_settings();
    let held = (0..50).map(|number| {
        let mut job = job(&format!("held-{number}"));
        let queue = if number == 0 {
            "main".to_owned()
        } else {
            format!("other-{number}")
        };
        job["metadata"]["labels"]["sluice.dev/queue-name"] = json!(queue);
        job["metadata"]["annotations"]["kueue.x-k8s.io/scheduling-gated-by"] =
            json!("acme.io/budget");
        job
    });
    play.list_jobs(held);
    play.cycle();
    let mut taking = play.controller.begin_tree(&root()).unwrap();
    let parts = std::iter::from_fn(|| (!play.controller.go_on_tree(&mut taking, 1)).then_some(()));
    assert!(parts.count() < 5);
    let nodes = taking.end().nodes.into_iter();
    let gated: Vec<u64> = nodes.map(|(_, gated)| gated).collect();
    assert_eq!(gated, [1]);
}

/// A pod is seen with this name and restart policy.
fn see_pod_with_policy(play: &mut Play, mut pod: Value, name: &str, policy: &str) {
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["uid"] = json!(format!("uid-{name}"));
    pod["spec"]["restartPolicy"] = json!(policy);
    play.see_pod(pod);
}

/// The objects that the next cycle creates are stored.
fn store_created(play: &mut Play) {
    for write in play.cycle().into_iter().filter(is_created) {
        let stored = stored(&write, 30);
        play.end(write, Reply::Done(Some(Box::new(stored))));
    }
}

/// What a service holds is never free by itself.
#[tokio::test]
async fn a_service_never_ends() {
    let said = |play: &Play| -> Vec<(String, bool)> {
        let taken = take(play, 1000).0;
        let jobs = taken.jobs.into_iter();
        jobs.map(|(id, job)| (id.to_string(), job.said == Some(FOREVER)))
            .collect()
    };
    for has_rule in [true, false] {
        let mut kind = job_kind();
        if !has_rule {
            kind["spec"].as_object_mut().unwrap().remove("finished");
        }
        let mut play = Play::new();
        play.admit_of(job("a"), &kind);
        let mut member = unqueued::member();
        member["metadata"]["annotations"]["sluice.dev/pod-group-total-count"] = json!("1");
        for (name, policy, pod) in [
            ("never", "Never", turns::waiting()),
            ("always", "Always", turns::waiting()),
            ("member", "Always", member),
        ] {
            see_pod_with_policy(&mut play, pod, name, policy);
        }
        store_created(&mut play);
        let expected = [
            ("pod-group/blue/gang", true),
            ("pod/uid-always", true),
            ("pod/uid-never", false),
            ("uid-a", !has_rule),
        ];
        let expected = expected.map(|(id, never)| (id.to_owned(), never));
        assert_eq!(said(&play), expected);
    }
}

/// As long as one of them holds what it has, whichever it is.
#[tokio::test]
async fn a_group_never_ends_if_one_of_its_pods_does_not() {
    for (first, second, never_ends) in [
        ("Always", "OnFailure", true),
        ("OnFailure", "Always", true),
        ("OnFailure", "OnFailure", false),
    ] {
        let mut play = Play::new();
        play.admit_of(job("a"), &job_kind());
        for (name, policy) in [("x", first), ("y", second)] {
            let pod = unqueued::member();
            see_pod_with_policy(&mut play, pod, name, policy);
        }
        store_created(&mut play);
        let taken = take(&play, 1000).0;
        let mut jobs = taken.jobs.into_iter();
        let group = jobs.find(|(id, _)| id.to_string() == "pod-group/blue/gang");
        let said = group.map(|(_, group)| group.said == Some(FOREVER));
        assert_eq!(said, Some(never_ends), "{first}, {second}");
    }
}

#[tokio::test]
async fn a_job_counts_once_when_it_has_finished() {
    let jobs: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let (mut play, workloads) = mk_play(&jobs);
    assert_eq!(take(&play, 1000).0.finished.durations_len(), 0);
    for revision in [50, 51] {
        let seen = seen(finished(&workloads[0], revision));
        play.observe(&Source::Workload, Change::Applied(seen));
        let taken = take(&play, 1000).0;
        assert_eq!(taken.finished.durations_len(), 1);
        let came = taken.finished.came(|queue| &*queue.name == "main");
        let came: Vec<i64> = came.iter().map(|job| job.created.as_millis()).collect();
        assert_eq!(came, [1_795_431_600_000], "when the job was created");
    }
    // Those that had finished before this process began count, too.
    let mut play = Play::new();
    let all = workloads.iter().zip(60..);
    let all: Vec<Value> = all.map(|(one, at)| finished(one, at)).collect();
    play.list(&Source::Workload, all);
    assert_eq!(play.controller.finished.durations_len(), 3);
}

#[tokio::test]
async fn a_job_that_asked_for_much_is_forgotten_once_it_has_finished() {
    let (_, workloads) = mk_play(&["a".to_owned()]);
    for (labels, counted) in [(10, 1), (200, 0)] {
        let mut play = Play::new();
        let mut workload = finished(&workloads[0], 50);
        let labels = (0..labels).map(|number| (format!("label-{number}"), json!("x")));
        workload["spec"]["podSets"][0]["nodeSelector"] = Value::Object(labels.collect());
        play.list(&Source::Workload, vec![workload]);
        assert_eq!(play.controller.finished.durations_len(), counted);
    }
}

/// Measures, and fails if a decision would have to wait.
#[tokio::test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "a measurement prints its figures")]
async fn what_the_jobs_of_a_tree_cost() {
    let names =
        |count: usize| -> Vec<String> { (0..count).map(|n| format!("job-{n:06}")).collect() };
    let (play, _) = mk_play(&names(9_990));
    let (taken, longest) = take(&play, 1000);
    println!("{} taken, the longest part {longest:?}", taken.jobs.len());
    assert_eq!(taken.jobs.len(), 9_990);
    assert!(longest < Duration::from_millis(50), "{longest:?}");
    let (play, _) = mk_play(&names(10_001));
    let (taken, longest) = take(&play, 1000);
    println!("none of {:?} taken in {longest:?}", taken.too_many);
    assert_eq!((taken.too_many, taken.jobs.len()), (Some(10_001), 0));
}
