//! Workloads that somebody deletes while their jobs are being released.

use super::requeued::released;
use super::*;
use crate::plan::{JobPurpose, engine_state};

impl Play {
    /// Job `a` is admitted and job `b` waits for its quota. Returns the Workload of `a`, and its release, which is sent.
    pub(super) fn release_first(&mut self) -> (DynamicObject, InFlightWrite) {
        self.list_settings();
        self.list_jobs([job("a"), job("b")]);
        let mut created = self.cycle().into_iter();
        let (first, second) = (created.next().unwrap(), created.next().unwrap());
        let workload = stored(&first, 8);
        for (write, revision) in [(first, 8), (second, 9)] {
            let stored = stored(&write, revision);
            self.end(write, Reply::Done(Some(Box::new(stored))));
        }
        let admission = self.cycle().remove(0);
        let Reply::Done(Some(workload)) = with_status(&workload, &admission, 10) else {
            panic!("it is done");
        };
        self.end(admission, Reply::Done(Some(workload.clone())));
        let mut sent = self.cycle().into_iter();
        let release = sent.find(is_release).unwrap();
        (*workload, release)
    }

    fn holds_quota(&self, name: &str) -> bool {
        let subject = Subject::Job(format!("uid-{name}").as_str().into());
        self.controller.engine.admission(&subject.id()).is_some()
    }

    /// Cycles until this time has passed. Returns the subjects of all writes.
    fn writes_for(&mut self, time: Duration) -> Vec<Subject> {
        let mut written = Vec::new();
        let end = self.now.moment.after(time);
        while self.now.moment < end {
            self.pass(Duration::from_millis(100));
            written.extend(self.cycle().into_iter().map(|write| write.subject));
        }
        written
    }
}

fn is_release(write: &InFlightWrite) -> bool {
    matches!(
        write.write,
        Write::PatchJob {
            purpose: JobPurpose::Release,
            ..
        }
    )
}

/// Nobody can stop the pods of a job that is gone: that they are to stop is decided once, and not in each cycle.
#[tokio::test]
async fn the_eviction_of_an_orphan_is_decided_once() {
    let mut play = Play::new();
    let (_, release) = play.release_first();
    let mut running = job("a");
    running["metadata"]["resourceVersion"] = json!("31");
    running["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
    running["spec"]["suspend"] = json!(false);
    running["status"] = json!({"active": 1});
    let running: DynamicObject = serde_json::from_value(running).unwrap();
    play.end(release, Reply::Done(Some(Box::new(running.clone()))));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a-0", "namespace": "blue", "uid": "uid-a-0", "resourceVersion": "32",
            "creationTimestamp": "2026-11-23T12:00:00Z",
            "labels": {"sluice.dev/managed": "true", "batch.kubernetes.io/controller-uid": "uid-a"},
            "annotations": {"sluice.dev/pod-set": "main"},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    });
    play.observe(&Source::Pod, Change::Applied(seen(pod)));
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Deleted(Box::new(running)));
    let mut drained = own("ClusterQueue", "q", &queue_spec());
    drained["spec"]["stopPolicy"] = json!("HoldAndDrain");
    drained["metadata"]["resourceVersion"] = json!("33");
    play.observe(&Source::ClusterQueue, Change::Applied(seen(drained)));
    let written = play.writes_for(Duration::from_secs(3));
    assert!(
        !written.contains(&Subject::Job("uid-a".into())),
        "{written:?}"
    );
    assert!(play.holds_quota("a"));
    let now = engine_state::time(play.now.wall);
    let decided = play.controller.engine.decide(now);
    assert!(decided.is_empty(), "{decided:?}");
}

/// The watch of jobs lags: it still shows the job suspended and without pods.
#[tokio::test]
async fn quota_is_kept_while_a_release_may_take_effect() {
    let mut play = Play::new();
    let (workload, release) = play.release_first();
    play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
    assert!(play.holds_quota("a"), "its release is under way");
    assert!(play.cycle().iter().all(|write| !is_admitted(write)));
    play.end(release, Reply::Unknown("no answer in time".to_owned()));
    assert!(play.holds_quota("a"), "its release may have taken effect");
    let written = play.writes_for(Duration::from_millis(89_900));
    assert!(play.holds_quota("a"), "the API server may be at it still");
    assert!(written.is_empty(), "{written:?}");
    // Every watch would have shown it by now.
    let written = play.writes_for(Duration::from_millis(300));
    assert!(!play.holds_quota("a"));
    assert!(
        written.contains(&Subject::Job("uid-b".into())),
        "{written:?}"
    );
}

#[tokio::test]
async fn quota_is_free_at_once_when_a_release_did_not_take_effect() {
    let mut play = Play::new();
    let (workload, release) = play.release_first();
    play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
    play.end(release, Reply::Refused("by a policy".to_owned()));
    assert!(!play.holds_quota("a"));
}

/// Its controller was slow: it made the pod a moment before, long after the admission.
#[tokio::test]
async fn quota_is_kept_while_the_pods_of_a_deleted_job_may_be_unseen() {
    let mut play = Play::new();
    let (workload, release) = play.release_first();
    let mut released = job("a");
    released["spec"]["suspend"] = json!(false);
    released["metadata"]["resourceVersion"] = json!("20");
    let released: DynamicObject = serde_json::from_value(released).unwrap();
    play.end(release, Reply::Done(Some(Box::new(released.clone()))));
    play.writes_for(Duration::from_secs(10));
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Deleted(Box::new(released)));
    play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
    assert!(play.holds_quota("a"), "the watch of pods may lag");
    let mut second = || {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        play.cycle();
        play.holds_quota("a")
    };
    assert!((0..4).all(|_| second()), "the watch of pods may lag");
    assert!(!(0..3).all(|_| second()), "its pods would be known by now");
}

/// Its controller read it between its release and its suspension, and is making its pods.
#[tokio::test]
async fn quota_is_kept_while_a_job_stops_that_has_lost_its_workload_and_may_have_unseen_pods() {
    let mut play = Play::new();
    let (workload, release) = play.release_first();
    play.end(release, Reply::Done(Some(Box::new(released("a")))));
    play.writes_for(Duration::from_secs(10));
    play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
    let mut suspension = play.cycle().into_iter();
    let suspension = suspension.find(|write| write.subject == Subject::Job("uid-a".into()));
    let mut suspended = job("a");
    suspended["metadata"]["resourceVersion"] = json!("40");
    let suspended = serde_json::from_value(suspended).unwrap();
    play.end(suspension.unwrap(), Reply::Done(Some(Box::new(suspended))));
    let written = play.writes_for(Duration::from_millis(4900));
    assert!(written.is_empty(), "{written:?}");
    assert!(play.holds_quota("a"), "the watch of pods may lag");
    let written = play.writes_for(Duration::from_millis(300));
    assert!(!play.holds_quota("a"));
    let both = ["uid-a", "uid-b"].map(|uid| Subject::Job(uid.into()));
    assert!(
        both.iter().all(|subject| written.contains(subject)),
        "{written:?}"
    );
}
