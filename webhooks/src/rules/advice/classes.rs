//! Priority classes that are missing, or that the ClusterQueue does not allow.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_crds::PRIORITY_CLASS_LABEL;
use sluice_kinds::metadata::label;
use sluice_kinds::priority_classes::{ClassKind, DisallowedClass};
use sluice_kinds::problem::fill;
use sluice_kinds::view::PodSetView;

use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::queue_label::queue_of;

const NOT_FOUND: &str =
    "{}: there is no WorkloadPriorityClass {}; the object can't be queued until there is";
const NOT_FOUND_OF_PODS: &str = "spec.priorityClassName of its pods: there is no PriorityClass {}; no pod can be made until there is";
const NOT_ALLOWED: &str = "{}; the object can't be queued";

/// What is warned of in an object, whose pods are these.
pub(super) fn warnings(
    request: &Request,
    object: &Value,
    sets: &[PodSetView],
    policy: &Policy,
) -> Vec<String> {
    let known = policy.surroundings();
    if let Some(class) = label(object, PRIORITY_CLASS_LABEL) {
        let missing = missing("metadata", class, policy);
        let disallowed = disallowed(request, object, ClassKind::Workloads, class, policy);
        return missing.into_iter().chain(disallowed).collect();
    }
    let classes = sets.iter().filter_map(|set| set.priority_class.as_deref());
    let classes: BTreeSet<&str> = classes
        .filter(|class| !known.priority_classes.is_default(class))
        .collect();
    let warnings = classes.into_iter().flat_map(|class| {
        // The API server refuses such a pod.
        let is_missing = known.priority_classes.of_template(Some(class)).is_err();
        let missing = is_missing.then(|| fill(NOT_FOUND_OF_PODS, &[&format!("{class:?}")]));
        let disallowed = disallowed(request, object, ClassKind::Pods, class, policy);
        missing.into_iter().chain(disallowed)
    });
    warnings.collect()
}

/// That there is no such class as the labels of the metadata at `field` name.
pub(super) fn missing(field: &str, class: &str, policy: &Policy) -> Option<String> {
    let known = &policy.surroundings().workload_priorities;
    let at = format!("{field}.labels[{PRIORITY_CLASS_LABEL}]");
    (!known.contains_key(class)).then(|| fill(NOT_FOUND, &[&at, &format!("{class:?}")]))
}

fn disallowed(
    request: &Request,
    object: &Value,
    kind: ClassKind,
    class: &str,
    policy: &Policy,
) -> Option<String> {
    let queue = queue_of(object, policy.queue_labels())?.queue;
    let states = policy.queue_states().load();
    let (cluster_queue, state) = states.cluster_queue(&request.namespace, queue)?;
    let classes = state.priority_classes.as_ref()?;
    let disallowed = DisallowedClass::check(kind, class, (cluster_queue, classes))?;
    Some(fill(NOT_ALLOWED, &[&disallowed.to_string()]))
}
