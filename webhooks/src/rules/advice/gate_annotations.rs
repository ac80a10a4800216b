//! What a gate has the object name in an annotation, a time or another object, and what the object does not name, or not
//! so that it can be read: it is held until somebody mends that.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use sluice_crds::{GateSpec, Schedule};
use sluice_gates::{Closed, CompiledGate, Opening, Why};
use sluice_kinds::gates::{self, Gate};
use sluice_kinds::problem::fill;

use crate::admission::policy::Policy;

/// What is told: what is wrong, and the gate.
const HOLDS: &str = "{}; until then gate {} holds the object";

/// What is warned of in an object.
pub(super) fn warnings(object: &Value, policy: &Policy) -> Vec<String> {
    let named = gates::named(&gates::gate_annotations(object));
    let told = named.iter().filter_map(|gate| {
        let why = unread(gate, policy.gate(gate)?, object)?;
        Some(fill(HOLDS, &[&why, gate.as_str()]))
    });
    told.collect()
}

/// Why what the object names for `gate` can't be read, if it can't.
fn unread(gate: &Gate, spec: &GateSpec, object: &Value) -> Option<String> {
    let not_before = spec.schedule.as_ref().and_then(|of| of.not_before.clone());
    let schedule = not_before.map(|not_before| Schedule {
        not_before: Some(not_before),
        ..Schedule::default()
    });
    if schedule.is_none() && spec.after.is_none() {
        return None;
    }
    let asked = GateSpec {
        schedule,
        after: spec.after.clone(),
        ..GateSpec::default()
    };
    // What is wrong with the Gate is told there.
    let compiled = CompiledGate::compile(&gate.object_name()?, &asked).ok()?;
    let annotations = object.pointer("/metadata/annotations");
    let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
    let annotations =
        annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let annotations: BTreeMap<_, _> = annotations.collect();
    if let Some(after) = compiled.after() {
        let unnamed = after.dependency(&annotations).err();
        return unnamed.map(|waiting| waiting.to_string());
    }
    match compiled.opening(&annotations, Timestamp::UNIX_EPOCH) {
        Opening::Closed(closed) => is_unread(&closed).then(|| closed.to_string()),
        Opening::NotScheduled | Opening::Open => None,
    }
}

fn is_unread(closed: &Closed) -> bool {
    matches!(closed.why, Why::NoTime { .. } | Why::BadTime(_))
}
