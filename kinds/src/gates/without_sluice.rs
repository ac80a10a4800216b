//! Which scheduling gates nobody lifts any more once Sluice is gone: its own, and those that stand for gates which were
//! lifted from the object. Who takes them off, and when, is not told here.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_crds::{
    DEACTIVATED_BY_ANNOTATION, LIFTED_GATES_ANNOTATION, QUEUE_GATE, QUEUE_REQUIRED_GATE,
};

use super::annotations::{GateState, gate_annotations, read};
use super::gate_name::Gate;
use super::record::GateRecord;
use super::scheduling::{propagated, scheduling_gates};
use crate::field::metadata::{annotation, annotation_text};

/// The gates of others that hold an object, and its pods with it, without Sluice, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StillHeld {
    /// All that its pods list: an annotation can't be read, a gate has deactivated the object, or the object is unknown.
    All,
    /// These scheduling gates.
    By(BTreeSet<String>),
}

impl StillHeld {
    /// What holds `object` by its annotations. The gate by which a namespace requires a queue is Sluice's.
    pub fn of(object: &Value) -> Self {
        if annotation(object, DEACTIVATED_BY_ANNOTATION).is_some() {
            return Self::All;
        }
        match read(&gate_annotations(object)) {
            GateState::Invalid(_) => Self::All,
            gates => {
                let others = gates.names().filter(|gate| !gate.is_queue_required());
                Self::By(
                    others
                        .map(|gate| gate.scheduling_gate().into_owned())
                        .collect(),
                )
            }
        }
    }

    /// What holds a pod that belongs to no object: its own annotations, and the gates of a controller that it has lost,
    /// of which nobody knows whether they were lifted.
    pub fn of_pod_alone(pod: &Value) -> Self {
        let Self::By(mut held) = Self::of(pod) else {
            return Self::All;
        };
        let record = annotation_text(pod, LIFTED_GATES_ANNOTATION);
        let record = record.map(|record| (LIFTED_GATES_ANNOTATION.to_owned(), record.to_owned()));
        let record = GateRecord::read(&record.into_iter().collect());
        let uid = pod.pointer("/metadata/uid").and_then(Value::as_str);
        let lifted = record.lifted_from(uid.unwrap_or_default());
        let lifted = lifted.filter_map(|lifted| Gate::parse(&lifted.gate, "").ok());
        let lifted: BTreeSet<String> = lifted
            .map(|gate| gate.scheduling_gate().into_owned())
            .collect();
        held.extend(
            propagated(pod)
                .filter(|gate| !lifted.contains(*gate))
                .map(str::to_owned),
        );
        Self::By(held)
    }

    /// The scheduling gates of `pod`, a pod or the template of pods of this object, that nobody lifts any more. The queue
    /// gate may have the name of an alias, which is then the annotation by which the pod asked for it.
    pub fn left_behind<'a>(&self, pod: &'a Value) -> Vec<&'a str> {
        let listed: BTreeSet<&str> = propagated(pod).collect();
        let is_left_behind = |name: &&str| {
            let is_own = *name == QUEUE_GATE || *name == QUEUE_REQUIRED_GATE;
            let is_lifted = match self {
                Self::All => false,
                Self::By(held) => !held.contains(*name),
            };
            is_own
                || annotation_text(pod, name) == Some("true")
                || is_lifted && listed.contains(name)
        };
        scheduling_gates(pod).filter(is_left_behind).collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;
    use sluice_crds::{DEACTIVATED_BY_ANNOTATION, PROPAGATED_GATES_ANNOTATION};

    use super::super::annotations::ADMISSION_GATED_BY;
    use super::*;

    #[test]
    fn a_pod_alone_is_held_by_what_was_not_lifted_from_it() {
        let lifted = json!([
            {"gate": "a.io/x", "at": "2026-01-01T00:00:00Z", "by": "ann", "uid": "u1"},
            {"gate": "b.io/y", "at": "2026-01-01T00:00:00Z", "by": "ann", "uid": "another"},
        ]);
        let gates = ["a.io/x", "b.io/y", "c.io/z"].map(|gate| json!({"name": gate}));
        let pod = json!({
            "metadata": {"uid": "u1", "annotations": {
                PROPAGATED_GATES_ANNOTATION: "a.io/x,b.io/y,c.io/z",
                LIFTED_GATES_ANNOTATION: lifted.to_string(),
                ADMISSION_GATED_BY: "c.io/z",
            }},
            "spec": {"schedulingGates": gates},
        });
        assert_eq!(StillHeld::of_pod_alone(&pod).left_behind(&pod), ["a.io/x"]);
    }

    const ALIAS: &str = "scheduling.volcano.sh/queue-allocation-gate";

    #[rstest]
    #[case::nothing_holds_it(json!({}), &[QUEUE_GATE, QUEUE_REQUIRED_GATE, ALIAS, "a.io/x", "sluice.dev/gate-bb8b9c9bfb2e3326"])]
    #[case::a_gate_of_others(json!({ADMISSION_GATED_BY: "a.io/x"}), &[QUEUE_GATE, QUEUE_REQUIRED_GATE, ALIAS, "sluice.dev/gate-bb8b9c9bfb2e3326"])]
    #[case::by_the_hash_of_its_name(json!({ADMISSION_GATED_BY: "acme.io/foo/bar"}), &[QUEUE_GATE, QUEUE_REQUIRED_GATE, ALIAS, "a.io/x"])]
    #[case::only_a_queue_is_required(json!({ADMISSION_GATED_BY: "a.io/x,sluice.dev/queue-required"}), &[QUEUE_GATE, QUEUE_REQUIRED_GATE, ALIAS, "sluice.dev/gate-bb8b9c9bfb2e3326"])]
    #[case::what_is_no_gate_holds_all(json!({ADMISSION_GATED_BY: "nonsense"}), &[QUEUE_GATE, QUEUE_REQUIRED_GATE, ALIAS])]
    #[case::deactivated(json!({DEACTIVATED_BY_ANNOTATION: "a.io/x"}), &[QUEUE_GATE, QUEUE_REQUIRED_GATE, ALIAS])]
    fn goes_what_nobody_lifts(#[case] annotations: Value, #[case] expected: &[&str]) {
        let object = json!({"metadata": {"annotations": annotations}});
        let listed = "a.io/x, sluice.dev/gate-bb8b9c9bfb2e3326,sluice.dev/queue-required";
        let gates = [
            "external.io/y",
            QUEUE_GATE,
            QUEUE_REQUIRED_GATE,
            ALIAS,
            "a.io/x",
            "sluice.dev/gate-bb8b9c9bfb2e3326",
        ];
        let gates: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
        let pod = json!({
            "metadata": {"annotations": {PROPAGATED_GATES_ANNOTATION: listed, ALIAS: "true"}},
            "spec": {"schedulingGates": gates},
        });
        assert_eq!(StillHeld::of(&object).left_behind(&pod), expected);
    }
}
