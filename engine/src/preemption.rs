//! Who may be evicted to make room for whom: the rules that a ClusterQueue sets (Kueue's
//! `preemption`). How victims are chosen is `victims.rs`.

/// Who may be evicted to make room for a workload of this queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preemption {
    /// Workloads of the same queue.
    pub within_cluster_queue: WithinClusterQueue,
    /// Workloads of queues that use more than is theirs, while this one uses no more than is its own.
    pub reclaim_within_cohort: ReclaimWithinCohort,
    /// The same, while this queue borrows as well.
    pub borrow_within_cohort: BorrowWithinCohort,
}

/// Which workloads of the same queue may be evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithinClusterQueue {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Those of lower priority, and those of equal priority that were created later.
    LowerOrNewerEqualPriority,
}

/// Which workloads of queues that use more than is theirs may be evicted, to take back one's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimWithinCohort {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// All.
    Any,
}

/// Which workloads of queues that use more than is theirs may be evicted in order to borrow. Means
/// nothing where [`ReclaimWithinCohort::Never`] holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BorrowWithinCohort {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority {
        /// And of at most this priority.
        max_priority_threshold: Option<i32>,
    },
}

/// What decides whether those that wait in a queue may make anybody go at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub(crate) rules: Preemption,
    /// Whether shares decide who of other queues may have to go.
    pub(crate) by_shares: bool,
    /// The lowest priority of those in the queue that may have to go.
    pub(crate) lowest: Option<i32>,
}

impl Rights {
    /// Whether one of this priority may make one of its own queue go.
    pub(crate) fn may_outrank_any(&self, priority: i32) -> bool {
        let lowest = self.lowest;
        lowest.is_some_and(|lowest| self.rules.may_outrank(priority, lowest))
    }

    /// Whether those of other queues only have to go for what is the queue's own.
    pub(crate) fn only_take_back(&self) -> bool {
        !self.by_shares && self.rules.borrow_within_cohort == BorrowWithinCohort::Never
    }
}

impl Preemption {
    /// Whether workloads of other queues may have to go.
    pub(crate) fn reaches_abroad(self) -> bool {
        self.reclaim_within_cohort != ReclaimWithinCohort::Never
    }

    /// Whether one of priority `first` may make one of priority `second` of its own queue go, for all
    /// that their priorities say.
    pub(crate) fn may_outrank(self, first: i32, second: i32) -> bool {
        match self.within_cluster_queue {
            WithinClusterQueue::Never => false,
            WithinClusterQueue::LowerPriority => second < first,
            WithinClusterQueue::LowerOrNewerEqualPriority => second <= first,
        }
    }

    /// Whether anybody may have to go.
    pub(crate) fn has_any(self) -> bool {
        self.within_cluster_queue != WithinClusterQueue::Never
            || self.reclaim_within_cohort != ReclaimWithinCohort::Never
    }
}
