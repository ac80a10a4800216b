//! Makes pods wait that are being created. Which pods do so, and how, is told in `sluice_kinds::pod_hold`.

use serde_json::Value;
use sluice_kinds::patch::unlist_patch;
use sluice_kinds::pod_hold::{MadeFor, PodHold};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::author::{Author, made_for};
use crate::rules::pods::check_create;

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
        ..Verdict::of(check_create::problems(edit.new, hold, policy))
    }
}

/// How `pod` is to wait that is being created.
pub(super) fn hold_at_creation(pod: &Value, made_for: MadeFor, policy: &Policy) -> Option<PodHold> {
    PodHold::at_creation(pod, policy.queue_labels(), policy.queue_gates(), made_for)
}
