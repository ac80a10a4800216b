//! Whose a suspension is that an edit brings or ends (`sluice.dev/held`): its user's, who pauses a job and
//! resumes it, or Sluice's, where the edit asks for the job to be queued. Said in the very request, so that
//! whoever sees the object later need not guess. Not for objects whose pods are queued by themselves.

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_kinds::{CompiledKind, HeldMark, Hold};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::jobs::growth;
use crate::rules::jobs::reason_to_hold::{hold_of, is_child, reason_to_hold};
use crate::rules::queue_label::queue_of;
use crate::rules::reapplied::{is_by_manifest, is_replaced, manifests};

/// What is told of a manifest that says how the job was born.
pub(crate) const APPLIED_AGAIN: &str = "from the manifest is ignored: the job was started after the manifest was first applied; to pause it, use \
     kubectl patch";

/// What is told of a manifest that says that the job is not suspended, or says so no more, while the job waits.
pub(crate) const WAITS_ON: &str = "from the manifest is ignored: Sluice suspended the job and starts it once it is admitted and no gate holds it";

/// What an edit of an object that something holds changes besides.
pub(super) fn patch(
    request: &Request,
    kind: &CompiledKind,
    hold: Hold,
    (old, new): (&Value, &Value),
    policy: &Policy,
) -> Vec<PatchOperation> {
    let (Ok(was_suspended), Ok(is_suspended)) = (kind.suspended(old), kind.suspended(new)) else {
        return Vec::new();
    };
    match (was_suspended, is_suspended, hold) {
        // Resumed, it is queued: it is Sluice that starts it. So does what was born to wait.
        (true, false, Hold::Suspend)
            if is_paused(old) || waits_on(request, kind, (old, new), policy) =>
        {
            kind.hold_patch(new).0
        }
        (false, true, Hold::Suspend) if asks_to_be_queued(kind, old, new, policy) => {
            kind.mark_patch(new, HeldMark::Held).0
        }
        (false, true, _) if runs_on(request, kind, hold, (old, new), policy) => {
            kind.run_on_patch(new).0
        }
        (false, true, Hold::Suspend | Hold::Pods) => kind.mark_patch(new, HeldMark::Released).0,
        _ => Vec::new(),
    }
}

/// What is told of an edit that would have suspended the job, but does not.
pub(crate) fn advice(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<String> {
    let kind = policy.kind(&request.kind.group, &request.kind.kind)?;
    let path = kind.suspend_path()?;
    let (old, new) = (edit.old?, edit.new);
    reason_to_hold(new, policy)?;
    let suspends = kind.suspended(old) == Ok(false) && kind.suspended(new) == Ok(true);
    let hold = hold_of(kind, edit);
    let runs_on = suspends && runs_on(request, kind, hold, (old, new), policy);
    let releases = kind.suspended(old) == Ok(true) && kind.suspended(new) == Ok(false);
    let waits_on = releases && hold == Hold::Suspend && waits_on(request, kind, (old, new), policy);
    let told = match (runs_on, waits_on) {
        (true, _) => format!("true {APPLIED_AGAIN}"),
        (_, true) => format!("false {WAITS_ON}"),
        _ => return None,
    };
    let field = path.to_string();
    Some(format!("{}: {told}", field.trim_start_matches('.')))
}

/// Whether an object waits on that a manifest releases as it is applied again: Sluice has suspended the object, and the
/// manifest says of that field what it said before, or nothing any more; or it replaces the object. Whoever starts a job on purpose writes to it in
/// another way.
fn waits_on(
    request: &Request,
    kind: &CompiledKind,
    (old, new): (&Value, &Value),
    policy: &Policy,
) -> bool {
    let mark = HeldMark::of_object(old);
    let Some(path) = kind.suspend_path().filter(|_| mark == Some(HeldMark::Held)) else {
        return false;
    };
    let mut names: Vec<_> = path.segments().iter().map(String::as_str).collect();
    names.retain(|name| !name.is_empty());
    let edit = Edit {
        new,
        old: Some(old),
    };
    !is_child(new, policy)
        && (is_applied_again(request, kind, (old, new), false)
            || is_by_manifest(request, &edit, &names)
            || is_replaced(request))
}

/// Whether an object runs on that an edit suspends.
fn runs_on(
    request: &Request,
    kind: &CompiledKind,
    hold: Hold,
    (old, new): (&Value, &Value),
    policy: &Policy,
) -> bool {
    let may_run_on = match hold {
        Hold::Suspend => !asks_to_be_queued(kind, old, new, policy),
        Hold::Pods => true,
        Hold::EachPod => false,
    };
    may_run_on && is_applied_again(request, kind, (old, new), true)
}

/// Whether a manifest is applied again that says this of the suspend field, as it did before: so jobs are born that are to
/// be queued, as in Kueue. Whoever pauses a job writes to it in another way.
fn is_applied_again(
    request: &Request,
    kind: &CompiledKind,
    (old, new): (&Value, &Value),
    suspends: bool,
) -> bool {
    let edit = Edit {
        new,
        old: Some(old),
    };
    let says = |manifest: &Value| kind.suspend_path()?.get(manifest)?.as_bool();
    manifests(request, &edit)
        .is_some_and(|manifests| manifests.iter().all(|said| says(said) == Some(suspends)))
}

/// Whether the user of a suspended object has suspended it.
fn is_paused(object: &Value) -> bool {
    HeldMark::of_object(object) == Some(HeldMark::Released)
}

/// Whether who suspends a job follows the advice of a refusal: it joins a queue in the same update, or
/// grows.
fn asks_to_be_queued(kind: &CompiledKind, old: &Value, new: &Value, policy: &Policy) -> bool {
    let had_queue = queue_of(old, policy.queue_labels()).is_some();
    !had_queue || !growth::check(old, new, kind).is_empty()
}
