//! Queues a pending workload in its ClusterQueue, and removes it.

use std::sync::Arc;

use crate::api::names::{ClusterQueueName, WorkloadId};
use crate::api::queues::AdmissionScope;
use crate::state::engine::Engine;
use crate::workload::info::{WorkloadInfo, WorkloadPhase};
use crate::workload::shape::ClassId;

impl Engine {
    /// Queues a workload in a ClusterQueue, if it is pending and its requests are valid.
    pub(crate) fn enqueue(&mut self, id: &WorkloadId, queue: Option<&ClusterQueueName>) {
        let (Some(info), Some(queue)) = (self.workloads.get(id), queue) else {
            return;
        };
        if !self.is_eligible(info) {
            return;
        }
        let (order, class) = (info.order(id), self.class_of(info, queue));
        let shape = Arc::clone(&info.shape);
        let config = self.config.queues.get(queue);
        let preempts = config.is_some_and(|config| config.preemption.is_enabled());
        let pending = &mut self.cluster_queues.open(queue).pending;
        let moved_out = pending.insert(order.clone(), class.clone(), &shape);
        if pending.has_unknown_fit() && !self.fit_unknown.contains(queue) {
            self.fit_unknown.insert(queue.clone());
        }
        // A new head of its class may be allowed to preempt where the previous one was not, or come before
        // workloads whose reservations blocked the previous one. Workloads with a reservation do not count
        // as previous ones.
        let before = pending.last_before(&class, &order);
        let is_first =
            before.is_none_or(|before| self.cohort_trees.has_reservation(queue, before.id()));
        if is_first && (preempts || self.cohort_trees.has_reservations(queue)) {
            pending.reopen(&class);
        }
        if (pending.class(&class)).is_some_and(|class| !pending.is_class_inadmissible(class))
            && let Some(tree) = self.cohort_trees.tree_mut(queue)
        {
            tree.reopen(queue, class);
        }
        for order in moved_out {
            self.cohort_trees.reopen_if_reserved(queue, order.id());
            // Another one of the queue may preempt now, as this one does not benefit.
            if preempts {
                self.cohort_trees.reopen_by_usage(queue);
            }
        }
    }

    /// Removes a workload from the queue of a ClusterQueue, if it is queued.
    pub(crate) fn dequeue(&mut self, id: &WorkloadId, queue: Option<&ClusterQueueName>) {
        let (Some(info), Some(queue)) = (self.workloads.get(id), queue) else {
            return;
        };
        if !self.is_eligible(info) {
            return;
        }
        let (order, class) = (info.order(id), self.class_of(info, queue));
        let Some(cluster_queue) = self.cluster_queues.get_mut(queue) else {
            return;
        };
        let moved_in = cluster_queue.pending.remove(&order, &class);
        if cluster_queue.pending.has_unknown_fit() && !self.fit_unknown.contains(queue) {
            self.fit_unknown.insert(queue.clone());
        }
        // It may have been the head that blocked a strict queue. One that admits by usage is re-opened before each
        // decision.
        let head = cluster_queue.pending.first_head();
        let head = head.map(|(_, class)| class.clone());
        for class in head.into_iter().chain(moved_in) {
            if !cluster_queue.pending.is_inadmissible(&class)
                && let Some(tree) = self.cohort_trees.tree_mut(queue)
            {
                tree.reopen(queue, class);
            }
        }
        self.cohort_trees.reopen_if_reserved(queue, id);
        let config = self.config.queues.get(queue);
        if config.is_some_and(|config| config.preemption.is_enabled()) {
            self.cohort_trees.reopen_by_usage(queue);
        }
        self.drop_empty_cluster_queue(queue);
    }

    /// Whether a workload is pending, valid, and does not back off.
    fn is_eligible(&self, info: &WorkloadInfo) -> bool {
        info.state == WorkloadPhase::Pending
            && info.shape.problem.is_none()
            && info.not_before.is_none_or(|time| time <= self.now)
    }

    /// The class of a workload that is pending in a ClusterQueue.
    pub(crate) fn class_of(&self, info: &WorkloadInfo, queue: &ClusterQueueName) -> ClassId {
        let scope = if self.by_usage.contains(queue) {
            AdmissionScope::ByUsage
        } else {
            AdmissionScope::ByOrder
        };
        info.class(scope)
    }
}
