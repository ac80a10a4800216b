//! Who may be evicted to make room for a job of a ClusterQueue. What the rules mean together is told in
//! `docs/queues.md`.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may be evicted to make room for a job that doesn't fit.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.borrowWithinCohort) || self.borrowWithinCohort.policy == 'Never' || self.reclaimWithinCohort != 'Never'").message("must be Never while reclaimWithinCohort is Never: a queue that takes nothing back takes nothing to borrow it either").field_path(".borrowWithinCohort.policy"))]
pub struct ClusterQueuePreemption {
    /// Which jobs of other queues of the cohort may be evicted, if their queues use more than is
    /// theirs, so that this queue gets back what is its own. Never, LowerPriority, or Any.
    #[serde(default)]
    pub reclaim_within_cohort: ReclaimWithinCohort,
    /// The same, while this queue would borrow as well. Has no effect with fair sharing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow_within_cohort: Option<BorrowWithinCohort>,
    /// Which jobs of this queue may be evicted. Never, LowerPriority, or LowerOrNewerEqualPriority.
    #[serde(default)]
    pub within_cluster_queue: WithinClusterQueue,
}

/// Which jobs of other queues may be evicted to get a queue back what is its own.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimWithinCohort {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// All.
    Any,
}

/// Which jobs of queues that borrow may be evicted by a queue that would borrow as well.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BorrowWithinCohort {
    /// Never, or LowerPriority.
    #[serde(default)]
    pub policy: BorrowWithinCohortPolicy,
    /// Only jobs of at most this priority. Absent: of any priority that is lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority_threshold: Option<i32>,
}

/// Whether a queue that would borrow may evict jobs of queues that do.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BorrowWithinCohortPolicy {
    /// It may not.
    #[default]
    Never,
    /// It may evict those of lower priority.
    LowerPriority,
}

/// Which jobs of the same queue may be evicted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithinClusterQueue {
    /// None.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Those of lower priority, and those of equal priority that were created later.
    LowerOrNewerEqualPriority,
}
