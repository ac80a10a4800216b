//! Admits the head of a class, or reserves quota for it while evicted workloads are stopping, and re-opens the heads that
//! this affects.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::event::Decision;
use crate::api::quota::Borrowing;
use crate::api::workload::Admission;
use crate::cohort::reopening::ClassRef;
use crate::cohort::tree::CohortTree;
use crate::cycle::context::Cycle;
use crate::cycle::progress::Reservation;
use crate::flavor::flavor_assigner::{Assignment, CachedAssignment};
use crate::queue::never_fits::find_never_fitting;
use crate::quota::usage::{CountedAs, RequestedUsage};
use crate::quota::view::{NodeId, View};
use crate::workload::info::{AdmissionUsage, WorkloadPhase};
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::ClassId;

impl Cycle<'_> {
    /// The assignment in the form that is written, shared with the previous one if that was equal.
    fn cached_assignment(
        &mut self,
        class: &ClassRef,
        assignment: &Assignment<'_>,
    ) -> Option<&CachedAssignment> {
        let class = self.class_mut(class)?;
        let known = class.cached_assignment.take();
        let known = known.filter(|cached_assignment| {
            assignment.is_like(&cached_assignment.choices_taken, &cached_assignment.counts)
        });
        let cached_assignment = match known {
            Some(known) => known,
            None => Box::new(assignment.cached(&class.shape)?),
        };
        Some(class.cached_assignment.insert(cached_assignment))
    }

    /// Admits the head of a class, and updates the heads that this affects.
    pub(super) fn admit(
        &mut self,
        class: &ClassRef,
        order: &QueueOrder,
        assignment: &Assignment<'_>,
    ) {
        let Some(cached_assignment) = self.cached_assignment(class, assignment) else {
            self.check(false, "what is admitted is queued, each slot for a pod set");
            return;
        };
        let (pod_sets, usage) = (
            Arc::clone(&cached_assignment.pod_sets),
            Arc::clone(&cached_assignment.usage),
        );
        let ClassRef { node: queue, id } = class;
        let Some(node) = self.tree.queues.at(*queue) else {
            self.check(false, "the queue of an admission is in the tree");
            return;
        };
        let cluster_queue = node.cluster_queue;
        let admission = Admission {
            queue: node.config.name.clone(),
            cohort: node.config.cohort.clone(),
            since: self.now,
            unused_since: None,
            had_nodes: false,
            pod_sets,
        };
        let quota = &self.tree.quota;
        let mut cells = usage.iter();
        let fits = cells.all(|(cell, used)| quota.fits(View::Now, *queue, *cell, used.total));
        self.check(fits, "an admission stays within quota and borrowing limits");
        let flavor_resources = &self.config.flavor_resources;
        self.tree
            .add_usage(View::Now, *queue, &usage, flavor_resources);
        self.tree
            .add_usage(View::Planned, *queue, &usage, flavor_resources);
        self.note_usage_of(*queue);
        let workload = order.id().clone();
        let mut moved_in = None;
        let (mut has_queue, mut is_known) = (false, false);
        if let Some(cluster_queue) = self.cluster_queues.at_mut(cluster_queue) {
            let shape = cluster_queue.pending.class(id).map(|class| &class.shape);
            let was_there = shape.is_some_and(|shape| cluster_queue.demand.remove(shape));
            moved_in = cluster_queue.pending.remove(order, id);
            cluster_queue.usage.add(&usage, CountedAs::Reserving);
            has_queue = cluster_queue.with_usage.insert(workload.clone()) && was_there;
        }
        if let Some(info) = self.workloads.get_mut(&workload) {
            if let Some(local_queue) = self.local_queues.get_mut(&info.local_queue) {
                is_known = local_queue.demand.remove(&info.shape);
                local_queue.usage.add(&usage, CountedAs::Reserving);
            }
            info.state = WorkloadPhase::Assumed(Box::new(AdmissionUsage {
                admission: admission.clone(),
                usage,
            }));
        }
        self.check(has_queue && is_known, "an admission counts in both queues");
        let id = workload;
        self.decisions.push(Decision::Admit { id, admission });
        self.drop_head(class, order);
        for id in moved_in
            .into_iter()
            .chain(self.find_never_fitting_of(*queue))
        {
            self.make_eligible(&ClassRef { node: *queue, id });
        }
        self.reopen_after_usage(class);
    }

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

    /// Finds new members from beyond the limit that can never be admitted. Returns the classes to re-open
    /// for that.
    fn find_never_fitting_of(&mut self, queue: NodeId) -> BTreeSet<ClassId> {
        let pod = self.settings.pod.clamped();
        let CohortTree { quota, queues, .. } = &*self.tree;
        let cluster_queue = queues.at(queue).and_then(|node| {
            let cluster_queue = self.cluster_queues.at_mut(node.cluster_queue)?;
            cluster_queue
                .pending
                .has_unknown_fit()
                .then_some((node, cluster_queue))
        });
        cluster_queue.map_or_else(BTreeSet::new, |(node, cluster_queue)| {
            find_never_fitting(
                self.config,
                pod,
                (&node.config, node.id),
                quota,
                &mut cluster_queue.pending,
            )
        })
    }

    /// Updates the head of the queue whose usage has grown. Re-opens classes that may fit or rank better
    /// with more usage.
    pub(super) fn reopen_after_usage(&mut self, class: &ClassRef) {
        self.make_eligible(class);
        // Behind the head of a strict queue no other class was considered so far.
        let node = self.tree.queues.at(class.node);
        let head = node.and_then(|node| {
            let pending = &self.cluster_queue(node.id)?.pending;
            let (_, id) = self.admission_order(node).head(pending)?;
            (!pending.is_inadmissible(id)).then(|| ClassRef {
                node: node.id,
                id: id.clone(),
            })
        });
        if let Some(head) = head {
            self.make_eligible(&head);
        }
        let mut queues = self.take_improved();
        queues.insert(class.node);
        let gaining: Vec<ClassRef> = self.tree.reopened.gaining_by_usage().cloned().collect();
        for class in gaining {
            self.make_eligible(&class);
            queues.insert(class.node);
        }
        for queue in queues {
            self.update_head(queue);
        }
    }
}
