//! The head of a strict queue that can't be admitted yet, and may not always preempt those in the way. What is unused of
//! what it waits for is reserved, in each cycle, until it fits: else others would take one part after the other as it is
//! freed, and the head, which blocks its own queue, would wait for ever. Kueue does the same.
//!
//! It waits for nominal quota of its queue; or, where it requests more and its queue may preempt others while it
//! borrows, for what it would borrow, too. Without that right it waits for what others lend, with all who do.

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
    /// What the fewest pods of a strict queue's head request, and whether it may be borrowed. None if nothing is reserved
    /// for it.
    pub(super) fn strict_head_request(
        &self,
        class: &ClassRef,
        slots: &Slots,
        shape: &Shape,
    ) -> Option<(RequestedUsage, Borrowing)> {
        let node = self.tree.queues.at(class.node)?;
        if !is_strict(&node.config) {
            return None;
        }
        let (quota, policy) = (&self.tree.quota, node.config.preemption);
        let Some(requested) = slots.within_nominal(quota, node.id, shape) else {
            let by_shares = self.settings.fair_sharing.is_some();
            if !policy.may_preempt_others_while_borrowing(by_shares) {
                return None;
            }
            let requested = slots.within_most(quota, node.id, shape)?;
            return Some((requested, slots.borrowing));
        };
        // It may take back its quota whenever it would then fit: nobody who borrows meanwhile makes it wait for ever.
        let takes_back = policy.reclaim_within_cohort == ReclaimWithinCohort::Any
            && !self.borrows_besides(node.id, &requested, slots.borrowing);
        (!takes_back).then_some((requested, Borrowing::Forbidden))
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

    /// The part of a request that is unused in the planned view, with or without borrowing; none if that is nothing.
    pub(super) fn unused_part(
        &self,
        class: &ClassRef,
        requested: &RequestedUsage,
        borrowing: Borrowing,
    ) -> Option<RequestedUsage> {
        let (quota, node) = (&self.tree.quota, class.node);
        let unused: RequestedUsage = (requested.iter())
            .filter_map(|(cell, amount)| {
                let unused = quota.available(View::Planned, node, *cell, borrowing);
                (unused > Amount::ZERO).then(|| (*cell, unused.min(*amount)))
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
