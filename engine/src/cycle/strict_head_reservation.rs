//! The head of a strict queue that would fit its nominal quota, while others use that and it may not always preempt
//! them. What is unused of it is reserved, in each cycle, until the head fits: else borrowers would take one part
//! after the other as it is freed, and the head, which blocks its own queue, would wait for ever. Kueue does the same.

use crate::api::amount::Amount;
use crate::api::preemption::ReclaimWithinCohort;
use crate::api::quota::Borrowing;
use crate::cohort::reopening::ClassRef;
use crate::cycle::context::Cycle;
use crate::flavor::options::Slots;
use crate::queue::queueing_strategy::is_strict;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{NodeId, View};
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

impl Cycle<'_> {
    /// What the fewest pods of a strict queue's head request of its nominal quota. None if that does not suffice:
    /// the head waits for quota that is another's, and reserves nothing.
    pub(super) fn nominal_request(
        &self,
        class: &ClassRef,
        slots: &Slots,
        shape: &Shape,
    ) -> Option<RequestedUsage> {
        let node = self.tree.queues.at(class.node)?;
        if !is_strict(&node.config) {
            return None;
        }
        let requested = slots.within_nominal(&self.tree.quota, node.id, shape)?;
        // It may take back its quota whenever it would then fit: nobody who borrows meanwhile makes it wait for ever.
        let takes_back = node.config.preemption.reclaim_within_cohort == ReclaimWithinCohort::Any
            && !self.borrows_besides(node.id, &requested, slots.borrowing);
        (!takes_back).then_some(requested)
    }

    /// Whether a queue would stay within its quota of what is scarce, and borrows of something that is not. Without fair
    /// sharing it then reclaims nothing (`Preemptor::may_reclaim_beyond`), though borrowers alone are in the way.
    fn borrows_besides(
        &self,
        node: NodeId,
        requested: &RequestedUsage,
        borrowing: Borrowing,
    ) -> bool {
        let quota = &self.tree.quota;
        let is_available = |(cell, amount): &(FlavorResourceId, Amount)| {
            quota.is_available(View::Planned, node, (*cell, *amount), borrowing)
        };
        let (other, scarce): (Vec<_>, Vec<_>) = (requested.iter())
            .map(|(cell, amount)| (*cell, *amount))
            .partition(is_available);
        let borrows = |(cell, amount)| quota.would_borrow(node, node, cell, amount);
        self.settings.fair_sharing.is_none()
            && !scarce.is_empty()
            && !scarce.into_iter().any(borrows)
            && other.into_iter().any(borrows)
    }

    /// The part of a request that is unused in the planned view, and nominal quota of the queue; none if that is
    /// nothing.
    pub(super) fn unused_nominal(
        &self,
        class: &ClassRef,
        requested: RequestedUsage,
    ) -> Option<RequestedUsage> {
        let (quota, node) = (&self.tree.quota, class.node);
        let unused: RequestedUsage = (requested.into_iter())
            .filter_map(|(cell, amount)| {
                let unused = quota.available(View::Planned, node, cell, Borrowing::Forbidden);
                (unused > Amount::ZERO).then(|| (cell, amount.min(unused)))
            })
            .collect();
        (!unused.is_empty()).then_some(unused)
    }

    /// Reserves a part of what the head of a strict queue requests.
    pub(super) fn reserve_part(
        &mut self,
        class: &ClassRef,
        order: QueueOrder,
        part: RequestedUsage,
        borrowing: Borrowing,
    ) {
        self.tree.with_reserved_part.insert(order.id().clone());
        self.reserve(class, order, part, borrowing);
    }
}
