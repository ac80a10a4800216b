//! The patch that takes scheduling gates out of the pod templates of an object that nobody lifts any more: for when Sluice is
//! taken away, and pods that are still to come must not wait for it.

use json_patch::{Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use serde_json::Value;

use crate::gates::StillHeld;
use crate::jobkind::kind::CompiledKind;
use crate::read::place::Place;

impl CompiledKind {
    /// Takes out of every pod template of `object` the queue gate, and the gates that stand for gates which `object` does
    /// not have any more; other gates stay, in their order. Fails where a list of gates has changed. Empty if no
    /// template has such a gate.
    pub fn ungate_templates_patch(&self, object: &Value) -> Patch {
        let held = StillHeld::of(object);
        let mut operations = Vec::new();
        for template in self.templates(object) {
            let (Place::Template(_), Some(pod)) = (&template.place, &template.pod) else {
                // Where only the metadata of pods is written, there is no gate.
                continue;
            };
            let Some(gates) = pod
                .pointer("/spec/schedulingGates")
                .and_then(Value::as_array)
            else {
                continue;
            };
            let left_behind = held.left_behind(pod);
            let goes = |gate: &&Value| {
                let name = gate.get("name").and_then(Value::as_str);
                name.is_some_and(|name| left_behind.contains(&name))
            };
            let left: Vec<Value> = gates.iter().filter(|gate| !goes(gate)).cloned().collect();
            let Some(path) = template.place.spec(&["schedulingGates"]) else {
                continue;
            };
            if left.len() == gates.len() {
                continue;
            }
            operations.push(PatchOperation::Test(TestOperation {
                path: path.clone(),
                value: Value::Array(gates.clone()),
            }));
            operations.push(if left.is_empty() {
                PatchOperation::Remove(RemoveOperation { path })
            } else {
                PatchOperation::Replace(ReplaceOperation {
                    path,
                    value: Value::Array(left),
                })
            });
        }
        Patch(operations)
    }
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
