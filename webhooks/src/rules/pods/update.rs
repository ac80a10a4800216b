//! What may change on a pod that Sluice looks after. The record of its admission is on the pod
//! itself, so what decides about quota is Sluice's to write.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sluice_crds::{
    ADMITTED_ANNOTATION, DEACTIVATED_BY_ANNOTATION, EXPIRED_GATES_ANNOTATION,
    GATE_FAILURES_ANNOTATION, LIFTED_GATES_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL,
    POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION,
    POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION, RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_kinds::gates::{self, Gate};
use sluice_kinds::marks::{BY_SLUICE_ALONE, OF_OWNER, OF_POD, propagated_gate};
use sluice_kinds::metadata::{annotation, annotation_text, controller, controller_uid, label};
use sluice_kinds::pod::{GROUP_MARK_BYTES_MAX, PodGroup, PodMode, PodPhase, PodView};
use sluice_kinds::problem::{Problem, fill};
use sluice_kinds::view::LabelledQueue;

use crate::admission::edit::brought_in;
use crate::admission::policy::Policy;
use crate::rules::author::Author;
use crate::rules::lifting::marks::lifted_from;
use crate::rules::queue_label::{self, QueueLabel, queue_of};

const IMMUTABLE: &str = "is immutable";
/// The annotations that say what group a pod belongs to.
pub(crate) const GROUP_ANNOTATIONS: [&str; 3] = [
    POD_GROUP_TOTAL_ANNOTATION,
    POD_GROUP_LABELS_ANNOTATION,
    POD_GROUP_TOTAL_FROM_ANNOTATION,
];
/// The rule for a controller that a pod gets later.
pub(crate) const ANOTHER_OWNER: &str =
    "only a controller may name another one as the controller of a pod that is in a queue";
/// The rule for a queue label that comes too late.
pub(crate) const LATE_QUEUE: &str = "may only be set at creation, when a pod gets its scheduling gates; delete the pod and create it again with the label";
/// The rule for the queue label of a pod that a controller made.
pub(crate) const QUEUE_OF_OWNER: &str = "comes from the pod template of the controller that made the pod, and only a controller may change it; set the label on that object when it is created";

/// The rules for the queue of a pod that is admitted.
pub(crate) const QUEUE_CHANGED: &str = "is immutable while the pod is admitted; delete the pod and create it again in the \
     other queue";
pub(crate) const QUEUE_REMOVED: &str = "may not be removed while the pod is admitted; delete the pod and create it again \
     without the label";
/// The rule for the queue gate; with the gate and the queue.
pub(crate) const QUEUE_GATE_REMOVED: &str =
    "the gate {} is removed by Sluice when {} admits the pod";
/// The rule for a gate of a pod that a gate has deactivated; with the gate.
pub(crate) const DEACTIVATED: &str = "the gate {} stays, as the pod is deactivated; remove the annotation sluice.dev/deactivated-by, and Sluice removes the gate";

/// What is wrong with an edit of a pod by somebody else than Sluice. That the record of lifted gates changes is right
/// where it `is_own_record`: what the mutating webhook keeps of the edit.
pub(super) fn problems(
    old: &Value,
    new: &Value,
    is_own_record: bool,
    policy: &Policy,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if label(old, MANAGED_LABEL) != label(new, MANAGED_LABEL) {
        problems.push(Problem::forbidden(
            label_field(MANAGED_LABEL),
            BY_SLUICE_ALONE,
        ));
    }
    let gate_problems = match controller(new) {
        None => gates::check_update(&gates::gate_annotations(old), &gates::gate_annotations(new)),
        Some(_) => Vec::new(),
    };
    if !is_managed(old) {
        problems.extend(gate_problems);
        problems.extend(check_forged(old, new));
        problems.extend(check_late_queue(old, new, policy));
        return problems;
    }
    let mut annotations = check_annotations(old, new, policy);
    if is_own_record {
        let record = gates::field_of(LIFTED_GATES_ANNOTATION);
        annotations.retain(|problem| problem.field != record);
    }
    problems.extend(annotations);
    problems.extend(check_group(old, new, policy));
    problems.extend(check_group_of_controller(old, new));
    problems.extend(check_queue_gate(old, new, policy));
    problems.extend(check_propagated(old, new));
    problems.extend(queue_label::check_value(
        new,
        Some(old),
        policy.queue_labels(),
    ));
    problems.extend(check_queue(old, new, policy));
    problems.extend(gate_problems);
    problems
}

/// A pod that Sluice does not look after yet may run in a queue: then it would be counted as this record says.
fn check_forged(old: &Value, new: &Value) -> Option<Problem> {
    let record = annotation(new, ADMITTED_ANNOTATION);
    let is_forged = record.is_some() && record != annotation(old, ADMITTED_ANNOTATION);
    is_forged.then(|| Problem::forbidden(gates::field_of(ADMITTED_ANNOTATION), BY_SLUICE_ALONE))
}

/// The annotations that say how the pod is held, and that it is admitted.
fn check_annotations(old: &Value, new: &Value, policy: &Policy) -> Vec<Problem> {
    let ours = [
        ADMITTED_ANNOTATION,
        PROPAGATED_GATES_ANNOTATION,
        POD_SET_ANNOTATION,
        LIFTED_GATES_ANNOTATION,
        EXPIRED_GATES_ANNOTATION,
        GATE_FAILURES_ANNOTATION,
    ];
    let fixed = policy.queue_gates().names();
    ours.into_iter()
        .map(|key| (key, BY_SLUICE_ALONE))
        .chain(fixed.map(|key| (key, IMMUTABLE)))
        .chain(GROUP_ANNOTATIONS.map(|key| (key, IMMUTABLE)))
        .filter(|(key, _)| annotation(old, key) != annotation(new, key))
        .map(|(key, rule)| Problem::forbidden(gates::field_of(key), rule))
        .collect()
}

/// What tells the group that the pod was made for by its controller: a pod that leaves it would free a place
/// for another one, and run on.
fn check_group_of_controller(old: &Value, new: &Value) -> Vec<Problem> {
    let text = |key| annotation_text(old, key).unwrap_or_default();
    let labels = text(POD_GROUP_LABELS_ANNOTATION);
    // A longer value than any valid one: then all labels stay, as a policy could not look at so many.
    let is_too_long = GROUP_MARK_BYTES_MAX < labels.chars().count();
    let mut problems = if is_too_long {
        let problem = || Problem::forbidden("metadata.labels", IMMUTABLE);
        let is_changed = all_labels(old) != all_labels(new);
        is_changed.then(problem).into_iter().collect()
    } else {
        let changed = labels.split(',');
        let changed = changed.filter(|key| label(old, key) != label(new, key));
        let problems = changed.map(|key| Problem::forbidden(label_field(key), IMMUTABLE));
        problems.collect::<Vec<_>>()
    };
    let total = text(POD_GROUP_TOTAL_FROM_ANNOTATION);
    if annotation(old, total) != annotation(new, total) {
        problems.push(Problem::forbidden(gates::field_of(total), IMMUTABLE));
    }
    problems
}

/// The labels of the pod, if it has any.
fn all_labels(pod: &Value) -> Option<&Map<String, Value>> {
    let labels = pod.pointer("/metadata/labels")?.as_object()?;
    (!labels.is_empty()).then_some(labels)
}

/// The group that the pod belongs to. That it may be replaced can be taken back, or given.
fn check_group(old: &Value, new: &Value, policy: &Policy) -> Vec<Problem> {
    if label(old, POD_GROUP_LABEL) != label(new, POD_GROUP_LABEL) {
        return vec![Problem::forbidden(label_field(POD_GROUP_LABEL), IMMUTABLE)];
    }
    let retriable = |pod| annotation(pod, RETRIABLE_IN_GROUP_ANNOTATION);
    let mode = PodView::read(new, policy.queue_labels(), policy.queue_gates()).mode;
    let is_child = mode == PodMode::Child && controller(new).is_some();
    if is_child || retriable(old) == retriable(new) {
        return Vec::new();
    }
    let problems = |pod| PodGroup::read(pod).err().unwrap_or_default();
    brought_in(problems(new), Some(problems(old)))
}

fn check_queue_gate(old: &Value, new: &Value, policy: &Policy) -> Option<Problem> {
    let gate = gates::gates_removed(old, new)
        .into_iter()
        .find(|name| policy.queue_gates().contains(name))?;
    let queue = match policy.queue_labels().read(&sluice_kinds::metadata::labels(
        old,
        policy.queue_labels().keys(),
    )) {
        LabelledQueue::Named(queue) => format!("LocalQueue {queue:?}"),
        LabelledQueue::None | LabelledQueue::Invalid(_) => "its queue".to_owned(),
    };
    Some(Problem::forbidden(
        "spec.schedulingGates",
        fill(QUEUE_GATE_REMOVED, &[&format!("{gate:?}"), &queue]),
    ))
}

/// The gates that stand for gate annotations go when those do, and Sluice takes them off: a gate would
/// hold nothing that anybody who may write to pods can release. Those of a pod that has lost its controller stay.
fn check_propagated(old: &Value, new: &Value) -> Option<Problem> {
    let is_owned = controller(old).or(controller(new)).is_some();
    let named = |pod| gates::named(&gates::gate_annotations(pod));
    let (own, before) = (named(new), named(old));
    let is_among =
        |gates: &BTreeSet<Gate>, name: &str| gates.iter().any(|g| g.scheduling_gate() == name);
    // One that has lost its controller has more gates than were lifted from it or are its own: these came down.
    let lifted = lifted_from(old);
    let holder = |name: &str| {
        if is_owned || !(is_among(&before, name) || is_among(&lifted, name)) {
            Some(OF_OWNER)
        } else if is_among(&own, name) {
            Some(OF_POD)
        } else {
            None
        }
    };
    let listed: BTreeSet<&str> = gates::propagated(old).collect();
    let removed = gates::gates_removed(old, new).into_iter();
    let mut removed = removed.filter(|name| listed.contains(name));
    let field = "spec.schedulingGates";
    let is_deactivated = annotation(new, DEACTIVATED_BY_ANNOTATION).is_some();
    removed.find_map(|name| match holder(name) {
        Some(holder) => Some(propagated_gate(field, name, holder)),
        None if is_deactivated => {
            let rule = fill(DEACTIVATED, &[&format!("{name:?}")]);
            Some(Problem::forbidden(field, rule))
        }
        None => None,
    })
}

/// Of a pod that Sluice does not look after, and that nobody owns: it is in no queue, and got no gate.
fn check_late_queue(old: &Value, new: &Value, policy: &Policy) -> Option<Problem> {
    let joined = queue_of(new, policy.queue_labels())?;
    let was_queued = queue_of(old, policy.queue_labels()).is_some();
    let phase = PodView::read(old, policy.queue_labels(), policy.queue_gates()).phase;
    let is_late = !was_queued && controller(new).is_none() && phase == PodPhase::Live;
    is_late.then(|| Problem::forbidden(joined.field(), LATE_QUEUE))
}

/// Who moves a pod to another object of his has it counted with that, and its place is free for another one.
/// A pod that names no controller any more has usage of its own.
pub(super) fn check_owner(old: &Value, new: &Value, author: Author<'_>) -> Option<Problem> {
    let owner = controller_uid(new)?;
    let is_moved = is_managed(old) && controller_uid(old) != Some(owner);
    (is_moved && !author.is_controller())
        .then(|| Problem::forbidden("metadata.ownerReferences", ANOTHER_OWNER))
}

/// A pod that runs without Sluice's gate has usage in the queue that it names: whoever gives it another label takes
/// quota from others, or gives back what is in use.
pub(super) fn check_queue_of_owned(
    old: &Value,
    new: &Value,
    author: Author<'_>,
    policy: &Policy,
) -> Option<Problem> {
    let before = queue_of(old, policy.queue_labels());
    let after = queue_of(new, policy.queue_labels());
    let is_moved = before.map(|label| label.queue) != after.map(|label| label.queue);
    if !is_moved || controller(new).is_none() || author.is_controller() {
        return None;
    }
    let view = PodView::read(old, policy.queue_labels(), policy.queue_gates());
    let may_run = view.phase == PodPhase::Live && view.queue_gate.is_none();
    let field = after.or(before).as_ref().map(QueueLabel::field)?;
    (view.mode == PodMode::Child && may_run).then(|| Problem::forbidden(field, QUEUE_OF_OWNER))
}

/// The queue label of a pod that is queued by itself or with its group: free while it waits, fixed
/// while its quota is taken from there. Labels of other pods came down from their owners.
fn check_queue(old: &Value, new: &Value, policy: &Policy) -> Option<Problem> {
    let before = queue_of(old, policy.queue_labels());
    let after = queue_of(new, policy.queue_labels());
    if before.map(|label| label.queue) == after.map(|label| label.queue) {
        return None;
    }
    let view = PodView::read(old, policy.queue_labels(), policy.queue_gates());
    let field = after.or(before).as_ref().map(QueueLabel::field)?;
    let is_bare = controller(new).is_none();
    match view.mode {
        PodMode::Child if is_bare && view.phase == PodPhase::Live && view.queue_gate.is_none() => {
            Some(Problem::forbidden(field, LATE_QUEUE))
        }
        PodMode::Single | PodMode::Group(_) if has_usage(old, policy) => Some(Problem::forbidden(
            field,
            match (before, after) {
                (Some(_), None) => QUEUE_REMOVED,
                _ => QUEUE_CHANGED,
            },
        )),
        PodMode::Child | PodMode::Single | PodMode::Group(_) => None,
    }
}

fn label_field(key: &str) -> String {
    format!("metadata.labels[{key}]")
}

/// Whether Sluice looks after `pod`.
fn is_managed(pod: &Value) -> bool {
    label(pod, MANAGED_LABEL).is_some()
}

/// Whether quota is held for `pod`: it waits in no queue any more, has not ended, and was not held by
/// gates alone. One without a queue of its own says by its record or its pod set that it was admitted; the pods of an
/// object that gates alone held have a pod set, the list of these gates, and no record.
pub(super) fn has_usage(pod: &Value, policy: &Policy) -> bool {
    let view = PodView::read(pod, policy.queue_labels(), policy.queue_gates());
    let has = |key| annotation(pod, key).is_some();
    let is_queued = view.mode != PodMode::Child
        || queue_of(pod, policy.queue_labels()).is_some()
        || has(ADMITTED_ANNOTATION)
        || has(POD_SET_ANNOTATION) && gates::propagated(pod).next().is_none();
    is_managed(pod) && is_queued && view.queue_gate.is_none() && view.phase == PodPhase::Live
}
