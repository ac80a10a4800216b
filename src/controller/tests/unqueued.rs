//! What is told of jobs and groups that have no Workload, and of pods that are not in their queue.

use super::pod_usage::{owned_by, running};
use super::*;
use crate::api::lookup::Found;
use crate::visibility::{State, WorkloadRef};

impl Play {
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

fn member() -> Value {
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
    play.answer(|_| Found::Gone);
    let is_deleted = |play: &mut Play| {
        let writes = play.second();
        writes
            .iter()
            .any(|write| matches!(write.write, Write::DeletePod { .. }))
    };
    assert!((0..40).any(|_| is_deleted(&mut play)), "it has no node");
    play.see_pod(waiting("late", owner()));
    play.answer(|_| Found::Gone);
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
