//! What the engine is told about: flavors, cohorts, queues and workloads, in plain data. Where
//! they come from and how they are validated is the caller's business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::amount::Amount;
use crate::names::{
    CohortName, FlavorName, LocalQueueKey, PodSetName, QueueName, ResourceName, WorkloadId,
};
use crate::nodes::{NodeSelectorTerm, Taint, Toleration};
use crate::preemption::Preemption;
use crate::time::Time;

/// A kind of node that quota is given for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// Its name.
    pub name: FlavorName,
    /// The labels that nodes of this flavor have.
    pub node_labels: BTreeMap<String, String>,
    /// The taints that nodes of this flavor have.
    pub node_taints: Vec<Taint>,
    /// Tolerations that pods get when they are admitted to this flavor.
    pub tolerations: Vec<Toleration>,
}

/// A node of the tree in which queues share their quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cohort {
    /// Its name.
    pub name: CohortName,
    /// The cohort above; none for a root.
    pub parent: Option<CohortName>,
    /// Quota that belongs to the cohort itself.
    pub resource_groups: Vec<ResourceGroup>,
    /// How much of what the cohort above lends it is due, beside its siblings (fair sharing).
    pub fair_weight: Weight,
}

/// A queue that holds quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterQueue {
    /// Its name.
    pub name: QueueName,
    /// The cohort that it shares with. A cohort that has no object is a root without quota.
    pub cohort: Option<CohortName>,
    /// Whether a workload that doesn't fit blocks those behind it.
    pub strategy: QueueingStrategy,
    /// Its quota. If two groups cover a resource, the first counts.
    pub resource_groups: Vec<ResourceGroup>,
    /// Whether it admits, and keeps what it admitted.
    pub stop: StopPolicy,
    /// Which flavor ends the search.
    pub fungibility: FlavorFungibility,
    /// Who may be evicted to make room.
    pub preemption: Preemption,
    /// How much of what the cohort lends it is due, beside its siblings (fair sharing).
    pub fair_weight: Weight,
    /// What decides between its LocalQueues.
    pub admission_mode: AdmissionMode,
    /// How many of its waiting workloads are queued; those that come after them, in the order of the
    /// queue, wait outside. None: all are queued.
    pub max_pending: Option<usize>,
    /// How long a workload may hold quota that its pods don't use. None: for ever.
    pub reservation_timeout: Option<Duration>,
}

/// A share's weight, in thousandths: with twice the weight, twice as much makes the same share. With
/// none, whatever is borrowed is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// The weight that everyone has unless told otherwise.
    pub const ONE: Self = Self(1000);

    /// So many thousandths.
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// Its thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

/// What decides which of a ClusterQueue's LocalQueues is next: Kueue's `admissionScope`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionMode {
    /// Nothing: only the workloads' order counts.
    #[default]
    ByOrder,
    /// The LocalQueue that has used the least comes first; within it the workloads' order counts.
    ByUsage,
}

/// Which flavor ends the search: Kueue's `flavorFungibility`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlavorFungibility {
    /// Whether a flavor that fits only by borrowing ends it.
    pub when_can_borrow: WhenCanBorrow,
    /// Whether a flavor that fits only when others have gone ends it.
    pub when_can_preempt: WhenCanPreempt,
    /// What is better, if the search went past both.
    pub preference: FlavorPreference,
}

/// Whether a workload that doesn't fit blocks those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueingStrategy {
    /// It doesn't.
    #[default]
    BestEffortFifo,
    /// It does.
    StrictFifo,
}

/// Whether a queue admits, and what becomes of what it has admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopPolicy {
    /// It admits.
    #[default]
    None,
    /// It admits nothing more.
    Hold,
    /// It admits nothing more, and what it has admitted is evicted.
    HoldAndDrain,
}

/// What to do when a flavor fits only by borrowing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanBorrow {
    /// Take it.
    #[default]
    MayStopSearch,
    /// Look for a later flavor that fits without borrowing; if there is none, take the first that
    /// fits by borrowing.
    TryNextFlavor,
}

/// What to do when a flavor fits only when others have gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanPreempt {
    /// Look for a later flavor where nobody has to go; if there is none, come back.
    #[default]
    TryNextFlavor,
    /// Take it.
    MayStopSearch,
}

/// What is better, when one flavor fits by borrowing and another when others have gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlavorPreference {
    /// To borrow.
    #[default]
    BorrowingOverPreemption,
    /// To let others go.
    PreemptionOverBorrowing,
}

/// Resources that are always taken from one flavor together, and the flavors in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceGroup {
    /// The resources of this group.
    pub covered_resources: BTreeSet<ResourceName>,
    /// The flavors, in the order in which they are tried.
    pub flavors: Vec<FlavorQuotas>,
}

/// The quota of one flavor. A covered resource that is not listed can't be had in this flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorQuotas {
    /// The flavor.
    pub name: FlavorName,
    /// Its quota for each resource.
    pub resources: BTreeMap<ResourceName, Quota>,
}

/// How much of one resource in one flavor. Amounts below zero count as zero, amounts above
/// [`Amount::LIMIT`] as that limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// What is one's own.
    pub nominal: Amount,
    /// How much more than its own quota (for a cohort: than that of its subtree) may be used;
    /// none means as much as there is. Without a cohort above it means nothing.
    pub borrowing_limit: Option<Amount>,
    /// How much of its quota others may use; none means all of it.
    pub lending_limit: Option<Amount>,
}

/// A queue of a namespace: the way into a ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalQueue {
    /// Its namespace and name.
    pub key: LocalQueueKey,
    /// The ClusterQueue that its workloads wait in.
    pub cluster_queue: QueueName,
    /// Whether its workloads are admitted, and stay so.
    pub stop: StopPolicy,
    /// Whether the ClusterQueue's namespace selector matches this namespace.
    pub namespace_selected: bool,
    /// How much it may have used, beside the other LocalQueues of its ClusterQueue
    /// ([`AdmissionMode::ByUsage`]).
    pub fair_weight: Weight,
    /// What it had used by some moment, as was recorded. Counts if it isn't older than what is known.
    pub consumed: Option<Consumed>,
}

/// What was used up to some moment, less and less of it as it is longer ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// The moment.
    pub at: Time,
    /// By resource, in all flavors together.
    pub amounts: BTreeMap<ResourceName, Amount>,
}

/// Something that waits for quota as a whole, or holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its UID.
    pub id: WorkloadId,
    /// The LocalQueue that it names.
    pub queue: LocalQueueKey,
    /// Higher goes first.
    pub priority: i32,
    /// Earlier goes first, at equal priority. Any unit, the same for all workloads.
    pub created: i64,
    /// What it asks for.
    pub pod_sets: Vec<PodSet>,
    /// It is not looked at before this moment: it backs off. Means nothing unless it is
    /// [`WorkloadState::Pending`].
    pub not_before: Option<Time>,
    /// Whether it goes when it is told to. One that doesn't is never preempted, and nobody waits for
    /// it to go.
    pub evictable: bool,
    /// Where it is on its way.
    pub state: WorkloadState,
}

/// A number of equal pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodSet {
    /// Its name within the workload.
    pub name: PodSetName,
    /// How many pods.
    pub count: u32,
    /// How many pods will do if there is no room for all (partial admission); none means all.
    pub min_count: Option<u32>,
    /// What each pod asks for. The resource `pods` is ignored here: the engine counts pods itself
    /// where a queue has quota for them.
    pub requests: BTreeMap<ResourceName, Amount>,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of the terms must match, if there are any.
    pub affinity: Vec<NodeSelectorTerm>,
    /// Taints of nodes that the pods put up with.
    pub tolerations: Vec<Toleration>,
}

/// Where a workload is on its way, as the durable record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    /// It waits for quota.
    Pending,
    /// It takes no part for now.
    Inactive,
    /// It holds quota.
    Admitted(Admission),
    /// It still holds quota, on its way out, and for whom if it makes room for another one. Nobody named
    /// is whom the engine named, if it did.
    Evicting(Admission, Option<WorkloadId>),
    /// It has ended.
    Finished,
}

/// What a workload holds, and from which queue, whatever its LocalQueue points to by now. Cheap to clone:
/// equal workloads share what their pod sets hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The ClusterQueue that is charged.
    pub queue: QueueName,
    /// Since when.
    pub since: Time,
    /// Since when it holds quota that its pods don't use, so that
    /// [`ClusterQueue::reservation_timeout`] counts. None: it doesn't, or nobody knows.
    pub unused_since: Option<Time>,
    /// What each pod set holds.
    pub pod_sets: Arc<[PodSetAssignment]>,
}

/// What one pod set holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetAssignment {
    /// The pod set.
    pub name: PodSetName,
    /// How many pods, without those that have ended for good.
    pub count: u32,
    /// The flavor that each resource is taken from.
    pub flavors: BTreeMap<ResourceName, FlavorName>,
    /// What is charged, for all pods of the set together. A resource without a flavor is charged
    /// to nothing.
    pub usage: BTreeMap<ResourceName, Amount>,
    /// How many of these pods are bound to a node; at most `count` of them count. That part of the
    /// usage is *allocated*, the rest is *reserved*; the charge is the same.
    pub bound: u32,
}

impl Cohort {
    /// A root without quota.
    pub fn new(name: CohortName) -> Self {
        Self {
            name,
            parent: None,
            resource_groups: Vec::new(),
            fair_weight: Weight::ONE,
        }
    }
}

impl ClusterQueue {
    /// A queue without quota and cohort, with what holds where nothing is said.
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            cohort: None,
            strategy: QueueingStrategy::default(),
            resource_groups: Vec::new(),
            stop: StopPolicy::default(),
            fungibility: FlavorFungibility::default(),
            preemption: Preemption::default(),
            fair_weight: Weight::ONE,
            admission_mode: AdmissionMode::default(),
            max_pending: None,
            reservation_timeout: None,
        }
    }
}

impl LocalQueue {
    /// A way into `cluster_queue`, which selects its namespace.
    pub fn new(key: LocalQueueKey, cluster_queue: QueueName) -> Self {
        Self {
            key,
            cluster_queue,
            stop: StopPolicy::default(),
            namespace_selected: true,
            fair_weight: Weight::ONE,
            consumed: None,
        }
    }
}

impl Workload {
    /// A workload that waits and asks for nothing yet.
    pub fn new(id: WorkloadId, queue: LocalQueueKey) -> Self {
        Self {
            id,
            queue,
            priority: 0,
            created: 0,
            pod_sets: Vec::new(),
            not_before: None,
            evictable: true,
            state: WorkloadState::Pending,
        }
    }
}

impl PodSet {
    /// So many pods that ask for nothing yet.
    pub fn new(name: PodSetName, count: u32) -> Self {
        Self {
            name,
            count,
            min_count: None,
            requests: BTreeMap::new(),
            node_selector: BTreeMap::new(),
            affinity: Vec::new(),
            tolerations: Vec::new(),
        }
    }
}

impl Admission {
    /// Whether both are charged the same to the same queue, on whichever nodes their pods are.
    pub(crate) fn holds_the_same_as(&self, other: &Self) -> bool {
        let Self {
            queue,
            since: _,
            unused_since: _,
            pod_sets,
        } = self;
        *queue == other.queue
            && pod_sets.len() == other.pod_sets.len()
            && (pod_sets.iter().zip(&*other.pod_sets))
                .all(|(one, other)| one.holds_the_same_as(other))
    }
}

impl PodSetAssignment {
    /// What it holds when so many of its pods have ended for good: each pod gives back an equal part
    /// of the usage, and what doesn't divide stays charged.
    #[must_use]
    pub fn without(mut self, ended: u32) -> Self {
        let ended = ended.min(self.count);
        // Without this, a set of no pods would give back whatever is charged for it.
        if 0 < ended {
            for amount in self.usage.values_mut() {
                *amount = amount.minus(amount.share(ended, self.count));
            }
            self.count -= ended;
        }
        self
    }

    fn holds_the_same_as(&self, other: &Self) -> bool {
        // What `bound` and `count` say about a usage, they say about what part of it is allocated.
        let Self {
            name: _,
            count: _,
            flavors,
            usage,
            bound: _,
        } = self;
        (flavors, usage) == (&other.flavors, &other.usage)
    }

    /// What of an amount that all pods of the set use together is used by those on a node.
    pub(crate) fn allocated(&self, amount: Amount) -> Amount {
        amount.share(self.bound, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_assignment(count: u32, usage: i128) -> PodSetAssignment {
        PodSetAssignment {
            name: "main".into(),
            count,
            flavors: BTreeMap::new(),
            usage: BTreeMap::from([("cpu".into(), Amount::new(usage))]),
            bound: 0,
        }
    }

    #[test]
    fn pods_that_have_ended_give_back_their_part() {
        let limit = Amount::LIMIT.get();
        let cases = [
            ("none", (4, 8), 0, (4, 8)),
            ("one", (4, 8), 1, (3, 6)),
            ("all", (4, 8), 4, (0, 0)),
            ("more than all", (4, 8), 5, (0, 0)),
            ("what does not divide stays", (3, 7), 1, (2, 5)),
            ("down to the last pod", (3, 7), 2, (1, 3)),
            ("a set of no pods", (0, 8), 0, (0, 8)),
            ("of a set of no pods", (0, 8), 3, (0, 8)),
            (
                "much of many",
                (u32::MAX, limit),
                u32::MAX - 1,
                (1, limit / i128::from(u32::MAX) + 1),
            ),
        ];
        for (name, (count, usage), ended, (left, charged)) in cases {
            let found = mk_assignment(count, usage).without(ended);
            assert_eq!(found, mk_assignment(left, charged), "{name}");
        }
    }
}
