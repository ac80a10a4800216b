//! The rules for pods that wait by themselves: which pods those are, what may be on them at creation,
//! and what may change later. Pods that a held template made carry all they need and are not asked
//! about.

use serde_json::Value;
use sluice_kinds::marks;
use sluice_kinds::patch::{MadeFor, PodHold, unlist_patch};
use sluice_kinds::problem::Problem;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::gates::marks::is_own_record;
use crate::rules::makers::{Author, made_for};
use crate::rules::pods::{create, resize, update};

/// Makes a pod wait that is being created, or refuses it.
pub(crate) fn hold(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    if edit.old.is_some() {
        return Verdict::allowed();
    }
    let made_for = made_for(edit.new, Author::of(request), policy);
    let hold = hold_at_creation(edit.new, made_for, policy);
    let patch = match hold {
        Some(hold) => hold.patch(edit.new, policy.queue_gates(), made_for),
        None => unlist_patch(edit.new),
    };
    Verdict {
        patch: patch.0,
        ..Verdict::of(create::problems(edit.new, hold, policy))
    }
}

/// What is wrong with creating or editing a pod.
pub(crate) fn validate(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<Problem> {
    if policy.is_sluice(&request.user_info.username) {
        return Vec::new();
    }
    match (edit.old, request.sub_resource.as_str()) {
        (None, "") => {
            let made_for = made_for(edit.new, Author::of(request), policy);
            let hold = hold_at_creation(edit.new, made_for, policy);
            let mut problems = create::problems(edit.new, hold, policy);
            // Corrected by the mutating webhook, where that saw the pod last.
            problems.extend(marks::check_list_of_pod(edit.new));
            problems
        }
        (Some(old), "" | "status") => {
            let is_own_record = is_own_record(request, edit);
            let mut problems = update::problems(old, edit.new, is_own_record, policy);
            problems.extend(update::check_owner(old, edit.new, Author::of(request)));
            problems
        }
        (Some(old), "resize") if update::has_usage(old, policy) => resize::problems(old, edit.new),
        _ => Vec::new(),
    }
}

fn hold_at_creation(pod: &Value, made_for: MadeFor, policy: &Policy) -> Option<PodHold> {
    PodHold::at_creation(pod, policy.queue_labels(), policy.queue_gates(), made_for)
}
