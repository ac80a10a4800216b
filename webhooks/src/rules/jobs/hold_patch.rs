//! What is put into an object of a managed kind so that it waits.

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_kinds::patch::Waiting;
use sluice_kinds::{CompiledKind, Hold, gates};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::jobs::pause;
use crate::rules::jobs::reason_to_hold::{hold_of, is_child, reason_to_hold};
use crate::rules::queue_label::queue_of;

/// The patch that holds an object: at its creation, at each edit of one that its templates hold and whose
/// templates can be edited, and when its user resumes it. Empty if nothing holds it.
pub(crate) fn hold(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<PatchOperation> {
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    let Some(kind) = kind.filter(|_| reason_to_hold(edit.new, policy).is_some()) else {
        return Vec::new();
    };
    if let (Some(old), Some(_)) = (edit.old, kind.suspend_path()) {
        let hold = hold_of(kind, edit);
        return pause::patch(request, kind, hold, (old, edit.new), policy);
    }
    let waiting = |hold, queue| Waiting {
        hold,
        old: edit.old,
        queue,
        queue_labels: policy.queue_labels(),
        key_aliases: policy.key_aliases(),
    };
    match hold_of(kind, edit) {
        Hold::Suspend => {
            let mut patch = kind.hold_patch(edit.new).0;
            patch.extend(kind.gate_patch(edit.new, waiting(Hold::Suspend, None)).0);
            patch
        }
        hold @ (Hold::Pods | Hold::EachPod) => {
            let mut patch = match edit.old {
                None => suspend_gated(kind, edit.new),
                Some(_) => Vec::new(),
            };
            let queue = queue_of(edit.new, policy.queue_labels())
                .filter(|_| !is_child(edit.new, policy))
                .map(|label| (label.key, label.queue));
            patch.extend(kind.gate_patch(edit.new, waiting(hold, queue)).0);
            patch
        }
    }
}

/// Suspends an object whose pods say nothing of its gates.
fn suspend_gated(kind: &CompiledKind, object: &Value) -> Vec<PatchOperation> {
    if !kind.is_suspended_by_gates() || gates::gate_annotations(object).is_empty() {
        return Vec::new();
    }
    kind.hold_patch(object).0
}
