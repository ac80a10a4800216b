//! Checks that the state fits together, from two sides: every sum against the workloads that it is made of.
//!
//! Cheap checks count violations in every build. Builds with debug assertions panic instead. They also compare
//! everything after each event and each decision, as long as the state is small.

use std::collections::BTreeSet;

use crate::api::names::NodeName;
use crate::queue::demand::Demand;
use crate::queue::local_queue::LocalQueueState;
use crate::quota::usage::QueueUsage;
use crate::quota::view::View;
use crate::state::engine::Engine;
use crate::workload::info::WorkloadPhase;

/// The most workloads with usage of a state that is compared after each event.
const WITH_USAGE_MAX: usize = 32;
/// The most ClusterQueues of such a state: each costs a part of a tree.
const QUEUES_MAX: usize = 12;

impl Engine {
    /// How often a state was found that must not occur. Unless this is zero the engine has a bug, and its sums may
    /// be wrong: its owner should replace it by a new engine that is told everything again.
    pub fn invariant_violations(&self) -> u64 {
        let mut all = self.violations;
        all.add(self.cohort_trees.violations());
        all.add(self.cluster_queues.violations());
        all.count()
    }

    /// Counts a violation if an invariant is not met. Panics in builds with debug assertions.
    pub(crate) fn check(&mut self, is_met: bool, invariant: &str) {
        self.violations.check(is_met, invariant);
    }

    /// Compares all sums with the workloads that they are made of, in small states of builds with debug
    /// assertions.
    pub(crate) fn debug_check(&self) {
        if !cfg!(debug_assertions) || QUEUES_MAX < self.config.queues.len() {
            return;
        }
        let with_usage = (self.cluster_queues.iter()).map(|(_, queue)| queue.with_usage.len());
        if with_usage.sum::<usize>() <= WITH_USAGE_MAX {
            self.check_queues();
            self.check_trees();
        }
    }

    fn check_queues(&self) {
        for (name, queue) in self.cluster_queues.iter() {
            let mut usage = QueueUsage::default();
            let (mut evictable, mut evicting) = (BTreeSet::new(), BTreeSet::new());
            for id in &queue.with_usage {
                let info = self.workloads.get(id);
                let admitted = info.and_then(|info| info.state.admission_usage());
                let (Some(info), Some(admitted)) = (info, admitted) else {
                    debug_assert!(false, "{id} has no usage");
                    continue;
                };
                debug_assert_eq!(admitted.admission.queue, *name, "{id} is in another queue");
                usage.add(&admitted.usage, info.state.counted_as());
                evictable.extend(info.preemption_order(id));
                evicting.extend(info.is_evicting().then(|| id.clone()));
            }
            debug_assert_eq!(usage, queue.usage, "usage of {name}");
            debug_assert_eq!(evictable, queue.evictable, "evictable in {name}");
            debug_assert_eq!(evicting, queue.evicting, "evicting in {name}");
            let mut demand = Demand::default();
            for local_queue in
                (queue.local_queues.iter()).filter_map(|key| self.local_queues.get(key))
            {
                self.check_local_queue(local_queue);
                demand.add_all(&local_queue.demand);
            }
            debug_assert_eq!(demand, queue.demand, "demand of {name}");
        }
    }

    fn check_local_queue(&self, local_queue: &LocalQueueState) {
        let (mut usage, mut demand) = (QueueUsage::default(), Demand::default());
        for info in local_queue
            .workloads
            .iter()
            .filter_map(|id| self.workloads.get(id))
        {
            if info.state == WorkloadPhase::Pending {
                demand.add(&info.shape);
            }
            if let Some(admitted) = info.state.admission_usage() {
                usage.add(&admitted.usage, info.state.counted_as());
            }
        }
        debug_assert_eq!(usage, local_queue.usage, "usage of a LocalQueue");
        debug_assert_eq!(demand, local_queue.demand, "demand of a LocalQueue");
    }

    fn check_trees(&self) {
        for tree in self.cohort_trees.trees() {
            let Some((name, _)) = tree.queues.iter().next() else {
                continue;
            };
            let queue = NodeName::ClusterQueue(name.clone());
            let (_, mut expected) = self.config.build_tree(&queue, &self.cluster_queues);
            let mut evicting = 0;
            for node in tree.queues.nodes() {
                let queue = self.cluster_queues.at(node.cluster_queue);
                for id in queue.into_iter().flat_map(|queue| &queue.evicting) {
                    let info = self.workloads.get(id);
                    if let Some(admitted) = info.and_then(|info| info.state.admission_usage()) {
                        expected.remove_usage(View::Planned, node.id, &admitted.usage);
                        evicting += 1;
                    }
                }
            }
            let has_same_usage = tree.quota.has_same_usage_as(&expected.quota);
            debug_assert!(has_same_usage, "usage of the tree of {name}");
            debug_assert_eq!(evicting, tree.evicting, "evicting in the tree of {name}");
        }
    }
}
