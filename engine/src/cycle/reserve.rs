//! Reserves quota for a workload that waits for evicted workloads to stop.

use crate::api::quota::Borrowing;
use crate::cohort::reopening::ClassRef;
use crate::cycle::context::Cycle;
use crate::cycle::progress::Reservation;
use crate::quota::usage::RequestedUsage;
use crate::workload::queue_order::QueueOrder;

impl Cycle<'_> {
    /// Reserves quota for the head of a class until the end of the cycle.
    pub(super) fn reserve(
        &mut self,
        class: &ClassRef,
        order: QueueOrder,
        requested: RequestedUsage,
        borrowing: Borrowing,
    ) {
        let node = class.node;
        let reservation = Reservation {
            node,
            requested,
            borrowing,
        };
        self.apply_reservation(&reservation);
        self.note_usage_of(node);
        self.progress.reservations.push(reservation);
        self.tree.with_reservation.insert(order.id().clone());
        self.drop_head(class, &order);
        self.progress.last_reserved.insert(class.clone(), order);
        self.reopen_after_usage(class);
    }

    pub(super) fn apply_reservation(&mut self, reservation: &Reservation) {
        for (cell, amount) in &reservation.requested {
            let quota = &mut self.tree.quota;
            quota.reserve(reservation.node, *cell, *amount, reservation.borrowing);
        }
    }

    /// The reverse of [`Cycle::apply_reservation`].
    pub(super) fn undo_reservation(&mut self, reservation: &Reservation) {
        for (cell, amount) in &reservation.requested {
            let quota = &mut self.tree.quota;
            quota.unreserve(reservation.node, *cell, *amount, reservation.borrowing);
        }
    }
}
