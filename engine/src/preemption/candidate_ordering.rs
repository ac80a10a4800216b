//! The order in which candidates for preemption are chosen: by the right to preempt them, those of the preemptor's own
//! queue last, then as in `workload/preemption_order.rs` (priority, time of admission). By shares, the queue comes first,
//! which is `fair_sharing.rs`.
//!
//! Which workloads are candidates is `candidates.rs`.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::api::event::PreemptionRight;
use crate::quota::view::NodeId;
use crate::workload::preemption_order::PreemptionOrder;

/// A workload that may be preempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: PreemptionOrder,
    /// Its queue.
    pub(crate) node: NodeId,
    pub(crate) right: PreemptionRight,
    /// The common ancestor with the preemptor; none in the preemptor's own queue.
    pub(crate) common_ancestor: Option<CommonAncestor>,
}

/// The lowest cohort above two queues, given by its children on the way to each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommonAncestor {
    /// The child towards the preemptor.
    pub(crate) preemptor_side: NodeId,
    /// The child towards the target.
    pub(crate) target_side: NodeId,
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    /// Those that are reclaimed from come first, then those that are preempted so that the preemptor can borrow, then those
    /// of its own queue.
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |candidate: &Self| match candidate.right {
            PreemptionRight::InCohortReclamation | PreemptionRight::InCohortFairSharing => 0,
            PreemptionRight::InCohortReclaimWhileBorrowing => 1,
            PreemptionRight::InClusterQueue => 2,
        };
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.key.cmp(&other.key))
    }
}

/// Merges the candidates of several queues, each in order, into one order.
pub(crate) fn merged(queues: &[Vec<Candidate>]) -> impl Iterator<Item = Candidate> {
    let mut queues: Vec<_> = queues.iter().map(|queue| queue.iter()).collect();
    let firsts = queues.iter_mut().enumerate();
    let mut next: BinaryHeap<Reverse<(&Candidate, usize)>> = firsts
        .filter_map(|(index, queue)| Some(Reverse((queue.next()?, index))))
        .collect();
    std::iter::from_fn(move || {
        let Reverse((candidate, index)) = next.pop()?;
        if let Some(following) = queues.get_mut(index).and_then(Iterator::next) {
            next.push(Reverse((following, index)));
        }
        Some(candidate.clone())
    })
}
