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

fn is_eviction(write: &InFlightWrite) -> bool {
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
        play.end(release, Reply::Unknown("no reply within 5 s".to_owned()));
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
