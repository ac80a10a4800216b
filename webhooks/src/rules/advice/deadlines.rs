//! Deadlines of other controllers that count while pods wait behind gates: only suspension stops these clocks.

use serde_json::Value;
use sluice_kinds::Hold;
use sluice_kinds::gates;
use sluice_kinds::problem::fill;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::jobs::reason_to_hold::hold_of;
use crate::rules::queue_label::queue_of;

const RUNS: &str = "{}: counts while pods of the {} wait behind gates, as it is not suspended meanwhile; it may fail before any of them has run";
/// Where kinds have the time after which they fail, counted from when they were started.
const DEADLINES: [(&str, &str); 2] = [
    ("/spec/activeDeadlineSeconds", "spec.activeDeadlineSeconds"),
    (
        "/spec/runPolicy/activeDeadlineSeconds",
        "spec.runPolicy.activeDeadlineSeconds",
    ),
];

/// What is told of the deadline of an object whose pods wait behind gates. That of a pod counts from when its node has
/// taken it.
pub(super) fn warning(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<String> {
    let kind = policy.kind(&request.kind.group, &request.kind.kind)?;
    let has_gates = !gates::gate_annotations(edit.new).is_empty() && !kind.is_suspended_by_gates();
    let waits = has_gates || queue_of(edit.new, policy.queue_labels()).is_some();
    if !waits || hold_of(kind, edit) == Hold::Suspend {
        return None;
    }
    let is_set = |at: &str| {
        edit.new
            .pointer(at)
            .is_some_and(|value| *value != Value::Null)
    };
    let (_, field) = DEADLINES.into_iter().find(|(at, _)| is_set(at))?;
    Some(fill(RUNS, &[field, &kind.kind]))
}
