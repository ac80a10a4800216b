//! Workloads: what they request, and what they were admitted with. The caller validates them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::amount::Amount;
use crate::api::names::{
    ClusterQueueName, CohortName, FlavorName, LocalQueueKey, PodSetName, ResourceName, WorkloadId,
};
use crate::api::node_selection::{NodeSelectorTerm, Toleration};
use crate::api::quota::Borrowing;
use crate::api::time::Time;

/// Something that gets quota as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its UID.
    pub id: WorkloadId,
    /// Its LocalQueue.
    pub queue: LocalQueueKey,
    /// Higher comes first.
    pub priority: i32,
    /// Earlier comes first, at equal priority. Any unit, the same for all workloads.
    pub created: i64,
    /// What it requests.
    pub pod_sets: Vec<PodSet>,
    /// It backs off until this time. Only used while it is [`WorkloadState::Pending`].
    pub not_before: Option<Time>,
    /// Whether an eviction has an effect on it. If not, it is never preempted, and no workload waits for it
    /// to stop.
    pub evictable: bool,
    /// How far it has come.
    pub state: WorkloadState,
}

/// A number of equal pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodSet {
    /// Its name within the workload.
    pub name: PodSetName,
    /// How many pods.
    pub count: u32,
    /// The fewest pods that are accepted (partial admission); none means all.
    pub min_count: Option<u32>,
    /// The requests of each pod. The resource `pods` is ignored here: the engine counts pods itself where a
    /// queue has quota for them.
    pub requests: BTreeMap<ResourceName, Amount>,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of the terms must match, if there are any.
    pub affinity: Vec<NodeSelectorTerm>,
    /// Taints of nodes that the pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Whether the workload may be admitted with more than the nominal quota of its queue.
    pub borrowing: Borrowing,
}

/// How far a workload has come, by its durable record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    /// It waits for quota.
    Pending,
    /// It is not considered for now.
    Inactive,
    /// It is admitted.
    Admitted(Admission),
    /// It is evicted but has not stopped yet. The preemptor is given if it was preempted. Without one the
    /// engine keeps the preemptor that it named.
    Evicting(Admission, Option<WorkloadId>),
    /// It has finished.
    Finished,
}

/// The usage of a workload, and the ClusterQueue that it counts in, whatever its LocalQueue points to by
/// now. Cheap to clone: equal workloads share the pod set assignments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The ClusterQueue that the usage counts in.
    pub queue: ClusterQueueName,
    /// The cohort that this ClusterQueue was in at the admission. It says where the usage counts if the
    /// ClusterQueue has been deleted and the engine never knew it.
    pub cohort: Option<CohortName>,
    /// The time of the admission.
    pub since: Time,
    /// Since when its pods have not used the quota, for
    /// [`ClusterQueue::reservation_timeout`](crate::ClusterQueue::reservation_timeout). None: they use it,
    /// or it is not known.
    pub unused_since: Option<Time>,
    /// Whether all its pods have had nodes since the admission. Then
    /// [`ClusterQueue::recovery_timeout`](crate::ClusterQueue::recovery_timeout) counts instead.
    pub had_nodes: bool,
    /// The assignment of each pod set.
    pub pod_sets: Arc<[PodSetAssignment]>,
}

/// The assignment of one pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetAssignment {
    /// The pod set.
    pub name: PodSetName,
    /// How many pods, without those that have ended for good.
    pub count: u32,
    /// The flavor of each resource.
    pub flavors: BTreeMap<ResourceName, FlavorName>,
    /// The usage of all pods of the set together. A resource without a flavor has no usage.
    pub usage: BTreeMap<ResourceName, Amount>,
    /// How many of these pods are bound to a node; at most `count` of them count. That part of the usage is
    /// *allocated*, the rest is *reserved*.
    pub bound: u32,
}

impl Workload {
    /// A pending workload without requests.
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
    /// So many pods without requests.
    pub fn new(name: PodSetName, count: u32) -> Self {
        Self {
            name,
            count,
            min_count: None,
            requests: BTreeMap::new(),
            node_selector: BTreeMap::new(),
            affinity: Vec::new(),
            tolerations: Vec::new(),
            borrowing: Borrowing::Allowed,
        }
    }
}

impl Admission {
    /// Whether both have the same usage in the same queue, whatever the nodes of their pods.
    pub(crate) fn has_same_usage(&self, other: &Self) -> bool {
        let Self {
            queue,
            cohort: _,
            since: _,
            unused_since: _,
            had_nodes: _,
            pod_sets,
        } = self;
        *queue == other.queue
            && pod_sets.len() == other.pod_sets.len()
            && (pod_sets.iter().zip(&*other.pod_sets)).all(|(one, other)| one.has_same_usage(other))
    }
}

impl PodSetAssignment {
    /// The assignment after so many of its pods have ended for good: each returns an equal part of the
    /// usage, rounded down.
    #[must_use]
    pub fn without(mut self, ended: u32) -> Self {
        let ended = ended.min(self.count);
        // Otherwise a set without pods would return its whole usage.
        if 0 < ended {
            for amount in self.usage.values_mut() {
                *amount = amount.minus(amount.share(ended, self.count));
            }
            self.count -= ended;
        }
        self
    }

    fn has_same_usage(&self, other: &Self) -> bool {
        // `bound` and `count` only say which part of the usage is allocated.
        let Self {
            name: _,
            count: _,
            flavors,
            usage,
            bound: _,
        } = self;
        (flavors, usage) == (&other.flavors, &other.usage)
    }

    /// The part of an amount of all pods that is used by pods on a node.
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
