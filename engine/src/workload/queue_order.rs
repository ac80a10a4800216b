//! The two orders of workloads: the order of a queue, and the order of preemption.

use std::cmp::Reverse;

use crate::api::names::WorkloadId;
use crate::api::time::Time;

/// The order of a queue: priority, then creation time, then UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueOrder {
    priority: Reverse<i32>,
    created: i64,
    id: WorkloadId,
}

impl QueueOrder {
    pub(crate) fn new(priority: i32, created: i64, id: WorkloadId) -> Self {
        Self {
            priority: Reverse(priority),
            created,
            id,
        }
    }

    pub(crate) fn id(&self) -> &WorkloadId {
        &self.id
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority.0
    }

    pub(crate) fn created(&self) -> i64 {
        self.created
    }
}

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
