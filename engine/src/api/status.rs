//! The status of queues and cohorts: whether they are active, how many workloads are pending and for which
//! reason, and what is used.

use std::collections::BTreeMap;
use std::fmt;

use crate::api::amount::Amount;
use crate::api::names::{
    ClusterQueueName, CohortName, FlavorName, NodeName, ResourceName, WorkloadId,
};
use crate::api::queues::Consumed;
use crate::api::quota::Quota;
use crate::api::share::{Share, Weight};

/// A workload of a LocalQueue that is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending<'a> {
    /// Higher comes first.
    pub priority: i32,
    /// Earlier comes first, at equal priority; then the smaller id.
    pub created: i64,
    /// The sum of its requests above zero, with the pods themselves as `pods`. Empty if they are not valid.
    pub requests: &'a [(ResourceName, Amount)],
}

/// Why a workload is pending, in one word. Where Kueue has a word for the same thing (KEP-10852), it is
/// that word, so that dashboards and alerts carry over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PendingReason {
    /// Its queue does not exist or can't be used, or its requests are not valid.
    Misconfigured,
    /// No flavor has a quota for what it requests and nodes that suit its pods.
    NoMatchingFlavor,
    /// Its LocalQueue or ClusterQueue is stopped.
    Suspended,
    /// It requests more than the ClusterQueue can ever give.
    ExceedsMaxQuota,
    /// It backs off after it could not use its quota. Kueue has no word for this.
    BackingOff,
    /// The limit of pending workloads of its ClusterQueue is reached. Kueue has no such limit.
    QueueFull,
    /// The quota that it needs is in use, or reserved for workloads that come before it.
    WaitingForQuota,
    /// Quota is reserved for it and becomes free when evicted workloads have stopped.
    WaitingForPreemptedWorkloads,
    /// It has not been looked at yet, or the head of its queue blocks it.
    PendingEvaluation,
}

impl PendingReason {
    /// The reason as conditions have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Misconfigured => "Misconfigured",
            Self::NoMatchingFlavor => "NoMatchingFlavor",
            Self::Suspended => "Suspended",
            Self::ExceedsMaxQuota => "ExceedsMaxQuota",
            Self::BackingOff => "BackingOff",
            Self::QueueFull => "QueueFull",
            Self::WaitingForQuota => "WaitingForQuota",
            Self::WaitingForPreemptedWorkloads => "WaitingForPreemptedWorkloads",
            Self::PendingEvaluation => "PendingEvaluation",
        }
    }

    /// Whether nothing can be done until the workload, its queue or the configuration changes.
    pub fn is_inadmissible(self) -> bool {
        matches!(
            self,
            Self::Misconfigured | Self::NoMatchingFlavor | Self::Suspended | Self::ExceedsMaxQuota
        )
    }
}

/// Amounts by flavor and resource.
pub type ByFlavor<T> = BTreeMap<FlavorName, BTreeMap<ResourceName, T>>;

/// The status of a ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Whether it can admit workloads; if not, why not.
    pub active: Result<(), InactiveReason>,
    /// The number of pending workloads, those of stopped LocalQueues included.
    pub pending: usize,
    /// Their total requests above zero, with the pods themselves as `pods`. Workloads with invalid requests
    /// are left out.
    pub pending_requests: BTreeMap<ResourceName, Amount>,
    /// The number of workloads with usage.
    pub reserving: usize,
    /// How many of those have a durable admission: assumed and evicted ones do not count.
    pub admitted: usize,
    /// The usage of each flavor with quota or usage.
    pub usage: ByFlavor<Usage>,
    /// With fair sharing: its dominant share of what its cohort lends.
    pub share: Option<Share>,
}

/// The quota of a ClusterQueue as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueQuota {
    /// Its cohort.
    pub cohort: Option<CohortName>,
    /// The quota of each resource in each flavor.
    pub quota: ByFlavor<Quota>,
}

/// The usage of one resource in one flavor in a ClusterQueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of it.
    pub total: Amount,
    /// The part of pods that are bound to a node.
    pub allocated: Amount,
    /// The part above the nominal quota.
    pub borrowed: Amount,
}

/// The usage of one resource in one flavor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// All of it.
    pub total: Amount,
    /// The part of pods that are bound to a node.
    pub allocated: Amount,
}

/// The status of a LocalQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalQueueStatus {
    /// Whether its workloads can be admitted; if not, why not.
    pub active: Result<(), LocalQueueInactiveReason>,
    /// The number of pending workloads.
    pub pending: usize,
    /// Their total requests, as in [`QueueStatus::pending_requests`].
    pub pending_requests: BTreeMap<ResourceName, Amount>,
    /// The number of workloads with usage.
    pub reserving: usize,
    /// How many of those have a durable admission: assumed and evicted ones do not count.
    pub admitted: usize,
    /// Their usage, in whichever ClusterQueues it counts.
    pub usage: ByFlavor<ResourceUsage>,
    /// The usage history, if the ClusterQueue admits by usage.
    pub consumed: Option<Consumed>,
}

/// The status of a cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CohortStatus {
    /// The cohort that it is in.
    pub parent: Option<CohortName>,
    /// Whether queues below it can admit workloads; if not, why not.
    pub active: Result<(), InactiveReason>,
    /// Its own quota as it is configured.
    pub configured: ByFlavor<Quota>,
    /// What the cohort and all nodes below it may use without borrowing from its parent, as far as it is
    /// lent to the cohort.
    pub quota: ByFlavor<Amount>,
    /// The usage of that.
    pub usage: ByFlavor<Amount>,
    /// The part of the usage above that quota.
    pub borrowed: ByFlavor<Amount>,
    /// With fair sharing: its dominant share of what its parent lends.
    pub share: Option<Share>,
}

/// A ClusterQueue or cohort of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// Which one.
    pub name: NodeName,
    /// The cohort that it is in.
    pub parent: Option<CohortName>,
    /// Whether it admits workloads, or queues below it can; if not, why not.
    pub active: Result<(), InactiveReason>,
    /// What each resource in each flavor comes to. Empty in an inactive tree.
    pub amounts: ByFlavor<NodeAmounts>,
    /// Its weight with fair sharing.
    pub weight: Weight,
    /// With fair sharing: its dominant share of what its parent lends.
    pub share: Option<Share>,
    /// The number of pending workloads. Zero for a cohort.
    pub pending: usize,
    /// The number of workloads with usage. Zero for a cohort.
    pub reserving: usize,
}

/// One resource in one flavor, in one node of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAmounts {
    /// The nominal quota of the node itself.
    pub nominal: Amount,
    /// What it may use without borrowing: its nominal quota and, for a cohort, what the nodes below lend it.
    pub quota: Amount,
    /// What is used. Of a cohort: what the nodes below it use of what they lend, or borrow.
    pub used: Amount,
    /// What it uses above its quota.
    pub borrowed: Amount,
    /// What it lends its parent at most.
    pub lendable: Amount,
    /// The part of that which others use: what they use above all quota that is not this node's.
    pub lent: Amount,
}

/// Why a ClusterQueue or cohort admits nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InactiveReason {
    /// It is stopped.
    Stopped,
    /// Flavors that it has quota for don't exist.
    FlavorNotFound(Vec<FlavorName>),
    /// Its parents lead into a cycle of these cohorts.
    CohortCycle(Vec<CohortName>),
    /// The cohort tree has more than [`crate::api::limits::TREE_DEPTH_MAX`] levels.
    CohortTreeTooDeep,
}

/// Why nothing is admitted from a LocalQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalQueueInactiveReason {
    /// It is stopped.
    Stopped,
    /// The ClusterQueue doesn't select its namespace.
    NamespaceNotSelected,
    /// The ClusterQueue doesn't exist.
    ClusterQueueNotFound(ClusterQueueName),
    /// The ClusterQueue is inactive.
    ClusterQueueInactive(InactiveReason),
}

/// Everything that decisions depend on and that is updated incrementally. Two engines with equal objects
/// have equal snapshots after `decide`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The usage of each ClusterQueue name, whether or not its object exists.
    pub queues: BTreeMap<ClusterQueueName, ByFlavor<Amount>>,
    /// The usage of each cohort by nodes below it.
    pub cohorts: BTreeMap<CohortName, ByFlavor<Amount>>,
    /// The queued workloads of each ClusterQueue, in order.
    pub pending: BTreeMap<ClusterQueueName, Vec<WorkloadId>>,
}

/// The amounts of each resource in all flavors together.
pub fn sum_by_resource<T>(
    by_flavor: &ByFlavor<T>,
    amount: impl Fn(&T) -> Amount,
) -> BTreeMap<ResourceName, Amount> {
    let mut sums: BTreeMap<ResourceName, Amount> = BTreeMap::new();
    for (resource, counted) in by_flavor.values().flatten() {
        let sum = sums.entry(resource.clone()).or_default();
        *sum = sum.plus(amount(counted));
    }
    sums
}

impl Usage {
    /// The part of pods that are not bound to a node yet.
    pub fn reserved(self) -> Amount {
        self.total.minus(self.allocated)
    }
}

impl ResourceUsage {
    /// The part of pods that are not bound to a node yet.
    pub fn reserved(self) -> Amount {
        self.total.minus(self.allocated)
    }
}

impl InactiveReason {
    /// The reason as one word for conditions, out of a closed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::FlavorNotFound(_) => "FlavorNotFound",
            Self::CohortCycle(_) => "CohortCycle",
            Self::CohortTreeTooDeep => "CohortTreeTooDeep",
        }
    }
}

impl fmt::Display for InactiveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("it is stopped"),
            Self::FlavorNotFound(flavors) => {
                f.write_str("ResourceFlavors that don't exist: ")?;
                write_names(f, flavors.iter().map(FlavorName::as_str))
            }
            Self::CohortCycle(cohorts) => {
                f.write_str("cohorts that are each other's parents: ")?;
                write_names(f, cohorts.iter().map(CohortName::as_str))
            }
            Self::CohortTreeTooDeep => write!(
                f,
                "the cohort tree has more than {} levels",
                crate::api::limits::TREE_DEPTH_MAX
            ),
        }
    }
}

impl fmt::Display for LocalQueueInactiveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("it is stopped"),
            Self::NamespaceNotSelected => {
                f.write_str("its ClusterQueue doesn't select this namespace")
            }
            Self::ClusterQueueNotFound(queue) => {
                write!(f, "ClusterQueue \"{queue}\" doesn't exist")
            }
            Self::ClusterQueueInactive(reason) => {
                write!(f, "its ClusterQueue is inactive: {reason}")
            }
        }
    }
}

/// The first few names, quoted, and the number of the others.
fn write_names<'a>(
    f: &mut fmt::Formatter<'_>,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> fmt::Result {
    let shown = crate::api::limits::NAMES_SHOWN_MAX;
    let more = names.len().saturating_sub(shown);
    for (index, name) in names.take(shown).enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}\"{name}\"")?;
    }
    if more > 0 {
        write!(f, " and {more} more")
    } else {
        Ok(())
    }
}
