//! Which workload is the head of each ClusterQueue, and which head a cycle processes next. How heads compare is
//! `head_ordering.rs`.
//!
//! After quota was freed all queues are considered, though only few workloads will be admitted. So the
//! classes of a queue are only scanned up to the first that may be admissible. That head is ranked by an
//! estimate without an assignment: whatever flavors a class gets, it requests at least the usage that
//! blocked it.

use std::ops::Bound;

use crate::api::queues::AdmissionScope;
use crate::cohort::reopening::{ClassRef, EligibleHeads};
use crate::cycle::context::{Cycle, QUEUE_IN_TREE};
use crate::cycle::head_ordering::{BorrowingPath, Head, HeadRank};
use crate::cycle::progress::QueueHeads;
use crate::queue::equivalence_class::Class;
use crate::queue::queueing_strategy::blocking_head;
use crate::quota::view::NodeId;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::ClassId;

const HEAD_HAS_RANK: &str = "the heads of a queue have the rank under which one of them is kept";

impl Cycle<'_> {
    /// Collects the head of each queue that has one.
    pub(super) fn collect_heads(&mut self, had_reservations: bool) {
        let is_reserved = had_reservations || self.tree.evicting > 0;
        match self.tree.reopened.take() {
            // Reservations are made again in each cycle, so all heads have to respect them again.
            EligibleHeads::Of(classes) if !is_reserved => {
                for class in &classes {
                    self.make_eligible(class);
                }
            }
            EligibleHeads::All | EligibleHeads::Of(_) => self.collect_all_heads(),
        }
        for queue in self.progress.heads.keys().copied().collect::<Vec<_>>() {
            self.update_head(queue);
        }
    }

    fn collect_all_heads(&mut self) {
        let mut by_usage = Vec::new();
        for node in self.tree.queues.nodes() {
            if node.inactive.is_some() {
                continue;
            }
            let Some(cluster_queue) = self.cluster_queues.at_mut(node.cluster_queue) else {
                self.violations.check(false, QUEUE_IN_TREE);
                continue;
            };
            let scope = cluster_queue.scope(&node.config, self.settings);
            let (pending, quota) = (&mut cluster_queue.pending, &self.tree.quota);
            if pending.are_blocked(quota, node.id, &scope) {
                pending.mark_all_inadmissible();
                continue;
            }
            pending.reopen_all();
            let mut queue_heads = QueueHeads {
                above_quota: pending.min_levels_above_quota(quota, node.id),
                ..QueueHeads::default()
            };
            match node.config.admission_scope {
                AdmissionScope::ByOrder => queue_heads.scan_from = Some(Bound::Unbounded),
                // Any class may have the head.
                AdmissionScope::ByUsage => {
                    let is_blocked = |class: &Class| class.is_blocked(quota, node.id, &scope);
                    let eligible = pending.mark_inadmissible_where(is_blocked);
                    let node = node.id;
                    by_usage.extend(eligible.into_iter().map(|id| ClassRef { node, id }));
                }
            }
            self.progress.heads.insert(node.id, queue_heads);
        }
        for class in by_usage {
            self.make_eligible(&class);
        }
    }

    /// Makes a class eligible as head.
    pub(super) fn make_eligible(&mut self, class: &ClassRef) {
        let ClassRef { node: queue, id } = class;
        let node = self.tree.queues.at(*queue);
        let cluster_queue = node.and_then(|node| self.cluster_queues.at_mut(node.cluster_queue));
        let (Some(node), Some(cluster_queue)) = (node, cluster_queue) else {
            self.violations.check(false, QUEUE_IN_TREE);
            return;
        };
        // Workloads are also queued in a queue that is stopped.
        if node.inactive.is_some() || cluster_queue.pending.never_fits(id) {
            return;
        }
        let Some(found) = cluster_queue.pending.reopen(id) else {
            // Its last member has left the queue.
            self.tree.reopened.gains_no_longer_by_usage(class);
            return;
        };
        let above_quota = found.min_levels_above_quota(&self.tree.quota, node.id);
        let reserved = self.progress.last_reserved.get(class);
        if let Some(order) = cluster_queue.pending.next_of(id, reserved) {
            let queue_heads = self.progress.heads.entry(*queue);
            let queue_heads = (queue_heads.and_modify(|queue_heads| {
                queue_heads.above_quota = queue_heads.above_quota.and(above_quota);
            }))
            .or_insert_with(|| QueueHeads {
                above_quota,
                ..QueueHeads::default()
            });
            queue_heads.eligible.insert((order.clone(), id.clone()));
        }
    }

    /// Removes the head of a class from the eligible ones. That of a nominated workload may be none of them.
    pub(super) fn drop_head(&mut self, class: &ClassRef, order: &QueueOrder) {
        if let Some(queue_heads) = self.progress.heads.get_mut(&class.node) {
            queue_heads
                .eligible
                .remove(&(order.clone(), class.id.clone()));
        }
    }

    /// The best head.
    pub(super) fn next_head(&mut self) -> Option<(HeadRank, Head)> {
        if self.settings.fair_sharing.is_none() {
            let (rank, head) = self.progress.ranked.pop_first()?;
            let queue_heads = self.progress.heads.get_mut(&head.class.node);
            let known = queue_heads.and_then(|queue_heads| queue_heads.head_rank.take());
            self.check(known.as_ref() == Some(&rank), HEAD_HAS_RANK);
            return Some((rank, head));
        }
        let fair_ordering = &mut self.progress.fair_ordering;
        let queue = fair_ordering.best_queue()?;
        let head = fair_ordering.remove(&self.tree.quota, queue);
        let queue_heads = self.progress.heads.get_mut(&queue);
        let rank = queue_heads.and_then(|queue_heads| queue_heads.head_rank.take());
        let found = rank.zip(head);
        self.check(found.is_some(), HEAD_HAS_RANK);
        found
    }

    /// Updates the head of a queue, with the best rank that it could have.
    pub(super) fn update_head(&mut self, queue: NodeId) {
        self.scan_for_eligible_head(queue);
        let best_head = self.best_head(queue);
        let Some(queue_heads) = self.progress.heads.get_mut(&queue) else {
            // None of its classes was eligible so far.
            return;
        };
        if let Some(rank) = queue_heads.head_rank.take() {
            self.progress.ranked.remove(&rank);
            self.progress.fair_ordering.remove(&self.tree.quota, queue);
        }
        let (Some((order, id)), Some((best, _))) = (best_head, queue_heads.eligible.first()) else {
            return;
        };
        // In a queue that admits by usage, another class may have a better rank.
        let (best, above_quota) = (best.clone(), queue_heads.above_quota);
        let rank = HeadRank {
            path: BorrowingPath::of(self.settings, &self.tree.quota, queue, above_quota),
            order: best.into(),
        };
        let class = ClassRef { node: queue, id };
        self.insert_head(Head { class, order }, rank);
    }

    /// Scans the classes of a queue until the first eligible one is known.
    fn scan_for_eligible_head(&mut self, queue: NodeId) {
        let Some(queue_heads) = self.progress.heads.get_mut(&queue) else {
            // None of its classes was eligible so far.
            return;
        };
        let node = self.tree.queues.at(queue);
        let cluster_queue = node.and_then(|node| self.cluster_queues.at_mut(node.cluster_queue));
        let (Some(node), Some(cluster_queue)) = (node, cluster_queue) else {
            self.violations.check(false, QUEUE_IN_TREE);
            return;
        };
        let scope = cluster_queue.scope(&node.config, self.settings);
        let (pending, quota) = (&mut cluster_queue.pending, &self.tree.quota);
        let mut has_marked_one = false;
        while let Some(after) = queue_heads.scan_from.take() {
            let Some((order, id)) = pending.next_head(after.as_ref()) else {
                return;
            };
            if queue_heads
                .eligible
                .first()
                .is_some_and(|(first, _)| first < order)
            {
                queue_heads.scan_from = Some(after);
                return;
            }
            let (order, id) = (order.clone(), id.clone());
            queue_heads.scan_from = Some(Bound::Excluded(order.clone()));
            // Members with a reservation are done: the next member of the class is eligible already.
            let class = ClassRef {
                node: queue,
                id: id.clone(),
            };
            if self.progress.last_reserved.contains_key(&class) {
                continue;
            }
            let class = pending.class(&id);
            let Some(class) = class.filter(|class| !pending.is_class_inadmissible(class)) else {
                continue;
            };
            if !class.is_blocked(quota, queue, &scope) {
                queue_heads.eligible.insert((order, id));
                continue;
            }
            if !has_marked_one && pending.are_blocked(quota, queue, &scope) {
                queue_heads.scan_from = None;
                pending.mark_all_inadmissible();
                return;
            }
            has_marked_one = true;
            pending.mark_inadmissible(&id);
        }
    }

    /// The first eligible class in the order of a queue.
    pub(super) fn best_head(&self, queue: NodeId) -> Option<(QueueOrder, ClassId)> {
        let eligible = &self.progress.heads.get(&queue)?.eligible;
        let node = self.tree.queues.at(queue)?;
        let pending = &self.cluster_queue(queue)?.pending;
        let admission_order = self.admission_order(node);
        let eligible = eligible.iter().map(|(order, id)| (order, id));
        let (order, id) = admission_order.first(eligible)?;
        let blocking = blocking_head(&node.config, &admission_order, pending, order.id());
        blocking.is_none().then(|| (order.clone(), id.clone()))
    }

    /// Notes the rank under which the head of a queue is kept.
    pub(super) fn set_head_rank(&mut self, queue: NodeId, rank: &HeadRank) {
        let queue_heads = self.progress.heads.get_mut(&queue);
        self.violations.check(queue_heads.is_some(), HEAD_HAS_RANK);
        if let Some(queue_heads) = queue_heads {
            queue_heads.head_rank = Some(rank.clone());
        }
    }

    pub(super) fn insert_head(&mut self, head: Head, rank: HeadRank) {
        let queue = head.class.node;
        self.set_head_rank(queue, &rank);
        if let BorrowingPath::Fair(path) = rank.path {
            let (quota, standing) = (&self.tree.quota, (path, rank.order));
            self.progress
                .fair_ordering
                .insert(quota, queue, head, standing);
        } else {
            self.progress.ranked.insert(rank, head);
        }
    }
}
