//! The patches that take scheduling gates out of the pod templates of an object that nobody lifts any more: for when Sluice is
//! taken away, and for a new object of the manifest of an earlier one.

use std::collections::BTreeSet;

use json_patch::{Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use serde_json::Value;

use crate::gates::scheduling::propagated;
use crate::gates::{self, Gate, StillHeld};
use crate::jobkind::kind::CompiledKind;
use crate::patch::gating::unlist;
use crate::read::place::Place;

impl CompiledKind {
    /// Takes out of every pod template of `object` the queue gate, and the gates that stand for gates which `object` does
    /// not have any more; other gates stay, in their order. Fails where a list of gates has changed. Empty if no
    /// template has such a gate.
    pub fn ungate_templates_patch(&self, object: &Value) -> Patch {
        let held = StillHeld::of(object);
        let mut operations = Vec::new();
        for template in self.templates(object) {
            let Some(pod) = &template.pod else { continue };
            let left_behind = held.left_behind(pod);
            operations.extend(without(pod, &template.place, |gate| {
                left_behind.contains(&gate)
            }));
        }
        Patch(operations)
    }

    /// Takes out of every pod template of `object` the gates that stand for these, which were `lifted` from an earlier object
    /// whose manifest this is, with the list that names them. What `object` names itself stays.
    pub fn unlifted_patch(&self, object: &Value, lifted: &BTreeSet<Gate>) -> Patch {
        let own = gates::named(&gates::gate_annotations(object));
        let lifted = lifted.difference(&own);
        let lifted: BTreeSet<_> = lifted.map(Gate::scheduling_gate).collect();
        let mut operations = Vec::new();
        for template in self.templates(object) {
            let Some(pod) = &template.pod else { continue };
            let is_stale =
                |gate: &str| lifted.contains(gate) && propagated(pod).any(|name| name == gate);
            if propagated(pod).any(is_stale) {
                operations.extend(without(pod, &template.place, is_stale));
                operations.extend(unlist(pod, &template.place));
            }
        }
        Patch(operations)
    }
}

/// The operations that leave those scheduling gates of a pod template out which `goes` names.
fn without(pod: &Value, place: &Place, goes: impl Fn(&str) -> bool) -> Vec<PatchOperation> {
    let gates = pod
        .pointer("/spec/schedulingGates")
        .and_then(Value::as_array);
    // Where only the metadata of pods is written, there is no gate.
    let path = place
        .spec(&["schedulingGates"])
        .filter(|_| matches!(place, Place::Template(_)));
    let (Some(gates), Some(path)) = (gates, path) else {
        return Vec::new();
    };
    let goes = |gate: &&Value| gate.get("name").and_then(Value::as_str).is_some_and(&goes);
    let left: Vec<Value> = gates.iter().filter(|gate| !goes(gate)).cloned().collect();
    if left.len() == gates.len() {
        return Vec::new();
    }
    let test = PatchOperation::Test(TestOperation {
        path: path.clone(),
        value: Value::Array(gates.clone()),
    });
    let write = if left.is_empty() {
        PatchOperation::Remove(RemoveOperation { path })
    } else {
        PatchOperation::Replace(ReplaceOperation {
            path,
            value: Value::Array(left),
        })
    };
    vec![test, write]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::fixtures::deployment_kind;

    const OURS: &str = sluice_crds::QUEUE_GATE;

    #[rstest]
    #[case::alone(json!([{"name": OURS}]), None)]
    #[case::beside_others(json!([{"name": "a.io/x"}, {"name": OURS}, {"name": "b.io/y"}]),
        Some(json!([{"name": "a.io/x"}, {"name": "b.io/y"}])))]
    #[case::only_others(json!([{"name": "a.io/x"}]), Some(json!([{"name": "a.io/x"}])))]
    #[case::a_lifted_gate(json!([{"name": "lifted.io/x"}, {"name": "held.io/y"}]),
        Some(json!([{"name": "held.io/y"}])))]
    fn what_nobody_lifts_goes(#[case] gates: Value, #[case] left: Option<Value>) {
        let kind = CompiledKind::compile(&deployment_kind()).unwrap();
        let listed = json!({"sluice.dev/propagated-gates": "lifted.io/x,held.io/y"});
        let mut object = json!({
            "metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "held.io/y"}},
            "spec": {"template": {
                "metadata": {"annotations": listed},
                "spec": {"schedulingGates": gates},
            }},
        });
        let patch = kind.ungate_templates_patch(&object);
        json_patch::patch(&mut object, &patch).unwrap();
        let found = object.pointer("/spec/template/spec/schedulingGates");
        assert_eq!(found.cloned(), left);
        assert!(kind.ungate_templates_patch(&object).is_empty());
    }
}
