//! What is told of jobs and groups that have no Workload, and of pods that are not in their queue.

use super::pod_usage::{owned_by, running};
use super::*;
use crate::api::lookup::{FoundJob, FoundOwner};
use crate::controller::intake::owners::OwnerAnswer;
use crate::controller::intake::rereads::ReadAgain;
use crate::plan::JobPurpose;
use crate::visibility::{State, WorkloadRef};

impl Play {
    /// A second passes, in which all questions about owners are answered. Returns the writes.
    fn second_answered(&mut self, answer: impl Fn() -> FoundOwner) -> Vec<InFlightWrite> {
        self.pass(Duration::from_secs(1));
        self.handle(Input::Tick);
        let mut writes = Vec::new();
        for output in self.controller.cycle(self.now) {
            match output {
                Output::LookUpOwner(question) => {
                    let found = answer();
                    self.handle(Input::OwnerFound(OwnerAnswer { question, found }));
                }
                Output::Write(write) => writes.push(write),
                _ => {}
            }
        }
        writes
    }

    /// How often the object of this name is told this while so many minutes pass.
    fn times_told(&mut self, name: &str, reason: &str, minutes: u32) -> usize {
        let mut times = 0;
        for _ in 0..minutes {
            let outputs = self.controller.cycle(self.now).into_iter();
            let told = outputs.filter(|output| match output {
                Output::Tell(object, note) => {
                    object.name.as_deref() == Some(name) && note.reason == reason
                }
                _ => false,
            });
            times += told.count();
            self.pass(Duration::from_mins(1));
            self.handle(Input::Tick);
        }
        times
    }
}

fn uncountable(name: &str) -> Value {
    let mut job = job(name);
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
        json!("much");
    job
}

/// It has no Workload, and where no webhook is asked about such an edit, the user may write what Sluice alone writes.
#[tokio::test]
async fn what_waited_when_it_was_deleted_does_not_run() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([uncountable("a")]);
    let writes = play.cycle();
    assert!(writes.is_empty(), "{writes:?}");
    let mut started = uncountable("a");
    let metadata = &mut started["metadata"];
    metadata["deletionTimestamp"] = json!("2026-11-23T12:00:00Z");
    metadata["finalizers"] = json!(["acme.io/keep"]);
    metadata["resourceVersion"] = json!("30");
    metadata["labels"] = json!({});
    metadata["annotations"] = json!({"sluice.dev/released": metadata["uid"]});
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(started.clone())));
    play.cycle();
    started["metadata"]["resourceVersion"] = json!("31");
    started["spec"]["suspend"] = json!(false);
    play.observe(&jobs, Change::Applied(seen(started)));
    let writes = play.cycle();
    let is_suspended = |write: &InFlightWrite| matches!(&write.write, Write::PatchJob { purpose, .. } if *purpose == JobPurpose::Suspend);
    assert!(writes.iter().any(is_suspended), "{writes:?}");
}

pub(super) fn member() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "blue", "uid": "uid-p", "resourceVersion": "9",
            "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {
                "sluice.dev/managed": "true", "sluice.dev/queue-name": "main",
                "sluice.dev/pod-group-name": "gang",
            },
            "annotations": {"sluice.dev/pod-group-total-count": "2"},
        },
        "spec": {
            "schedulingGates": [{"name": "sluice.dev/queue-allocation-gate"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

/// API servers keep events for an hour, and there is nothing else that says it.
#[tokio::test]
async fn why_there_is_no_workload_is_told_again_as_long_as_it_is_so() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([uncountable("a")]);
    assert_eq!(play.times_told("a", "InvalidPodSets", 65), 3);

    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.observe(&Source::Pod, Change::Applied(seen(member())));
    // It is no warning, so that it is not told once more at the start.
    assert_eq!(play.times_told("p", "GroupIncomplete", 65), 2);

    // Whoever is told something else that is written down is not told this again.
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([uncountable("a")]);
    assert_eq!(play.times_told("a", "InvalidPodSets", 5), 1);
    let mut mended = job("a");
    mended["metadata"]["resourceVersion"] = json!("30");
    mended["metadata"]["generation"] = json!(2);
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(mended)));
    assert_eq!(play.times_told("a", "InvalidPodSets", 65), 0);
}

#[tokio::test]
async fn visibility_says_why_there_is_no_workload() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([uncountable("a"), job("b")]);
    play.cycle();
    let named = |name: &str| WorkloadRef::Workload {
        namespace: "blue".into(),
        name: format!("{name}-uid{name}").into(),
    };
    let finding = play.controller.begin_finding(&named("a")).unwrap();
    let stated = finding.end().stated;
    assert_eq!(stated.state, State::Pending);
    let why = stated.why.unwrap();
    assert_eq!(&*why.reason, "InvalidPodSets");
    assert!(
        why.message
            .as_deref()
            .unwrap_or_default()
            .starts_with("Can't be queued: "),
        "{why:?}"
    );
    // It gets one.
    assert!(play.controller.begin_finding(&named("b")).is_none());
}

/// A job whose pods name this RuntimeClass.
fn job_of_class(name: &str, class: &str) -> Value {
    let mut job = job(name);
    job["spec"]["template"]["spec"]["runtimeClassName"] = json!(class);
    job
}

/// One that adds nothing to its pods.
fn runtime_class(name: &str) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc",
        "metadata": {"name": name, "uid": format!("class-{name}"), "resourceVersion": "6"},
    })
}

impl Play {
    /// A RuntimeClass has come or is gone: the one job that names it is read again. Returns the writes.
    fn class_changed(&mut self, change: Change<Seen>) -> Vec<InFlightWrite> {
        self.observe(&Source::RuntimeClass, change);
        let outputs = self.controller.cycle(self.now).into_iter();
        let asked = outputs.filter_map(|output| match output {
            Output::ReadAgain(reread) => Some(reread),
            _ => None,
        });
        let asked: Vec<_> = asked.collect();
        assert_eq!(asked.len(), 1, "{asked:?}");
        for reread in asked {
            assert_eq!(&*reread.key.name, "a");
            let object = serde_json::from_value(job_of_class("a", "kata")).unwrap();
            let found = FoundJob::Object(Box::new(object));
            self.handle(Input::ReadAgain(ReadAgain { reread, found }));
        }
        self.cycle()
    }
}

#[tokio::test]
async fn a_job_is_queued_once_its_runtime_class_exists() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job_of_class("a", "kata"), job_of_class("b", "other")]);
    assert!(play.cycle().is_empty());
    let named = WorkloadRef::Workload {
        namespace: "blue".into(),
        name: "a-uida".into(),
    };
    let why = play.controller.begin_finding(&named).unwrap().end();
    let why = why.stated.why.unwrap();
    assert_eq!(
        (&*why.reason, why.message.as_deref().unwrap_or_default()),
        (
            "InvalidPodSets",
            "Can't be queued: spec.template.spec.runtimeClassName: Invalid value: \"kata\": there is no RuntimeClass \"kata\": create it, and the job is queued"
        )
    );

    let class = runtime_class("kata");
    let created = play
        .class_changed(Change::Applied(seen(class.clone())))
        .remove(0);
    assert!(is_created(&created));
    assert_eq!(created.subject, Subject::Job("uid-a".into()));
    let workload = stored(&created, 8);

    // It is gone before the job is admitted.
    let gone = serde_json::from_value(class.clone()).unwrap();
    let writes = play.class_changed(Change::Deleted(Box::new(gone)));
    assert!(writes.is_empty());
    play.end(created, Reply::Done(Some(Box::new(workload))));
    assert!(play.cycle().is_empty());
    let admitted = play.class_changed(Change::Applied(seen(class))).remove(0);
    assert!(is_admitted(&admitted));
}

/// After a restart nothing admitted is evicted for a class that is not listed yet.
#[tokio::test]
async fn no_job_is_read_before_runtime_classes_are_listed() {
    let mut play = Play::new();
    let starts = |play: &mut Play| {
        let outputs = play.controller.cycle(play.now).into_iter();
        let orders = outputs.filter(|output| matches!(output, Output::Kind(Order::Start { .. })));
        orders.count()
    };
    for source in FIXED_SOURCES {
        let kinds = (source == Source::JobKind).then(job_kind);
        if source != Source::RuntimeClass {
            play.list(&source, kinds);
        }
    }
    assert_eq!(starts(&mut play), 0);
    play.list(&Source::RuntimeClass, []);
    assert_eq!(starts(&mut play), 1);
}

/// A pod that waits for quota alone.
fn waiting(name: &str, owner: Option<Value>) -> Value {
    let mut pod = running(name, &json!({"sluice.dev/queue-name": "main"}), owner);
    pod["metadata"]["annotations"] = json!({"sluice.dev/queue-allocation-gate": "true"});
    pod["spec"]["schedulingGates"] = json!([{"name": "sluice.dev/queue-allocation-gate"}]);
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod["status"] = json!({"phase": "Pending"});
    pod
}

fn pod_named(name: &str) -> WorkloadRef {
    WorkloadRef::Pod {
        namespace: "blue".into(),
        name: name.into(),
    }
}

/// The engine takes these for inactive, or does not know them.
#[tokio::test]
async fn visibility_says_of_a_pod_that_is_not_queued_what_its_events_say() {
    let mut much = waiting("much", None);
    much["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("much");
    let mut classless = waiting("classless", None);
    classless["metadata"]["labels"]["sluice.dev/priority-class"] = json!("none");
    let mut left = waiting("left", None);
    left["metadata"]["annotations"]["sluice.dev/propagated-gates"] = json!("acme.io/budget");
    left["spec"]["schedulingGates"] = json!([{"name": "acme.io/budget"}]);
    let rows = [
        (much, State::Pending, "InvalidPodSets"),
        (classless, State::Pending, "PriorityClassNotFound"),
        (left, State::Gated, "GatesLeft"),
    ];
    for (pod, state, reason) in rows {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([]);
        play.see_pod(pod);
        let told = play.told_about(&name);
        let stated = play.stated(&pod_named(&name));
        assert_eq!(stated.state, state, "{name}");
        let why = stated.why.unwrap();
        assert_eq!(
            told,
            [(
                reason,
                why.message.as_deref().unwrap_or_default().to_owned()
            )],
            "{name}"
        );
        assert_eq!(&*why.reason, reason, "{name}");
    }
}

/// Another one of its ReplicaSet had no node in time.
#[tokio::test]
async fn visibility_says_until_when_a_pod_backs_off() {
    let owner = || Some(owned_by("apps/v1", "ReplicaSet", "web"));
    let mut play = Play::new();
    play.list_settings();
    play.edit_queue(30, |spec| {
        spec["reservation"] =
            json!({"timeoutSeconds": 30, "backoff": {"baseSeconds": 60, "maxSeconds": 60}});
    });
    play.list_jobs([]);
    let mut early = waiting("early", owner());
    early["spec"]["schedulingGates"] = json!([]);
    early["metadata"]["annotations"]["sluice.dev/admitted"] =
        json!(r#"{"at": "2026-11-23T11:59:45Z", "clusterQueue": "q", "flavors": {"cpu": "any"}}"#);
    play.see_pod(early);
    play.answer(|_| FoundOwner::Gone);
    let is_deleted = |play: &mut Play| {
        let writes = play.second();
        writes
            .iter()
            .any(|write| matches!(write.write, Write::DeletePod { .. }))
    };
    assert!((0..40).any(|_| is_deleted(&mut play)), "it has no node");
    play.see_pod(waiting("late", owner()));
    play.answer(|_| FoundOwner::Gone);
    for _ in 0..3 {
        play.second();
    }
    let stated = play.stated(&pod_named("late"));
    assert_eq!(stated.state, State::Pending);
    let why = stated.why.unwrap();
    assert_eq!(&*why.reason, "BackingOff");
    assert!(
        why.message
            .as_deref()
            .unwrap_or_default()
            .starts_with("Backs off until 2026-11-23T12:0"),
        "{why:?}"
    );
}

/// Sluice has no right to read it, or has lost it.
#[tokio::test]
async fn a_job_whose_owner_cannot_be_read_is_left_alone_until_it_can_be() {
    let sets: Value =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/jobset.yaml")).unwrap();
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.observe(&Source::JobKind, Change::Applied(seen(sets)));
    let sets = play.find_jobs_by("jobset");
    play.list(&sets, []);
    let mut owned = job("a");
    owned["metadata"]["annotations"] = json!({});
    owned["metadata"]["ownerReferences"] =
        json!([owned_by("jobset.x-k8s.io/v1alpha2", "JobSet", "set")]);
    owned["spec"]["suspend"] = json!(false);
    owned["status"] = json!({});
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(owned)));
    play.answer(|_| FoundOwner::Unreadable);
    let told = play.told_about("a");
    let [(reason, message)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(*reason, "OwnerUnreadable");
    let text = "Neither queued nor suspended: its owner, JobSet \"set\", can't be read";
    assert!(message.starts_with(text), "{message}");
    for _ in 0..300 {
        let writes = play.second_answered(|| FoundOwner::Unreadable);
        assert!(writes.is_empty(), "it is left alone: {writes:?}");
    }
    // The right is given: nothing above the job is queued.
    let write = (0..300).find_map(|_| {
        let writes = play.second_answered(|| FoundOwner::Object(Box::default()));
        writes.into_iter().next()
    });
    assert_eq!(write.unwrap().subject, Subject::Job("uid-a".into()));
}

#[tokio::test]
async fn a_job_is_queued_once_nothing_else_has_the_name_of_its_workload() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a")]);
    let create = play.cycle().remove(0);
    let foreign = serde_json::from_value(json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {"name": "a-uida", "namespace": "blue", "uid": "foreign", "resourceVersion": "8"},
        "spec": {"queueName": "main", "priority": 0, "podSets": []},
    }));
    let foreign: DynamicObject = foreign.unwrap();
    assert_eq!(
        stored(&create, 9).metadata.name,
        foreign.metadata.name,
        "the name is taken"
    );
    play.end(create, Reply::Conflict(Some(Box::new(foreign.clone()))));
    let told = play.told_about("a");
    let reasons: Vec<_> = told.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, ["WorkloadNameConflict"], "{told:?}");
    let gone = serde_json::from_value(serde_json::to_value(foreign).unwrap()).unwrap();
    play.observe(&Source::Workload, Change::Deleted(Box::new(gone)));
    let created = (0..60).find_map(|_| play.second().into_iter().next());
    let created = created.unwrap();
    assert!(is_created(&created), "{created:?}");
    let workload = stored(&created, 10);
    play.end(created, Reply::Done(Some(Box::new(workload))));
    assert!(is_admitted(&play.cycle()[0]));
}

#[tokio::test]
async fn new_pods_of_a_group_that_has_ended_are_told_that_they_wait() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    let mut first = member();
    first["metadata"]["annotations"]["sluice.dev/pod-group-total-count"] = json!("1");
    play.see_pod(first.clone());
    let created = play.cycle().remove(0);
    let mut workload = stored(&created, 10);
    play.end(created, Reply::Done(Some(Box::new(workload.clone()))));
    workload.metadata.resource_version = Some("11".to_owned());
    workload.data["status"] = json!({"conditions": [{
        "type": "Finished", "status": "True", "reason": "Succeeded", "message": "",
        "lastTransitionTime": "2026-11-23T12:00:00Z",
    }]});
    let finished = Seen::Object(Box::new(workload));
    play.observe(&Source::Workload, Change::Applied(finished));
    let mut new = first.clone();
    first["metadata"]["resourceVersion"] = json!("12");
    first["spec"]["schedulingGates"] = json!([]);
    first["status"] = json!({"phase": "Succeeded"});
    play.see_pod(first);
    play.cycle();
    new["metadata"]["name"] = json!("q");
    new["metadata"]["uid"] = json!("uid-q");
    play.see_pod(new);
    let told = play.told_about("q");
    let reasons: Vec<_> = told.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, ["GroupEnded"], "{told:?}");
}
