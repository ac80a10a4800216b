//! The rules for objects of a managed kind, in the order in which a user meets them: gates, queue
//! label, who lets the job go, how it may change once it runs.

use serde_json::Value;
use sluice_crds::{
    ADMISSION_ANNOTATION, DEACTIVATED_BY_ANNOTATION, EXPIRED_GATES_ANNOTATION,
    GATE_FAILURES_ANNOTATION, LIFTED_GATES_ANNOTATION, RELEASED_ANNOTATION,
};
use sluice_kinds::gates;
use sluice_kinds::hold::admission_mode;
use sluice_kinds::marks::{BY_SLUICE_ALONE, Marking};
use sluice_kinds::metadata::{annotation, annotation_text, controller, controller_uid};
use sluice_kinds::problem::{Problem, fill};
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::bad_min_counts;
use sluice_kinds::{CompiledKind, Hold};

use crate::admission::edit::{Edit, brought_in};
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::author::{Author, is_made_by_controller};
use crate::rules::jobs::change::{Change, EditedBy};
use crate::rules::jobs::reason_to_hold::{check_is_managed, hold_of, is_child, reason_to_hold};
use crate::rules::lifting::marks::is_own_record;
use crate::rules::pods::check_create::WOULD_RUN;
use crate::rules::queue_label::{self, queue_of};

/// Whether an object that is created has to fit its JobKind.
fn must_be_read(kind: &CompiledKind, object: &Value, policy: &Policy) -> bool {
    let is_held = reason_to_hold(object, policy).is_some();
    queue_of(object, policy.queue_labels()).is_some() || is_held && kind.suspend_path().is_none()
}

/// Whether an object that is created may be released with fewer pods than it has.
fn may_get_fewer(kind: &CompiledKind, edit: &Edit<'_>, policy: &Policy) -> bool {
    hold_of(kind, edit) == Hold::Suspend && !is_child(edit.new, policy)
}

/// The rule for how an object is admitted, once it is held.
pub(crate) const ADMISSION_IS_SETTLED: &str =
    "may only be set at creation: it determines how the object is held";
/// The rule for the owner of an object in a queue; with the owner's kind and the label that names the queue.
pub(crate) const NAMES_OWNER: &str = "children of a {} are queued with it, and only its controller may name it as the owner; remove the owner reference, or the label {}";
/// The rule for the owner of an object that is in no queue, and that gates were lifted from; with the owner's kind.
pub(crate) const LEAVES_GATES: &str = "children of a {} are gated with it, and only its controller may name it as the owner; remove the owner reference";

/// What is wrong with creating or editing an object.
pub(crate) fn validate(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    let by = if policy.is_sluice(&request.user_info.username) {
        EditedBy::Sluice
    } else {
        EditedBy::Other
    };
    let gates = gates::gate_annotations(edit.new);
    let mut problems = match edit.old {
        None => gates::check_create(&gates),
        Some(old) => gates::check_update(&gates::gate_annotations(old), &gates),
    };
    problems.extend(queue_label::check_value(
        edit.new,
        edit.old,
        policy.queue_labels(),
    ));
    if by == EditedBy::Other {
        let is_copied = is_child(edit.new, policy)
            && is_made_by_controller(edit.new, Author::of(request), policy);
        problems.extend(check_records(request, edit, is_copied));
    }
    problems.extend(check_owner(request, edit, policy));
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    problems.extend(check_admission(edit, kind, policy));
    if let Some(kind) = kind {
        problems.extend(check_templates(kind, edit, policy));
        problems.extend(check_unbound(kind, edit, policy));
        problems.extend(check_will_run(kind, edit, policy));
        if by == EditedBy::Other {
            problems.extend(check_marks(kind, request, edit, policy));
        }
    }
    match (kind, edit.old) {
        (Some(kind), None) if must_be_read(kind, edit.new, policy) => {
            // What can't be counted could never be admitted, and pods whose templates can't be found
            // can't be held: better told now than by an event. Claims for devices are passed over: what
            // they come to is not known here.
            let counted = kind.pod_sets(edit.new, &PodDefaults::default());
            problems.extend(match counted {
                Err(problems) => problems,
                Ok(sets) if may_get_fewer(kind, edit, policy) => bad_min_counts(&sets),
                Ok(_) => Vec::new(),
            });
        }
        (Some(kind), Some(old)) => {
            let change = Change {
                old,
                new: edit.new,
                kind,
                policy,
                is_by_maker: is_made_by_controller(edit.new, Author::of(request), policy),
            };
            problems.extend(change.problems(by));
            problems.extend(check_can_be_gated(kind, old, edit.new, policy));
        }
        (None, None) if problems.is_empty() => {
            problems.extend(check_is_managed(request, edit.new, policy));
        }
        (Some(_), None) | (None, _) => {}
    }
    problems
}

/// What an edit brings in that can't be read, of an object whose templates hold it and can be edited:
/// pods of such a template would run.
fn check_can_be_gated(
    kind: &CompiledKind,
    old: &Value,
    new: &Value,
    policy: &Policy,
) -> Vec<Problem> {
    if kind.suspend_path().is_some() || reason_to_hold(new, policy).is_none() {
        return Vec::new();
    }
    let read = |object| {
        let sets = kind.pod_sets(object, &PodDefaults::default());
        sets.err().unwrap_or_default()
    };
    brought_in(read(new), Some(read(old)))
}

/// The annotation that says how an object is admitted: one of the known modes, and settled once the
/// object is held. An object of a kind whose templates can be edited is held from when it joins.
fn check_admission(
    edit: &Edit<'_>,
    kind: Option<&CompiledKind>,
    policy: &Policy,
) -> Option<Problem> {
    let new = annotation_text(edit.new, ADMISSION_ANNOTATION);
    let settled = edit.old.filter(|old| {
        kind.is_none_or(|kind| kind.suspend_path().is_some())
            || reason_to_hold(old, policy).is_some()
    });
    match settled {
        Some(old) if annotation_text(old, ADMISSION_ANNOTATION) != new => Some(Problem::forbidden(
            gates::field_of(ADMISSION_ANNOTATION),
            ADMISSION_IS_SETTLED,
        )),
        Some(_) => None,
        None => match admission_mode(new?) {
            Ok(mode) => kind?.check_mode(mode),
            Err(problem) => Some(problem),
        },
    }
}

/// What is wrong with the pod templates that the edit brings in: those of an object that is queued
/// as a whole may not ask for each pod to be.
fn check_templates(kind: &CompiledKind, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    let is_queued =
        queue_of(edit.new, policy.queue_labels()).is_some() && !is_child(edit.new, policy);
    if !is_queued || hold_of(kind, edit) == Hold::EachPod {
        return Vec::new();
    }
    let stored = edit.old.map(|old| kind.check_whole(old));
    brought_in(kind.check_whole(edit.new), stored)
}

/// The nodes that an edit gives to pods behind gates: the API server takes no pod that has both, so the kind's controller
/// would try in vain for ever. An object that waits suspended has no pods behind gates.
fn check_unbound(kind: &CompiledKind, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    let is_held = |object: &&Value| reason_to_hold(object, policy).is_some();
    if !is_held(&edit.new) || hold_of(kind, edit) == Hold::Suspend {
        return Vec::new();
    }
    let stored = edit.old.filter(is_held);
    let stored = stored.map(|old| kind.fields_of_nodes(old));
    let fields = brought_in(kind.fields_of_nodes(edit.new), stored);
    let fields = fields.into_iter();
    fields
        .map(|field| Problem::forbidden(field, WOULD_RUN))
        .collect()
}

/// What an edit brings in that the kind's controller would never run (`refuse` of the JobKind), of an
/// object that Sluice holds: it would wait for nothing, or hold quota without pods.
fn check_will_run(kind: &CompiledKind, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    if reason_to_hold(edit.new, policy).is_none() {
        return Vec::new();
    }
    let hold = hold_of(kind, edit);
    let was_held = |old: &&Value| reason_to_hold(old, policy).is_some();
    let stored = edit.old.filter(was_held);
    let stored = stored.map(|old| kind.refusals(old, hold));
    brought_in(kind.refusals(edit.new, hold), stored)
}

/// What Sluice alone writes into pod templates. What came down into those of a child was written
/// there by its owner's controller, and nobody else changes it.
fn check_marks(
    kind: &CompiledKind,
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Vec<Problem> {
    let mut problems = kind.check_group_marks(edit.old, edit.new);
    problems.extend(kind.check_no_record(edit.old, edit.new));
    let is_held = reason_to_hold(edit.new, policy).is_some();
    if is_held || !is_child(edit.new, policy) {
        let is_queued = queue_of(edit.new, policy.queue_labels()).is_some();
        problems.extend(kind.check_marks(Marking {
            old: edit.old,
            new: edit.new,
            hold: is_held.then(|| hold_of(kind, edit)),
            is_queued: is_queued && !is_child(edit.new, policy),
        }));
    } else if let Some(old) = edit.old
        && !is_made_by_controller(edit.new, Author::of(request), policy)
    {
        problems.extend(kind.check_marks_stay(old, edit.new));
    }
    problems
}

/// Who says that his object belongs to one that is queued gets it past the queue: only a controller
/// may say so. Nor may one that has passed its gates leave its place among those that its gates count.
fn check_owner(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<Problem> {
    let label = queue_of(edit.new, policy.queue_labels());
    if label.is_none() && !has_passed_gates(edit) {
        return None;
    }
    let names_owner = controller_uid(edit.new);
    let is_known = |old| is_child(old, policy) && controller_uid(old) == names_owner;
    let is_new = is_child(edit.new, policy) && !edit.old.is_some_and(is_known);
    if !is_new || is_made_by_controller(edit.new, Author::of(request), policy) {
        return None;
    }
    let (_, owner) = controller(edit.new)?;
    let detail = match label {
        Some(label) => fill(NAMES_OWNER, &[owner, label.key]),
        None => fill(LEAVES_GATES, &[owner]),
    };
    Some(Problem::forbidden("metadata.ownerReferences", detail))
}

/// Whether gates were lifted from the object itself.
fn has_passed_gates(edit: &Edit<'_>) -> bool {
    names(annotation(edit.new, LIFTED_GATES_ANNOTATION), edit)
}

/// Whether a record names the object itself, by its UID.
fn names(record: Option<&Value>, edit: &Edit<'_>) -> bool {
    let uid = edit.uid();
    let record = record.and_then(Value::as_str);
    record
        .zip(uid)
        .is_some_and(|(record, uid)| record.contains(uid))
}

/// The mark of an object that was released switches its gates off, and what it keeps of its gates says whether it
/// passes one that counts: nobody but Sluice writes these. That it is deactivated may be taken back, and a lifted gate
/// is kept in the request that lifts it.
///
/// What the controller of its owner writes to a child `is_copied` from the owner, and says nothing, unless it names the
/// child itself.
fn check_records(request: &Request, edit: &Edit<'_>, is_copied: bool) -> Vec<Problem> {
    let old = |key| edit.old.and_then(|old| annotation(old, key));
    // Why an object was given gates is written at its creation.
    let failures = edit.old.map(|_| GATE_FAILURES_ANNOTATION);
    let set = [RELEASED_ANNOTATION, DEACTIVATED_BY_ANNOTATION];
    let set = set.into_iter().chain(failures).filter(|key| {
        let new = annotation(edit.new, key);
        !is_copied && new.is_some() && new != old(key)
    });
    let names_itself = |record| names(record, edit);
    let kept = [LIFTED_GATES_ANNOTATION, EXPIRED_GATES_ANNOTATION];
    let kept = kept.into_iter().filter(|key| {
        let (new, old) = (annotation(edit.new, key), old(key));
        let is_own = *key == LIFTED_GATES_ANNOTATION && is_own_record(request, edit);
        new != old && !is_own && (!is_copied || names_itself(new) || names_itself(old))
    });
    set.chain(kept)
        .map(|key| Problem::forbidden(gates::field_of(key), BY_SLUICE_ALONE))
        .collect()
}
