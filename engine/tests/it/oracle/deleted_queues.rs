//! Queues that are deleted while they are used: what is used still counts where they were.

use sluice_engine::{ClusterQueue, ClusterQueueName, StopPolicy, WorkloadId};

use super::Oracle;

impl Oracle {
    pub(super) fn delete_queue(&mut self, name: &ClusterQueueName) {
        let Some(queue) = self.queues.remove(name) else {
            return;
        };
        let rest = ClusterQueue {
            cohort: queue.cohort,
            fair_weight: queue.fair_weight,
            stop: StopPolicy::Hold,
            ..ClusterQueue::new(name.clone())
        };
        self.queues.insert(name.clone(), rest);
        self.deleted.insert(name.clone());
    }

    /// What was admitted by a queue that nobody has told of counts where that queue was by then.
    pub(super) fn open_deleted_queue(&mut self, id: &WorkloadId) {
        let Some(admission) = self.admission(id).cloned() else {
            return;
        };
        if admission.cohort.is_some() && !self.queues.contains_key(&admission.queue) {
            let rest = ClusterQueue {
                cohort: admission.cohort,
                stop: StopPolicy::Hold,
                ..ClusterQueue::new(admission.queue.clone())
            };
            self.deleted.insert(admission.queue.clone());
            self.queues.insert(admission.queue, rest);
        }
    }

    pub(super) fn drop_unused_deleted_queues(&mut self) {
        let mut unused = self.deleted.clone();
        for (_, admission) in self.held() {
            unused.remove(&admission.queue);
        }
        for name in unused {
            self.deleted.remove(&name);
            self.queues.remove(&name);
        }
    }
}
