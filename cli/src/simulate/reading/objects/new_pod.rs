//! A pod of a file that would be admitted by itself, as the job that it is. Pods of a cluster are read in `pods`.

use serde_json::Value;
use sluice_crds::POD_GROUP_LABEL;
use sluice_kinds::Problem;
use sluice_kinds::metadata::labels;
use sluice_kinds::pod_hold::{MadeFor, PodHold};
use sluice_kinds::requests::{PodDefaults, pod_requests};
use sluice_kinds::view::{LabelledQueue, PodSetView};

use crate::rules::queue_names::QueueNames;

/// How a pod that is created would wait.
pub fn hold(object: &Value, names: &QueueNames) -> Option<PodHold> {
    PodHold::at_creation(object, &names.labels, &names.gates, MadeFor::Unknown)
}

/// Why a pod is no job that can be asked about; none if it is one.
pub fn no_job(object: &Value, names: &QueueNames) -> Option<Problem> {
    match hold(object, names) {
        Some(PodHold::Single) => None,
        Some(PodHold::Group) => Some(Problem::forbidden(
            format!("metadata.labels[{POD_GROUP_LABEL}]"),
            "the pod is admitted with its pod group, and groups are not read: must be a pod that is admitted by \
             itself, or an object that a JobKind reads",
        )),
        Some(PodHold::Gates) | None => {
            let labels: Vec<&str> = names.labels.keys().collect();
            let field = format!("metadata.labels[{}]", labels.join(", "));
            let rule = "the LocalQueue in which the pod is admitted by itself";
            Some(Problem::required(field, rule))
        }
    }
}

/// The queue that a pod waits in by itself, and what it asks for with what its namespace adds; none if it would not be
/// admitted by itself, or names no queue.
pub fn read(
    object: &Value,
    names: &QueueNames,
    defaults: &PodDefaults,
) -> Result<Option<(String, PodSetView)>, Vec<Problem>> {
    let named = labels(object, names.labels.keys());
    let queue = match names.labels.read(&named) {
        LabelledQueue::Named(queue) => queue,
        LabelledQueue::None => return Ok(None),
        LabelledQueue::Invalid(problem) => return Err(vec![problem]),
    };
    if hold(object, names) != Some(PodHold::Single) {
        return Ok(None);
    }
    let asks = names.read(object).asks?;
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let requests = pod_requests(spec, "spec", defaults)?;
    let class_placement = defaults.of_class(spec).map(|class| class.placement.clone());
    let asks = PodSetView {
        requests,
        class_placement: class_placement.unwrap_or_default(),
        ..asks
    };
    Ok(Some((queue, asks)))
}
