//! The workload that others may be preempted for, and what it fits into. What its policy allows is
//! `queue/preemption_policy.rs`.

use std::collections::BTreeSet;

use crate::api::amount::Amount;
use crate::api::event::PreemptionRight;
use crate::api::names::LocalQueueKey;
use crate::api::preemption::Preemption;
use crate::api::quota::Borrowing;
use crate::preemption::candidate_ordering::Candidate;
use crate::queue::cluster_queue::ClusterQueueId;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{Levels, NodeId, View};
use crate::workload::info::WorkloadInfo;
use crate::workload::preemption_order::PreemptionOrder;
use crate::workload::queue_order::QueueOrder;

/// A pending workload that may preempt others.
#[derive(Clone, Copy)]
pub(crate) struct Preemptor<'a> {
    pub(crate) cluster_queue: ClusterQueueId,
    pub(crate) node: NodeId,
    pub(crate) policy: Preemption,
    pub(crate) order: &'a QueueOrder,
    /// In its own queue, only workloads of this LocalQueue are candidates; none means any.
    pub(crate) local_queue: Option<&'a LocalQueueKey>,
    /// The usage that it requests, above zero.
    pub(crate) requested: &'a RequestedUsage,
    /// Whether it may borrow.
    pub(crate) borrowing: Borrowing,
}

impl Preemptor<'_> {
    /// Whether it may preempt this workload of its own queue.
    pub(crate) fn may_preempt_in_queue(&self, info: &WorkloadInfo) -> bool {
        let own = (self.order.priority(), self.order.created());
        (self.policy).allows_lower_or_newer(own, (info.priority, info.created))
            && self
                .local_queue
                .is_none_or(|local_queue| *local_queue == info.local_queue)
    }

    /// A candidate of its own queue.
    pub(crate) fn own_candidate(&self, key: PreemptionOrder) -> Candidate {
        Candidate {
            key,
            node: self.node,
            right: PreemptionRight::InClusterQueue,
            common_ancestor: None,
        }
    }

    /// Whether its policy allows it to reclaim from a workload of this priority.
    pub(crate) fn may_reclaim(&self, priority: i32) -> bool {
        (self.policy).allows_reclaim(self.order.priority(), priority)
    }

    /// Whether its policy allows it to preempt a workload of this priority in order to borrow.
    pub(crate) fn may_preempt_while_borrowing(&self, priority: i32) -> bool {
        (self.policy).allows_while_borrowing(self.order.priority(), priority)
    }

    /// The cells that it requests more of than is available.
    pub(crate) fn scarce(&self, quota: &QuotaTree) -> BTreeSet<FlavorResourceId> {
        let short = |(cell, amount): &(&FlavorResourceId, &Amount)| {
            !quota.is_available(View::Planned, self.node, (**cell, **amount), self.borrowing)
        };
        self.requested
            .iter()
            .filter(short)
            .map(|(cell, _)| *cell)
            .collect()
    }

    pub(crate) fn fits(&self, quota: &QuotaTree) -> bool {
        quota.are_all_available(View::Planned, self.node, self.requested, self.borrowing)
    }

    /// Whether `at`, its queue or a cohort above it, would be above its quota.
    pub(crate) fn would_borrow(&self, quota: &QuotaTree, at: NodeId) -> bool {
        let mut requested = self.requested.iter();
        requested.any(|(cell, amount)| quota.would_borrow(at, self.node, *cell, *amount))
    }

    /// Whether its queue, or a cohort above it up to `at`, would stay within its quota. Then usage that
    /// others borrow beyond `at` can be reclaimed, whoever borrows further up. Kueue does the same: once a
    /// subtree fits the request, all above it are searched. A preemptor that may not borrow always has to
    /// preempt what keeps its own queue from staying within its quota.
    pub(crate) fn may_reclaim_beyond(&self, quota: &QuotaTree, at: NodeId) -> bool {
        self.stays_within_below(quota, at, |_| true)
    }

    /// The same with fair sharing, where only the scarce cells count: what is borrowed of others keeps no queue
    /// from its own quota of what it lacks. Kueue does the same.
    pub(crate) fn may_reclaim_scarce_beyond(
        &self,
        quota: &QuotaTree,
        at: NodeId,
        scarce: &BTreeSet<FlavorResourceId>,
    ) -> bool {
        self.stays_within_below(quota, at, |cell| scarce.contains(cell))
    }

    /// Whether its queue, or a cohort above it up to `at`, would stay within its quota of these cells.
    fn stays_within_below(
        &self,
        quota: &QuotaTree,
        at: NodeId,
        counts: impl Fn(&FlavorResourceId) -> bool,
    ) -> bool {
        if self.borrowing == Borrowing::Forbidden {
            return true;
        }
        let mut above_quota = Levels::default();
        for (cell, amount) in self.requested.iter().filter(|(cell, _)| counts(cell)) {
            above_quota = above_quota.or(quota.levels_above_quota(self.node, *cell, *amount));
        }
        let mut path = quota.path(self.node).enumerate();
        let found = path.find(|(level, id)| !above_quota.contains(*level) || *id == at);
        found.is_some_and(|(level, _)| !above_quota.contains(level))
    }
}
