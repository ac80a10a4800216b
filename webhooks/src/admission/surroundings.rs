//! What a Gate may ask of the cluster around an object: the labels of its namespace, and what priority classes say.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_kinds::priority_classes::PriorityClasses;

/// What is known of the cluster around an object.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The labels of each namespace.
    pub namespaces: BTreeMap<String, Arc<BTreeMap<String, String>>>,
    /// The value of each WorkloadPriorityClass.
    pub workload_priorities: BTreeMap<String, i32>,
    /// The PriorityClasses.
    pub priority_classes: PriorityClasses,
}
