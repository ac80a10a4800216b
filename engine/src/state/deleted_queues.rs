//! ClusterQueues that were deleted while workloads use their quota. The objects are gone, and so is their nominal
//! quota; but what their workloads use is still used, also what they borrow. So each keeps its place in its cohort,
//! without quota, until the last of them has stopped or the ClusterQueue is created again.

use crate::api::names::ClusterQueueName;
use crate::api::queues::{ClusterQueue, StopPolicy};
use crate::api::workload::Admission;
use crate::state::engine::Engine;

impl Engine {
    /// What is left of a ClusterQueue when it is deleted, if it is used.
    pub(super) fn rest_of_deleted(&self, name: &ClusterQueueName) -> Option<ClusterQueue> {
        let is_used = self
            .cluster_queues
            .get(name)
            .is_some_and(|cluster_queue| !cluster_queue.with_usage.is_empty());
        let queue = self.config.queues.get(name).filter(|_| is_used)?;
        Some(ClusterQueue {
            cohort: queue.cohort.clone(),
            fair_weight: queue.fair_weight,
            stop: StopPolicy::Hold,
            ..ClusterQueue::new(name.clone())
        })
    }

    /// Opens the place of a ClusterQueue that was deleted before this engine began, for a workload that uses
    /// it.
    pub(super) fn open_deleted_queue(&mut self, admission: &Admission) {
        let Admission { queue, cohort, .. } = admission;
        if cohort.is_none() || self.config.queues.contains_key(queue) {
            return;
        }
        self.config.deleted.insert(queue.clone());
        self.put_cluster_queue(
            queue,
            Some(ClusterQueue {
                cohort: cohort.clone(),
                stop: StopPolicy::Hold,
                ..ClusterQueue::new(queue.clone())
            }),
        );
    }

    /// Removes the deleted ClusterQueues that nothing uses any more.
    pub(super) fn drop_unused_deleted_queues(&mut self) {
        let is_unused = |name: &&ClusterQueueName| {
            let cluster_queue = self.cluster_queues.get(name);
            cluster_queue.is_none_or(|cluster_queue| cluster_queue.with_usage.is_empty())
        };
        let unused: Vec<ClusterQueueName> = self
            .config
            .deleted
            .iter()
            .filter(is_unused)
            .cloned()
            .collect();
        for name in unused {
            self.set_cluster_queue(&name, None);
        }
    }
}
