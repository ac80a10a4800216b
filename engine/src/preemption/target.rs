//! A candidate for preemption, a target, and the common ancestor with the preemptor.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::api::event::PreemptionRight;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::WorkloadUsage;
use crate::quota::view::{NodeId, View};
use crate::workload::info::WorkloadInfo;
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

/// A workload to be preempted.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) candidate: Candidate,
    pub(super) usage: WorkloadUsage,
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    /// Candidates of other queues come first.
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |candidate: &Self| candidate.common_ancestor.is_none();
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.key.cmp(&other.key))
    }
}

impl Target {
    pub(crate) fn remove_usage(&self, quota: &mut QuotaTree) {
        for (cell, used) in &*self.usage {
            quota.remove_usage(View::Planned, self.candidate.node, *cell, used.total);
        }
    }

    pub(crate) fn restore_usage(&self, quota: &mut QuotaTree) {
        for (cell, used) in &*self.usage {
            quota.add_usage(View::Planned, self.candidate.node, *cell, used.total);
        }
    }

    /// Whether it [uses borrowed quota](uses_borrowed_quota).
    pub(crate) fn uses_borrowed_quota(
        &self,
        quota: &QuotaTree,
        scarce: &BTreeSet<FlavorResourceId>,
        common_ancestor: CommonAncestor,
    ) -> bool {
        let of_queue = (self.candidate.node, &self.usage);
        uses_borrowed_quota(quota, of_queue, scarce, common_ancestor)
    }
}

/// Whether this usage of a queue is of one of these cells, and the queue and all cohorts above it up to the
/// common ancestor borrow there. Reservations do not count.
pub(crate) fn uses_borrowed_quota(
    quota: &QuotaTree,
    (queue, usage): (NodeId, &WorkloadUsage),
    scarce: &BTreeSet<FlavorResourceId>,
    common_ancestor: CommonAncestor,
) -> bool {
    let mut requested = usage.iter().filter(|(cell, _)| scarce.contains(cell));
    requested.any(|(cell, _)| {
        let common_ancestor = quota.parent(common_ancestor.target_side);
        let mut below_ancestor =
            (quota.path(queue)).take_while(|node| Some(*node) != common_ancestor);
        below_ancestor.all(|node| quota.is_borrowing(View::WithoutReservations, node, *cell))
    })
}

/// Whether a workload uses one of these cells.
pub(crate) fn uses_any(info: &WorkloadInfo, requested: &BTreeSet<FlavorResourceId>) -> bool {
    let admitted = info.state.admission_usage();
    admitted.is_some_and(|admitted| {
        admitted
            .usage
            .iter()
            .any(|(cell, _)| requested.contains(cell))
    })
}
