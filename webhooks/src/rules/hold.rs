//! What makes an object wait. And one that asks to be held, and that nothing holds as it would be stored: another plugin of
//! the API server has changed it since Sluice could hold it. One that asked for nothing then is not shown to Sluice again:
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go>.

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_crds::MANAGED_LABEL;
use sluice_kinds::gates;
use sluice_kinds::path::FieldPath;
use sluice_kinds::problem::Problem;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::queue_label::queue_of;
use crate::rules::{aliases, jobs, pods};

/// What is told of such an object.
pub(crate) const NOT_HELD: &str = "nothing holds the object, as another mutating webhook or policy changed it after Sluice; have Sluice called after that one, or write the queue label or the gate annotation into the manifest";

/// What makes an object wait that has all its gates.
pub(super) fn hold(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    if !request.sub_resource.is_empty() {
        return Verdict::allowed();
    }
    if request.is_pod() {
        return pods::hold_patch::hold(request, edit, policy);
    }
    if let Some(problem) = check_can_be_held(request, edit, policy) {
        return Verdict::early(problem);
    }
    Verdict {
        patch: jobs::hold_patch::hold(request, edit, policy),
        warnings: jobs::pause::advice(request, edit, policy)
            .into_iter()
            .collect(),
        ..Verdict::allowed()
    }
}

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
    let suspend = kind.and_then(|kind| kind.suspend_path());
    let held = hold(request, &edit, policy);
    if !held.patch.iter().any(|operation| holds(operation, suspend)) {
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

/// Whether this is what makes an object wait: its suspend field, a gate, or the label by which its pods are gated; also as a
/// part of an object that is added, where the parent of the field is missing. What else is written beside these, another
/// version of Sluice may have left out.
fn holds(operation: &PatchOperation, suspend: Option<&FieldPath>) -> bool {
    let path: Vec<String> = operation
        .path()
        .tokens()
        .map(|token| token.decoded().into_owned())
        .collect();
    let is_suspension = suspend.is_some_and(|suspend| suspend.segments().starts_with(&path));
    is_suspension
        || path.iter().any(|key| is_hold(key))
        || matches!(operation, PatchOperation::Add(add) if has_hold(&add.value))
}

fn is_hold(key: &str) -> bool {
    key == "schedulingGates" || key == MANAGED_LABEL
}

fn has_hold(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| is_hold(key) || has_hold(value)),
        Value::Array(items) => items.iter().any(has_hold),
        _ => false,
    }
}

/// Whether an object that comes to ask to be held is of no kind that is managed. It was sent here by
/// a rule for a JobKind, so the JobKind has just gone, or this replica has not heard of it yet; and an
/// object that is taken unheld here would not be held by any other.
fn check_can_be_held(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<Problem> {
    if policy.manages(&request.kind.group, &request.kind.kind) {
        return None;
    }
    let asks = |object| jobs::reason_to_hold::check_is_managed(request, object, policy);
    match edit.old.and_then(asks) {
        Some(_) => None,
        None => asks(edit.new),
    }
}
