//! A target: a candidate that was chosen, with its usage. Also which usage a candidate must have to be of any use.

use std::collections::BTreeSet;

use crate::preemption::candidate_ordering::{Candidate, CommonAncestor};
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::WorkloadUsage;
use crate::quota::view::{NodeId, View};
use crate::workload::info::WorkloadInfo;

/// A workload to be preempted.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) candidate: Candidate,
    pub(super) usage: WorkloadUsage,
}

impl Target {
    /// Whether it is of the preemptor's queue.
    pub(crate) fn is_own(&self) -> bool {
        self.candidate.common_ancestor.is_none()
    }

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

    /// Removes its usage from the present view, as if it had stopped.
    pub(crate) fn stop(&self, quota: &mut QuotaTree) {
        for (cell, used) in &*self.usage {
            quota.remove_usage(View::Now, self.candidate.node, *cell, used.total);
        }
    }

    /// The reverse of [`Target::stop`].
    pub(crate) fn undo_stop(&self, quota: &mut QuotaTree) {
        for (cell, used) in &*self.usage {
            quota.add_usage(View::Now, self.candidate.node, *cell, used.total);
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
