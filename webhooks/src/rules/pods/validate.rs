//! The rules for pods that wait by themselves: what may be on them at creation, and what may change later. Pods that a
//! held template made carry all they need and are not asked about.

use sluice_kinds::marks;
use sluice_kinds::problem::Problem;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::author::{Author, made_for};
use crate::rules::lifting::marks::is_own_record;
use crate::rules::pods::hold_patch::hold_at_creation;
use crate::rules::pods::{check_create, growth, update};

/// What is wrong with creating or editing a pod.
pub(crate) fn validate(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    if policy.is_sluice(&request.user_info.username) {
        return Vec::new();
    }
    match (edit.old, request.sub_resource.as_str()) {
        (None, "") => {
            let made_for = made_for(edit.new, Author::of(request), policy);
            let hold = hold_at_creation(edit.new, made_for, policy);
            let mut problems = check_create::problems(edit.new, hold, policy);
            // Corrected by the mutating webhook, where that saw the pod last.
            problems.extend(marks::check_list_of_pod(edit.new));
            problems.extend(marks::check_managed_pod(edit.new));
            problems
        }
        (Some(old), "" | "status") => {
            let is_own_record = is_own_record(request, edit);
            let mut problems = update::problems(old, edit.new, is_own_record, policy);
            let author = Author::of(request);
            problems.extend(update::check_owner(old, edit.new, author));
            problems.extend(update::check_queue_of_owned(old, edit.new, author, policy));
            problems
        }
        (Some(old), "resize") if update::has_usage(old, policy) => growth::problems(old, edit.new),
        _ => Vec::new(),
    }
}
