//! `LocalQueue`: a namespaced queue that uses the quota of a ClusterQueue.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster_queue::{FlavorUsage, StopPolicy};
use crate::fair_sharing::{FairSharing, LocalQueueFairSharingStatus};
use crate::quantity::ResourceList;

/// A namespaced queue for jobs, which name it in their label `sluice.dev/queue-name`. It uses the quota
/// of a ClusterQueue.
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
    doc = "A namespaced queue for jobs, which name it in their label `sluice.dev/queue-name`. It uses the quota of a ClusterQueue.",
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
    printcolumn(name = "Usage", type_ = "string", json_path = ".status.usage"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueSpec {
    /// The ClusterQueue whose quota the jobs of this queue use. Immutable.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf").message("clusterQueue is immutable: delete the LocalQueue and create it again"))]
    pub cluster_queue: String,
    /// Whether jobs of this queue are admitted. None: they are. Hold: no more jobs are admitted, and
    /// admitted jobs keep running. HoldAndDrain: no more jobs are admitted, and admitted jobs are
    /// evicted.
    #[serde(default)]
    pub stop_policy: StopPolicy,
    /// This queue's weight beside the other LocalQueues of its ClusterQueue. It counts only if the
    /// ClusterQueue admits by usage (`admissionScope`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
}

/// An object of a LocalQueue that gates hold.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GatedObject {
    /// Its kind, as in `Job.batch`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The gates that hold it.
    #[serde(default)]
    #[schemars(length(max = 17))]
    pub gates: Vec<String>,
    /// When it was created.
    pub since: Time,
}

/// The observed state of a LocalQueue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueStatus {
    /// Active: whether jobs of this queue can be admitted, and why not. Backlogged: whether a gate holds more objects of
    /// this queue, or for longer, than spec.backlog of its Gate says; absent until that is so for the first time.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The number of Job-like objects of this queue that a gate annotation holds, and of pods that
    /// other scheduling gates than Sluice's hold. They are not queued.
    #[serde(default)]
    pub gated_workloads: i32,
    /// The ten oldest objects of this queue that a gate annotation holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub oldest_gated: Vec<GatedObject>,
    /// The number of pending Workloads, and of pending pods that are admitted by themselves.
    #[serde(default)]
    pub pending_workloads: i32,
    /// The number of Workloads and pods that hold quota.
    #[serde(default)]
    pub reserving_workloads: i32,
    /// The number of Workloads and pods that are admitted: they hold quota and may run.
    #[serde(default)]
    pub admitted_workloads: i32,
    /// The usage of the jobs of this queue, by flavor and resource.
    #[serde(default)]
    pub flavors_usage: Vec<FlavorUsage>,
    /// The sum of the requests of pending Workloads and pods of this queue, by resource.
    #[serde(default)]
    pub pending_requests: ResourceList,
    /// What this queue holds of the nominal quota of its ClusterQueue, for people: `cpu 3/4, memory 2Gi/8Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// This queue's usage over time. Present only if its ClusterQueue admits by usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<LocalQueueFairSharingStatus>,
}
