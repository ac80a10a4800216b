//! What is evicted and queued again.

use std::ops::Range;

use super::pod_usage::owned_by;
use super::*;
use crate::plan::JobPatch;

impl Play {
    /// Job `a` is released and seen so, and its queue is drained. Returns the Workload as it is then.
    fn evict_first(&mut self, released: DynamicObject) -> DynamicObject {
        let (workload, release) = self.release_first();
        self.drain();
        self.end(release, Reply::Done(Some(Box::new(released))));
        workload
    }

    fn drain(&mut self) {
        let mut drained = own("ClusterQueue", "q", &queue_spec());
        drained["spec"]["stopPolicy"] = json!("HoldAndDrain");
        drained["metadata"]["resourceVersion"] = json!("33");
        self.observe(&Source::ClusterQueue, Change::Applied(seen(drained)));
    }

    /// A user deactivates a Workload.
    fn deactivate(&mut self, workload: &mut DynamicObject) {
        workload.data["spec"]["active"] = json!(false);
        workload.metadata.resource_version = Some("33".to_owned());
        let deactivated = Seen::Object(Box::new(workload.clone()));
        self.observe(&Source::Workload, Change::Applied(deactivated));
    }

    /// Answers the writes for job `a` until there is none. Returns the one that queues it again, if it comes to that, and
    /// the next revision.
    fn requeue(
        &mut self,
        workload: &mut DynamicObject,
        revisions: &mut Range<u64>,
    ) -> Option<(InFlightWrite, u64)> {
        loop {
            let mut writes = self.cycle().into_iter();
            let write = writes.find(|write| write.subject == Subject::Job("uid-a".into()))?;
            let revision = revisions.next().unwrap();
            match &write.write {
                Write::SetWorkloadStatus { status, .. } if status.admission.is_none() => {
                    return Some((write, revision));
                }
                Write::SetWorkloadStatus { .. } => {
                    let reply = with_status(workload, &write, revision);
                    if let Reply::Done(Some(shown)) = &reply {
                        *workload = (**shown).clone();
                    }
                    self.end(write, reply);
                }
                _ => {
                    let suspended = suspended(revision);
                    self.end(write, Reply::Done(Some(Box::new(suspended))));
                }
            }
        }
    }

    /// After how many seconds job `a` is queued again.
    fn seconds_until_requeued(&mut self, workload: &mut DynamicObject) -> u64 {
        let mut revisions = 100..200;
        let mut seconds = 0..120;
        let is_requeued = |_: &u64| {
            let is_requeued = self.requeue(workload, &mut revisions).is_some();
            self.pass(Duration::from_secs(1));
            is_requeued
        };
        seconds.find(is_requeued).expect("it is queued again")
    }

    fn explained(&self, name: &str) -> Option<sluice_engine::Explanation> {
        let subject = Subject::Job(format!("uid-{name}").as_str().into());
        self.controller.engine.explain(&subject.id())
    }
}

pub(super) fn released(name: &str) -> DynamicObject {
    let mut released = job(name);
    released["metadata"]["resourceVersion"] = json!("31");
    released["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
    released["spec"]["suspend"] = json!(false);
    serde_json::from_value(released).unwrap()
}

/// Its controller has noticed that.
fn started(name: &str) -> DynamicObject {
    let mut started = released(name);
    started.data["status"] = json!({"active": 1, "conditions": [
        {"type": "Suspended", "status": "False"}]});
    started
}

/// Job `a` as Sluice has suspended it. Its status says so, too, whether or not its controller has noticed.
fn suspended(revision: u64) -> DynamicObject {
    let mut suspended = job("a");
    suspended["metadata"]["resourceVersion"] = json!(revision.to_string());
    serde_json::from_value(suspended).unwrap()
}

/// The watch shows that a job is queued again before the write that does it has its reply. To the engine that must
/// look like one step: whatever comes between ends the preemption round, and jobs preempt each other without an end.
#[tokio::test]
async fn a_job_that_is_queued_again_is_evicted_until_the_reply_says_so() {
    let mut play = Play::new();
    let mut workload = play.evict_first(started("a"));
    let requeue = play.requeue(&mut workload, &mut (40..60));
    let (requeue, revision) = requeue.expect("it is queued again");
    let Reply::Done(Some(shown)) = with_status(&workload, &requeue, revision) else {
        panic!("it is done");
    };
    let is_evicting = |play: &Play| {
        let explained = play.explained("a");
        matches!(explained, Some(sluice_engine::Explanation::Evicting { .. }))
    };
    assert!(is_evicting(&play));
    let seen = Seen::Object(shown.clone());
    play.observe(&Source::Workload, Change::Applied(seen));
    assert!(is_evicting(&play), "{:?}", play.explained("a"));
    play.end(requeue, Reply::Done(Some(shown)));
    assert!(!is_evicting(&play));
    let inactive = Some(sluice_engine::Explanation::Inactive);
    assert_ne!(play.explained("a"), inactive);
}

/// Its controller read it between its release and its suspension, and is making its pods: its status still says that it is
/// suspended, as it has since it was created.
#[tokio::test]
async fn a_job_that_stops_before_its_controller_has_noticed_its_release_keeps_its_quota_for_a_while()
 {
    let rows = [
        ("noticed", started("a"), 0),
        ("not noticed", released("a"), 5),
    ];
    for (what, released, expected) in rows {
        let mut play = Play::new();
        let mut workload = play.evict_first(released);
        let seconds = play.seconds_until_requeued(&mut workload);
        assert_eq!(seconds, expected, "{what}");
    }
}

#[tokio::test]
async fn a_job_that_stops_is_waited_for_no_longer_than_until_its_status_tells_that() {
    let mut play = Play::new();
    let mut workload = play.evict_first(released("a"));
    let mut revisions = 100..200;
    assert!(play.requeue(&mut workload, &mut revisions).is_none());
    let jobs = play.jobs.clone().unwrap();
    let mut active = suspended(200);
    active.data["status"] = started("a").data["status"].clone();
    play.observe(&jobs, Change::Applied(Seen::Object(Box::new(active))));
    assert!(
        play.requeue(&mut workload, &mut revisions).is_none(),
        "its pods are ending"
    );
    let stopped = Seen::Object(Box::new(suspended(201)));
    play.observe(&jobs, Change::Applied(stopped));
    assert!(play.requeue(&mut workload, &mut revisions).is_some());
}

/// Its release may take effect, or has, and the watch of jobs lags: it still shows the job suspended and without pods.
#[tokio::test]
async fn a_job_that_is_evicted_while_its_release_may_take_effect_keeps_its_quota() {
    for is_drained in [true, false] {
        let mut play = Play::new();
        let (mut workload, release) = play.release_first();
        play.end(release, Reply::Unknown("connection reset".to_owned()));
        if is_drained {
            play.drain();
        } else {
            play.deactivate(&mut workload);
        }
        let seconds = play.seconds_until_requeued(&mut workload);
        assert_eq!(seconds, 90, "drained: {is_drained}");
    }
}

#[tokio::test]
async fn a_job_that_is_evicted_stops_once_a_watch_shows_its_release() {
    let mut play = Play::new();
    let (mut workload, release) = play.release_first();
    play.end(release, Reply::Unknown("connection reset".to_owned()));
    play.deactivate(&mut workload);
    let mut revisions = 50..100;
    for _ in 0..10 {
        play.pass(Duration::from_secs(1));
        assert!(play.requeue(&mut workload, &mut revisions).is_none());
    }
    let jobs = play.jobs.clone().unwrap();
    let shown = Seen::Object(Box::new(started("a")));
    play.observe(&jobs, Change::Applied(shown));
    assert_eq!(play.seconds_until_requeued(&mut workload), 0);
}

/// The leader before this one has suspended it, and its status says what it said before its release.
#[tokio::test]
async fn a_job_that_was_evicted_a_moment_before_this_term_keeps_its_quota_for_a_while() {
    for (seconds_ago, expected) in [(3, 5), (30, 0)] {
        let mut workload = Play::new().admit("a");
        let mut play = Play::new();
        let evicted_at = play.now.wall - Duration::from_secs(seconds_ago);
        workload.data["status"]["conditions"] = json!([{
            "type": "Evicted", "status": "True", "reason": "Preempted", "message": "",
            "lastTransitionTime": evicted_at.to_string()}]);
        play.list_settings();
        let listed = serde_json::to_value(&workload).unwrap();
        play.list(&Source::Workload, [listed]);
        play.list_jobs([job("a")]);
        let seconds = play.seconds_until_requeued(&mut workload);
        assert_eq!(seconds, expected, "{seconds_ago}");
    }
}

/// A TrainJob and its JobSet, which has its pods; and where each is seen.
struct Train {
    play: Play,
    objects: [Value; 2],
    sources: [Source; 2],
    workload: DynamicObject,
    revisions: Range<u64>,
}

impl Train {
    /// The TrainJob is released, and its controller has noticed that and resumed the JobSet.
    fn released() -> Self {
        let kinds = [
            include_str!("../../../config/jobkinds/trainjob.yaml"),
            include_str!("../../../config/jobkinds/jobset.yaml"),
        ];
        let [train_kind, set_kind] =
            kinds.map(|kind| -> Value { serde_saphyr::from_str(kind).unwrap() });
        let mut train = job("a");
        train["apiVersion"] = json!("trainer.kubeflow.org/v1alpha1");
        train["kind"] = json!("TrainJob");
        train["spec"] = json!({"suspend": true, "runtimeRef": {"name": "torch"}});
        let mut set = job("a");
        let template = set["spec"]["template"].take();
        set["apiVersion"] = json!("jobset.x-k8s.io/v1alpha2");
        set["kind"] = json!("JobSet");
        set["metadata"]["uid"] = json!("uid-set");
        set["metadata"]["labels"] = json!({});
        set["metadata"]["annotations"] = json!({});
        set["metadata"]["ownerReferences"] =
            json!([owned_by("trainer.kubeflow.org/v1alpha1", "TrainJob", "a")]);
        set["spec"] = json!({"suspend": true, "replicatedJobs": [
            {"name": "node", "template": {"spec": {"template": template}}}]});
        let mut play = Play::new();
        play.list_settings_of(&train_kind);
        let trains = play.find_jobs_by("trainjob");
        play.list(&trains, [train.clone()]);
        play.observe(&Source::JobKind, Change::Applied(seen(set_kind)));
        let sets = play.find_jobs_by("jobset");
        play.list(&sets, [set.clone()]);
        let created = play.cycle().remove(0);
        let workload = stored(&created, 50);
        play.end(created, Reply::Done(Some(Box::new(workload.clone()))));
        let mut train = Self {
            play,
            objects: [train, set],
            sources: [trains, sets],
            workload,
            revisions: 51..500,
        };
        while train.objects[0]["spec"]["suspend"] == true {
            assert!(!train.is_requeued_by_next());
        }
        train.see(0, |train| {
            train["status"]["conditions"][0]["status"] = json!("False");
        });
        train.see(1, |set| set["spec"]["suspend"] = json!(false));
        train
    }

    /// One of the two is seen changed.
    fn see(&mut self, which: usize, change: impl FnOnce(&mut Value)) {
        let object = &mut self.objects[which];
        change(object);
        object["metadata"]["resourceVersion"] = json!(self.revisions.next().unwrap().to_string());
        let seen = seen(object.clone());
        self.play
            .observe(&self.sources[which], Change::Applied(seen));
    }

    /// Carries out the next write, if there is one. Returns whether it frees the quota.
    fn is_requeued_by_next(&mut self) -> bool {
        let mut writes = self.play.cycle().into_iter();
        let Some(sent) = writes.find(|write| write.subject == Subject::Job("uid-a".into())) else {
            return false;
        };
        let revision = self.revisions.next().unwrap();
        let (reply, is_requeued) = match &sent.write {
            Write::SetWorkloadStatus { status, .. } => {
                let reply = with_status(&self.workload, &sent, revision);
                if let Reply::Done(Some(shown)) = &reply {
                    self.workload = (**shown).clone();
                }
                (reply, status.admission.is_none())
            }
            Write::PatchJob { key, patch, .. } => {
                let object = &mut self.objects[usize::from(&*key.kind == "jobset")];
                match patch {
                    JobPatch::Json(patch) | JobPatch::JsonOfStatus(patch) => {
                        json_patch::patch(object, patch).unwrap();
                    }
                    JobPatch::Merge(patch) => json_patch::merge(object, patch),
                }
                object["metadata"]["resourceVersion"] = json!(revision.to_string());
                let shown = serde_json::from_value(object.clone()).unwrap();
                (Reply::Done(Some(Box::new(shown))), false)
            }
            other => panic!("{other:?}"),
        };
        self.play.end(sent, reply);
        is_requeued
    }

    /// After how many seconds its quota is free.
    fn seconds_until_requeued(&mut self) -> u64 {
        let mut seconds = 0..60;
        let is_requeued = |_: &u64| {
            let is_requeued = (0..5).any(|_| self.is_requeued_by_next());
            self.play.pass(Duration::from_secs(1));
            is_requeued
        };
        seconds.find(is_requeued).expect("it is queued again")
    }
}

/// The status of a TrainJob tells only that its own controller has noticed: the one that makes the pods may lag behind.
#[tokio::test]
async fn a_trainjob_that_stops_before_its_jobset_has_noticed_its_release_keeps_its_quota_for_a_while()
 {
    let says_suspended = |object: &mut Value, status: &str| {
        object["status"]["conditions"][0]["status"] = json!(status);
    };
    for (has_noticed, expected) in [(true, 0), (false, 5)] {
        let mut train = Train::released();
        if has_noticed {
            train.see(1, |set| says_suspended(set, "False"));
        }
        train.play.drain();
        while train.objects[0]["spec"]["suspend"] == false {
            assert!(!train.is_requeued_by_next());
        }
        train.see(0, |train| says_suspended(train, "True"));
        // Trainer takes its time.
        train.play.pass(Duration::from_secs(20));
        assert!(!train.is_requeued_by_next(), "the JobSet is not suspended");
        train.see(1, |set| {
            set["spec"]["suspend"] = json!(true);
            says_suspended(set, "True");
        });
        assert_eq!(train.seconds_until_requeued(), expected, "{has_noticed}");
    }
}
