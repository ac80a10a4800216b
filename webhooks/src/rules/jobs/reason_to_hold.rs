//! Which objects of a managed kind are held, and how; and which are children of others, and wait with those.

use serde_json::Value;
use sluice_crds::ADMISSION_ANNOTATION;
use sluice_kinds::metadata::{annotation_text, controller, group_and_kind};
use sluice_kinds::problem::Problem;
use sluice_kinds::{CompiledKind, Hold, gates};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::queue_label::queue_of;

/// How the object is to be held. One that is held by its templates stays so in the same way.
pub(crate) fn hold_of(kind: &CompiledKind, edit: &Edit<'_>) -> Hold {
    match edit.old {
        Some(old) if kind.suspend_path().is_some() || kind.is_gated(old) => {
            kind.hold(old, annotation_text(old, ADMISSION_ANNOTATION))
        }
        Some(_) | None => {
            kind.hold_at_creation(edit.new, annotation_text(edit.new, ADMISSION_ANNOTATION))
        }
    }
}

/// The field for whose sake an object is held at its creation.
///
/// A queue label on the child of a managed kind holds nothing: it came down from its owner, and it
/// is the owner that is queued. A gate holds whatever it stands on, unless the pods of a child are born
/// behind it: it came down with the templates, and to hold them anew would overwrite whose they are.
/// That the owner exists can't be seen from here; the controller looks it up by UID and holds the object
/// if it does not.
pub(crate) fn reason_to_hold(object: &Value, policy: &Policy) -> Option<String> {
    let is_child = is_child(object, policy);
    if let Some(key) = gates::gate_annotations(object).keys().next() {
        let is_held = is_child && is_born_held(object, policy, false);
        return (!is_held).then(|| gates::field_of(key));
    }
    let label = queue_of(object, policy.queue_labels())?;
    (!is_child).then(|| label.field())
}

/// Whether a controller of a managed kind owns `object`, and one that makes objects of its kind.
pub(crate) fn is_child(object: &Value, policy: &Policy) -> bool {
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
pub(crate) fn is_made_for_pod(object: &Value, policy: &Policy) -> bool {
    if controller(object) != Some(("", "Pod")) {
        return false;
    }
    let Some((group, name)) = group_and_kind(object) else {
        return false;
    };
    let is_queued = queue_of(object, policy.queue_labels()).is_some();
    policy.is_child(group, name) && is_born_held(object, policy, is_queued)
}

/// Whether the pods of `object` are born behind its gates, and behind the queue gate if it `is_queued`.
pub(crate) fn is_born_held(object: &Value, policy: &Policy, is_queued: bool) -> bool {
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
