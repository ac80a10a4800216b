//! Whose quota pods use that run, and how long others wait for those that are deleted.

use super::*;
use crate::api::lookup::FoundOwner;
use crate::cache::Uid;
use crate::cache::pod::OwnerRef;
use crate::controller::intake::owners::OwnerAnswer;

/// A pod that runs and asks for a cpu, with these labels.
pub(super) fn running(name: &str, labels: &Value, owner: Option<Value>) -> Value {
    let mut labels = labels.clone();
    labels["sluice.dev/managed"] = json!("true");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "blue", "uid": format!("uid-{name}"), "resourceVersion": "20",
            "creationTimestamp": "2026-11-23T11:59:00Z", "labels": labels,
            "annotations": {"sluice.dev/pod-set": "main"},
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    })
}

pub(super) fn owned_by(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name,
        "uid": format!("uid-{name}"), "controller": true})
}

impl Play {
    /// A job is queued and admitted. Returns its Workload.
    pub(super) fn admit(&mut self, name: &str) -> DynamicObject {
        self.admit_of(name, &job_kind())
    }

    pub(super) fn admit_of(&mut self, name: &str, kind: &Value) -> DynamicObject {
        self.list_settings_of(kind);
        self.list_jobs([job(name)]);
        let created = self.cycle().remove(0);
        let mut workload = stored(&created, 8);
        self.end(created, Reply::Done(Some(Box::new(workload.clone()))));
        let admitted = self.cycle().remove(0);
        let Write::SetWorkloadStatus { status, .. } = &admitted.write else {
            panic!("not admitted: {admitted:?}");
        };
        workload.data["status"] = serde_json::to_value(status).unwrap();
        workload.metadata.resource_version = Some("9".to_owned());
        self.end(admitted, Reply::Done(Some(Box::new(workload.clone()))));
        workload
    }

    pub(super) fn see_pod(&mut self, pod: Value) {
        self.observe(&Source::Pod, Change::Applied(seen(pod)));
    }

    /// Answers all questions about owners.
    pub(super) fn answer(&mut self, answer: impl Fn(&OwnerRef) -> FoundOwner) {
        for output in self.controller.cycle(self.now) {
            if let Output::LookUpOwner(question) = output {
                let found = answer(&question.owner);
                self.handle(Input::OwnerFound(OwnerAnswer { question, found }));
            }
        }
    }

    /// Whose quota is used: that of the pod itself, or of this job.
    pub(super) fn usage(&self, pod: &str, job: &str) -> [bool; 2] {
        let uid = |name: &str| Uid::from(format!("uid-{name}"));
        let holds = |subject: Subject| self.controller.engine.admission(&subject.id()).is_some();
        [holds(Subject::Pod(uid(pod))), holds(Subject::Job(uid(job)))]
    }
}

fn found(owner: Option<Value>) -> FoundOwner {
    let metadata = json!({"ownerReferences": owner.into_iter().collect::<Vec<_>>()});
    FoundOwner::Object(serde_json::from_value(metadata).unwrap())
}

/// Its controller makes parts, which make pods, and which no JobKind declares.
fn kind_with_parts() -> Value {
    let mut kind = job_kind();
    let part = json!({"group": "example.com", "kind": "Part", "madeBy": ["system:parts"]});
    kind["spec"]["children"].as_array_mut().unwrap().push(part);
    kind
}

/// A pod: what it is, its labels, its owner, what is found of that, and whose quota it uses.
type Row<'a> = (
    &'a str,
    Value,
    Option<Value>,
    fn(&OwnerRef) -> FoundOwner,
    [bool; 2],
);

/// Whatever a pod says of itself: one that runs in a queue has usage, and once.
#[tokio::test]
async fn a_pod_that_runs_is_counted_once() {
    let queued = json!({"sluice.dev/queue-name": "main"});
    let (with_job, by_itself) = ([false, true], [true, true]);
    let above = || Some(owned_by("batch/v1", "Job", "a"));
    let rows: [Row<'_>; 8] = [
        (
            "of an admitted job",
            json!({}),
            above(),
            |_| FoundOwner::Gone,
            with_job,
        ),
        (
            "of nobody",
            queued.clone(),
            None,
            |_| FoundOwner::Gone,
            by_itself,
        ),
        (
            "of an object that is gone",
            queued.clone(),
            Some(owned_by("batch/v1", "Job", "big")),
            |_| FoundOwner::Gone,
            by_itself,
        ),
        (
            "of an object in no queue",
            queued.clone(),
            Some(owned_by("batch/v1", "Job", "big")),
            |_| found(None),
            by_itself,
        ),
        (
            "of a Job that names an admitted one, which makes none",
            queued.clone(),
            Some(owned_by("batch/v1", "Job", "big")),
            |_| found(Some(owned_by("batch/v1", "Job", "a"))),
            by_itself,
        ),
        (
            "of a ReplicaSet that names an admitted Job, which makes none",
            queued.clone(),
            Some(owned_by("apps/v1", "ReplicaSet", "r")),
            |_| found(Some(owned_by("batch/v1", "Job", "a"))),
            by_itself,
        ),
        (
            "of an object that can't be read",
            queued.clone(),
            Some(owned_by("example.com/v1", "Thing", "thing")),
            |_| FoundOwner::Unreadable,
            by_itself,
        ),
        (
            "of a part of an admitted job",
            queued,
            Some(owned_by("example.com/v1", "Part", "part")),
            |_| found(Some(owned_by("batch/v1", "Job", "a"))),
            with_job,
        ),
    ];
    for (name, labels, owner, answer, expected) in rows {
        let mut play = Play::new();
        play.admit_of("a", &kind_with_parts());
        play.see_pod(running("p", &labels, owner));
        play.answer(answer);
        assert_eq!(play.usage("p", "a"), expected, "{name}");
    }
}

/// Nothing that is done while an owner can't be read lasts.
#[tokio::test]
async fn an_owner_that_could_not_be_read_is_believed_once_it_can_be() {
    let mut play = Play::new();
    play.admit_of("a", &kind_with_parts());
    let queued = json!({"sluice.dev/queue-name": "main"});
    play.see_pod(running(
        "p",
        &queued,
        Some(owned_by("example.com/v1", "Part", "part")),
    ));
    play.answer(|_| FoundOwner::Unreadable);
    assert_eq!(play.usage("p", "a"), [true, true]);
    for _ in 0..60 {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        assert_eq!(
            play.usage("p", "a"),
            [true, true],
            "while it is asked again"
        );
    }
    play.answer(|_| found(Some(owned_by("batch/v1", "Job", "a"))));
    assert_eq!(play.usage("p", "a"), [false, true]);
}

/// A pod of the job `a`, which is deleted if it has a grace period.
pub(super) fn of_job(name: &str, grace: Option<u32>) -> Value {
    let owner = Some(owned_by("batch/v1", "Job", "a"));
    let mut pod = running(name, &json!({}), owner);
    if let Some(grace) = grace {
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-24T12:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        pod["metadata"]["resourceVersion"] = json!("21");
    }
    pod
}

const DAY: Option<u32> = Some(86400);

/// It terminates for longer than pods do by default, and another one runs in its place.
#[tokio::test]
async fn a_pod_that_is_replaced_is_counted_beside_its_job() {
    let mut play = Play::new();
    play.admit("a");
    for name in ["p", "soon"] {
        play.see_pod(of_job(name, None));
    }
    play.see_pod(of_job("p", DAY));
    play.see_pod(of_job("soon", Some(30)));
    play.cycle();
    assert_eq!(
        play.usage("p", "a"),
        [false, true],
        "nothing is in its place"
    );
    play.see_pod(of_job("next", None));
    play.cycle();
    assert_eq!(play.usage("p", "a"), [true, true]);
    assert_eq!(play.usage("soon", "a"), [false, true]);
    let gone = serde_json::from_value(of_job("next", Some(0))).unwrap();
    play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
    play.cycle();
    assert_eq!(
        play.usage("p", "a"),
        [false, true],
        "nothing is in its place any more"
    );
}

/// Whatever becomes of its job, and whatever else is seen with it.
#[tokio::test]
async fn a_pod_that_is_replaced_is_counted_until_it_is_gone() {
    let mut play = Play::new();
    let mut workload = play.admit("a");
    play.see_pod(of_job("p", DAY));
    play.see_pod(of_job("next", None));
    // The Job controller counts its pods in the same moment.
    let mut counted = job("a");
    counted["metadata"]["resourceVersion"] = json!("30");
    counted["spec"]["suspend"] = json!(false);
    counted["status"] = json!({"active": 1, "terminating": 1});
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(counted)));
    play.cycle();
    assert_eq!(play.usage("p", "a"), [true, true], "while both run");

    workload.data["status"]["conditions"] = json!([{
        "type": "Evicted", "status": "True", "reason": "Preempted", "message": "",
        "lastTransitionTime": "2026-11-24T12:00:00Z",
    }]);
    workload.metadata.resource_version = Some("31".to_owned());
    play.observe(
        &Source::Workload,
        Change::Applied(Seen::Object(Box::new(workload.clone()))),
    );
    play.cycle();
    assert_eq!(play.usage("p", "a"), [true, true], "while it is evicted");

    play.see_pod(of_job("next", DAY));
    play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
    play.cycle();
    assert_eq!(
        play.usage("p", "a"),
        [true, true],
        "after its Workload is gone"
    );
    let gone = serde_json::from_value(of_job("p", DAY)).unwrap();
    play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
    play.cycle();
    assert!(!play.usage("p", "a")[0]);
}

/// Whoever made it: the job was admitted with one pod.
#[tokio::test]
async fn a_pod_beyond_the_admission_is_counted_beside_its_job() {
    let mut play = Play::new();
    play.admit("a");
    play.see_pod(of_job("own", None));
    play.cycle();
    assert_eq!(play.usage("own", "a"), [false, true]);
    let mut forged = of_job("forged", None);
    forged["metadata"]["creationTimestamp"] = json!("2026-11-23T11:59:30Z");
    play.see_pod(forged);
    play.cycle();
    assert_eq!(play.usage("own", "a"), [false, true]);
    assert_eq!(play.usage("forged", "a"), [true, true]);
    let gone = serde_json::from_value(of_job("own", Some(0))).unwrap();
    play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
    play.cycle();
    assert_eq!(
        play.usage("forged", "a"),
        [false, true],
        "it has the place of the other"
    );
}

/// Nobody else stops them: a job whose controller is none of Kubernetes' own, or that names pods of others.
#[tokio::test]
async fn pods_that_an_overdue_eviction_has_left_are_deleted() {
    for (name, suspended, condition, is_deleted) in [
        ("not overdue", true, "Evicted", false),
        ("not suspended", false, "Stalled", false),
        ("suspended, and overdue", true, "Stalled", true),
    ] {
        let mut play = Play::new();
        let mut workload = play.admit("a");
        play.see_pod(of_job("p", None));
        let mut evicted = job("a");
        evicted["metadata"]["resourceVersion"] = json!("30");
        evicted["spec"]["suspend"] = json!(suspended);
        let jobs = play.jobs.clone().unwrap();
        play.observe(&jobs, Change::Applied(seen(evicted)));
        let since = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "Preempted", "message": "",
                "lastTransitionTime": "2026-11-23T12:00:00Z",
            })
        };
        workload.data["status"]["conditions"] = json!([since("Evicted"), since(condition)]);
        workload.metadata.resource_version = Some("31".to_owned());
        let object = Seen::Object(Box::new(workload));
        play.observe(&Source::Workload, Change::Applied(object));
        let writes = play.cycle();
        let deleted = |write: &InFlightWrite| matches!(write.write, Write::DeletePod { .. });
        assert_eq!(writes.iter().any(deleted), is_deleted, "{name}: {writes:?}");
    }
}

/// It takes its share along, and says so itself.
#[tokio::test]
async fn a_pod_that_leaves_its_job_is_counted_beside_it() {
    let mut play = Play::new();
    play.admit("a");
    let labels = json!({"batch.kubernetes.io/controller-uid": "uid-a"});
    play.see_pod(running(
        "p",
        &labels,
        Some(owned_by("batch/v1", "Job", "a")),
    ));
    assert_eq!(play.usage("p", "a"), [false, true]);
    let mut left = running("p", &json!({"of": "nobody"}), None);
    left["metadata"]["resourceVersion"] = json!("21");
    play.see_pod(left);
    assert_eq!(play.usage("p", "a"), [true, true]);
    assert_eq!(recorded(&play.cycle()), None, "its job may be going");
    play.pass(Duration::from_secs(5));
    play.handle(Input::Tick);
    let record = recorded(&play.cycle()).unwrap();
    assert!(record.contains("\"clusterQueue\":\"q\""), "{record}");
}

/// What is written about the admission of a pod.
fn recorded(writes: &[InFlightWrite]) -> Option<String> {
    let record = writes.iter().find_map(|write| match &write.write {
        Write::PatchPod { patch, .. } => {
            patch.pointer("/metadata/annotations/sluice.dev~1admitted")
        }
        _ => None,
    });
    record.and_then(Value::as_str).map(ToOwned::to_owned)
}

/// `--cascade=orphan`: the watch of pods tells that the owner is gone before the watch of jobs tells that it is deleted.
#[tokio::test]
async fn a_pod_whose_job_is_being_deleted_is_counted_with_it() {
    let mut play = Play::new();
    play.admit("a");
    let labels = json!({"batch.kubernetes.io/controller-uid": "uid-a"});
    let owner = owned_by("batch/v1", "Job", "a");
    play.see_pod(running("p", &labels, Some(owner)));
    let mut left = running("p", &labels, None);
    left["metadata"]["resourceVersion"] = json!("21");
    play.see_pod(left);
    assert_eq!(play.usage("p", "a"), [true, true]);
    let mut writes = play.cycle();
    let mut job = job("a");
    job["metadata"]["deletionTimestamp"] = json!("2026-11-23T12:00:00Z");
    job["metadata"]["finalizers"] = json!(["orphan"]);
    job["metadata"]["resourceVersion"] = json!("30");
    job["spec"]["suspend"] = json!(false);
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(job)));
    for _ in 0..10 {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        writes.extend(play.cycle());
        assert_eq!(play.usage("p", "a"), [false, true]);
    }
    assert_eq!(recorded(&writes), None);
}

/// It is not waited for longer than its grace period, nor than ten minutes.
#[tokio::test]
async fn a_pod_that_does_not_go_is_waited_for_no_longer() {
    for (grace, minutes) in [(30, 2), (300, 6), (315_360_000, 11)] {
        let mut play = Play::new();
        play.admit("a");
        let mut pod = running("p", &json!({"sluice.dev/queue-name": "main"}), None);
        let until = play.now.wall + Duration::from_secs(grace);
        pod["metadata"]["deletionTimestamp"] = json!(until.to_string());
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        play.see_pod(pod);
        let mut told = 0;
        for minute in 0..15 {
            let overdue = play.controller.expected.overdue();
            assert_eq!(
                overdue,
                usize::from(minutes <= minute),
                "{grace} s: {minute}"
            );
            play.pass(Duration::from_mins(1));
            play.handle(Input::Tick);
            let outputs = play.controller.cycle(play.now);
            told += outputs.iter().filter(|output| {
                matches!(output, Output::Tell(_, note) if note.reason == "DeletionOverdue")
            }).count();
        }
        assert_eq!(told, 1, "{grace} s");
        assert_eq!(play.usage("p", "a"), [true, true], "its usage stays");
    }
}

/// The garbage collector deletes its Workload with its pods.
#[tokio::test]
async fn a_job_that_is_deleted_after_its_pods_is_waited_for_no_longer() {
    let mut play = Play::new();
    let workload = play.admit("a");
    let deleted = |mut object: Value| {
        object["metadata"]["deletionTimestamp"] = json!("2026-11-23T12:00:00Z");
        object["metadata"]["resourceVersion"] = json!("30");
        object
    };
    let mut job = job("a");
    job["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    job["spec"]["suspend"] = json!(false);
    let mut pod = running("p", &json!({}), Some(owned_by("batch/v1", "Job", "a")));
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    let jobs = play.jobs.clone().unwrap();
    play.see_pod(deleted(pod));
    play.observe(&jobs, Change::Applied(seen(deleted(job))));
    play.observe(&Source::Workload, Change::Deleted(Box::new(workload)));
    for minute in 0..3 {
        let outputs = play.controller.cycle(play.now);
        let is_told = outputs.iter().any(
            |output| matches!(output, Output::Tell(_, note) if note.reason == "DeletionOverdue"),
        );
        assert_eq!(is_told, minute == 1, "{minute}");
        assert_eq!(play.usage("p", "a"), [false, true], "its usage stays");
        let overdue = play.controller.expected.overdue();
        assert_eq!(overdue, usize::from(0 < minute));
        let explained = play
            .controller
            .engine
            .explain(&Subject::Job("uid-a".into()).id());
        let is_waited_for = matches!(explained, Some(sluice_engine::Explanation::Evicting { .. }));
        assert_eq!(is_waited_for, minute == 0, "{explained:?}");
        play.pass(Duration::from_mins(1));
        play.handle(Input::Tick);
    }
}

/// A UID in a label names a job of the pod's own namespace only: whoever knows the UID of another tenant's job could use
/// that one's quota.
#[tokio::test]
async fn a_pod_names_no_job_of_another_namespace() {
    for (namespace, expected) in [("blue", [true, true]), ("green", [false, true])] {
        let mut play = Play::new();
        play.admit("a");
        let mut pod = running("p", &json!({"any/key": "uid-a"}), None);
        pod["metadata"]["namespace"] = json!(namespace);
        play.see_pod(pod);
        assert_eq!(play.usage("p", "a"), expected, "{namespace}");
    }
}

/// Anybody can have pods say that they are of a pod set, or name a job by its UID.
#[tokio::test]
async fn a_job_that_is_gone_has_left_no_more_pods_than_it_was_admitted_with() {
    let named = json!({"batch.kubernetes.io/controller-uid": "uid-a"});
    let unknown_owner = || owned_by("example.com/v1", "Thing", "thing");
    for (labels, owner) in [
        (json!({}), None),
        (json!({}), Some(unknown_owner())),
        (named, None),
    ] {
        let workload = serde_json::to_value(Play::new().admit("a")).unwrap();
        let mut play = Play::new();
        play.list_settings();
        play.list(&Source::Workload, [workload]);
        let pods = ["newest", "newer", "oldest"].into_iter().zip([50, 40, 30]);
        play.list(
            &Source::Pod,
            pods.map(|(name, second)| {
                let mut pod = running(name, &labels, owner.clone());
                pod["metadata"]["creationTimestamp"] = json!(format!("2026-11-23T11:59:{second}Z"));
                pod
            }),
        );
        play.list_jobs([]);
        play.answer(|_| FoundOwner::Gone);
        play.cycle();
        let usage = |pod| play.usage(pod, "a");
        assert_eq!(usage("oldest"), [false, true], "{labels} {owner:?}");
        assert_eq!(usage("newer"), [true, true], "{labels} {owner:?}");
        assert_eq!(usage("newest"), [true, true], "{labels} {owner:?}");
        let mut oldest = running("oldest", &labels, owner.clone());
        oldest["metadata"]["deletionTimestamp"] = json!("2026-11-23T12:00:00Z");
        let gone = serde_json::from_value(oldest).unwrap();
        play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        play.cycle();
        let usage = |pod| play.usage(pod, "a");
        assert_eq!(
            usage("newer"),
            [false, true],
            "it has the place of the other"
        );
        assert_eq!(usage("newest"), [true, true], "{labels} {owner:?}");
    }
}
