//! `Workload`: the durable record of one queued Job-like object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::ResourceList;

/// The durable record of one queued Job-like object: what it asks for, and its admission.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "Workload",
    plural = "workloads",
    namespaced,
    shortname = "wl",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    status = "WorkloadStatus",
    doc = "The durable record of one queued Job-like object: what it asks for, and its admission. Made and kept by Sluice; not for users to write.",
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queueName"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(
        name = "Reserved In",
        type_ = "string",
        json_path = ".status.admission.clusterQueue"
    ),
    printcolumn(
        name = "Admitted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Admitted\")].status"
    ),
    printcolumn(
        name = "Pods Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"PodsReady\")].status",
        priority = 1
    ),
    printcolumn(
        name = "Finished",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Finished\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"QuotaReserved\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// The LocalQueue, in the Workload's namespace.
    pub queue_name: String,
    /// What the job asks for: its sets of equal pods.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pod_sets: Vec<PodSet>,
    /// Its priority in the queue.
    #[serde(default)]
    pub priority: i32,
    /// Where the priority comes from. Absent: the default priority, 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_ref: Option<PriorityClassRef>,
    /// Whether it takes part in the queue. Sluice sets this to false when it has given its quota back
    /// as often as `ClusterQueue.spec.reservation.backoff.limitCount` allows; true lets it wait again.
    #[serde(default = "active")]
    pub active: bool,
    /// When the job was created, or the oldest pod of the group: its place in the queue among those of
    /// equal priority. It stays the same however late the Workload was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_creation_timestamp: Option<Time>,
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            queue_name: String::new(),
            pod_sets: Vec::new(),
            priority: 0,
            priority_class_ref: None,
            active: true,
            job_creation_timestamp: None,
        }
    }
}

fn active() -> bool {
    true
}

/// The class that a priority comes from.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PriorityClassRef {
    /// `sluice.dev` or `scheduling.k8s.io`.
    pub group: String,
    /// `WorkloadPriorityClass` or `PriorityClass`.
    pub kind: String,
    /// The name of the class.
    pub name: String,
}

/// A set of equal pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.minCount) || self.minCount <= self.count").message("minCount must be no more than count"))]
pub struct PodSet {
    /// The name of the set, unique in the Workload.
    pub name: String,
    /// How many pods.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// How many of them will do, if there is no room for all. Absent: all or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_count: Option<i32>,
    /// What the scheduler will charge for one pod, and the devices that it claims, as the configuration
    /// counts them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: ResourceList,
    /// The ResourceClaimTemplates by which one pod claims devices, each as often as it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub resource_claim_templates: Vec<String>,
    /// The part of `requests` that stands for these devices, as the templates were when this was written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed_devices: ResourceList,
    /// The pods' own nodeSelector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// The terms of the pods' own required node affinity: one of them must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_node_affinity: Vec<NodeSelectorTerm>,
    /// The pods' own tolerations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// What is known of a Workload.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued, Finished, Stalled. The message of
    /// QuotaReserved says what a pending Workload waits for; the reason of Preempted, by which right it
    /// had to make room for another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The quota this Workload holds. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// How often it has given back quota that it could not use, and until when it waits because of
    /// that. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_state: Option<RequeueState>,
    /// While it is on its way out to make room for another workload: the UID of that one's job or pod, or
    /// what stands for its pod group, if that is of this namespace. What this Workload leaves is kept for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub makes_room_for: Option<String>,
    /// Pods that have ended and will not be replaced: their quota is free while the rest goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub reclaimable_pods: Vec<ReclaimablePod>,
}

/// Pods of a set whose quota is free.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimablePod {
    /// The name of the pod set.
    pub name: String,
    /// How many of its pods.
    #[schemars(range(min = 0))]
    pub count: i32,
}

/// Quota that was given back because it could not be used.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RequeueState {
    /// How often.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// It is not looked at before. Absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_at: Option<Time>,
}

/// The quota that a Workload holds.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// The ClusterQueue that is charged.
    pub cluster_queue: String,
    /// The term of the leader that wrote this: `spec.leaseTransitions` and `metadata.uid` of its Lease. One
    /// that comes in after the term of its leader has ended counts only when the present leader has written
    /// its own term here; nothing is released before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub term: Option<String>,
    /// What is charged for each pod set.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pod_set_assignments: Vec<PodSetAssignment>,
}

/// What is charged for a pod set.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodSetAssignment {
    /// The name of the pod set.
    pub name: String,
    /// How many pods are admitted: fewer than the set has only if it says by `minCount` that they will
    /// do.
    pub count: i32,
    /// The flavor of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flavors: BTreeMap<String, String>,
    /// What is charged for all pods of the set together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_usage: ResourceList,
    /// The flavors' labels, which the pod template gets as nodeSelector besides its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// The flavors' tolerations, which the pod template gets besides its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}
