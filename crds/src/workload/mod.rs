//! `Workload`: the durable record of one queued Job-like object. How it is called is in `name`.
//!
//! Must not have behaviour.

mod name;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use k8s_openapi::api::node::v1::Scheduling;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::ResourceList;

pub use name::{group_workload_name, workload_name};

/// Before the namespace and the name of a pod group, where `status.makesRoomFor` names one. No UID has a slash.
pub const POD_GROUP_PREFIX: &str = "pod-group/";
/// Before the UID of a pod that is admitted by itself, there too.
pub const POD_PREFIX: &str = "pod/";

/// The durable record of one queued Job-like object: its requests and its admission.
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
    doc = "The durable record of one queued Job-like object: its requests and its admission. Sluice creates and updates it; users don't write it.",
    printcolumn(
        name = "Kind",
        type_ = "string",
        json_path = ".metadata.ownerReferences[0].kind"
    ),
    printcolumn(
        name = "Job",
        type_ = "string",
        json_path = ".metadata.ownerReferences[0].name"
    ),
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
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"QuotaReserved\")].reason"
    ),
    printcolumn(
        name = "Pods Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"PodsReady\")].status",
        priority = 1
    ),
    printcolumn(
        name = "Evicted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Evicted\")].status",
        priority = 1
    ),
    printcolumn(
        name = "Stalled",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Stalled\")].status",
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
    /// The requests of the job: its sets of equal pods.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pod_sets: Vec<PodSet>,
    /// Its priority in the queue.
    #[serde(default)]
    pub priority: i32,
    /// Where the priority comes from. Absent: the default priority, 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_ref: Option<PriorityClassRef>,
    /// Whether the Workload is queued. Sluice sets this to false when its reservation has timed out
    /// more often than `ClusterQueue.spec.reservation.backoff.limitCount` allows. Set it to true to
    /// queue the Workload again.
    #[serde(default = "active")]
    pub active: bool,
    /// When the job, or the oldest pod of its group, was created. Of pending jobs with equal priority,
    /// the oldest comes first, whenever its Workload was created.
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
    /// The smallest number of pods that may be admitted if there is not enough quota for all. Absent:
    /// all or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_count: Option<i32>,
    /// The requests of one pod as the scheduler counts them, and the devices that it claims, as the
    /// configuration counts them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: ResourceList,
    /// The ResourceClaimTemplates by which one pod claims devices. A template that is used twice is
    /// listed twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub resource_claim_templates: Vec<String>,
    /// The part of `requests` that these devices make, by the templates as they were when this was written.
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
    /// What the RuntimeClass of the pods adds to their nodeSelector and tolerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_scheduling: Option<Scheduling>,
}

/// The observed state of a Workload.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued, Finished, Stalled. The message
    /// of QuotaReserved says why the Workload is pending. The reason of Preempted says by which rule it
    /// was preempted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The quota that this Workload holds. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// How often the reservation of this Workload has timed out, and until when it backs off. Absent:
    /// never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_state: Option<RequeueState>,
    /// The preemptor, while the preempted Workload is stopping: the UID of its job, `pod/` and the UID of its
    /// pod, or the name of its pod group, if that is in the same namespace. The freed quota is reserved for
    /// the preemptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub makes_room_for: Option<String>,
    /// The pods that have ended and will not be replaced. Their quota is free while the other pods run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub reclaimable_pods: Vec<ReclaimablePod>,
}

/// The pods of a set whose quota is free.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimablePod {
    /// The name of the pod set.
    pub name: String,
    /// How many of its pods.
    #[schemars(range(min = 0))]
    pub count: i32,
}

/// The backoff after reservations that timed out.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RequeueState {
    /// The number of backoffs.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// When the Workload is queued again. Absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_at: Option<Time>,
}

/// The quota that a Workload holds.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// The ClusterQueue whose quota is used.
    pub cluster_queue: String,
    /// The cohort that the ClusterQueue was in at the admission. If the ClusterQueue is deleted, the usage counts in
    /// that cohort until the Workload has stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub cohort_name: Option<String>,
    /// The term of the leader that wrote this: `spec.leaseTransitions` and `metadata.uid` of its Lease.
    /// An admission that arrives after its leader's term counts only once the present leader has
    /// written its own term here. Nothing is released before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub term: Option<String>,
    /// The usage of each pod set.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pod_set_assignments: Vec<PodSetAssignment>,
}

/// The usage of a pod set.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodSetAssignment {
    /// The name of the pod set.
    pub name: String,
    /// The number of admitted pods. It is smaller than the count of the set only if the set has a
    /// `minCount`.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// The flavor of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flavors: BTreeMap<String, String>,
    /// The usage of all pods of the set together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_usage: ResourceList,
    /// The flavors' nodeLabels, which are added to the nodeSelector of the pod template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// The flavors' tolerations, which are added to the tolerations of the pod template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}
