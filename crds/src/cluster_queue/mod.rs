//! `ClusterQueue`: quota for many namespaces, and the quota types that a Cohort shares with it. Which jobs may be
//! preempted for a job of it is in `preemption`.
//!
//! Must not have behaviour.

mod preemption;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fair_sharing::{AdmissionScope, FairSharing, FairSharingStatus};
use crate::priority_class::QueuePriorityClasses;
use crate::quantity::{Quantity, ResourceList};

pub use preemption::{
    BorrowWithinCohort, BorrowWithinCohortPolicy, ClusterQueuePreemption, ReclaimWithinCohort,
    WithinClusterQueue,
};

/// Quota for the jobs of LocalQueues in any number of namespaces.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "ClusterQueue",
    plural = "clusterqueues",
    shortname = "cq",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    status = "ClusterQueueStatus",
    doc = "Quota for the jobs of LocalQueues in any number of namespaces.",
    printcolumn(name = "Cohort", type_ = "string", json_path = ".spec.cohortName"),
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.queueingStrategy",
        priority = 1
    ),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].status"
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
#[x_kube(validation = Rule::new("!has(self.resourceGroups) || self.resourceGroups.map(g, size(g.flavors)).sum() <= 256").message("all resource groups together must have at most 256 flavors"))]
#[x_kube(validation = Rule::new("!has(self.resourceGroups) || self.resourceGroups.map(g, size(g.coveredResources)).sum() <= 256").message("all resource groups together must cover at most 256 resources"))]
pub struct ClusterQueueSpec {
    /// The quota, in groups of resources that are available in the same flavors. A resource belongs to
    /// one group, and every flavor of a group has quota for every resource of the group. At most 16
    /// groups, each with up to 64 flavors and 64 resources; at most 256 flavors and 256 resources in
    /// all groups together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub resource_groups: Vec<ResourceGroup>,
    /// The cohort whose queues borrow unused quota from each other. A cohort needs no Cohort object to
    /// exist. Empty: this queue neither borrows nor lends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub cohort_name: Option<String>,
    /// Which pending jobs are considered. StrictFIFO: jobs are admitted by priority, then age, and a
    /// head that doesn't fit blocks the jobs behind it. BestEffortFIFO: jobs behind it that fit are
    /// admitted.
    #[serde(default)]
    pub queueing_strategy: QueueingStrategy,
    /// Namespaces whose LocalQueues may point here. `{}` selects all; absent selects none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Which flavor is assigned to a job that fits in several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor_fungibility: Option<FlavorFungibility>,
    /// Which jobs may be preempted for pending jobs of this queue. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<ClusterQueuePreemption>,
    /// Which priority classes the jobs of this queue may have. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_classes: Option<QueuePriorityClasses>,
    /// This queue's part of the quota that its cohort can lend. It counts only if the controller's
    /// configuration has fairSharing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
    /// How the LocalQueues of this queue compete. Absent: only by the priority and age of their jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_scope: Option<AdmissionScope>,
    /// How many pending jobs are considered for admission: the first ones by priority, then age; with
    /// admissionScope, the first of each LocalQueue, then the second of each. All other pending jobs are
    /// ignored until they are among the first. Absent: all are considered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_pending: Option<i32>,
    /// Whether jobs are admitted. None: they are. Hold: no more jobs are admitted, and admitted jobs
    /// keep running. HoldAndDrain: no more jobs are admitted, and admitted jobs are evicted.
    #[serde(default)]
    pub stop_policy: StopPolicy,
    /// How long admitted pods may hold quota without being bound to a node. Absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// How a job is treated that requests a resource that no resource group covers. Block: the job is
    /// inadmissible. Ignore: the resource is not counted. Absent: as the controller's configuration
    /// says, by default Ignore for ephemeral-storage, hugepages-1Gi and hugepages-2Mi, and Block for all other resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undeclared_resources: Option<UndeclaredResources>,
    /// How pods are evicted that no controller would recreate: bare pods, by themselves or in a group.
    /// Delete: they are deleted, like any other evicted pod. Keep: they are never evicted, and they may
    /// not borrow.
    #[serde(default)]
    pub when_not_restartable: WhenNotRestartable,
}

/// How pods are evicted that no controller would recreate.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenNotRestartable {
    /// They are deleted.
    #[default]
    Delete,
    /// They are never evicted, and are admitted within the nominal quota of their ClusterQueue alone.
    Keep,
}

/// How a job is treated that requests a resource that its ClusterQueue does not cover.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndeclaredResources {
    /// The job is inadmissible.
    Block,
    /// The resource is not counted.
    Ignore,
}

/// How long quota may be held without being used, and how often.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// A job is evicted if not all of its pods are bound to nodes within this time after its release. A
    /// pod that is admitted by itself is deleted, also a bare pod unless whenNotRestartable is Keep.
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_seconds: i32,
    /// A job all of whose pods were bound to nodes may lose some of them later, and wait for those that replace
    /// them. It is evicted if one of these is not bound within this time after its creation. Absent: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub recovery_timeout_seconds: Option<i32>,
    /// How long an evicted job backs off before it is queued again.
    #[serde(default)]
    pub backoff: Backoff,
}

/// How long a job backs off whose reservation timed out, or whose release was blocked: `baseSeconds`, and twice as long
/// each further time.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// The backoff after the first timeout, in seconds.
    #[serde(default = "backoff_base")]
    #[schemars(range(min = 1, max = 86_400))]
    pub base_seconds: i32,
    /// The longest backoff, in seconds.
    #[serde(default = "backoff_max")]
    #[schemars(range(min = 1, max = 604_800))]
    pub max_seconds: i32,
    /// After this number of backoffs, the next timeout deactivates the job (`Workload.spec.active:
    /// false`). Absent: no limit. Pods that are admitted by themselves have no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub limit_count: Option<i32>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base_seconds: backoff_base(),
            max_seconds: backoff_max(),
            limit_count: None,
        }
    }
}

fn backoff_base() -> i32 {
    60
}

fn backoff_max() -> i32 {
    3600
}

/// A set of resources, and the flavors in which they are available.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
// The names of each list are unique, so lists of one length are equal when one contains the other. `in`
// within two loops would exceed the cost budget of a CRD; `sets.contains` is estimated at 64 * 64.
#[x_kube(validation = Rule::new("self.flavors.all(f, size(f.resources) == size(self.coveredResources) && sets.contains(self.coveredResources, f.resources.map(r, r.name)))").message("every flavor must have quota for exactly the coveredResources of its group"))]
pub struct ResourceGroup {
    /// The resources of this group, for instance cpu, memory and pods. `pods` counts pods.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub covered_resources: Vec<String>,
    /// The flavors, in the order in which they are tried.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub flavors: Vec<FlavorQuotas>,
}

/// The quota of one flavor.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorQuotas {
    /// The name of a ResourceFlavor.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The quota, one entry for each of the group's coveredResources.
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub resources: Vec<ResourceQuota>,
}

/// The quota of one resource in one flavor.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota {
    /// The resource: cpu, memory, pods, nvidia.com/gpu …
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The amount that jobs of this queue may always use, or that the cohort itself adds.
    pub nominal_quota: Quantity,
    /// How much more than its quota may be borrowed from the cohort. That of a Cohort includes what is below it.
    /// Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowing_limit: Option<Quantity>,
    /// How much of its quota, if unused, may be lent to the cohort: in a ClusterQueue at most nominalQuota. That of a
    /// Cohort includes what is below it. Absent: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending_limit: Option<Quantity>,
}

/// The order in which pending jobs are considered.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueingStrategy {
    /// By priority, then age; jobs behind a job that doesn't fit are still considered.
    #[default]
    BestEffortFIFO,
    /// By priority, then age; a job that doesn't fit blocks the jobs behind it.
    StrictFIFO,
}

/// Whether a queue admits jobs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopPolicy {
    /// Jobs are admitted.
    #[default]
    None,
    /// No more jobs are admitted; admitted jobs keep running.
    Hold,
    /// No more jobs are admitted; admitted jobs are evicted.
    HoldAndDrain,
}

/// Which flavor is assigned to a job that fits in several. They are tried in their order; one where it
/// fits at once and without borrowing is always taken.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorFungibility {
    /// Whether a flavor in which the job fits by borrowing ends the search (MayStopSearch, the
    /// default), or later flavors are tried first (TryNextFlavor).
    #[serde(default)]
    pub when_can_borrow: WhenCanBorrow,
    /// Whether a flavor in which the job fits by preemption ends the search (MayStopSearch), or later
    /// flavors are tried first (TryNextFlavor, the default).
    #[serde(default)]
    pub when_can_preempt: WhenCanPreempt,
    /// Which flavor is assigned if the job fits in one flavor by borrowing and in another by
    /// preemption: the former (BorrowingOverPreemption, the default) or the latter
    /// (PreemptionOverBorrowing).
    #[serde(default)]
    pub preference: FlavorPreference,
}

/// Whether a flavor in which the job fits by borrowing ends the search.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanBorrow {
    /// Assign it.
    #[default]
    MayStopSearch,
    /// Try later flavors first.
    TryNextFlavor,
}

/// Whether a flavor in which the job fits by preemption ends the search.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanPreempt {
    /// Assign it.
    MayStopSearch,
    /// Try later flavors first.
    #[default]
    TryNextFlavor,
}

/// Whether borrowing or preemption is preferred.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlavorPreference {
    /// Borrowing.
    #[default]
    BorrowingOverPreemption,
    /// Preemption.
    PreemptionOverBorrowing,
}

/// The observed state of a ClusterQueue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueStatus {
    /// Active: whether jobs are admitted, and why not.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The number of pending Workloads, and of pending pods that are admitted by themselves.
    #[serde(default)]
    pub pending_workloads: i32,
    /// The number of Workloads and pods that hold quota.
    #[serde(default)]
    pub reserving_workloads: i32,
    /// The number of Workloads and pods that are admitted: they hold quota and may run.
    #[serde(default)]
    pub admitted_workloads: i32,
    /// The usage, by flavor and resource.
    #[serde(default)]
    pub flavors_usage: Vec<FlavorUsage>,
    /// The sum of the requests of pending Workloads and pods, by resource.
    #[serde(default)]
    pub pending_requests: ResourceList,
    /// What is held of the quota of each resource, in all flavors together, for people: `cpu 3/4, memory 2Gi/8Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// This queue's share in its cohort. Present only if the controller's configuration has fairSharing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharingStatus>,
}

/// The usage of one flavor.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorUsage {
    /// The ResourceFlavor.
    pub name: String,
    /// The usage by resource.
    pub resources: Vec<ResourceUsage>,
}

/// The usage of one resource.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// The resource.
    pub name: String,
    /// The whole usage: allocated and reserved.
    pub total: Quantity,
    /// The part of total whose pods are bound to nodes.
    #[serde(default = "nothing")]
    pub allocated: Quantity,
    /// The part of total whose pods are not bound to nodes yet.
    #[serde(default = "nothing")]
    pub reserved: Quantity,
    /// The part of total that is above nominalQuota. Absent for a LocalQueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowed: Option<Quantity>,
}

/// For a status that was written before allocated and reserved were separate fields.
fn nothing() -> Quantity {
    Quantity("0".to_owned())
}
