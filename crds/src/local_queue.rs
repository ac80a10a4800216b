//! `LocalQueue`: a namespace's door to a ClusterQueue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster_queue::{FlavorUsage, StopPolicy};
use crate::fair_sharing::{FairSharing, LocalQueueFairSharingStatus};
use crate::quantity::ResourceList;

/// A namespace's door to a ClusterQueue: jobs name it in their label `sluice.dev/queue-name`.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "LocalQueue",
    plural = "localqueues",
    namespaced,
    shortname = "lq",
    shortname = "queue",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    status = "LocalQueueStatus",
    doc = "A namespace's door to a ClusterQueue: jobs name it in their label `sluice.dev/queue-name`.",
    printcolumn(
        name = "ClusterQueue",
        type_ = "string",
        json_path = ".spec.clusterQueue"
    ),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].status"
    ),
    printcolumn(
        name = "Gated",
        type_ = "integer",
        json_path = ".status.gatedWorkloads"
    ),
    printcolumn(
        name = "Pending",
        type_ = "integer",
        json_path = ".status.pendingWorkloads"
    ),
    printcolumn(
        name = "Admitted",
        type_ = "integer",
        json_path = ".status.admittedWorkloads"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueSpec {
    /// The ClusterQueue whose quota this queue draws from. Immutable.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf").message("clusterQueue is immutable: delete the LocalQueue and create it anew"))]
    pub cluster_queue: String,
    /// Whether jobs of this queue are admitted. Hold: admit no more, running jobs stay.
    /// HoldAndDrain: admit no more and evict what runs.
    #[serde(default)]
    pub stop_policy: StopPolicy,
    /// How much it may have used, beside the other LocalQueues of its ClusterQueue, if that admits by
    /// usage (`admissionScope`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
}

/// What is known of a LocalQueue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueStatus {
    /// Active: whether jobs of this queue can be admitted, and why not.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Job-like objects of this queue that are held by a gate annotation, and pods that would be
    /// admitted by themselves but for another gate than Sluice's. They are not queued.
    #[serde(default)]
    pub gated_workloads: i32,
    /// Workloads, and pods that are admitted by themselves, that wait for quota.
    #[serde(default)]
    pub pending_workloads: i32,
    /// Workloads and pods that hold quota.
    #[serde(default)]
    pub reserving_workloads: i32,
    /// Workloads and pods that hold quota and may run.
    #[serde(default)]
    pub admitted_workloads: i32,
    /// What is charged to jobs of this queue, by flavor and resource.
    #[serde(default)]
    pub flavors_usage: Vec<FlavorUsage>,
    /// What pending Workloads and pods of this queue ask for in all, by resource.
    #[serde(default)]
    pub pending_requests: ResourceList,
    /// How this queue stands beside the others of its ClusterQueue, if that admits by usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<LocalQueueFairSharingStatus>,
}
