//! The order of preemption: which of several candidates is evicted first, by priority and by time of admission. That
//! those of other queues come before the own ones is `preemption/candidate_ordering.rs`.

use std::cmp::Reverse;

use crate::api::names::WorkloadId;
use crate::api::time::Time;

/// The order of preemption: lower priority first, then the most recently admitted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PreemptionOrder {
    priority: i32,
    since: Reverse<Time>,
    id: Reverse<WorkloadId>,
}

impl PreemptionOrder {
    pub(crate) fn new(priority: i32, since: Time, id: WorkloadId) -> Self {
        Self {
            priority,
            since: Reverse(since),
            id: Reverse(id),
        }
    }

    pub(crate) fn id(&self) -> &WorkloadId {
        &self.id.0
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }
}
