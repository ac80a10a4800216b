//! One cycle over a cohort tree: which workloads are admitted, for which ones quota is reserved, and which
//! are preempted.
//!
//! Nominated workloads come first. Then the heads of the queues are processed, the best one first, until
//! none is left. The best head is the one that borrows from nobody, or else from the nearest; then priority and
//! time decide. With fair sharing the heads of each cohort are first compared by shares (`fair_ordering`).
//! There are three outcomes:
//!
//! * it fits, now and in the planned view: it is **admitted**;
//! * it will fit when evicted workloads have stopped: its quota is **reserved**, so that later heads cannot
//!   take it. Reservations last for one cycle, and the next one makes them again;
//! * it would fit if others were evicted: they are **preempted**, and the cycle ends, as the planned view
//!   has changed for all heads.
//!
//! Otherwise, at the head of a strict queue, what is unused of what it waits for is reserved (`strict_head_reservation.rs`).
//! Else its class is inadmissible until something is freed: of equal workloads only the head needs an
//! assignment. During a cycle usage only grows, so a rank can only get worse, and it suffices to work out
//! the exact rank of the best head. The exceptions are considered again after each admission
//! (`cohort/reopening.rs`, `may_improve`).

use crate::api::preemption::Preemption;
use crate::api::quota::Borrowing;
use crate::cohort::reopening::ClassRef;
use crate::cycle::context::{Cycle, QUEUE_IN_TREE};
use crate::cycle::fit_or_preempt::AssignmentResult;
use crate::cycle::head_ordering::{BorrowingPath, Head, HeadOrder, HeadRank};
use crate::flavor::options::{FlavorOptions, Slots, is_reducible};
use crate::quota::usage::RequestedUsage;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

impl Cycle<'_> {
    /// Runs the cycle; returns whether another one is due.
    pub(crate) fn run(mut self) -> bool {
        let had_reservations = !self.tree.with_reservation.is_empty();
        self.tree.with_reservation.clear();
        self.tree.with_reserved_part.clear();
        if self.tree.inactive.is_some() {
            return false;
        }
        let before = self.decisions.len();
        self.collect_heads(had_reservations);
        let has_nominated = self.admit_nominated();
        let mut preempted = false;
        while !preempted && let Some((rank, head)) = self.next_head() {
            preempted = self.process_head(head, &rank);
        }
        for reservation in std::mem::take(&mut self.progress.reservations) {
            self.undo_reservation(&reservation);
        }
        // Admissions may have changed what is reserved for others.
        let has_parts = !self.tree.with_reserved_part.is_empty();
        let may_change = has_nominated || has_parts || self.tree.evicting > 0;
        preempted || (may_change && self.decisions.len() > before)
    }

    /// Processes the head that seems to be the best one; returns whether it has preempted others.
    fn process_head(&mut self, head: Head, rank: &HeadRank) -> bool {
        let Head { class, order } = head;
        let node = class.node;
        if self.is_blocked(&class) {
            self.tree.reopened.gains_no_longer_by_usage(&class);
            self.mark_inadmissible(&class, &order);
            return false;
        }
        let Some((options, shape)) = self.options(&class) else {
            self.check(false, "a head is queued");
            return false;
        };
        let FlavorOptions::Slots(slots) = &*options else {
            self.mark_inadmissible(&class, &order);
            return false;
        };
        let policy = self.policy(node);
        if !slots.fit_is_monotone || policy.may_reclaim_in_cohort() {
            self.tree.reopened.gains_by_usage(class.clone());
        }
        let mut result = self.assign(&class, slots, &shape, &order, policy);
        if let Some(AssignmentResult::Preempts { targets, .. }) = &result
            && self.earlier_workload_would_benefit(&class, &order, targets)
        {
            // It may not preempt until the earlier workload no longer fits, or is no longer pending.
            self.tree.reopened.gains_by_usage(class.clone());
            let policy = Preemption::default();
            result = self.assign(&class, slots, &shape, &order, policy);
        }
        let Some(result) = result else {
            self.process_without_assignment(&class, order, rank, (slots, &shape));
            return false;
        };
        let is_rank_final =
            slots.rank_is_monotone && self.tree.evicting == 0 && !policy.is_enabled();
        let requested = result.requested();
        let Some(order) = self.take_turn(&class, order.into(), rank, requested, is_rank_final)
        else {
            return false;
        };
        match result {
            AssignmentResult::FitsNow(assignment) => self.admit(&class, &order, &assignment),
            AssignmentResult::WaitsForEvicted { requested } => {
                self.reserve(&class, order, requested, slots.borrowing);
            }
            AssignmentResult::Preempts {
                targets,
                preempts_for,
                ..
            } => {
                if self.preempt(order.id(), &targets, preempts_for) {
                    return true;
                }
                self.mark_inadmissible(&class, &order);
            }
        }
        false
    }

    /// Processes a head that gets nothing: that of a strict queue reserves what is unused of what it waits for.
    fn process_without_assignment(
        &mut self,
        class: &ClassRef,
        order: QueueOrder,
        rank: &HeadRank,
        (slots, shape): (&Slots, &Shape),
    ) {
        let Some((requested, borrowing)) = self.strict_head_request(class, slots, shape) else {
            let is_whole = !shape.pod_sets.iter().any(is_reducible);
            if slots.fit_is_monotone && is_whole {
                self.set_blocking_usage(class, slots, shape);
            }
            return self.mark_inadmissible(class, &order);
        };
        let Some(part) = self.unused_part(class, &requested, borrowing) else {
            return self.mark_inadmissible(class, &order);
        };
        // One that will borrow is ranked as if it did.
        let is_nominal = borrowing == Borrowing::Forbidden;
        let ranked_by = if is_nominal { &part } else { &requested };
        let order = HeadOrder {
            reserves_nominal: is_nominal,
            queue_order: order,
        };
        if let Some(order) = self.take_turn(class, order, rank, ranked_by, false) {
            self.reserve_part(class, order, part, slots.borrowing);
        }
    }

    /// The order of a head whose turn it is, now that it is known what it requests. None if another comes first: it
    /// is put back with its exact rank, which is final if nothing but unused quota decides what it gets.
    fn take_turn(
        &mut self,
        class: &ClassRef,
        order: HeadOrder,
        rank: &HeadRank,
        requested: &RequestedUsage,
        is_rank_final: bool,
    ) -> Option<QueueOrder> {
        let quota = &mut self.tree.quota;
        let path = BorrowingPath::with_usage(self.settings, quota, class.node, requested);
        let found = HeadRank { path, order };
        if self.is_outranked_by_another(class, rank, &found) {
            let usage = is_rank_final.then(|| requested.clone());
            self.insert_behind(class.clone(), found, usage);
            return None;
        }
        Some(found.order.queue_order)
    }

    /// Whether nothing can be done for a class, as in the last cycle.
    pub(super) fn is_blocked(&self, class: &ClassRef) -> bool {
        let (Some(node), Some(cluster_queue)) = (
            self.tree.queues.at(class.node),
            self.cluster_queue(class.node),
        ) else {
            // It is counted where its flavor options are missing.
            return false;
        };
        let scope = cluster_queue.scope(&node.config, self.settings);
        let found = cluster_queue.pending.class(&class.id);
        found.is_some_and(|found| found.is_blocked(&self.tree.quota, node.id, &scope))
    }

    /// Notes what blocks a class that can't be assigned any flavors.
    fn set_blocking_usage(&mut self, class: &ClassRef, slots: &Slots, shape: &Shape) {
        let blocking_usage = slots.blocking_usage(&self.tree.quota, class.node, shape);
        self.check(
            blocking_usage.is_some(),
            "each choice of the slot where the search ended has an amount that does not fit",
        );
        // Without, nothing is known of what blocks it: it is considered in each cycle.
        let blocking_usage = blocking_usage.unwrap_or_default();
        let policy = self.policy(class.node);
        let Some(cluster_queue) = self.cluster_queue_mut(class.node) else {
            return self.check(false, QUEUE_IN_TREE);
        };
        (cluster_queue.pending).set_blocking_usage(&class.id, blocking_usage, policy);
    }

    /// Nothing can be done for the head of a class.
    pub(super) fn mark_inadmissible(&mut self, class: &ClassRef, order: &QueueOrder) {
        if let Some(cluster_queue) = self.cluster_queue_mut(class.node) {
            cluster_queue.pending.mark_inadmissible(&class.id);
        } else {
            self.check(false, QUEUE_IN_TREE);
        }
        self.drop_head(class, order);
        self.update_head(class.node);
    }
}
