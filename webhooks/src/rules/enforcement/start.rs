//! An edit by which an object without a queue begins to run where one is required: it is started, is marked so that Sluice
//! starts it, loses its last gate or the controller above it, or is no exception any more. It is judged as if it were new.
//! The mark, the gates and the controller can be written by the status too.

use serde_json::Value;
use sluice_kinds::HeldMark;
use sluice_kinds::gates::{self, Gate, gate_annotations};
use sluice_kinds::metadata::controller;
use sluice_kinds::problem::{Problem, fill};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::author::Author;
use crate::rules::enforcement::required::{REQUIRED, enforced, field, quoted, refused, required};
use crate::rules::lifting::lift::{Cause, NeededRight};
use crate::rules::lifting::marks::lifted_from;
use crate::rules::queue_label::queue_of;

/// What is told besides of a pod: it takes no queue later.
pub(crate) const NEW_POD: &str = "; delete the pod and create it again with the label";

/// How an object without a queue begins to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// Only its last gate is lifted.
    LastGateLifted,
    /// In any other way.
    Other,
}

/// Whether such an edit is refused. What runs already may be edited: it was there before its namespace required a
/// queue, or Sluice was not asked.
pub(crate) fn check(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    match beginning(request, edit, policy) {
        Ok(Some(Beginning::Other)) => Verdict::of(vec![problem(request)]),
        Ok(Some(Beginning::LastGateLifted) | None) => Verdict::allowed(),
        Err(verdict) => verdict,
    }
}

/// The right that an edit needs which lifts the last gate: whoever may lift the gate of objects without a queue may let
/// the object run without one. It may be an exception, as its author is one and the author of the edit is not.
///
/// # Errors
/// It can't be judged yet.
pub(crate) fn needed(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Result<Option<NeededRight>, Verdict> {
    // Asked again only where that is cheap: exceptions may have to be evaluated.
    let may_lift = edit.old.is_some_and(|old| loses_last_gate(request, old));
    if !may_lift || beginning(request, edit, policy)? != Some(Beginning::LastGateLifted) {
        return Ok(None);
    }
    let gate = Gate::queue_required();
    Ok(gate.object_name().map(|object| NeededRight {
        object,
        contact: None,
        gate,
        field: field(),
        cause: Cause::RunsWithoutQueue(problem(request)),
    }))
}

fn problem(request: &Request) -> Problem {
    if request.is_pod() {
        let detail = fill(REQUIRED, &[&quoted(&request.namespace)]) + NEW_POD;
        Problem::required(field(), detail)
    } else {
        refused(request)
    }
}

fn beginning(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Result<Option<Beginning>, Verdict> {
    let Some(old) = edit.old else {
        return Ok(None);
    };
    // The garbage collector takes references away. What is to leave its queue is judged by its label, what has gates by them.
    if Author::of(request).is_kubernetes()
        || queue_of(old, policy.queue_labels()).is_some()
        || !gate_annotations(edit.new).is_empty()
    {
        return Ok(None);
    }
    let is_lifted = loses_last_gate(request, old);
    if request.is_pod() && !is_lifted {
        return Ok(None);
    }
    let Some(required) = required(request, edit.new, policy)? else {
        return Ok(None);
    };
    if required.is_dry_run {
        return Ok(None);
    }
    // An object grows by its spec, which a subresource leaves as it is.
    let may_grow = request.sub_resource.is_empty();
    let begins_otherwise = !request.is_pod()
        && (is_started(request, old, edit.new, policy)
            || loses_controller(old, edit.new)
            || may_grow && enforced(request, old, policy)?.is_none());
    Ok(match (begins_otherwise, is_lifted) {
        (true, _) => Some(Beginning::Other),
        (false, true) => Some(Beginning::LastGateLifted),
        (false, false) => None,
    })
}

/// Whether the edit lifts the last gate of `old`: nothing else holds what names no queue. Where the gate that requires
/// one is or was among them, its owners decide, and have let it run without. The gates of a pod with a controller hold
/// nothing.
fn loses_last_gate(request: &Request, old: &Value) -> bool {
    let gates = gate_annotations(old);
    let is_owned_pod = request.is_pod() && controller(old).is_some();
    let is_left_to_owners = || {
        gates::read(&gates).require_queue() || lifted_from(old).contains(&Gate::queue_required())
    };
    !gates.is_empty() && !is_owned_pod && !is_left_to_owners()
}

/// Whether the edit starts the object, or says that Sluice has suspended it: Sluice starts it then, as no queue and no
/// gate holds it.
fn is_started(request: &Request, old: &Value, new: &Value, policy: &Policy) -> bool {
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    let kind = kind.filter(|kind| kind.suspend_path().is_some());
    let is_marked = |object| HeldMark::of_object(object) == Some(HeldMark::Held);
    kind.is_some_and(|kind| {
        kind.suspended(old) == Ok(true)
            && match kind.suspended(new) {
                Ok(true) => is_marked(new) && !is_marked(old),
                started => started == Ok(false),
            }
    })
}

fn loses_controller(old: &Value, new: &Value) -> bool {
    controller(old).is_some() && controller(new).is_none()
}
