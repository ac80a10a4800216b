//! Which preemption the pending workloads of one ClusterQueue may use at this moment.

use crate::api::preemption::{BorrowWithinCohort, Preemption};

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
        !self.by_shares && self.rules.borrow_within_cohort == BorrowWithinCohort::Never
    }
}
