//! Which objects are judged by what they themselves are: those that belong to no other object that is judged.

use serde_json::Value;
use sluice_kinds::metadata::{annotation, controller, group_and_kind};
use sluice_kinds::pod_hold::MIRROR_ANNOTATION;

use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::author::{Author, is_made_by_controller};
use crate::rules::jobs::reason_to_hold::is_child;

/// Whether `object` stands at the top: not if Sluice writes it, nor if it is a child of a managed object, or of a pod of
/// one, and the controller that makes such children writes it, nor a pod that a controller makes. An owner reference by itself says
/// nothing.
pub(crate) fn is_top(request: &Request, object: &Value, policy: &Policy) -> bool {
    if policy.is_sluice(&request.user_info.username) {
        return false;
    }
    if request.is_pod() {
        let is_copy = annotation(object, MIRROR_ANNOTATION).is_some();
        return !is_copy && is_without_controller(request, object);
    }
    let author = Author::of(request);
    let is_part = is_child(object, policy) && is_made_by_controller(object, author, policy);
    !is_part && !is_made_for_pod_by_maker(object, author, policy)
}

/// Whether a controller that a JobKind names as the maker of such objects made `object` for a pod. That pod belongs to an
/// object of the controller's, which was judged: LeaderWorkerSet makes a StatefulSet for each leader pod. Only the
/// controller's own account counts, as the pod may be anybody's.
fn is_made_for_pod_by_maker(object: &Value, author: Author<'_>, policy: &Policy) -> bool {
    let is_maker = |(group, kind)| author.is_named_maker(group, kind, policy);
    controller(object) == Some(("", "Pod")) && group_and_kind(object).is_some_and(is_maker)
}

/// Whether no controller made `object` for an object of its own.
pub(crate) fn is_without_controller(request: &Request, object: &Value) -> bool {
    controller(object).is_none() || !Author::of(request).is_controller()
}
