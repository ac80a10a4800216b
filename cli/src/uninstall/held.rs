//! What an object waits for, and the patch that starts it. Pure.

use std::collections::BTreeSet;

use json_patch::Patch;
use serde_json::{Value, json};
use sluice_crds::{HELD_ANNOTATION, QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_kinds::gates;
use sluice_kinds::{CompiledKind, HeldMark, Suspension};

/// The gates of a pod, by whose they are.
pub(super) struct PodGates {
    /// Sluice's: one, as a rule.
    pub(super) ours: Vec<String>,
    /// The others.
    pub(super) others: Vec<String>,
}

/// Why an object stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// These gates of others hold it.
    Gates(Vec<String>),
    /// It was taken out of its queue.
    Inactive,
    /// Its owner suspended it.
    ByUser,
}

/// What is to be done with an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Todo {
    /// Nothing: it does not wait for Sluice.
    Nothing,
    /// Start it, by this merge patch.
    Start(Value),
    /// Leave it.
    Leave(Why),
}

/// What Workloads say of their objects, by the UIDs of these.
#[derive(Debug, Default)]
pub(super) struct Queued {
    /// All that are queued, by whatever label.
    all: BTreeSet<String>,
    /// Those that were taken out of their queues.
    inactive: BTreeSet<String>,
}

impl Queued {
    pub(super) fn by(workloads: &[Value]) -> Self {
        let mut queued = Self::default();
        for workload in workloads {
            let uid = workload.pointer("/metadata/ownerReferences/0/uid");
            let Some(uid) = uid.and_then(Value::as_str) else {
                continue;
            };
            queued.all.insert(uid.to_owned());
            if workload.pointer("/spec/active") == Some(&Value::Bool(false)) {
                queued.inactive.insert(uid.to_owned());
            }
        }
        queued
    }
}

/// Whether nothing is to be done with `object`, as its pods have come and gone.
pub(super) fn is_finished(kind: &CompiledKind, object: &Value) -> bool {
    matches!(kind.finished(object), Ok(Some(_)))
}

/// What is to be done with `object`.
pub(super) fn todo(kind: &CompiledKind, object: &Value, queued: &Queued) -> Todo {
    let Ok(true) = kind.suspended(object) else {
        return Todo::Nothing;
    };
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let of = |map: &str, key: &str| {
        let map = object.pointer(&format!("/metadata/{map}"));
        map.and_then(|map| map.get(key)).and_then(Value::as_str)
    };
    let mark = HeldMark::read(of("annotations", HELD_ANNOTATION));
    let uid = text("/metadata/uid").unwrap_or_default();
    // A label that is an alias is not known here, but its Workload is.
    let is_queued = of("labels", QUEUE_NAME_LABEL).is_some() || queued.all.contains(uid);
    let gates = gates::read(&gates::gate_annotations(object));
    match Suspension::of(true, mark) {
        Suspension::None => return Todo::Nothing,
        Suspension::AtCreation if !is_queued && !gates.is_held() => return Todo::Nothing,
        Suspension::ByUser => return Todo::Leave(Why::ByUser),
        Suspension::AtCreation | Suspension::BySluice => {}
    }
    if gates.is_held() {
        let names = gates.names().map(|gate| gate.as_str().to_owned());
        return Todo::Leave(Why::Gates(names.collect()));
    }
    if queued.inactive.contains(uid) {
        return Todo::Leave(Why::Inactive);
    }
    let Some(path) = kind.suspend_path() else {
        return Todo::Nothing;
    };
    let mut patch = json!({"metadata": {
        "uid": uid,
        "resourceVersion": text("/metadata/resourceVersion"),
        "annotations": {HELD_ANNOTATION: HeldMark::Released.value()},
    }});
    path.merge_into(&mut patch, json!(false));
    Todo::Start(patch)
}

/// The patch that takes Sluice's gate out of the pod templates of `object`; none if it is in none.
pub(super) fn ungate(kind: &CompiledKind, object: &Value) -> Option<Patch> {
    let patch = kind.ungate_templates_patch(object);
    (!patch.is_empty()).then_some(patch)
}

/// The gates of a pod. Sluice's may have the name of an alias, which is then the annotation by which the pod asked for it.
pub(super) fn pod_gates(pod: &Value) -> PodGates {
    let gates = pod.pointer("/spec/schedulingGates");
    let gates = gates.and_then(Value::as_array).into_iter().flatten();
    let names = gates.filter_map(|gate| gate.get("name")?.as_str());
    let annotations = pod.pointer("/metadata/annotations");
    let is_ours = |name: &&str| {
        let asked = annotations.and_then(|annotations| annotations.get(*name));
        *name == QUEUE_GATE || asked.and_then(Value::as_str) == Some("true")
    };
    let (ours, others): (Vec<&str>, Vec<&str>) = names.partition(is_ours);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    PodGates {
        ours: owned(ours),
        others: owned(others),
    }
}

#[cfg(test)]
mod tests;
