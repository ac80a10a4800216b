//! The label that names the queue: its form, and when it may change on a job. When it may change on a pod is
//! `pods/update.rs`.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_kinds::aliases::MetadataKey;
use sluice_kinds::metadata::{self, label};
use sluice_kinds::problem::Problem;
use sluice_kinds::view::{LabelledQueue, QueueLabels};

use crate::admission::policy::Policy;

/// The rules for the queue of a job that was released.
pub(crate) const CHANGED: &str = "is immutable while the job is not suspended; delete the job and create it again in the \
     other queue";
pub(crate) const REMOVED: &str = "may not be removed while the job is not suspended; delete the job and create it again \
     without the label";
pub(crate) const ADDED: &str =
    "may not be added while the job runs; suspend the job in the same update, and it is queued";
/// The rules for the queue of an object whose pods carry the queue gate.
pub(crate) const CHANGED_OF_GATED: &str = "is immutable while the pods have the queue gate; delete the object and create it again in the other queue";
pub(crate) const REMOVED_OF_GATED: &str = "may not be removed while the pods have the queue gate; delete the object and create it again without the label";
/// The rule for a queue label on an object whose pods wait behind gates without the queue gate.
pub(crate) const LATE: &str = "may only be set at creation, when the pod templates of this object get scheduling gates; delete the object and create it again with the label";

/// The queue that an object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueLabel<'a> {
    /// Under which label.
    pub(crate) key: &'a str,
    /// The LocalQueue.
    pub(crate) queue: &'a str,
}

impl QueueLabel<'_> {
    /// The field path of the label.
    pub(crate) fn field(&self) -> String {
        format!("metadata.labels[{}]", self.key)
    }
}

/// Whether a job that was released stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Running {
    /// It runs on.
    Still,
    /// The same edit suspends it.
    Stopping,
}

/// The queue that `object` names, well or badly: under the first queue label that it carries.
pub(crate) fn queue_of<'a>(object: &'a Value, labels: &'a QueueLabels) -> Option<QueueLabel<'a>> {
    labels
        .keys()
        .find_map(|key| label(object, key).map(|queue| QueueLabel { key, queue }))
}

/// The queue that the metadata of a template names for its pods, and by which key: a pod that is made so is queued there,
/// also by an alias.
pub(crate) fn queue_of_pods<'a>(
    metadata: &'a Value,
    policy: &Policy,
) -> Option<(MetadataKey, &'a str)> {
    let own = MetadataKey::Label(QUEUE_NAME_LABEL.to_owned());
    let labels = policy.queue_labels().keys();
    let labels = labels.map(|key| MetadataKey::Label(key.to_owned()));
    let aliases = policy.key_aliases().of(&own).iter().cloned();
    let mut keys = labels.chain(aliases);
    keys.find_map(|key| key.value_in(metadata).map(|queue| (key.clone(), queue)))
}

/// What is wrong with the queue labels that `new` brings in. Those that `old` carried too are left
/// alone, however bad.
pub(crate) fn check_value(
    new: &Value,
    old: Option<&Value>,
    labels: &QueueLabels,
) -> Option<Problem> {
    let values = carried(new, labels);
    if old.is_some_and(|old| carried(old, labels) == values) {
        return None;
    }
    match labels.read(&values) {
        LabelledQueue::Invalid(problem) => Some(problem),
        LabelledQueue::None | LabelledQueue::Named(_) => None,
    }
}

/// Whether the queue of a job that was released may change as it does from `old` to `new`.
pub(crate) fn check_change(
    old: Option<QueueLabel<'_>>,
    new: Option<QueueLabel<'_>>,
    running: Running,
) -> Option<Problem> {
    match (old, new) {
        (Some(was), Some(is)) if was.queue != is.queue => {
            Some(Problem::forbidden(is.field(), CHANGED))
        }
        (Some(was), None) => Some(Problem::forbidden(was.field(), REMOVED)),
        (None, Some(is)) if running == Running::Still => {
            Some(Problem::forbidden(is.field(), ADDED))
        }
        _ => None,
    }
}

/// Whether the queue of an object whose pods carry the queue gate may change as it does from `old`
/// to `new`. Its pods wait and run under the queue that they were made with.
pub(crate) fn check_change_of_gated(
    old: Option<QueueLabel<'_>>,
    new: Option<QueueLabel<'_>>,
) -> Option<Problem> {
    match (old, new) {
        (Some(was), Some(is)) if was.queue != is.queue => {
            Some(Problem::forbidden(is.field(), CHANGED_OF_GATED))
        }
        (Some(was), None) => Some(Problem::forbidden(was.field(), REMOVED_OF_GATED)),
        _ => None,
    }
}

/// Whether an object may join a queue whose pods wait behind gates without the queue gate, in
/// templates that can't change any more.
pub(crate) fn check_late_join(
    old: Option<QueueLabel<'_>>,
    new: Option<QueueLabel<'_>>,
) -> Option<Problem> {
    let joined = new.filter(|_| old.is_none())?;
    Some(Problem::forbidden(joined.field(), LATE))
}

/// The queue labels that `object` carries.
fn carried(object: &Value, labels: &QueueLabels) -> BTreeMap<String, String> {
    metadata::labels(object, labels.keys())
}
