//! Which objects are judged by what they themselves are: those that belong to no other object that is judged.

use serde_json::Value;
use sluice_kinds::metadata::{annotation, controller};
use sluice_kinds::patch::MIRROR_ANNOTATION;

use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::jobs::held::is_child;
use crate::rules::makers::{Author, is_made_by_controller};

/// Whether `object` stands at the top: not if Sluice writes it, nor if it is a child of a managed object and the
/// controller that makes such children writes it, nor a pod that a controller makes. An owner reference by itself says
/// nothing.
pub(crate) fn is_top(request: &Request, object: &Value, policy: &Policy) -> bool {
    if policy.is_sluice(&request.user_info.username) {
        return false;
    }
    if request.is_pod() {
        let is_copy = annotation(object, MIRROR_ANNOTATION).is_some();
        return !is_copy && is_without_controller(request, object);
    }
    !(is_child(object, policy) && is_made_by_controller(object, Author::of(request), policy))
}

/// Whether no controller made `object` for an object of its own.
pub(crate) fn is_without_controller(request: &Request, object: &Value) -> bool {
    controller(object).is_none() || !Author::of(request).is_controller()
}
