//! The lists that a workload is on: preemptible workloads, evicted workloads, and timers.

use crate::api::names::{ClusterQueueName, WorkloadId};
use crate::api::time::Time;
use crate::quota::view::View;
use crate::state::engine::Engine;
use crate::workload::info::{AdmissionUsage, WorkloadInfo, WorkloadPhase};
use crate::workload::shape::ClassId;

impl Engine {
    /// Adds a workload to all lists that it belongs to.
    pub(super) fn add_to_lists(&mut self, id: &WorkloadId) {
        let Some(info) = self.workloads.get(id) else {
            self.check(false, "what is listed is known");
            return;
        };
        if let Some(time) = self.timer_of(info) {
            self.timers.insert((time, id.clone()));
        }
        let (key, is_evicting) = (info.preemption_order(id), info.is_evicting());
        let evicted_for = info.evicted_for().cloned();
        let Some(queue) = info.state.admission().map(|a| a.queue.clone()) else {
            return;
        };
        if let Some(key) = key {
            let priority = info.priority;
            self.cluster_queues.open(&queue).evictable.insert(key);
            self.cohort_trees.reopen_by_usage(&queue);
            self.reopen_preemptors(&queue, priority);
        }
        if let Some(whom) = evicted_for {
            self.nominations.add_target(whom);
        }
        if is_evicting {
            self.cluster_queues.open(&queue).evicting.insert(id.clone());
            self.remove_planned_usage(id);
        }
    }

    /// Re-opens the heads of a queue that may preempt a workload of this priority.
    fn reopen_preemptors(&mut self, queue: &ClusterQueueName, priority: i32) {
        let config = self.config.queues.get(queue);
        let rules = config.map(|config| config.preemption).unwrap_or_default();
        let Some(cluster_queue) = self
            .cluster_queues
            .get_mut(queue)
            .filter(|_| rules.is_enabled())
        else {
            return;
        };
        let heads = cluster_queue.pending.heads();
        let rivals =
            heads.take_while(|(order, _)| rules.allows_within_queue(order.priority(), priority));
        let rivals: Vec<ClassId> = rivals.map(|(_, class)| class.clone()).collect();
        for class in rivals {
            cluster_queue.pending.reopen(&class);
            if let Some(tree) = self.cohort_trees.tree_mut(queue) {
                tree.reopen(queue, class);
            }
        }
    }

    /// The reverse of [`Engine::add_to_lists`].
    pub(super) fn remove_from_lists(&mut self, id: &WorkloadId) {
        let Some(info) = self.workloads.get(id) else {
            self.check(false, "what was listed is known");
            return;
        };
        let mut was_there = true;
        if let Some(time) = self.timer_of(info) {
            // Each decision takes the timers that are due.
            was_there &= self.timers.remove(&(time, id.clone())) || time <= self.now;
        }
        if let Some(whom) = info.evicted_for() {
            was_there &= self.nominations.target_stopped(whom);
        }
        if let Some(AdmissionUsage { admission, usage }) = info.state.admission_usage() {
            let queue = &admission.queue;
            let Some(cluster_queue) = self.cluster_queues.get_mut(queue) else {
                self.check(false, "a queue with usage has a state");
                return;
            };
            let key = info.preemption_order(id);
            was_there &= key.is_none_or(|key| cluster_queue.evictable.remove(&key));
            let was_evicting = cluster_queue.evicting.remove(id);
            was_there &= was_evicting == info.is_evicting();
            // A tree that is not built yet counts its evicted workloads when it is.
            if was_evicting
                && let Some(tree) = self.cohort_trees.tree_mut(queue)
                && let Some(node) = tree.queues.node(queue)
            {
                tree.add_usage(View::Planned, node, usage, &self.config.flavor_resources);
                was_there &= tree.evicting > 0;
                tree.evicting = tree.evicting.saturating_sub(1);
                tree.reopened.reopen_all();
            }
        }
        self.check(was_there, "a workload is on all lists that it belongs to");
    }

    /// The time that a workload waits for.
    fn timer_of(&self, info: &WorkloadInfo) -> Option<Time> {
        let backs_off = |time: &Time| info.state == WorkloadPhase::Pending && self.now < *time;
        let until = info.not_before.filter(backs_off);
        until.or_else(|| self.deadline(info))
    }

    /// Removes the usage of an evicted workload from the planned view.
    pub(crate) fn remove_planned_usage(&mut self, id: &WorkloadId) {
        let info = self.workloads.get(id);
        if let Some(AdmissionUsage { admission, usage }) =
            info.and_then(|info| info.state.admission_usage())
            && let Some(tree) = self.cohort_trees.tree_mut(&admission.queue)
            && let Some(node) = tree.queues.node(&admission.queue)
        {
            tree.remove_usage(View::Planned, node, usage);
            tree.evicting = tree.evicting.saturating_add(1);
            tree.reopened.reopen_all();
        }
    }
}
