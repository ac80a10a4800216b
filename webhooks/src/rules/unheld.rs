//! An object that asks to be held, and that nothing holds as it would be stored: another plugin of the API server has
//! changed it since Sluice could hold it. One that asked for nothing then is not shown to Sluice again:
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go>.

use sluice_kinds::gates;
use sluice_kinds::problem::Problem;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::queue_label::queue_of;
use crate::rules::{aliases, review};

/// What is told of such an object.
pub(crate) const NOT_HELD: &str = "nothing holds the object, as another mutating webhook or policy changed it after Sluice; have Sluice called after that one, or write this into the manifest";

/// What is wrong with an object that nothing holds. It is held at its creation; where its kind has no suspend field, also
/// at each edit.
pub(crate) fn check(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<Problem> {
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    let is_held_now = edit.old.is_none() || kind.is_some_and(|kind| kind.suspend_path().is_none());
    if !is_held_now || policy.is_sluice(&request.user_info.username) {
        return None;
    }
    let (spelt, _) = aliases::spelt_out(request, edit, policy);
    let edit = Edit {
        new: spelt.as_ref().unwrap_or(edit.new),
        old: edit.old,
    };
    let held = review::hold(request, &edit, policy);
    if held.patch.is_empty() {
        return None;
    }
    let asks = gates::gate_annotations(edit.new);
    let field = match (
        asks.keys().next(),
        queue_of(edit.new, policy.queue_labels()),
    ) {
        (Some(key), _) => gates::field_of(key),
        (None, Some(label)) => label.field(),
        (None, None) => "metadata".to_owned(),
    };
    Some(Problem::forbidden(field, NOT_HELD))
}
