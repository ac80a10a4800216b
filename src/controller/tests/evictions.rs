//! What is told of pods that are evicted.

use super::pod_usage::{owned_by, running};
use super::requeued::released;
use super::unreleased::{gated, is_eviction};
use super::*;
use crate::api::lookup::FoundOwner;
use crate::cache::Uid;
use crate::controller::intake::owners::OwnerAnswer;
use crate::controller::kinds::watch_state::{UnavailableReason, unavailable};
use crate::plan::engine_state;
use crate::plan::evictions::cause::Replacement;

/// Of a Job a deleted pod has failed, and of Spark's driver only the SparkApplication says who makes the next executor.
#[tokio::test]
async fn a_pod_is_told_whether_another_one_comes_for_certain() {
    let spark: Value = serde_saphyr::from_str(include_str!(
        "../../../config/jobkinds/sparkapplication.yaml"
    ))
    .unwrap();
    let application = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {
            "name": "app", "namespace": "blue", "uid": "uid-app", "generation": 1,
            "resourceVersion": "7", "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {"sluice.dev/queue-name": "main"},
        },
        "spec": {"driver": {}, "executor": {}},
    });
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.observe(&Source::JobKind, Change::Applied(seen(spark)));
    let applications = play.find_jobs_by("sparkapplication");
    play.list(&applications, [application]);

    let of_app = || owned_by("sparkoperator.k8s.io/v1beta2", "SparkApplication", "app");
    let on_retry = |kind: &str| Replacement::OnRetry(kind.to_owned());
    let rows = [
        ("bare", None, Replacement::Nobody),
        (
            "replica",
            Some(owned_by("apps/v1", "ReplicaSet", "web")),
            Replacement::Another,
        ),
        (
            "of-job",
            Some(owned_by("batch/v1", "Job", "train")),
            on_retry("Job"),
        ),
        (
            "of-another-job",
            Some(owned_by("example.com/v1", "Job", "other")),
            Replacement::Another,
        ),
        ("driver", Some(of_app()), on_retry("SparkApplication")),
        (
            "executor",
            Some(owned_by("v1", "Pod", "driver")),
            on_retry("SparkApplication"),
        ),
    ];
    let queued = json!({"sluice.dev/queue-name": "main"});
    for (name, owner, _) in &rows {
        play.see_pod(running(name, &queued, owner.clone()));
    }
    for output in play.controller.cycle(play.now) {
        let Output::LookUpOwner(question) = output else {
            continue;
        };
        let owner = (question.owner.kind == "Pod").then(of_app);
        let metadata = json!({"ownerReferences": owner.into_iter().collect::<Vec<_>>()});
        let found = FoundOwner::Object(serde_json::from_value(metadata).unwrap());
        play.handle(Input::OwnerFound(OwnerAnswer { question, found }));
    }
    for (name, _, expected) in rows {
        let uid = Uid::from(format!("uid-{name}"));
        let (key, pod) = play.controller.objects.pods.of(&uid).unwrap();
        let found = play.controller.replacement(pod, &key.namespace);
        assert_eq!(found, expected, "{name}");
    }
}

/// A member of a group of two. A controller makes it again, or nobody.
pub(super) fn member(name: &str, owner: Option<Value>) -> Value {
    let mut pod = gated(name, "2026-11-23T11:59:00Z");
    pod["metadata"]["labels"]["sluice.dev/pod-group-name"] = json!("g");
    pod["metadata"]["annotations"] = json!({"sluice.dev/pod-group-total-count": "2"});
    if let Some(owner) = owner {
        let marks = &mut pod["metadata"]["annotations"];
        marks["sluice.dev/queue-allocation-gate"] = json!("true");
        marks["sluice.dev/pod-group-labels"] = json!("sluice.dev/pod-group-name");
        marks["sluice.dev/pod-group-total-from"] = json!("sluice.dev/pod-group-total-count");
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("500m");
    pod
}

/// Anybody of its namespace may add a bare pod to a group.
#[tokio::test]
async fn a_bare_pod_in_a_group_that_is_made_again_protects_it_from_nothing() {
    for is_bare in [false, true] {
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([]);
        let keeps = |play: &mut Play, revision: u64, policy: &str| {
            play.edit_queue(revision, |spec| {
                spec["whenNotRestartable"] = json!("Keep");
                spec["stopPolicy"] = json!(policy);
            });
        };
        keeps(&mut play, 30, "None");
        let maker = owned_by("apps/v1", "StatefulSet", "set");
        let owner = Some(maker).filter(|_| !is_bare);
        let mut members = ["g-0", "g-1"].map(|name| member(name, owner.clone()));
        for pod in members.clone() {
            play.see_pod(pod);
        }
        play.admit_group();
        for pod in &mut members {
            pod["metadata"]["resourceVersion"] = json!("42");
            pod["spec"]["schedulingGates"] = json!([]);
            pod["spec"]["nodeName"] = json!("n");
            play.see_pod(pod.clone());
        }
        for write in play.cycle() {
            play.end(write, Reply::Unknown("no reply within 5 s".to_owned()));
        }
        play.see_pod(member("added", None));
        keeps(&mut play, 43, "HoldAndDrain");
        let writes: Vec<_> = (0..3).flat_map(|_| play.second()).collect();
        assert_eq!(writes.iter().any(is_eviction), !is_bare, "{is_bare}");
    }
}

/// What keeps a job from being evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    None,
    /// Its JobKind names a version that is not served: nobody knows where its object is.
    Version,
    /// Nobody may read its kind any more.
    Forbidden,
    /// Somebody has deleted its Workload: nothing can say that it is evicted.
    NoWorkload,
}

impl Play {
    /// The group whose pods were just seen is queued and admitted. Returns its Workload.
    pub(super) fn admit_group(&mut self) -> DynamicObject {
        let created = self.cycle().remove(0);
        let workload = stored(&created, 40);
        self.end(created, Reply::Done(Some(Box::new(workload.clone()))));
        let admitted = self.cycle().remove(0);
        assert!(is_admitted(&admitted));
        let reply = with_status(&workload, &admitted, 41);
        self.end(admitted, reply);
        workload
    }

    /// A job runs that can't be evicted for this reason.
    fn run_behind(&mut self, cause: Cause) {
        let workload = self.admit("a");
        let release = self.cycle().remove(0);
        self.end(release, Reply::Done(Some(Box::new(released("a")))));
        let owner = owned_by("batch/v1", "Job", "a");
        self.see_pod(running("a-0", &json!({}), Some(owner)));
        self.cycle();
        match cause {
            Cause::None => {}
            Cause::Version => {
                let mut kind = job_kind();
                kind["metadata"]["resourceVersion"] = json!("50");
                kind["spec"]["version"] = json!("v9");
                self.observe(&Source::JobKind, Change::Applied(seen(kind)));
            }
            Cause::Forbidden => {
                let Some(Source::Jobs(name, life)) = self.jobs.clone() else {
                    panic!("Jobs are listed");
                };
                let message = "jobs.batch is forbidden".to_owned();
                let news = unavailable(UnavailableReason::Forbidden, message).into();
                self.handle(Input::KindReport(KindReport { name, life, news }));
            }
            Cause::NoWorkload => {
                let gone = Change::Deleted(Box::new(workload));
                self.observe(&Source::Workload, gone);
            }
        }
    }
}

/// Nobody waits for what can't be evicted, and nobody else is evicted in vain beside it.
#[tokio::test]
async fn another_one_is_evicted_in_place_of_a_job_that_cant_be() {
    for cause in [
        Cause::None,
        Cause::Version,
        Cause::Forbidden,
        Cause::NoWorkload,
    ] {
        let mut play = Play::new();
        play.run_behind(cause);
        play.edit_queue(60, |spec| {
            spec["preemption"] = json!({"withinClusterQueue": "LowerPriority"});
            spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = json!("2");
        });
        let mut middle = running("middle", &json!({"sluice.dev/queue-name": "main"}), None);
        middle["spec"]["priority"] = json!(5);
        play.see_pod(middle);
        play.cycle();
        let mut high = gated("high", "2026-11-23T11:59:30Z");
        high["spec"]["priority"] = json!(10);
        play.see_pod(high);
        let writes: Vec<_> = (0..3).flat_map(|_| play.second()).collect();
        let is_deletion = |write: &InFlightWrite| {
            let middle = Subject::Pod("uid-middle".into());
            write.subject == middle && matches!(write.write, Write::DeletePod { .. })
        };
        assert_eq!(
            (
                writes.iter().filter(|write| is_eviction(write)).count(),
                writes.iter().filter(|write| is_deletion(write)).count(),
            ),
            match cause {
                Cause::None => (1, 0),
                _ => (0, 1),
            },
            "{cause:?}: {writes:?}"
        );
    }
}

#[tokio::test]
async fn the_eviction_of_a_job_that_cant_be_evicted_is_decided_once() {
    for cause in [Cause::Version, Cause::Forbidden, Cause::NoWorkload] {
        let mut play = Play::new();
        play.run_behind(cause);
        play.edit_queue(60, |spec| spec["stopPolicy"] = json!("HoldAndDrain"));
        let writes: Vec<_> = (0..3).flat_map(|_| play.second()).collect();
        assert!(!writes.iter().any(is_eviction), "{cause:?}: {writes:?}");
        // What has lost its Workload is suspended by its own plan, and is looked at until it has stopped.
        if cause != Cause::NoWorkload {
            let now = engine_state::time(play.now.wall);
            let decided = play.controller.engine.decide(now);
            assert!(decided.is_empty(), "{cause:?}: {decided:?}");
        }
    }
}
