//! Kueue's `preemption` of a ClusterQueue, as data. What it allows is `queue/preemption_policy.rs`, and how targets
//! are chosen the folder `preemption`.

/// Which workloads may be preempted for a workload of this queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preemption {
    /// Workloads of the same queue.
    pub within_cluster_queue: WithinClusterQueue,
    /// Workloads of queues that borrow, while this one does not.
    pub reclaim_within_cohort: ReclaimWithinCohort,
    /// The same, while this queue borrows as well.
    pub borrow_within_cohort: BorrowWithinCohort,
}

/// Which workloads of the same queue may be preempted.
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

/// Which workloads of queues that borrow may be preempted to reclaim nominal quota.
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

/// Which workloads of queues that borrow may be preempted in order to borrow. Has no effect with
/// [`ReclaimWithinCohort::Never`].
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
