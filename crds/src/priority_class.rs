//! `WorkloadPriorityClass`: a priority for queueing alone, apart from pod priority.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The fields of a `WorkloadPriorityClass`, which stand at the top level as in a PriorityClass.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "WorkloadPriorityClass",
    plural = "workloadpriorityclasses",
    no_spec,
    shortname = "wpc",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    doc = "A priority in queues. It has no effect on the priority of pods.",
    printcolumn(name = "Value", type_ = "integer", json_path = ".value"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPriorityClassFields {
    /// The priority: jobs with a higher value are admitted first.
    pub value: i32,
    /// A description for users: when to use this class.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub description: String,
}
