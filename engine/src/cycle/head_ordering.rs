//! What a head is, and how heads of different ClusterQueues compare. Which workload is the head of one is
//! `heads.rs`, and the order within it `workload/queue_order.rs`.

use crate::api::share::Share;
use crate::cohort::reopening::ClassRef;
use crate::workload::queue_order::QueueOrder;

/// The rank of a head among the heads of a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeadRank {
    pub(super) path: BorrowingPath,
    pub(super) order: QueueOrder,
}

/// The state of the cohorts below the root and of the queue, from the root down: whether they would be
/// above their quota, and with fair sharing their shares. If one path continues where another ends, the
/// shorter one is less.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BorrowingPath {
    /// The highest bit is the node next to the root.
    Plain {
        above_quota: u64,
        depth: usize,
    },
    Fair(Vec<(bool, Share)>),
}

/// The workload that a ClusterQueue offers next.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) class: ClassRef,
    pub(super) order: QueueOrder,
}
