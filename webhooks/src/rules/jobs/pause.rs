//! Whose a suspension is that an edit brings or ends (`sluice.dev/held`): its user's, who pauses a job and
//! resumes it, or Sluice's, where the edit asks for the job to be queued. Said in the very request, so that
//! whoever sees the object later need not guess. Not for objects whose pods are queued by themselves.

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_crds::HELD_ANNOTATION;
use sluice_kinds::metadata::annotation_text;
use sluice_kinds::{CompiledKind, HeldMark, Hold};

use crate::admission::policy::Policy;
use crate::rules::growth;
use crate::rules::queue_label::queue_of;

/// What an edit of an object that something holds changes besides.
pub(super) fn patch(
    kind: &CompiledKind,
    hold: Hold,
    (old, new): (&Value, &Value),
    policy: &Policy,
) -> Vec<PatchOperation> {
    let (Ok(was_suspended), Ok(is_suspended)) = (kind.suspended(old), kind.suspended(new)) else {
        return Vec::new();
    };
    match (was_suspended, is_suspended, hold) {
        // Resumed, it is queued: it is Sluice that starts it.
        (true, false, Hold::Suspend) if is_paused(old) => kind.hold_patch(new).0,
        (false, true, Hold::Suspend) if asks_to_be_queued(kind, old, new, policy) => {
            kind.mark_patch(new, HeldMark::Held).0
        }
        (false, true, Hold::Suspend | Hold::Pods) => kind.mark_patch(new, HeldMark::Released).0,
        _ => Vec::new(),
    }
}

/// Whether the user of a suspended object has suspended it.
fn is_paused(object: &Value) -> bool {
    HeldMark::read(annotation_text(object, HELD_ANNOTATION)) == Some(HeldMark::Released)
}

/// Whether who suspends a job follows the advice of a refusal: it joins a queue in the same update, or
/// grows.
fn asks_to_be_queued(kind: &CompiledKind, old: &Value, new: &Value, policy: &Policy) -> bool {
    let had_queue = queue_of(old, policy.queue_labels()).is_some();
    !had_queue || !growth::check(old, new, kind).is_empty()
}
