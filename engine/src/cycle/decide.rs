//! One decision: timers that are due, evictions, and then one or more cycles over each changed tree.

use std::collections::BTreeSet;

use crate::api::event::{Decision, EvictReason};
use crate::api::names::{ClusterQueueName, WorkloadId};
use crate::api::time::Time;
use crate::cohort::tree::CohortTree;
use crate::cycle::context::Cycle;
use crate::cycle::progress::CycleProgress;
use crate::queue::never_fits::find_never_fitting;
use crate::queue::queueing_strategy::{blocks_others, is_strict};
use crate::state::engine::Engine;
use crate::workload::info::WorkloadPhase;

impl Engine {
    /// Decides what to do at this time: first evictions, then admissions, tree by tree, in the order in
    /// which they were decided. Admitted workloads have usage from now on. A time before that of the last
    /// decision counts as that time.
    pub fn decide(&mut self, now: Time) -> Vec<Decision> {
        self.now = self.now.max(now);
        self.requeue_due();
        self.build_missing_trees();
        self.find_never_fitting_workloads();
        self.update_usage_history();
        let mut decisions = self.evictions();
        let ready = self.nominations.take_ready();
        self.mark_trees_changed(&ready);
        for (key, mut tree) in self.cohort_trees.take_changed() {
            self.run_cycles(&mut tree, &ready, &mut decisions);
            // The nominated workloads had the first choice: what they could not use is available to all.
            if ready.iter().any(|id| self.waits_in(id, &tree)) {
                tree.reopened.reopen_all();
                self.run_cycles(&mut tree, &BTreeSet::new(), &mut decisions);
            }
            self.cohort_trees.put_back(key, tree);
        }
        self.note_usage();
        self.debug_check();
        decisions
    }

    /// Runs cycles over a tree until nothing is left to decide.
    fn run_cycles(
        &mut self,
        tree: &mut CohortTree,
        ready: &BTreeSet<WorkloadId>,
        decisions: &mut Vec<Decision>,
    ) {
        loop {
            let cycle = Cycle {
                config: &self.config,
                settings: &self.settings,
                cluster_queues: &mut self.cluster_queues,
                local_queues: &mut self.local_queues,
                workloads: &mut self.workloads,
                timers: &mut self.timers,
                violations: &mut self.violations,
                nominations: &mut self.nominations,
                ready,
                now: self.now,
                tree,
                decisions,
                progress: CycleProgress::default(),
            };
            if !cycle.run() {
                break;
            }
        }
    }

    /// Whether a workload is pending in a queue of a tree.
    fn waits_in(&self, id: &WorkloadId, tree: &CohortTree) -> bool {
        let info = self.workloads.get(id);
        info.is_some_and(|info| info.state == WorkloadPhase::Pending)
            && (self.active_queue_of(id))
                .is_some_and(|queue_name| tree.queues.node(queue_name).is_some())
    }

    /// The ClusterQueue that a workload is queued in while it is pending.
    fn active_queue_of(&self, id: &WorkloadId) -> Option<&ClusterQueueName> {
        self.local_queues
            .get(&self.workloads.get(id)?.local_queue)?
            .active_cluster_queue()
    }

    /// When the next decision is due if no event comes before.
    pub fn next_wake(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Queues workloads whose backoff has ended, and checks reservation timeouts.
    fn requeue_due(&mut self) {
        while let Some((time, _)) = self.timers.first()
            && *time <= self.now
            && let Some((_, id)) = self.timers.pop_first()
        {
            let queue_name = self.active_queue_of(&id).cloned();
            let info = self.workloads.get(&id);
            if info.is_some_and(|info| info.state == WorkloadPhase::Pending) {
                self.end_preemption_round_of(&id);
            }
            self.enqueue(&id, queue_name.as_ref());
            self.review([id]);
        }
    }

    /// Builds the trees that changes of the configuration have invalidated.
    fn build_missing_trees(&mut self) {
        for queue in self
            .cohort_trees
            .build_missing(&self.config, &self.cluster_queues)
        {
            let Some(cluster_queue) = self.cluster_queues.get_mut(&queue) else {
                self.check(false, "a queue of a tree has a state");
                continue;
            };
            let config = self.config.queues.get(&queue);
            let blocks_others = config.is_some_and(|config| blocks_others(config));
            cluster_queue.pending.reset(blocks_others);
            if blocks_others {
                self.fit_unknown.insert(queue.clone());
            }
            let evicting: Vec<WorkloadId> = cluster_queue.evicting.iter().cloned().collect();
            for id in evicting {
                self.remove_planned_usage(&id);
            }
        }
    }

    /// Finds the pending workloads that can never be admitted, where they would block others.
    fn find_never_fitting_workloads(&mut self) {
        for queue in std::mem::take(&mut self.fit_unknown) {
            let (Some(tree), Some(cluster_queue)) = (
                self.cohort_trees.tree_mut(&queue),
                self.cluster_queues.get_mut(&queue),
            ) else {
                // The queue was deleted meanwhile.
                continue;
            };
            let node = tree.queues.get(&queue);
            // A tree with a cycle has no queues, and a queue that is stopped admits nothing.
            let Some(node) = node.filter(|node| node.inactive.is_none()) else {
                continue;
            };
            let pod = self.settings.pod.clamped();
            let reopened = find_never_fitting(
                &self.config,
                pod,
                (&node.config, node.id),
                &tree.quota,
                &mut cluster_queue.pending,
            );
            for class in reopened {
                tree.reopen(&queue, class);
            }
        }
    }

    /// Updates the usage history of LocalQueues, in ClusterQueues that admit by usage.
    fn update_usage_history(&mut self) {
        for queue in &self.by_usage {
            let Some(cluster_queue) = self.cluster_queues.get(queue) else {
                self.violations
                    .check(false, "a queue that admits by usage has a state");
                continue;
            };
            // Time alone changes which workload is the head, and so which are blocked or have reservations.
            let config = self.config.queues.get(queue);
            let is_strict = config.is_some_and(|config| is_strict(config));
            self.cohort_trees.reopen_for_time(queue, is_strict);
            // It also changes for which workload a preemption would free quota.
            if config.is_some_and(|queue| queue.preemption.is_enabled()) {
                self.cohort_trees.reopen_by_usage(queue);
            }
            for key in &cluster_queue.local_queues {
                let Some(local_queue) = self.local_queues.get_mut(key) else {
                    self.violations
                        .check(false, "a LocalQueue that points to a queue has a state");
                    continue;
                };
                let half_life = self.settings.usage_half_life;
                local_queue.bring_up(self.now, half_life, &self.config.flavor_resources);
            }
        }
    }

    /// Notes what LocalQueues use from now on, in ClusterQueues that admit by usage.
    fn note_usage(&mut self) {
        let cluster_queues = self.by_usage.iter();
        let cluster_queues = cluster_queues.filter_map(|name| self.cluster_queues.get(name));
        for key in cluster_queues.flat_map(|cluster_queue| &cluster_queue.local_queues) {
            if let Some(local_queue) = self.local_queues.get_mut(key) {
                local_queue.note_usage(self.now, &self.config.flavor_resources);
            }
        }
    }

    /// Marks the trees that these workloads are pending in, so that cycles run over them.
    fn mark_trees_changed(&mut self, ids: &BTreeSet<WorkloadId>) {
        for id in ids {
            if let Some(queue_name) = self.active_queue_of(id).cloned() {
                self.cohort_trees.tree_mut(&queue_name);
            }
        }
    }

    /// Decides the eviction of each admitted workload that has a reason.
    fn evictions(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for id in std::mem::take(&mut self.to_review) {
            let Some(info) = self.workloads.get(&id) else {
                continue;
            };
            let reasons = [
                EvictReason::ClusterQueueStopped,
                EvictReason::LocalQueueStopped,
                EvictReason::ReservationTimedOut,
            ];
            let reason = reasons
                .into_iter()
                .find(|reason| self.eviction_reason_holds(info, reason));
            if let Some(reason) = reason
                && matches!(
                    info.state,
                    WorkloadPhase::Admitted {
                        eviction_reason: None,
                        ..
                    }
                )
            {
                self.set_eviction_reason(&id, Some(reason.clone()));
                decisions.push(Decision::Evict { id, reason });
            }
        }
        decisions
    }
}
