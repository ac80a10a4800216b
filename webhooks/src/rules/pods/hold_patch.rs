//! Makes pods wait that are being created. Which pods do so, and how, is told in `sluice_kinds::pod_hold`.

use serde_json::Value;
use sluice_crds::{MANAGED_LABEL, POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION};
use sluice_kinds::patch::unheld_patch;
use sluice_kinds::pod_hold::{MadeFor, PodHold};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::author::{Author, made_for};
use crate::rules::pods::check_create;
use crate::rules::reapplied::{kept_entries, kept_gates};

/// The annotations that say how a pod waits, and that Sluice writes at its creation, besides the queue gate.
pub(crate) const MARKS_OF_POD: [&str; 2] = [PROPAGATED_GATES_ANNOTATION, POD_SET_ANNOTATION];

/// Makes a pod wait that is being created, or refuses it.
pub(crate) fn hold(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    if edit.old.is_some() {
        // An applied manifest says nothing of what Sluice wrote on the pod.
        let marks = policy.queue_gates().names().chain(MARKS_OF_POD);
        let mut patch = kept_entries(request, edit, "annotations", marks);
        patch.extend(kept_entries(
            request,
            edit,
            "labels",
            [MANAGED_LABEL].into_iter(),
        ));
        patch.extend(kept_gates(request, edit, |gate| {
            policy.queue_gates().contains(gate)
        }));
        return Verdict {
            patch,
            ..Verdict::allowed()
        };
    }
    let made_for = made_for(edit.new, Author::of(request), policy);
    let hold = hold_at_creation(edit.new, made_for, policy);
    let patch = match hold {
        Some(hold) => hold.patch(edit.new, policy.queue_gates(), made_for),
        None => unheld_patch(edit.new),
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
