//! What the queueing strategy of a ClusterQueue means: in a `StrictFIFO` queue the head blocks all others, in a
//! `BestEffortFIFO` queue none is blocked by another one. This is the one place that says so.
//!
//! Which workload is the head is `admission_order.rs`.

use crate::api::names::WorkloadId;
use crate::api::queues::{ClusterQueue, QueueingStrategy};
use crate::queue::admission_order::AdmissionOrder;
use crate::queue::pending::PendingQueue;

/// Whether the head of this queue blocks all others.
pub(crate) fn is_strict(queue: &ClusterQueue) -> bool {
    queue.strategy == QueueingStrategy::StrictFifo
}

/// The head of this queue, if it blocks this workload.
pub(crate) fn blocking_head<'a>(
    queue: &ClusterQueue,
    admission_order: &AdmissionOrder<'_>,
    pending: &'a PendingQueue,
    id: &WorkloadId,
) -> Option<&'a WorkloadId> {
    if !is_strict(queue) {
        return None;
    }
    let (head, _) = admission_order.head(pending)?;
    Some(head.id()).filter(|head| *head != id)
}

/// Whether a workload that never fits would block others in this queue: as the head, or as one of those that count
/// towards its limit.
pub(crate) fn blocks_others(queue: &ClusterQueue) -> bool {
    is_strict(queue) || queue.max_pending.is_some()
}
