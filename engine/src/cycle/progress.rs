//! The progress of a cycle: the heads that are left, and the reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::api::quota::Borrowing;
use crate::cohort::reopening::ClassRef;
use crate::cycle::fair_ordering::FairOrdering;
use crate::cycle::head_ordering::{Head, HeadRank};
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{Levels, NodeId};
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::ClassId;

/// Quota that is reserved for a workload.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(super) node: NodeId,
    pub(super) requested: RequestedUsage,
    pub(super) borrowing: Borrowing,
}

/// The progress of a cycle.
#[derive(Debug, Default)]
pub(crate) struct CycleProgress {
    pub(super) heads: BTreeMap<NodeId, QueueHeads>,
    /// The heads of the queues. The rank is an estimate that is never too bad.
    pub(super) ranked: BTreeMap<HeadRank, Head>,
    /// The same with fair sharing.
    pub(super) fair_ordering: FairOrdering,
    /// Queues whose rank may improve when another workload is admitted. If there is requested usage, only
    /// once that no longer fits.
    pub(super) may_improve: BTreeMap<NodeId, Option<RequestedUsage>>,
    /// The last member of each class with a reservation.
    pub(super) last_reserved: BTreeMap<ClassRef, QueueOrder>,
    pub(super) reservations: Vec<Reservation>,
}

/// The eligible heads of a queue.
#[derive(Debug, Default)]
pub(super) struct QueueHeads {
    /// The head of each eligible class, as far as they were scanned.
    pub(super) eligible: BTreeSet<(QueueOrder, ClassId)>,
    /// Where the scan of the classes continues; none if it is complete.
    pub(super) scan_from: Option<Bound<QueueOrder>>,
    /// The levels that any of them would certainly take above their quota.
    pub(super) above_quota: Levels,
    /// The rank under which the head is kept.
    pub(super) head_rank: Option<HeadRank>,
}
