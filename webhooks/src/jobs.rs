//! The rules for objects of a managed kind, in the order in which a user meets them: gates, queue
//! label, who lets the job go, how it may change once it runs.

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_crds::{ADMISSION_ANNOTATION, RELEASED_ANNOTATION};
use sluice_kinds::gates;
use sluice_kinds::hold::admission_mode;
use sluice_kinds::marks::{BY_SLUICE_ALONE, Marking};
use sluice_kinds::metadata::{
    annotation, annotation_text, controller, controller_uid, group_and_kind,
};
use sluice_kinds::patch::Waiting;
use sluice_kinds::problem::Problem;
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::bad_min_counts;
use sluice_kinds::{CompiledKind, Hold};

use crate::makers::{Author, is_made_by_controller};
use crate::policy::Policy;
use crate::queue_label::{self, queue_of};
use crate::request::Request;
use crate::review::Edit;

mod change;
mod pause;

use change::Change;

/// The patch that holds an object: at its creation, at each edit of one that its templates hold and whose
/// templates can be edited, and when its user resumes it. Empty if nothing holds it.
pub(crate) fn hold(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<PatchOperation> {
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    let Some(kind) = kind.filter(|_| reason_to_hold(edit.new, policy).is_some()) else {
        return Vec::new();
    };
    if let (Some(old), Some(_)) = (edit.old, kind.suspend_path()) {
        return pause::patch(kind, hold_of(kind, edit), (old, edit.new), policy);
    }
    let waiting = |hold, queue| Waiting {
        hold,
        old: edit.old,
        queue,
        queue_labels: policy.queue_labels(),
    };
    match hold_of(kind, edit) {
        Hold::Suspend => {
            let mut patch = kind.hold_patch(edit.new).0;
            patch.extend(kind.gate_patch(edit.new, waiting(Hold::Suspend, None)).0);
            patch
        }
        hold @ (Hold::Pods | Hold::EachPod) => {
            let mut patch = match edit.old {
                None => suspend_gated(kind, edit.new),
                Some(_) => Vec::new(),
            };
            let queue = queue_of(edit.new, policy.queue_labels())
                .filter(|_| !is_child(edit.new, policy))
                .map(|label| (label.key, label.queue));
            patch.extend(kind.gate_patch(edit.new, waiting(hold, queue)).0);
            patch
        }
    }
}

/// Suspends an object whose pods say nothing of its gates.
fn suspend_gated(kind: &CompiledKind, object: &Value) -> Vec<PatchOperation> {
    if !kind.is_suspended_by_gates() || gates::gate_annotations(object).is_empty() {
        return Vec::new();
    }
    kind.hold_patch(object).0
}

/// Whether an object that is created has to fit its JobKind.
fn must_be_read(kind: &CompiledKind, object: &Value, policy: &Policy) -> bool {
    let is_held = reason_to_hold(object, policy).is_some();
    queue_of(object, policy.queue_labels()).is_some() || is_held && kind.suspend_path().is_none()
}

/// Whether an object that is created may be released with fewer pods than it has.
fn may_get_fewer(kind: &CompiledKind, edit: &Edit<'_>, policy: &Policy) -> bool {
    hold_of(kind, edit) == Hold::Suspend && !is_child(edit.new, policy)
}

/// How the object is to be held. One that is held by its templates stays so in the same way.
fn hold_of(kind: &CompiledKind, edit: &Edit<'_>) -> Hold {
    match edit.old {
        Some(old) if kind.suspend_path().is_some() || kind.is_gated(old) => {
            kind.hold(old, annotation_text(old, ADMISSION_ANNOTATION))
        }
        Some(_) | None => {
            kind.hold_at_creation(edit.new, annotation_text(edit.new, ADMISSION_ANNOTATION))
        }
    }
}

/// What is wrong with creating or editing an object.
pub(crate) fn validate(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
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
    // On a child it is a copy of its owner's, which the owner's controller made, and says nothing.
    if !policy.is_sluice(&request.user_info.username) && !is_child(edit.new, policy) {
        problems.extend(check_released(edit));
    }
    problems.extend(check_owner(request, edit, policy));
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    problems.extend(check_admission(edit, kind, policy));
    if let Some(kind) = kind {
        problems.extend(check_templates(kind, edit, policy));
        problems.extend(check_will_run(kind, edit, policy));
        if !policy.is_sluice(&request.user_info.username) {
            problems.extend(check_marks(kind, edit, policy));
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
            };
            problems.extend(change.problems(policy.is_sluice(&request.user_info.username)));
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
    let stored = read(old);
    let mut problems = read(new);
    problems.retain(|problem| !stored.contains(problem));
    problems
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
            "may only be set at creation: it says how the object is held",
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
    let mut problems = kind.check_whole(edit.new);
    problems.retain(|problem| !stored.as_ref().is_some_and(|old| old.contains(problem)));
    problems
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
    let mut problems = kind.refusals(edit.new, hold);
    problems.retain(|problem| !stored.as_ref().is_some_and(|old| old.contains(problem)));
    problems
}

/// What Sluice alone writes into pod templates. What came down into those of a child was written
/// there by its owner's controller.
fn check_marks(kind: &CompiledKind, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    let mut problems = kind.check_no_record(edit.old, edit.new);
    let is_held = reason_to_hold(edit.new, policy).is_some();
    if is_held || !is_child(edit.new, policy) {
        problems.extend(kind.check_marks(Marking {
            old: edit.old,
            new: edit.new,
            hold: is_held.then(|| hold_of(kind, edit)),
        }));
    }
    problems
}

/// Who says that his object belongs to one that is queued gets it past the queue: only a controller
/// may say so.
fn check_owner(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<Problem> {
    let label = queue_of(edit.new, policy.queue_labels())?;
    let names_owner = controller_uid(edit.new);
    let is_known = |old| is_child(old, policy) && controller_uid(old) == names_owner;
    let is_new = is_child(edit.new, policy) && !edit.old.is_some_and(is_known);
    if !is_new || is_made_by_controller(edit.new, Author::of(request), policy) {
        return None;
    }
    let (_, owner) = controller(edit.new)?;
    let detail = format!(
        "what a {owner} makes is queued with it, and only its controller may name it as the owner; leave the owner out, or the label {}",
        label.key
    );
    Some(Problem::forbidden("metadata.ownerReferences", detail))
}

/// The mark of an object that was released switches its gates off: nobody but Sluice sets it.
fn check_released(edit: &Edit<'_>) -> Option<Problem> {
    let new = annotation(edit.new, RELEASED_ANNOTATION)?;
    let old = edit
        .old
        .and_then(|old| annotation(old, RELEASED_ANNOTATION));
    let field = gates::field_of(RELEASED_ANNOTATION);
    (old != Some(new)).then(|| Problem::forbidden(field, BY_SLUICE_ALONE))
}

/// The field for whose sake an object is held at its creation.
///
/// A queue label on the child of a managed kind holds nothing: it came down from its owner, and it
/// is the owner that is queued. A gate holds whatever it stands on, unless the pods of a child are born
/// behind it: it came down with the templates, and to hold them anew would overwrite whose they are.
/// That the owner exists can't be seen from here; the controller looks it up by UID and holds the object
/// if it does not.
fn reason_to_hold(object: &Value, policy: &Policy) -> Option<String> {
    let is_child = is_child(object, policy);
    if let Some(key) = gates::gate_annotations(object).keys().next() {
        let is_held = is_child && is_born_held(object, policy, false);
        return (!is_held).then(|| gates::field_of(key));
    }
    let label = queue_of(object, policy.queue_labels())?;
    (!is_child).then(|| label.field())
}

/// Whether a controller of a managed kind owns `object`, and one that makes objects of its kind.
fn is_child(object: &Value, policy: &Policy) -> bool {
    if is_made_for_pod(object, policy) {
        return true;
    }
    let made = group_and_kind(object);
    controller(object)
        .and_then(|(group, kind)| policy.kind(group, kind))
        .zip(made)
        .is_some_and(|(owner, (group, kind))| owner.makes(group, kind))
}

/// Whether a pod is the controller of `object`, some kind makes such objects, and its pods are born
/// behind all that holds it: LeaderWorkerSet makes a StatefulSet for each leader pod, and copies labels
/// and annotations there (kubernetes-sigs/lws, since v0.10). It is part of what the pod belongs to, which
/// the controller finds out; until then its pods wait anyway.
fn is_made_for_pod(object: &Value, policy: &Policy) -> bool {
    if controller(object) != Some(("", "Pod")) {
        return false;
    }
    let Some((group, name)) = group_and_kind(object) else {
        return false;
    };
    let is_queued = queue_of(object, policy.queue_labels()).is_some();
    policy.is_made(group, name) && is_born_held(object, policy, is_queued)
}

/// Whether the pods of `object` are born behind its gates, and behind the queue gate if it `is_queued`.
fn is_born_held(object: &Value, policy: &Policy, is_queued: bool) -> bool {
    let kind = group_and_kind(object).and_then(|(group, kind)| policy.kind(group, kind));
    kind.is_some_and(|kind| kind.is_born_held(object, is_queued))
}

/// An object that asks to be held and can't be must not start in silence.
pub(crate) fn check_is_managed(
    request: &Request,
    object: &Value,
    policy: &Policy,
) -> Option<Problem> {
    let field = reason_to_hold(object, policy)?;
    let detail = format!(
        "no JobKind declares {} of API group {:?}, so Sluice can't hold it",
        request.kind.kind, request.kind.group
    );
    Some(Problem::forbidden(field, detail))
}
