//! An edit by which an object without a queue begins to run where one is required: it is started, loses the controller
//! above it, or is no exception any more. It is judged as if it were new.

use serde_json::Value;
use sluice_kinds::gates::gate_annotations;
use sluice_kinds::metadata::controller;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::enforcement::required::{enforced, refused, required};
use crate::rules::makers::Author;
use crate::rules::queue_label::queue_of;

/// Whether such an edit is refused. What runs already may be edited: it was there before its namespace required a
/// queue, or Sluice was not asked.
pub(crate) fn check(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    match is_refused(request, edit, policy) {
        Ok(true) => Verdict::of(vec![refused(request)]),
        Ok(false) => Verdict::allowed(),
        Err(verdict) => verdict,
    }
}

fn is_refused(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Result<bool, Verdict> {
    let Some(old) = edit.old else {
        return Ok(false);
    };
    // The garbage collector takes references away. What is to leave its queue is judged by its label, what has gates by them.
    if request.is_pod()
        || !request.sub_resource.is_empty()
        || Author::of(request).is_kubernetes()
        || queue_of(old, policy.queue_labels()).is_some()
        || !gate_annotations(edit.new).is_empty()
    {
        return Ok(false);
    }
    let Some(required) = required(request, edit.new, policy)? else {
        return Ok(false);
    };
    let begins = is_started(request, old, edit.new, policy)
        || loses_controller(old, edit.new)
        || enforced(request, old, policy)?.is_none();
    Ok(begins && !required.is_dry_run)
}

fn is_started(request: &Request, old: &Value, new: &Value, policy: &Policy) -> bool {
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    let kind = kind.filter(|kind| kind.suspend_path().is_some());
    kind.is_some_and(|kind| kind.suspended(old) == Ok(true) && kind.suspended(new) == Ok(false))
}

fn loses_controller(old: &Value, new: &Value) -> bool {
    controller(old).is_some() && controller(new).is_none()
}
