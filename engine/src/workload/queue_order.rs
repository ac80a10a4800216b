//! The order of workloads by priority, creation and UID. Which of them is the head of a ClusterQueue says
//! `queue/admission_order.rs`.

use std::cmp::Reverse;

use crate::api::names::WorkloadId;

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
