//! `WorkloadPriorityClass`: a priority for queueing alone, apart from pod priority. And what a ClusterQueue says of the
//! priority classes of its jobs.

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

/// Which priority classes the jobs of a ClusterQueue may have.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.allowed) || !has(self.default) || self.default in self.allowed").message("default must be one of allowed"))]
pub struct QueuePriorityClasses {
    /// The classes that jobs may name: WorkloadPriorityClasses in the label sluice.dev/priority-class, and
    /// PriorityClasses in the pods of jobs without that label. A job that names another class is not queued.
    /// A job that names none is. Absent: any class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allowed: Option<Vec<String>>,
    /// The WorkloadPriorityClass of jobs that name no class. Absent: they have the priority of their pods,
    /// which is that of the cluster's default PriorityClass, or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub default: Option<String>,
}
