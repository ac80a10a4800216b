//! What an object waits for, and the patch that starts it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::Patch;
use serde_json::{Map, Value, json};
use sluice_crds::{
    ConditionType, DEACTIVATED_BY_ANNOTATION, HELD_ANNOTATION, POD_GROUP_LABEL, QUEUE_NAME_LABEL,
};
use sluice_engine::PendingReason;
use sluice_kinds::gates::{self, Gate, GateState, StillHeld};
use sluice_kinds::metadata::{annotation_text, label};
use sluice_kinds::pod::PodMode;
use sluice_kinds::view::QueueLabels;
use sluice_kinds::{CompiledKind, HeldMark, PodView, QueueGates, Suspension};

/// The gates of a pod, by whose they are.
pub(super) struct PodGates {
    /// Those that nobody lifts any more: Sluice's, and what stands for gates that were lifted.
    pub(super) ours: Vec<String>,
    /// The others.
    pub(super) others: Vec<String>,
}

/// Why an object stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// These gates of others hold it.
    Gates(Vec<String>),
    /// A gate annotation names no gate, and holds it for that.
    BadGates,
    /// It was taken out of its queue.
    Inactive,
    /// A group of the pods that it makes was.
    InactiveGroup,
    /// This gate has deactivated it, as it was not lifted in time.
    Deactivated(String),
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

/// What Workloads say of their objects, by the UIDs of these; and of groups of pods, which are no objects.
#[derive(Debug, Default)]
pub(super) struct Queued {
    /// All that are queued, by whatever label.
    all: BTreeSet<String>,
    /// Those that were taken out of their queues.
    inactive: BTreeSet<String>,
    /// The namespaces of these.
    inactive_in: BTreeSet<String>,
    /// The groups of pods that were, by namespace and name.
    inactive_groups: BTreeSet<(String, String)>,
    /// What makes the pods of these groups.
    makers: BTreeSet<String>,
    /// What those wait for that wait for something else than quota, in the words of their Workloads.
    misfits: BTreeMap<String, String>,
}

/// The reasons of Workloads that are queued in order, and wait for quota.
const FOR_QUOTA: [PendingReason; 5] = [
    PendingReason::WaitingForQuota,
    PendingReason::WaitingForPreemptedWorkloads,
    PendingReason::PendingEvaluation,
    PendingReason::BackingOff,
    PendingReason::QueueFull,
];

impl Queued {
    pub(super) fn by(workloads: &[Value]) -> Self {
        let mut queued = Self::default();
        for workload in workloads {
            let is_inactive = workload.pointer("/spec/active") == Some(&Value::Bool(false));
            if is_inactive && let Some(group) = label(workload, POD_GROUP_LABEL) {
                let group = (namespace(workload).to_owned(), group.to_owned());
                queued.inactive_groups.insert(group);
            }
            let uid = workload.pointer("/metadata/ownerReferences/0/uid");
            let Some(uid) = uid.and_then(Value::as_str) else {
                continue;
            };
            queued.all.insert(uid.to_owned());
            if is_inactive {
                queued.inactive.insert(uid.to_owned());
                queued.inactive_in.insert(namespace(workload).to_owned());
            }
            if let Some(message) = misfit(workload) {
                queued.misfits.insert(uid.to_owned(), message.to_owned());
            }
        }
        queued
    }

    /// Whether the object with this UID was taken out of its queue.
    pub(super) fn is_inactive(&self, uid: &str) -> bool {
        self.inactive.contains(uid)
    }

    /// Whether any object of this namespace was.
    pub(super) fn is_any_inactive_in(&self, namespace: &str) -> bool {
        self.inactive_in.contains(namespace)
    }

    /// Whether any group of pods was.
    pub(super) fn is_any_group_inactive(&self) -> bool {
        !self.inactive_groups.is_empty()
    }

    /// Whether the group was that `pod` is admitted with.
    pub(super) fn is_group_inactive(&self, pod: &Value) -> bool {
        self.is_any_group_inactive()
            && group_of(pod).is_some_and(|group| {
                let group = (namespace(pod).to_owned(), group);
                self.inactive_groups.contains(&group)
            })
    }

    /// Notes what makes the pods of the groups that were, by UID.
    pub(super) fn keep_makers(&mut self, makers: BTreeSet<String>) {
        self.makers = makers;
    }

    /// Why the pods of the object with this UID, and their template, keep Sluice's gate; none if they lose it.
    pub(super) fn keeps_gate(&self, uid: &str) -> Option<Why> {
        if self.is_inactive(uid) {
            Some(Why::Inactive)
        } else if self.makers.contains(uid) {
            Some(Why::InactiveGroup)
        } else {
            None
        }
    }

    /// What `object` was waiting for that Sluice would have started.
    pub(super) fn awaited(&self, object: &Value) -> String {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        let uid = uid.unwrap_or_default();
        if gates::read(&gates::gate_annotations(object)).require_queue() {
            return "its namespace requires a queue, and it names none".to_owned();
        }
        match self.misfits.get(uid) {
            Some(message) => format!("it could not be admitted: {message}"),
            None if self.all.contains(uid) => "it was waiting for quota".to_owned(),
            None => "it was not queued yet".to_owned(),
        }
    }
}

fn namespace(object: &Value) -> &str {
    let namespace = object.pointer("/metadata/namespace");
    namespace.and_then(Value::as_str).unwrap_or_default()
}

/// The name of the group that a pod is admitted with, if it is a member of one.
fn group_of(pod: &Value) -> Option<String> {
    // It may have asked to be queued by an alias of the queue gate, which is not known here but is one of its gates.
    let names = gate_names(pod).filter(|name| annotation_text(pod, name) == Some("true"));
    let gates = QueueGates::new(names.map(str::to_owned));
    match PodView::read(pod, &QueueLabels::default(), &gates).mode {
        PodMode::Group(Ok(group)) => Some(group.name.to_string()),
        PodMode::Group(Err(_)) | PodMode::Single | PodMode::Child => None,
    }
}

/// Why a Workload waits for something else than quota.
fn misfit(workload: &Value) -> Option<&str> {
    let conditions = workload.pointer("/status/conditions")?.as_array()?;
    let of = |condition: &&Value, field: &str, expected: &str| {
        condition.get(field).and_then(Value::as_str) == Some(expected)
    };
    let reserved = conditions
        .iter()
        .find(|condition| of(condition, "type", ConditionType::QuotaReserved.name()))
        .filter(|condition| of(condition, "status", "False"))?;
    let reason = reserved.get("reason")?.as_str()?;
    let message = reserved.get("message")?.as_str()?;
    let is_for_quota = FOR_QUOTA.iter().any(|known| known.as_str() == reason);
    (!is_for_quota).then_some(message)
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
    let annotations = gates::gate_annotations(object);
    let gates = gates::read(&annotations);
    // It stays so when its gates are gone.
    let deactivated_by = of("annotations", DEACTIVATED_BY_ANNOTATION);
    match Suspension::of(true, mark) {
        Suspension::None => return Todo::Nothing,
        Suspension::AtCreation if !is_queued && !gates.is_held() && deactivated_by.is_none() => {
            return Todo::Nothing;
        }
        Suspension::ByUser => return Todo::Leave(Why::ByUser),
        Suspension::AtCreation | Suspension::BySluice => {}
    }
    if let GateState::Invalid(_) = gates {
        return Todo::Leave(Why::BadGates);
    }
    let others = gates.names().filter(|gate| !gate.is_queue_required());
    let others: Vec<String> = others.map(|gate| gate.as_str().to_owned()).collect();
    if !others.is_empty() {
        return Todo::Leave(Why::Gates(others));
    }
    if let Some(gate) = deactivated_by {
        return Todo::Leave(Why::Deactivated(gate.to_owned()));
    }
    if queued.is_inactive(uid) {
        return Todo::Leave(Why::Inactive);
    }
    let Some(path) = kind.suspend_path() else {
        return Todo::Nothing;
    };
    // The gate that is left is Sluice's: another Sluice must not hold what has run meanwhile.
    let changed = gates::without(&annotations, &Gate::queue_required());
    let mut annotations: Map<String, Value> = changed
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    annotations.insert(
        HELD_ANNOTATION.to_owned(),
        json!(HeldMark::Released.value()),
    );
    let mut patch = json!({"metadata": {
        "uid": uid,
        "resourceVersion": text("/metadata/resourceVersion"),
        "annotations": annotations,
    }});
    path.merge_into(&mut patch, json!(false));
    Todo::Start(patch)
}

/// The patch that takes the gates out of the pod templates of `object` that nobody lifts any more; none if there are none.
pub(super) fn ungate(kind: &CompiledKind, object: &Value) -> Option<Patch> {
    let patch = kind.ungate_templates_patch(object);
    (!patch.is_empty()).then_some(patch)
}

/// The gates of a pod, of which `held` says what holds it without Sluice, too.
pub(super) fn pod_gates(pod: &Value, held: &StillHeld) -> PodGates {
    let ours = held.left_behind(pod);
    let others = gate_names(pod).filter(|name| !ours.contains(name));
    let others = others.map(str::to_owned).collect();
    PodGates {
        others,
        ours: ours.into_iter().map(str::to_owned).collect(),
    }
}

fn gate_names(pod: &Value) -> impl Iterator<Item = &str> {
    let gates = pod.pointer("/spec/schedulingGates");
    let gates = gates.and_then(Value::as_array).into_iter().flatten();
    gates.filter_map(|gate| gate.get("name")?.as_str())
}

/// Whether a gate of a pod stands for one that the object may have lost to which the pod belongs.
pub(super) fn depends_on_owner(pod: &Value) -> bool {
    let listed: BTreeSet<&str> = gates::propagated(pod).collect();
    let others = pod_gates(pod, &StillHeld::All).others;
    others.iter().any(|gate| listed.contains(gate.as_str()))
}

#[cfg(test)]
mod tests;
