//! What can be said about queues and cohorts from outside: active or not, how many wait, how much
//! is used. Read-only views; the account itself is `ledger.rs` and `tree.rs`.

use std::collections::BTreeMap;
use std::fmt;

use crate::amount::Amount;
use crate::model::Consumed;
use crate::names::{CohortName, FlavorName, QueueName, ResourceName};
use crate::share::Share;

/// Amounts by flavor and resource.
pub type ByFlavor<T> = BTreeMap<FlavorName, BTreeMap<ResourceName, T>>;

/// How a ClusterQueue stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Whether it can admit; if not, why not.
    pub active: Result<(), InactiveReason>,
    /// How many workloads wait for it, those of stopped LocalQueues included.
    pub pending: usize,
    /// What those ask for together, the pods themselves as `pods`: what is above zero, and of
    /// those workloads only whose requests can be counted.
    pub pending_requests: BTreeMap<ResourceName, Amount>,
    /// How many workloads are charged to it.
    pub reserving: usize,
    /// How many of those have a durable admission: assumed ones and evicted ones don't count.
    pub admitted: usize,
    /// What is used of each flavor that it has quota for or is charged for.
    pub usage: ByFlavor<Usage>,
    /// With fair sharing: its dominant share of what its cohort lends.
    pub share: Option<Share>,
}

/// How much is used of what a ClusterQueue may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of it.
    pub total: Amount,
    /// What of it is used by pods that are bound to a node.
    pub allocated: Amount,
    /// What of it is above the nominal quota.
    pub borrowed: Amount,
}

/// How much is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// All of it.
    pub total: Amount,
    /// What of it is charged for pods that are bound to a node.
    pub allocated: Amount,
}

/// How a LocalQueue stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalQueueStatus {
    /// Whether its workloads can be admitted; if not, why not.
    pub active: Result<(), LocalQueueInactiveReason>,
    /// How many of its workloads wait.
    pub pending: usize,
    /// What those ask for together, counted as in [`QueueStatus::pending_requests`].
    pub pending_requests: BTreeMap<ResourceName, Amount>,
    /// How many of its workloads hold quota.
    pub reserving: usize,
    /// How many of those have a durable admission: assumed ones and evicted ones don't count.
    pub admitted: usize,
    /// What they use, whichever ClusterQueues are charged for it.
    pub usage: ByFlavor<Charged>,
    /// What was used over time, if the ClusterQueue admits by use.
    pub consumed: Option<Consumed>,
}

/// How a cohort stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CohortStatus {
    /// Whether queues below it can admit; if not, why not.
    pub active: Result<(), InactiveReason>,
    /// What the cohort and everything below it may use without borrowing from above, as far as it
    /// is lent to the cohort.
    pub quota: ByFlavor<Amount>,
    /// What is used of that.
    pub usage: ByFlavor<Amount>,
    /// With fair sharing: its dominant share of what the cohort above lends.
    pub share: Option<Share>,
}

/// Why a ClusterQueue or cohort admits nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InactiveReason {
    /// It is stopped.
    Stopped,
    /// Flavors that it has quota for don't exist.
    FlavorNotFound(Vec<FlavorName>),
    /// Following parents from here leads into a circle of these cohorts.
    CohortCycle(Vec<CohortName>),
    /// The cohort tree has more than [`crate::limits::TREE_DEPTH_MAX`] levels.
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
    ClusterQueueNotFound(QueueName),
    /// The ClusterQueue is inactive.
    ClusterQueueInactive(InactiveReason),
}

/// Everything that decisions depend on and that is kept step by step, in a form that can be
/// compared: two engines that were told the same state have equal snapshots after `decide`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What each ClusterQueue name is charged, its object existing or not.
    pub queues: BTreeMap<QueueName, ByFlavor<Amount>>,
    /// What each cohort is charged for what is below it.
    pub cohorts: BTreeMap<CohortName, ByFlavor<Amount>>,
    /// The workloads that each ClusterQueue considers, in order.
    pub pending: BTreeMap<QueueName, Vec<crate::names::WorkloadId>>,
}

impl Usage {
    /// What is charged for pods that aren't bound to a node yet.
    pub fn reserved(self) -> Amount {
        self.total.minus(self.allocated)
    }
}

impl Charged {
    /// What is charged for pods that aren't bound to a node yet.
    pub fn reserved(self) -> Amount {
        self.total.minus(self.allocated)
    }
}

impl InactiveReason {
    /// A short word for the reason, for conditions: one of a closed set.
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
                crate::limits::TREE_DEPTH_MAX
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
    let shown = crate::limits::NAMES_SHOWN_MAX;
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
