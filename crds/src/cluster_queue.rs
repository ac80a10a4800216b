//! `ClusterQueue`: quota for many namespaces, and the quota types that a Cohort shares with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fair_sharing::{AdmissionScope, FairSharing, FairSharingStatus};
use crate::preemption::ClusterQueuePreemption;
use crate::quantity::{Quantity, ResourceList};

/// Quota that LocalQueues of many namespaces draw from.
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
    doc = "Quota that LocalQueues of many namespaces draw from.",
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
    /// The quota: groups of resources, each with the flavors it is to be had in. A resource
    /// belongs to one group; within a group every flavor has quota for every resource. At most 16
    /// groups, each with up to 64 flavors and 64 resources; 256 flavors and 256 resources in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub resource_groups: Vec<ResourceGroup>,
    /// The cohort to borrow unused quota from and to lend it to. A cohort needs no Cohort object to
    /// exist. Empty: this queue neither borrows nor lends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub cohort_name: Option<String>,
    /// Which pending job is looked at. StrictFIFO: jobs go in order of priority, then age, and a
    /// head that doesn't fit blocks the rest. BestEffortFIFO: younger jobs that fit may pass it.
    #[serde(default)]
    pub queueing_strategy: QueueingStrategy,
    /// Namespaces whose LocalQueues may point here. `{}` selects all; absent selects none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Which flavor a job is given, of several that would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor_fungibility: Option<FlavorFungibility>,
    /// Who may be evicted to make room for jobs of this queue. Absent: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<ClusterQueuePreemption>,
    /// What is due to this queue of what its cohort lends, if the controller shares fairly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
    /// What decides between the LocalQueues of this queue. Absent: nothing but the order of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_scope: Option<AdmissionScope>,
    /// How many waiting jobs are queued: the first so many by priority, then age. The others wait
    /// outside, and are not looked at. Absent: all are queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_pending: Option<i32>,
    /// Whether jobs are admitted. Hold: admit no more, running jobs stay. HoldAndDrain: admit no more
    /// and evict what runs.
    #[serde(default)]
    pub stop_policy: StopPolicy,
    /// How long quota may be held by pods that no node has room for. Absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// What becomes of a job that asks for a resource that no resource group covers. Block: it is
    /// inadmissible. Ignore: the resource is not counted. Absent: as the controller's configuration says,
    /// which by default ignores ephemeral-storage and huge pages and blocks all else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undeclared_resources: Option<UndeclaredResources>,
    /// What becomes of pods that have to give their quota back and that no controller would make again:
    /// bare pods, by themselves or in a group. Delete: they are deleted, like any other pod that is
    /// evicted. Keep: they stay, and so they may not borrow.
    #[serde(default)]
    pub when_not_restartable: WhenNotRestartable,
}

/// What becomes of evicted pods that no controller would make again.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenNotRestartable {
    /// They are deleted.
    #[default]
    Delete,
    /// They are never evicted, and are admitted within the nominal quota of their ClusterQueue alone.
    Keep,
}

/// What becomes of a job that asks for a resource that its ClusterQueue does not cover.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndeclaredResources {
    /// The job is inadmissible.
    Block,
    /// The resource is not counted.
    Ignore,
}

/// How long quota may be held without being used, and what happens then.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// A job whose pods are not all bound to nodes this long after they were released gives its quota
    /// back and waits again. A pod that is admitted by itself is deleted if a controller makes
    /// another one in its place.
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_seconds: i32,
    /// How long such a job backs off before it waits again.
    #[serde(default)]
    pub backoff: Backoff,
}

/// How long a job that gave its quota back backs off: `baseSeconds`, and twice as long each time.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// After the first time.
    #[serde(default = "backoff_base")]
    #[schemars(range(min = 1, max = 86_400))]
    pub base_seconds: i32,
    /// At most.
    #[serde(default = "backoff_max")]
    #[schemars(range(min = 1, max = 604_800))]
    pub max_seconds: i32,
    /// A job that has given its quota back this often is deactivated (`Workload.spec.active`)
    /// instead of queued again. Absent: never. Pods that are admitted by themselves have no such
    /// limit.
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

/// A set of resources and the flavors they are to be had in.
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
    /// How much may always be used here.
    pub nominal_quota: Quantity,
    /// How much more than nominalQuota may be borrowed from the cohort. Absent: as much as it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowing_limit: Option<Quantity>,
    /// How much of nominalQuota the cohort may use while it is free here. Absent: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending_limit: Option<Quantity>,
}

/// The order in which pending jobs are looked at.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueingStrategy {
    /// By priority, then age; a job that doesn't fit is passed by younger ones that do.
    #[default]
    BestEffortFIFO,
    /// By priority, then age; a job that doesn't fit blocks those behind it.
    StrictFIFO,
}

/// Whether a queue admits jobs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopPolicy {
    /// Jobs are admitted.
    #[default]
    None,
    /// No job is admitted; running ones stay.
    Hold,
    /// No job is admitted; running ones are evicted.
    HoldAndDrain,
}

/// Which flavor a job is given, of several that would do. They are tried in their order; one where it
/// fits at once and without borrowing is always taken.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorFungibility {
    /// Whether a flavor that fits only by borrowing is taken (MayStopSearch, the default) or later
    /// flavors are looked at first (TryNextFlavor).
    #[serde(default)]
    pub when_can_borrow: WhenCanBorrow,
    /// Whether a flavor that fits only when others have gone is taken (MayStopSearch) or later flavors
    /// are looked at first (TryNextFlavor, the default).
    #[serde(default)]
    pub when_can_preempt: WhenCanPreempt,
    /// What is taken if all flavors were looked at and one fits by borrowing, another when others have
    /// gone: the first (BorrowingOverPreemption, the default) or the second (PreemptionOverBorrowing).
    #[serde(default)]
    pub preference: FlavorPreference,
}

/// Whether a flavor that fits only by borrowing ends the search.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanBorrow {
    /// Take it.
    #[default]
    MayStopSearch,
    /// Look first whether a later flavor fits without borrowing.
    TryNextFlavor,
}

/// Whether a flavor that fits only when others have gone ends the search.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanPreempt {
    /// Take it.
    MayStopSearch,
    /// Look first whether a later flavor fits without.
    #[default]
    TryNextFlavor,
}

/// What is better, to borrow or to let others go.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlavorPreference {
    /// To borrow.
    #[default]
    BorrowingOverPreemption,
    /// To let others go.
    PreemptionOverBorrowing,
}

/// What is known of a ClusterQueue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueStatus {
    /// Active: whether jobs are admitted, and why not.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Workloads, and pods that are admitted by themselves, that wait for quota.
    #[serde(default)]
    pub pending_workloads: i32,
    /// Workloads and pods that hold quota.
    #[serde(default)]
    pub reserving_workloads: i32,
    /// Workloads and pods that hold quota and may run.
    #[serde(default)]
    pub admitted_workloads: i32,
    /// What is charged, by flavor and resource.
    #[serde(default)]
    pub flavors_usage: Vec<FlavorUsage>,
    /// What pending Workloads and pods ask for in all, by resource.
    #[serde(default)]
    pub pending_requests: ResourceList,
    /// How this queue stands in its cohort, if the controller shares fairly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharingStatus>,
}

/// What is charged to one flavor.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FlavorUsage {
    /// The ResourceFlavor.
    pub name: String,
    /// The usage by resource.
    pub resources: Vec<ResourceUsage>,
}

/// What is charged of one resource.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// The resource.
    pub name: String,
    /// All that is charged: allocated and reserved.
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

/// In a status from before allocated was told from reserved.
fn nothing() -> Quantity {
    Quantity("0".to_owned())
}
