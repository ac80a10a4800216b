//! The preemption policy of a ClusterQueue (`ClusterQueue.spec.preemption`): which workloads it allows to preempt
//! which others, by their priorities and creation, and what of that its pending workloads may use at this moment.
//!
//! Which workloads are candidates by quota, and which of them become targets, is the folder `preemption`.

use crate::api::preemption::{
    BorrowWithinCohort, Preemption, ReclaimWithinCohort, WithinClusterQueue,
};

impl Preemption {
    /// Whether any workload may be preempted.
    pub(crate) fn is_enabled(self) -> bool {
        self.within_cluster_queue != WithinClusterQueue::Never || self.may_reclaim_in_cohort()
    }

    /// Whether workloads of other queues may be preempted.
    pub(crate) fn may_reclaim_in_cohort(self) -> bool {
        self.reclaim_within_cohort != ReclaimWithinCohort::Never
    }

    /// Whether workloads of other queues may be preempted in order to borrow, by priority.
    pub(crate) fn may_borrow_in_cohort(self) -> bool {
        self.borrow_within_cohort != BorrowWithinCohort::Never
    }

    /// Whether workloads of other queues may be preempted by one that makes its queue borrow: by fair shares, or by
    /// priority.
    pub(crate) fn may_preempt_others_while_borrowing(self, by_shares: bool) -> bool {
        self.may_reclaim_in_cohort() && (by_shares || self.may_borrow_in_cohort())
    }

    /// Whether a workload may preempt another one of its own queue, by their priorities alone.
    pub(crate) fn allows_within_queue(self, preemptor: i32, candidate: i32) -> bool {
        match self.within_cluster_queue {
            WithinClusterQueue::Never => false,
            WithinClusterQueue::LowerPriority => candidate < preemptor,
            WithinClusterQueue::LowerOrNewerEqualPriority => candidate <= preemptor,
        }
    }

    /// Whether a workload may preempt another one of its own queue. Each is given by its priority and its
    /// creation.
    pub(crate) fn allows_lower_or_newer(
        self,
        (preemptor, created): (i32, i64),
        (candidate, candidate_created): (i32, i64),
    ) -> bool {
        self.allows_within_queue(preemptor, candidate)
            && (candidate < preemptor || created < candidate_created)
    }

    /// Whether a workload may reclaim nominal quota from one of another queue, by their priorities.
    pub(crate) fn allows_reclaim(self, preemptor: i32, candidate: i32) -> bool {
        match self.reclaim_within_cohort {
            ReclaimWithinCohort::Never => false,
            ReclaimWithinCohort::LowerPriority => candidate < preemptor,
            ReclaimWithinCohort::Any => true,
        }
    }

    /// Whether a workload may preempt one of another queue in order to borrow, by their priorities.
    pub(crate) fn allows_while_borrowing(self, preemptor: i32, candidate: i32) -> bool {
        match self.borrow_within_cohort {
            BorrowWithinCohort::Never => false,
            BorrowWithinCohort::LowerPriority {
                max_priority_threshold,
            } => {
                candidate < preemptor
                    && max_priority_threshold.is_none_or(|threshold| candidate <= threshold)
            }
        }
    }
}

/// Which preemption the pending workloads of a ClusterQueue may use at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreemptionScope {
    pub(crate) rules: Preemption,
    /// Whether fair shares decide about preemption in other queues.
    pub(crate) by_shares: bool,
    /// The lowest priority among the preemptible workloads of the queue.
    pub(crate) lowest: Option<i32>,
}

impl PreemptionScope {
    /// Whether a workload of this priority may preempt any workload of its own queue.
    pub(crate) fn may_preempt_within_queue(&self, priority: i32) -> bool {
        let lowest = self.lowest;
        lowest.is_some_and(|lowest| self.rules.allows_within_queue(priority, lowest))
    }

    /// Whether preemption in other queues only reclaims nominal quota.
    pub(crate) fn only_reclaims(&self) -> bool {
        !self.by_shares && !self.rules.may_borrow_in_cohort()
    }
}
