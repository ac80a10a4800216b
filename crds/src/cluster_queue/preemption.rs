//! Which jobs may be preempted for a job of a ClusterQueue. What the rules mean together is told in
//! `docs/queues.md`.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which jobs may be preempted for a pending job that doesn't fit.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.borrowWithinCohort) || self.borrowWithinCohort.policy == 'Never' || self.reclaimWithinCohort != 'Never'").message("must be Never while reclaimWithinCohort is Never: a queue that may not reclaim its nominal quota may not preempt to borrow").field_path(".borrowWithinCohort.policy"))]
pub struct ClusterQueuePreemption {
    /// Which jobs of other queues of the cohort may be preempted, if their queues borrow, so that this
    /// queue reclaims its nominal quota. Never, LowerPriority, or Any.
    #[serde(default)]
    pub reclaim_within_cohort: ReclaimWithinCohort,
    /// Which of these jobs may be preempted even if this queue has to borrow for the pending job. It
    /// has no effect with fair sharing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow_within_cohort: Option<BorrowWithinCohort>,
    /// Which jobs of this queue may be preempted. Never, LowerPriority, or LowerOrNewerEqualPriority.
    #[serde(default)]
    pub within_cluster_queue: WithinClusterQueue,
}

/// Which jobs of other queues may be preempted so that a queue reclaims its nominal quota.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimWithinCohort {
    /// None.
    #[default]
    Never,
    /// Jobs of lower priority.
    LowerPriority,
    /// All.
    Any,
}

/// Which jobs of borrowing queues may be preempted by a queue that has to borrow itself.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BorrowWithinCohort {
    /// Never, or LowerPriority.
    #[serde(default)]
    pub policy: BorrowWithinCohortPolicy,
    /// The highest priority that a preempted job may have. Absent: any lower priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority_threshold: Option<i32>,
}

/// Whether a queue that has to borrow may preempt jobs of other borrowing queues.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BorrowWithinCohortPolicy {
    /// It may preempt none.
    #[default]
    Never,
    /// It may preempt jobs of lower priority.
    LowerPriority,
}

/// Which jobs of the same queue may be preempted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithinClusterQueue {
    /// None.
    #[default]
    Never,
    /// Jobs of lower priority.
    LowerPriority,
    /// Jobs of lower priority, and jobs of equal priority that were created later.
    LowerOrNewerEqualPriority,
}
