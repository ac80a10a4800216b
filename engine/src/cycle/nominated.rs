//! Nominated workloads come first in a cycle. They are admitted, or quota is reserved for them, as if their
//! targets had stopped at once. First each gets what its targets were evicted for. Then those that preempted for their
//! fewest pods grow, by nominal quota that none of the others was to get.

use std::collections::BTreeSet;

use crate::api::names::WorkloadId;
use crate::cohort::reopening::ClassRef;
use crate::cycle::context::{Cycle, QUEUE_IN_TREE};
use crate::cycle::fit_or_preempt::AssignmentResult;
use crate::cycle::head_ordering::Head;
use crate::cycle::preempt::HAS_OPTIONS;
use crate::cycle::progress::Reservation;
use crate::flavor::options::FlavorOptions;
use crate::queue::queueing_strategy::blocking_head;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::NodeId;
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
    /// The nominated workloads of this tree, in order.
    pub(super) fn nominated(&self) -> BTreeSet<(QueueOrder, ClassRef)> {
        let nominated = self.nominations.waiting().chain(self.ready);
        nominated.filter_map(|id| self.pending_place(id)).collect()
    }

    /// Admits nominated workloads, or reserves quota for them. Before each of them the earlier workloads of its queue have
    /// their turn that need its quota. Of equal workloads the first takes it. Returns whether any has preempted others.
    pub(super) fn admit_nominated(&mut self, nominated: BTreeSet<(QueueOrder, ClassRef)>) -> bool {
        let mut all = Vec::new();
        for (order, class) in nominated {
            let preempted_for = self.nominations.preempted_for(order.id());
            all.extend(self.reserve_nominated(class, preempted_for));
        }
        for nominated_head in &mut all {
            self.grow_reservation(nominated_head);
        }
        self.undo_reservations(&all);
        self.progress.last_reserved.clear();
        let mut rest = all.as_slice();
        while let Some((nominated_head, after)) = rest.split_first() {
            rest = after;
            if self.admit_or_reserve(nominated_head, after) {
                return true;
            }
        }
        false
    }

    /// Admits the first member of a class without reservation, or reserves quota for it. Before, each earlier workload of the
    /// same queue has its turn that would get some of this quota; one that gets nothing, or other resources or flavors,
    /// leaves it to the nominated workload. What those of `after` have reserved is left to them, who have had no turn yet.
    /// Returns whether any has preempted others.
    fn admit_or_reserve(
        &mut self,
        nominated_head: &NominatedHead,
        after: &[NominatedHead],
    ) -> bool {
        let NominatedHead {
            class,
            preempted_for,
            ..
        } = nominated_head;
        // Each reservation was that of another member, and only they are admitted so far.
        let Some((options, shape)) = self.options(class) else {
            self.check(false, NOMINATED_IS_PENDING);
            return false;
        };
        while let Some((order, result)) =
            self.assignment_in_turn(nominated_head, after, &options, &shape)
        {
            let earlier = self.earlier_heads(class, &order);
            self.check(earlier.is_some(), QUEUE_IN_TREE);
            let mut earlier = earlier.into_iter().flatten();
            let served =
                earlier.find_map(|head| self.serve_if_needed(head, result.requested(), after));
            match served {
                Some(true) => return true,
                Some(false) => {}
                None => {
                    let id = order.id().clone();
                    if matches!(result, AssignmentResult::FitsNow(_)) {
                        self.nominations.admit(id, *preempted_for);
                    }
                    return self.carry_out(class, order, result, shape.borrowing());
                }
            }
        }
        false
    }

    /// What the first member of a class without reservation gets when its turn comes.
    fn assignment_in_turn<'a>(
        &mut self,
        nominated_head: &NominatedHead,
        after: &[NominatedHead],
        options: &'a FlavorOptions,
        shape: &Shape,
    ) -> Option<(QueueOrder, AssignmentResult<'a>)> {
        let NominatedHead {
            class,
            preempted_for,
            ..
        } = nominated_head;
        if *preempted_for == PreemptsFor::Fewest
            && let Some(order) = self.next_nominated(class)
            && let FlavorOptions::Slots(slots) = options
        {
            self.apply_reservations(after);
            let grown = self.assign_without_borrowing(class, slots, shape, &order);
            self.undo_reservations(after);
            if let Some(grown) = grown {
                return Some((order, grown));
            }
        }
        self.nominated_assignment(class, options, shape, *preempted_for)
    }

    /// Gives an earlier workload its turn if it would get some of this quota. Returns whether it has preempted others; none
    /// if it needs none of it.
    fn serve_if_needed(
        &mut self,
        Head { class, order }: Head,
        quota: &RequestedUsage,
        after: &[NominatedHead],
    ) -> Option<bool> {
        if after.iter().any(|other| other.order == order) {
            return None;
        }
        if self.is_blocked(&class) || self.waits_behind_head(class.node, order.id()) {
            return None;
        }
        let found = self.options(&class);
        self.check(found.is_some(), HAS_OPTIONS);
        let (options, shape) = found?;
        let FlavorOptions::Slots(slots) = &*options else {
            return None;
        };
        self.apply_reservations(after);
        let result = self.assign_head(&class, slots, &shape, &order);
        self.undo_reservations(after);
        let result = result?;
        // Both have only what is above zero.
        let mut requested = result.requested().keys();
        let is_needed = requested.any(|cell| quota.contains_key(cell));
        let preempts = matches!(result, AssignmentResult::Preempts { .. });
        let preempted = is_needed && self.carry_out(&class, order, result, slots.borrowing);
        (is_needed && preempted == preempts).then_some(preempted)
    }

    fn apply_reservations(&mut self, of: &[NominatedHead]) {
        for nominated_head in of {
            self.apply_reservation(&nominated_head.reservation);
        }
    }

    fn undo_reservations(&mut self, of: &[NominatedHead]) {
        for nominated_head in of {
            self.undo_reservation(&nominated_head.reservation);
        }
    }

    /// Whether a workload waits behind the head of a strict queue.
    fn waits_behind_head(&self, queue: NodeId, id: &WorkloadId) -> bool {
        let (Some(node), Some(cluster_queue)) =
            (self.tree.queues.at(queue), self.cluster_queue(queue))
        else {
            return false;
        };
        let order = self.admission_order(node);
        blocking_head(&node.config, &order, &cluster_queue.pending, id).is_some()
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
