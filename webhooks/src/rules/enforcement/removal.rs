//! An edit that takes an object out of its queue, where one is required: it would run without.

use sluice_kinds::problem::{Problem, fill};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::enforcement::required::{enforced, quoted};
use crate::rules::queue_label::queue_of;
use crate::rules::top::is_top;

/// The rule; with the namespace.
pub(crate) const REMOVED: &str =
    "may not be removed, as namespace {} requires a queue; name another LocalQueue";

/// What is wrong with an edit that removes the queue label. Of a namespace that is not known nothing is required: where it
/// is, its objects are older than what a replica knows of it.
pub(crate) fn check(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<Problem> {
    let was = queue_of(edit.old?, policy.queue_labels())?;
    if queue_of(edit.new, policy.queue_labels()).is_some() || !is_top(request, edit.new, policy) {
        return None;
    }
    let enforced = enforced(request, edit.new, policy).ok()??;
    let detail = fill(REMOVED, &[&quoted(&request.namespace)]);
    (!enforced.is_dry_run).then(|| Problem::forbidden(was.field(), detail))
}
