//! Nominated workloads come first in a cycle. They are admitted, or quota is reserved for them, as if their
//! targets had stopped at once. First each gets what its targets were evicted for. Then those that preempted for their
//! fewest pods grow, by nominal quota that none of the others was to get.

use std::collections::BTreeSet;

use crate::api::amount::Amount;
use crate::api::names::WorkloadId;
use crate::cohort::reopening::ClassRef;
use crate::cycle::context::{Cycle, QUEUE_IN_TREE};
use crate::cycle::fit_or_preempt::AssignmentResult;
use crate::cycle::head_ordering::Head;
use crate::cycle::preempt::HAS_OPTIONS;
use crate::cycle::progress::Reservation;
use crate::flavor::options::FlavorOptions;
use crate::quota::usage::RequestedUsage;
use crate::state::nominations::PreemptsFor;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

/// The head of a class with a reservation, which is nominated.
struct NominatedHead {
    class: ClassRef,
    order: QueueOrder,
    reservation: Reservation,
    preempted_for: PreemptsFor,
}

const NOMINATED_IS_PENDING: &str = "a nominated workload is pending";

impl Cycle<'_> {
    /// Admits nominated workloads, or reserves quota for them. A nomination is void if an earlier workload
    /// of the same queue needs that quota. Of equal workloads the first takes it. Returns whether any
    /// workload is nominated.
    pub(super) fn admit_nominated(&mut self) -> bool {
        let nominated: BTreeSet<(QueueOrder, ClassRef)> =
            (self.nominations.waiting().chain(self.ready))
                .filter_map(|id| self.pending_place(id))
                .collect();
        let has_nominated = !nominated.is_empty();
        let mut all = Vec::new();
        for (order, class) in nominated {
            let preempted_for = self.nominations.preempted_for(order.id());
            all.extend(self.reserve_nominated(class, preempted_for));
        }
        for nominated_head in &mut all {
            self.grow_reservation(nominated_head);
        }
        let mut outranked = Vec::new();
        for nominated_head in &all {
            outranked.push(self.earlier_workload_needs_quota_of(nominated_head));
        }
        for nominated_head in &all {
            self.undo_reservation(&nominated_head.reservation);
        }
        self.progress.last_reserved.clear();
        let all: Vec<(NominatedHead, bool)> = all.into_iter().zip(outranked).collect();
        let mut before: Vec<&Reservation> = Vec::new();
        let mut rest = all.as_slice();
        while let Some(((nominated_head, is_outranked), after)) = rest.split_first() {
            rest = after;
            if *is_outranked {
                before.push(&nominated_head.reservation);
                continue;
            }
            let others: Vec<&Reservation> = match nominated_head.preempted_for {
                PreemptsFor::All => Vec::new(),
                PreemptsFor::Fewest => {
                    let after = after.iter().map(|(other, _)| &other.reservation);
                    before.iter().copied().chain(after).collect()
                }
            };
            self.admit_or_reserve(nominated_head, &others);
        }
        has_nominated
    }

    /// Whether an earlier workload of the same queue would get some of this quota without the reservation. One that gets
    /// nothing, or other resources or flavors, leaves it to the nominated workload.
    fn earlier_workload_needs_quota_of(&mut self, nominated_head: &NominatedHead) -> bool {
        let earlier = self.earlier_heads(&nominated_head.class, &nominated_head.order);
        self.check(earlier.is_some(), QUEUE_IN_TREE);
        let reserved = &nominated_head.reservation.requested;
        self.undo_reservation(&nominated_head.reservation);
        let needs = earlier.into_iter().flatten().any(|head| {
            self.may_request_any(&head, reserved)
                && (self.would_get(&head)).is_some_and(|requested| shares_any(&requested, reserved))
        });
        self.apply_reservation(&nominated_head.reservation);
        needs
    }

    /// Whether any choice of flavors of a workload has some of these cells.
    fn may_request_any(&mut self, head: &Head, reserved: &RequestedUsage) -> bool {
        let found = self.options(&head.class);
        self.check(found.is_some(), HAS_OPTIONS);
        found.is_some_and(|(options, _)| match &*options {
            FlavorOptions::Slots(slots) => slots.cells().any(|cell| reserved.contains_key(&cell)),
            FlavorOptions::None(_) => false,
        })
    }

    /// The place of a workload, if it is pending in this tree.
    fn pending_place(&self, id: &WorkloadId) -> Option<(QueueOrder, ClassRef)> {
        let info = self.workloads.get(id)?;
        let queue = self
            .local_queues
            .get(&info.local_queue)?
            .active_cluster_queue()?;
        let node = self.tree.queues.get(queue)?;
        let class = info.class(node.config.admission_scope);
        let order = info.order(id);
        let waits = node.inactive.is_none()
            && self
                .cluster_queue(node.id)?
                .pending
                .contains(&order, &class);
        let class = ClassRef {
            node: node.id,
            id: class,
        };
        waits.then_some((order, class))
    }

    /// Reserves what can be assigned to the first member of a class without reservation.
    fn reserve_nominated(
        &mut self,
        class: ClassRef,
        preempted_for: PreemptsFor,
    ) -> Option<NominatedHead> {
        let found = self.options(&class);
        self.check(found.is_some(), NOMINATED_IS_PENDING);
        let (options, shape) = found?;
        let (order, result) = self.nominated_assignment(&class, &options, &shape, preempted_for)?;
        let reservation = Reservation {
            node: class.node,
            requested: result.requested().clone(),
            borrowing: shape.borrowing(),
        };
        self.apply_reservation(&reservation);
        self.progress
            .last_reserved
            .insert(class.clone(), order.clone());
        Some(NominatedHead {
            class,
            order,
            reservation,
            preempted_for,
        })
    }

    /// Has a workload that preempted for its fewest pods reserve as much as is left to it by all others.
    fn grow_reservation(&mut self, nominated_head: &mut NominatedHead) {
        let NominatedHead {
            class,
            order,
            reservation,
            preempted_for,
        } = nominated_head;
        if *preempted_for == PreemptsFor::All {
            return;
        }
        let found = self.options(class);
        self.check(found.is_some(), NOMINATED_IS_PENDING);
        let Some((options, shape)) = found else {
            return;
        };
        self.undo_reservation(reservation);
        if let FlavorOptions::Slots(slots) = &*options
            && let Some(result) = self.assign_without_borrowing(class, slots, &shape, order)
        {
            reservation.requested = result.requested().clone();
        }
        self.apply_reservation(reservation);
    }

    /// Admits the first member of a class without reservation, or reserves quota for it. If it grows, it leaves what
    /// `others` have reserved that have had no turn yet, or get none.
    fn admit_or_reserve(&mut self, nominated_head: &NominatedHead, others: &[&Reservation]) {
        let NominatedHead {
            class,
            preempted_for,
            ..
        } = nominated_head;
        // Each reservation was that of another member, and only they are admitted so far.
        let Some((options, shape)) = self.options(class) else {
            return self.check(false, NOMINATED_IS_PENDING);
        };
        let mut found = None;
        if *preempted_for == PreemptsFor::Fewest
            && let Some(order) = self.next_nominated(class)
            && let FlavorOptions::Slots(slots) = &*options
        {
            for other in others {
                self.apply_reservation(other);
            }
            let grown = self.assign_without_borrowing(class, slots, &shape, &order);
            found = grown.map(|grown| (order, grown));
            for other in others {
                self.undo_reservation(other);
            }
        }
        let found =
            found.or_else(|| self.nominated_assignment(class, &options, &shape, *preempted_for));
        match found {
            Some((order, AssignmentResult::FitsNow(assignment))) => {
                self.admit(class, &order, &assignment);
                self.nominations.admit(order.id().clone(), *preempted_for);
            }
            Some((order, AssignmentResult::WaitsForEvicted { requested })) => {
                self.reserve(class, order, requested, shape.borrowing());
            }
            Some((_, AssignmentResult::Preempts { .. })) => {
                self.check(false, "a nominated workload preempts nobody once more");
            }
            None => {}
        }
    }

    /// The first member of a class without reservation.
    fn next_nominated(&self, class: &ClassRef) -> Option<QueueOrder> {
        let reserved = self.progress.last_reserved.get(class);
        let pending = &self.cluster_queue(class.node)?.pending;
        pending.next_of(&class.id, reserved).cloned()
    }

    /// The first member of a class without reservation, and its assignment without further preemption.
    fn nominated_assignment<'a>(
        &mut self,
        class: &ClassRef,
        options: &'a FlavorOptions,
        shape: &Shape,
        preempted_for: PreemptsFor,
    ) -> Option<(QueueOrder, AssignmentResult<'a>)> {
        let FlavorOptions::Slots(slots) = options else {
            return None;
        };
        let order = self.next_nominated(class)?;
        let result = self.assign_to_nominee(class, slots, shape, &order, preempted_for)?;
        let needs_preemption = matches!(result, AssignmentResult::Preempts { .. });
        (!needs_preemption).then_some((order, result))
    }
}

/// Whether both have something above zero of the same cell.
fn shares_any(one: &RequestedUsage, other: &RequestedUsage) -> bool {
    let is_used = |amount: &Amount| *amount > Amount::ZERO;
    one.iter()
        .any(|(cell, amount)| is_used(amount) && other.get(cell).is_some_and(is_used))
}
