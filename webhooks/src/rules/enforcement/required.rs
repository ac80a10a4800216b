//! Whether an object needs a queue that it does not name, and what is told about that.

use serde_json::Value;
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_gates::{Enforced, Unlabelled};
use sluice_kinds::problem::{Problem, fill};

use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::applies::requested_object::RequestedObject;
use crate::rules::applies::which::early;
use crate::rules::queue_label::queue_of;
use crate::rules::top::is_top;

/// The rule for an object that is refused; with the namespace.
pub(crate) const REQUIRED: &str =
    "namespace {} requires a queue: must be the name of a LocalQueue of the namespace";
/// What is told of an object that gets the label; with the field, the queue and the namespace.
const DEFAULTED: &str = "{}: set to {}, as namespace {} requires a queue";
/// What is told of an object that is held; with the namespace and the field.
const HELD: &str =
    "held, as namespace {} requires a queue; set {} to the name of a LocalQueue of the namespace";
/// What is told where nothing is done yet; with the namespace, what would be done, and the field.
pub(crate) const WOULD_BE: &str = "namespace {} will require a queue: this object would be {}; set {} to the name of a LocalQueue of the namespace";

/// What becomes of `object`, if it needs a queue and names none.
///
/// # Errors
/// It can't be judged yet.
pub(crate) fn required(
    request: &Request,
    object: &Value,
    policy: &Policy,
) -> Result<Option<Enforced>, Verdict> {
    if queue_of(object, policy.queue_labels()).is_some() || !is_top(request, object, policy) {
        return Ok(None);
    }
    Ok(enforced(request, object, policy)?.filter(|enforced| enforced.unlabelled.is_judged()))
}

/// What becomes of objects without a queue in the namespace of `request`, if `object` is no exception.
///
/// # Errors
/// Nothing is known of the namespace yet.
pub(super) fn enforced(
    request: &Request,
    object: &Value,
    policy: &Policy,
) -> Result<Option<Enforced>, Verdict> {
    let enforced = in_namespace(request, policy)?;
    Ok(enforced.filter(|_| !is_excepted(request, object, policy)))
}

/// What becomes of objects without a queue in the namespace of `request`, if anything does.
///
/// # Errors
/// Nothing is known of the namespace yet.
pub(super) fn in_namespace(
    request: &Request,
    policy: &Policy,
) -> Result<Option<Enforced>, Verdict> {
    let namespace = &request.namespace;
    let Some(labels) = policy.surroundings().namespaces.get(namespace) else {
        return Err(early(namespace));
    };
    let enforced = policy.managed_namespaces().of_namespace(namespace, labels);
    Ok(enforced.unlabelled.is_judged().then_some(enforced))
}

/// Whether `object` is an exception, where `request` asks for it.
pub(super) fn is_excepted(request: &Request, object: &Value, policy: &Policy) -> bool {
    let managed = policy.managed_namespaces();
    let queue = queue_of(object, policy.queue_labels()).map(|label| label.queue);
    managed.is_excepted(&RequestedObject::new(request, object, policy, queue))
}

/// That an object without a queue is refused.
pub(crate) fn refused(request: &Request) -> Problem {
    Problem::required(field(), fill(REQUIRED, &[&quoted(&request.namespace)]))
}

/// What the author of an object is told that gets the label, or the gate, or would get it.
pub(super) fn warning(request: &Request, enforced: Enforced, policy: &Policy) -> String {
    let (namespace, field) = (&quoted(&request.namespace), &field());
    let queue = &quoted(policy.managed_namespaces().default_local_queue());
    if enforced.is_dry_run {
        let done = &what_would_be_done(enforced.unlabelled, queue);
        return fill(WOULD_BE, &[namespace, done, field]);
    }
    match enforced.unlabelled {
        Unlabelled::Default => fill(DEFAULTED, &[field, queue, namespace]),
        Unlabelled::Hold | Unlabelled::Refuse | Unlabelled::Ignore => {
            fill(HELD, &[namespace, field])
        }
    }
}

/// What would be done about an object, with this quoted LocalQueue.
pub(crate) fn what_would_be_done(unlabelled: Unlabelled, queue: &str) -> String {
    match unlabelled {
        Unlabelled::Default => format!("queued in LocalQueue {queue}"),
        Unlabelled::Hold => "held".to_owned(),
        Unlabelled::Refuse | Unlabelled::Ignore => "refused".to_owned(),
    }
}

/// The field of the label.
pub(super) fn field() -> String {
    format!("metadata.labels[{QUEUE_NAME_LABEL}]")
}

pub(super) fn quoted(text: &str) -> String {
    format!("{text:?}")
}
