//! What is admitted and can't be released, and what can't be evicted.

use super::pod_usage::{owned_by, running};
use super::*;
use crate::plan::PodPurpose;

const REFUSED: &str = "denied by a policy";

impl Play {
    /// The next second. Returns what is written.
    pub(super) fn second(&mut self) -> Vec<InFlightWrite> {
        self.pass(Duration::from_secs(1));
        self.handle(Input::Tick);
        self.cycle()
    }

    /// Changes the ClusterQueue.
    pub(super) fn edit_queue(&mut self, revision: u64, edit: impl FnOnce(&mut Value)) {
        let mut queue = own("ClusterQueue", "q", &queue_spec());
        queue["metadata"]["resourceVersion"] = json!(revision.to_string());
        edit(&mut queue["spec"]);
        self.observe(&Source::ClusterQueue, Change::Applied(seen(queue)));
    }

    /// Whether the job gives its quota back while the release of one of its pods is refused for this long.
    fn is_evicted_within(&mut self, seconds: u32, name: &str) -> bool {
        let subject = Subject::Job(format!("uid-{name}").as_str().into());
        (0..seconds).any(|_| {
            self.controller.note_release_refused(&subject, REFUSED);
            self.second().iter().any(is_eviction)
        })
    }
}

pub(super) fn is_eviction(write: &InFlightWrite) -> bool {
    matches!(
        write.write,
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Evict,
            ..
        }
    )
}

fn deleted_pod(write: &InFlightWrite) -> Option<String> {
    match &write.write {
        Write::DeletePod {
            key,
            purpose: PodPurpose::Evict,
            ..
        } => Some(key.name.to_string()),
        _ => None,
    }
}

/// Another client writes back the suspended job each time.
#[tokio::test]
async fn a_job_whose_release_is_reverted_each_time_gives_its_quota_back() {
    let mut play = Play::new();
    let (_, mut release) = play.release_first();
    let start = play.now.moment;
    let jobs = play.jobs.clone().unwrap();
    for turn in 100.. {
        let seen_as = |suspend: bool, revision: u32| {
            let mut job = job("a");
            job["metadata"]["resourceVersion"] = json!(revision.to_string());
            job["metadata"]["annotations"]["sluice.dev/held"] = json!(suspend.to_string());
            job["spec"]["suspend"] = json!(suspend);
            job
        };
        let done = serde_json::from_value(seen_as(false, 2 * turn)).unwrap();
        play.end(release, Reply::Done(Some(Box::new(done))));
        let reverted = seen(seen_as(true, 2 * turn + 1));
        play.observe(&jobs, Change::Applied(reverted));
        release = loop {
            let waited = play.now.moment.since(start);
            assert!(waited < Duration::from_mins(3), "released for ever");
            let next = play.cycle().into_iter().chain(play.second());
            let next = next.filter(|write| write.subject == Subject::Job("uid-a".into()));
            let Some(next) = next.last() else { continue };
            if is_eviction(&next) {
                assert!(Duration::from_secs(55) <= waited, "{waited:?}");
                return;
            }
            break next;
        };
    }
}

#[tokio::test]
async fn a_job_whose_release_nobody_answers_is_evicted() {
    let mut play = Play::new();
    let (_, mut release) = play.release_first();
    let began = play.now.moment;
    loop {
        play.end(release, Reply::Unknown(UNANSWERED.to_owned()));
        release = loop {
            let waited = play.now.moment.since(began);
            assert!(waited < Duration::from_mins(3), "released for ever");
            let next = play.second().into_iter();
            let next = next.filter(|write| write.subject == Subject::Job("uid-a".into()));
            let Some(next) = next.last() else { continue };
            if is_eviction(&next) {
                return;
            }
            break next;
        };
    }
}

/// A pod that is queued by itself.
pub(super) fn gated(name: &str, created: &str) -> Value {
    let mut pod = running(name, &json!({"sluice.dev/queue-name": "main"}), None);
    pod["metadata"]["creationTimestamp"] = json!(created);
    pod["metadata"]["annotations"] = json!({"sluice.dev/queue-allocation-gate": "true"});
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod["spec"]["schedulingGates"] = json!([{"name": "sluice.dev/queue-allocation-gate"}]);
    pod["status"] = json!({"phase": "Pending"});
    pod
}

/// The only pod of a group.
fn member() -> Value {
    let mut pod = gated("p", "2026-11-23T11:59:00Z");
    pod["metadata"]["labels"]["sluice.dev/pod-group-name"] = json!("g");
    pod["metadata"]["annotations"] = json!({"sluice.dev/pod-group-total-count": "1"});
    pod
}

fn patched_pod(write: &InFlightWrite) -> Option<String> {
    match &write.write {
        Write::PatchPod { key, .. } => Some(key.name.to_string()),
        _ => None,
    }
}

const UNANSWERED: &str = "no reply within 5 s";

/// A webhook hangs that is asked about each update of pods.
#[tokio::test]
async fn a_pod_whose_admission_nobody_answers_gives_its_quota_back() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.see_pod(gated("p", "2026-11-23T11:59:00Z"));
    play.see_pod(gated("q", "2026-11-23T11:59:30Z"));
    let (began, mut sent_last) = (play.now.moment, Duration::ZERO);
    loop {
        let now = play.now.moment.since(began);
        assert!(now < Duration::from_mins(4), "its quota stays assumed");
        let writes = play.second();
        for write in writes {
            if patched_pod(&write).as_deref() == Some("q") {
                assert!(Duration::from_secs(30) <= sent_last, "{sent_last:?}");
                assert!(
                    Duration::from_secs(89) <= now.saturating_sub(sent_last),
                    "{now:?}"
                );
                return;
            }
            sent_last = now;
            play.end(write, Reply::Unknown(UNANSWERED.to_owned()));
        }
    }
}

impl Play {
    /// A group of one pod is admitted, and nobody answers the release of that pod. Returns the Workload of the group once
    /// it is evicted.
    fn evict_unanswered_group(&mut self) -> DynamicObject {
        self.list_settings();
        self.list_jobs([]);
        self.see_pod(member());
        let created = self.cycle().remove(0);
        let mut workload = stored(&created, 8);
        self.end(created, Reply::Done(Some(Box::new(workload.clone()))));
        for revision in 50..250 {
            for write in self.second() {
                let is_eviction = is_eviction(&write);
                if patched_pod(&write).is_some() {
                    self.end(write, Reply::Unknown(UNANSWERED.to_owned()));
                    continue;
                }
                let reply = with_status(&workload, &write, revision);
                if let Reply::Done(Some(shown)) = &reply {
                    workload = (**shown).clone();
                }
                self.end(write, reply);
                if is_eviction {
                    return workload;
                }
            }
        }
        panic!("the group is never evicted");
    }
}

#[tokio::test]
async fn a_pod_of_an_evicted_group_is_not_released_any_more() {
    let mut play = Play::new();
    let mut workload = play.evict_unanswered_group();
    for seconds in 0..100 {
        for write in play.second() {
            assert_eq!(patched_pod(&write), None, "released after {seconds} s");
            let Write::SetWorkloadStatus { status, .. } = &write.write else {
                panic!("{write:?}");
            };
            if status.admission.is_none() {
                assert!(50 < seconds, "{seconds}: its release may take effect");
                return;
            }
            let reply = with_status(&workload, &write, 300 + seconds);
            if let Reply::Done(Some(shown)) = &reply {
                workload = (**shown).clone();
            }
            play.end(write, reply);
        }
    }
    panic!("its quota is never free");
}

#[tokio::test]
async fn a_pod_of_an_evicted_group_is_deleted_once_it_is_seen_ungated() {
    let mut play = Play::new();
    play.evict_unanswered_group();
    let mut pod = member();
    pod["metadata"]["resourceVersion"] = json!("300");
    pod["spec"]["schedulingGates"] = json!([]);
    play.see_pod(pod);
    let deleted: Vec<_> = play.cycle().iter().filter_map(deleted_pod).collect();
    assert_eq!(deleted, ["p"]);
}

#[tokio::test]
async fn a_pod_that_cant_be_released_takes_no_running_pod_along() {
    let released = |play: &mut Play| {
        play.admit("a");
        let mut running = job("a");
        running["metadata"]["resourceVersion"] = json!("31");
        running["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
        running["spec"]["suspend"] = json!(false);
        running["status"] = json!({"active": 1});
        let jobs = play.jobs.clone().unwrap();
        play.observe(&jobs, Change::Applied(seen(running)));
    };
    let mut play = Play::new();
    released(&mut play);
    assert!(play.is_evicted_within(70, "a"), "none of its pods has run");

    let mut play = Play::new();
    released(&mut play);
    let owner = Some(owned_by("batch/v1", "Job", "a"));
    play.see_pod(running("a-0", &json!({}), owner));
    assert!(!play.is_evicted_within(200, "a"), "its pods run");
    play.edit_queue(40, |spec| {
        spec["reservation"] = json!({"timeoutSeconds": 30, "recoveryTimeoutSeconds": 30});
    });
    assert!(play.is_evicted_within(40, "a"), "the administrator's limit");
}

/// A policy protects one pod: the workload that needs its quota takes another one's.
#[tokio::test]
async fn another_pod_is_evicted_in_place_of_one_whose_deletion_is_refused() {
    let mut play = Play::new();
    play.list_settings();
    play.edit_queue(30, |spec| {
        spec["preemption"] = json!({"withinClusterQueue": "LowerPriority"});
        spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = json!("2");
    });
    let labels = json!({"sluice.dev/queue-name": "main"});
    for name in ["p", "q"] {
        let mut pod = running(name, &labels, None);
        pod["spec"]["priority"] = json!(-10);
        let admitted =
            r#"{"at": "2026-11-23T11:59:00Z", "clusterQueue": "q", "flavors": {"cpu": "any"}}"#;
        pod["metadata"]["annotations"]["sluice.dev/admitted"] = json!(admitted);
        play.see_pod(pod);
    }
    play.list_jobs([job("a")]);
    let created = play.cycle().remove(0);
    let workload = stored(&created, 50);
    play.end(created, Reply::Done(Some(Box::new(workload))));
    let deletions = |writes: Vec<InFlightWrite>| {
        let deletions = writes.into_iter().filter(|w| deleted_pod(w).is_some());
        deletions.collect::<Vec<_>>()
    };
    let first = deletions(play.cycle()).remove(0);
    let (protected, began) = (deleted_pod(&first), play.now.moment);
    play.end(first, Reply::Refused(REFUSED.to_owned()));
    let other = loop {
        let after = play.now.moment.since(began);
        assert!(
            after < Duration::from_secs(40),
            "the other one is never chosen"
        );
        let Some(next) = deletions(play.second()).into_iter().next() else {
            continue;
        };
        if deleted_pod(&next) != protected {
            break next;
        }
        play.end(next, Reply::Refused(REFUSED.to_owned()));
    };
    let after = play.now.moment.since(began);
    assert!(
        Duration::from_secs(10) <= after,
        "{after:?}: it may be a policy that is gone in a moment"
    );
    assert!(deleted_pod(&other).is_some());
    // The first one is tried again after a minute.
    let later: Vec<_> = (0..50).flat_map(|_| deletions(play.second())).collect();
    assert!(later.is_empty(), "{later:?}");
}

/// What can't be evicted for a moment is evicted for another reason later: that is an eviction like any other.
#[tokio::test]
async fn an_eviction_long_after_a_refused_one_is_counted() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    let mut pod = running("p", &json!({"sluice.dev/queue-name": "main"}), None);
    let admitted =
        r#"{"at": "2026-11-23T11:59:00Z", "clusterQueue": "q", "flavors": {"cpu": "any"}}"#;
    pod["metadata"]["annotations"]["sluice.dev/admitted"] = json!(admitted);
    play.see_pod(pod);
    let evicted = |play: &Play| {
        let text = play
            .controller
            .metrics
            .text(crate::process::metrics::Exposition::Text);
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("sluice_evicted_workloads_total{"));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    for turn in 0_u64..2 {
        play.edit_queue(30 + 2 * turn, |spec| {
            spec["stopPolicy"] = json!("HoldAndDrain");
        });
        for _ in 0..3 {
            let refused = (0..10).flat_map(|_| play.second()).next();
            let refused = refused.expect("it is to be deleted");
            assert_eq!(deleted_pod(&refused).as_deref(), Some("p"));
            play.end(refused, Reply::Refused(REFUSED.to_owned()));
        }
        assert_eq!(evicted(&play), 1 + turn, "however often it is tried");
        play.edit_queue(31 + 2 * turn, |_| ());
        play.pass(Duration::from_hours(3));
        assert!(play.second().is_empty());
    }
}
