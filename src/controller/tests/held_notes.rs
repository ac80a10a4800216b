//! What is told of what gates hold: by visibility, and by events.

use super::gates::GATE;
use super::*;
use crate::visibility::{State, Stated, WorkloadRef};

const HELD: &str = "Held until these gates are removed: acme.io/budget";

impl Play {
    /// Everything is listed but Jobs, with this Gate and these pods.
    fn list_gate(&mut self, spec: &Value, pods: impl IntoIterator<Item = Value>) {
        self.list_settings_with_gate(spec, &json!({}));
        for pod in pods {
            self.observe(&Source::Pod, Change::Applied(seen(pod)));
        }
        self.list_jobs([]);
        self.cycle();
    }

    fn job_comes(&mut self, job: Value) {
        let jobs = self.jobs.clone().unwrap();
        self.observe(&jobs, Change::Applied(seen(job)));
        self.cycle();
    }

    pub(super) fn stated(&self, named: &WorkloadRef) -> Stated {
        let mut finding = self.controller.begin_finding(named).unwrap();
        while !self.controller.go_on_finding(&mut finding, 1) {}
        finding.end().stated
    }

    /// The events of one cycle about the object of this name.
    pub(super) fn told_about(&mut self, name: &str) -> Vec<(&'static str, String)> {
        let events = self.controller.cycle(self.now).into_iter();
        let events = events.filter_map(|output| match output {
            Output::Tell(object, note) => Some((object, note)),
            _ => None,
        });
        let about = events.filter(|(object, _)| object.name.as_deref() == Some(name));
        about.map(|(_, note)| (note.reason, note.message)).collect()
    }
}

fn held(mut object: Value, more: &Value) -> Value {
    object["metadata"]["annotations"]["kueue.x-k8s.io/scheduling-gated-by"] = json!(GATE);
    json_patch::merge(&mut object["metadata"]["annotations"], more);
    object
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "blue", "uid": "uid-p", "resourceVersion": "9",
            "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {"sluice.dev/managed": "true", "sluice.dev/queue-name": "main"},
            "annotations": {"sluice.dev/queue-allocation-gate": "true"},
        },
        "spec": {
            "schedulingGates": [{"name": GATE}, {"name": "sluice.dev/queue-allocation-gate"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

fn of_job() -> WorkloadRef {
    WorkloadRef::Workload {
        namespace: "blue".into(),
        name: "a-uida".into(),
    }
}

fn of_pod() -> WorkloadRef {
    WorkloadRef::Pod {
        namespace: "blue".into(),
        name: "p".into(),
    }
}

fn why(stated: &Stated) -> (&str, &str) {
    let why = stated.why.as_ref().unwrap();
    (&why.reason, why.message.as_deref().unwrap_or_default())
}

/// They stay so when their gates are lifted.
#[tokio::test]
async fn what_is_deactivated_is_not_said_to_wait_for_its_gates() {
    let by = json!({"sluice.dev/deactivated-by": GATE, "sluice.dev/expired-gates": format!("uid-a,{GATE}")});
    let mut play = Play::new();
    play.list_gate(&json!({}), [held(pod(), &by)]);
    play.job_comes(held(job("a"), &by));
    for named in [of_job(), of_pod()] {
        let stated = play.stated(&named);
        assert_eq!(stated.state, State::Inactive, "{named:?}");
        let (reason, message) = why(&stated);
        assert_eq!(reason, "Deactivated");
        assert!(
            message.contains("remove its annotation sluice.dev/deactivated-by"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn visibility_says_why_a_gate_stays_closed() {
    let spec = json!({"contact": "ann", "schedule": {"notBefore": {}}});
    let mut play = Play::new();
    let at = json!({"sluice.dev/not-before": "2026-11-25T08:00:00Z"});
    play.list_gate(&spec, [held(pod(), &at)]);
    play.job_comes(held(job("a"), &at));
    for named in [of_job(), of_pod()] {
        let stated = play.stated(&named);
        assert_eq!(stated.state, State::Gated, "{named:?}");
        let (reason, message) = why(&stated);
        assert_eq!(reason, "Gated");
        let closed = message.strip_prefix(HELD).unwrap();
        assert!(
            closed.contains("2026-11-25") && closed.ends_with("; ask ann)"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_pod_is_told_once_which_gates_hold_it() {
    let mut play = Play::new();
    play.list_gate(&json!({"contact": "ann"}), []);
    let pod = |revision: &str| {
        let mut pod = held(pod(), &json!({}));
        pod["metadata"]["resourceVersion"] = json!(revision);
        Change::Applied(seen(pod))
    };
    play.observe(&Source::Pod, pod("9"));
    let told = play.told_about("p");
    assert_eq!(told, [("Gated", format!("{HELD} (ask ann)"))]);
    play.observe(&Source::Pod, pod("10"));
    play.pass(Duration::from_secs(1));
    play.handle(Input::Tick);
    assert_eq!(play.told_about("p"), []);
    // Its Gate says something else.
    let mut gate = own("Gate", "budget.acme.io", &json!({"contact": "bob"}));
    gate["metadata"]["resourceVersion"] = json!("11");
    play.observe(&Source::Gate, Change::Applied(seen(gate)));
    assert_eq!(
        play.told_about("p"),
        [("Gated", format!("{HELD} (ask bob)"))]
    );
}
