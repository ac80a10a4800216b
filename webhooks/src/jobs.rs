//! The rules for objects of a managed kind, in the order in which a user meets them: gates, queue
//! label, who lets the job go, how it may change once it runs.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;
use sluice_crds::{HELD_ANNOTATION, RELEASED_ANNOTATION};
use sluice_kinds::CompiledKind;
use sluice_kinds::gates::{self, GateState};
use sluice_kinds::problem::Problem;
use sluice_kinds::requests::PodDefaults;

use crate::growth;
use crate::metadata::{annotation, controller, gate_annotations};
use crate::policy::Policy;
use crate::queue_label::{self, QueueLabel, Running, queue_of};
use crate::request::Request;
use crate::review::Edit;
use crate::unsuspend;

/// The patch that holds an object at its creation; empty if nothing holds it.
pub(crate) fn hold(request: &Request, object: &Value, policy: &Policy) -> Vec<PatchOperation> {
    match policy.kind(&request.kind.group, &request.kind.kind) {
        Some(kind) if reason_to_hold(object, policy).is_some() => {
            let mut patch = kind.hold_patch(object).0;
            patch.extend(mark_held(object, policy));
            patch
        }
        Some(_) | None => Vec::new(),
    }
}

/// Marks an object that a gate holds and that names no queue, so that the controller knows to start
/// it even if the last gate goes while no controller runs.
fn mark_held(object: &Value, policy: &Policy) -> Option<PatchOperation> {
    let is_gated = !gate_annotations(object).is_empty();
    let is_queued = queue_of(object, policy.queue_labels()).is_some();
    if !is_gated || is_queued || annotation(object, HELD_ANNOTATION).is_some() {
        return None;
    }
    Some(PatchOperation::Add(AddOperation {
        path: PointerBuf::from_tokens(["metadata", "annotations", HELD_ANNOTATION]),
        value: "true".into(),
    }))
}

/// What is wrong with creating or editing an object.
pub(crate) fn validate(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    let gates = gate_annotations(edit.new);
    let mut problems = match edit.old {
        None => gates::check_create(&gates),
        Some(old) => gates::check_update(&gate_annotations(old), &gates),
    };
    problems.extend(queue_label::check_value(
        edit.new,
        edit.old,
        policy.queue_labels(),
    ));
    if !policy.is_sluice(&request.user_info.username) {
        problems.extend(check_released(edit));
    }
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    match (kind, edit.old) {
        (Some(kind), None) if queue_of(edit.new, policy.queue_labels()).is_some() => {
            // What can't be counted could never be admitted: better told now than by an event.
            let counted = kind.pod_sets(edit.new, &PodDefaults::default());
            problems.extend(counted.err().unwrap_or_default());
        }
        (Some(kind), Some(old)) => {
            let change = Change {
                old,
                new: edit.new,
                kind,
                policy,
            };
            problems.extend(change.problems(policy.is_sluice(&request.user_info.username)));
        }
        (None, None) if problems.is_empty() => {
            problems.extend(check_is_managed(request, edit.new, policy));
        }
        (Some(_), None) | (None, _) => {}
    }
    problems
}

/// The mark of an object that was let go switches its gates off: nobody but Sluice sets it.
fn check_released(edit: &Edit<'_>) -> Option<Problem> {
    let new = annotation(edit.new, RELEASED_ANNOTATION)?;
    let old = edit
        .old
        .and_then(|old| annotation(old, RELEASED_ANNOTATION));
    let field = gates::field_of(RELEASED_ANNOTATION);
    (old != Some(new)).then(|| Problem::forbidden(field, "is set by Sluice alone"))
}

/// The field for whose sake an object is held at its creation.
///
/// A queue label on the child of a managed kind holds nothing: it came down from its owner, and it
/// is the owner that is queued. A gate holds whatever it stands on. That the owner exists can't be
/// seen from here; the controller looks it up by UID and holds the object if it does not.
fn reason_to_hold(object: &Value, policy: &Policy) -> Option<String> {
    if let Some(key) = gate_annotations(object).keys().next() {
        return Some(gates::field_of(key));
    }
    let label = queue_of(object, policy.queue_labels())?;
    (!is_child(object, policy)).then(|| label.field())
}

/// Whether a controller of a managed kind owns `object`.
fn is_child(object: &Value, policy: &Policy) -> bool {
    controller(object).is_some_and(|(group, kind)| policy.kind(group, kind).is_some())
}

/// An object that asks to be held and can't be must not start in silence.
fn check_is_managed(request: &Request, object: &Value, policy: &Policy) -> Option<Problem> {
    let field = reason_to_hold(object, policy)?;
    let detail = format!(
        "no JobKind declares {} of API group {:?}, so Sluice can't hold it",
        request.kind.kind, request.kind.group
    );
    Some(Problem::forbidden(field, detail))
}

/// An edit of an object of a managed kind.
struct Change<'a> {
    old: &'a Value,
    new: &'a Value,
    kind: &'a CompiledKind,
    policy: &'a Policy,
}

impl Change<'_> {
    fn problems(&self, by_sluice: bool) -> Vec<Problem> {
        // A suspend field that could not be read before blocks no edit.
        let Ok(was_suspended) = self.kind.suspended(self.old) else {
            return Vec::new();
        };
        let is_suspended = match self.kind.suspended(self.new) {
            Ok(is_suspended) => is_suspended,
            Err(problem) => return vec![problem],
        };
        let old_queue = queue_of(self.old, self.policy.queue_labels());
        let new_queue = queue_of(self.new, self.policy.queue_labels());
        match (was_suspended, is_suspended) {
            (true, true) => Vec::new(),
            (true, false) if by_sluice => Vec::new(),
            (true, false) => self.started_by_hand(new_queue).into_iter().collect(),
            (false, true) => queue_label::check_change(old_queue, new_queue, Running::Stopping)
                .into_iter()
                .collect(),
            (false, false) => {
                let mut problems: Vec<_> =
                    queue_label::check_change(old_queue, new_queue, Running::Still)
                        .into_iter()
                        .collect();
                if old_queue.is_some() && !by_sluice && !is_child(self.new, self.policy) {
                    problems.extend(growth::check(self.old, self.new, self.kind));
                }
                problems
            }
        }
    }

    fn started_by_hand(&self, queue: Option<QueueLabel<'_>>) -> Option<Problem> {
        let gates = gates::read(&gate_annotations(self.new));
        let queue = queue.filter(|_| !is_child(self.new, self.policy));
        if gates == GateState::None && queue.is_none() {
            return None;
        }
        unsuspend::check(&self.kind.suspend_path().field(), &gates, queue)
    }
}
