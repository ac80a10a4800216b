//! Who is pending in a LocalQueue, for a reader that takes as few at a time as it likes: nothing is sorted here. And what
//! is known of one workload.

use std::ops::Bound;

use crate::api::names::{ClusterQueueName, LocalQueueKey, WorkloadId};
use crate::api::status::Pending;
use crate::state::engine::Engine;
use crate::workload::info::WorkloadPhase;

impl Engine {
    /// The LocalQueues that point to a ClusterQueue, whether or not it exists.
    pub fn local_queues_of(
        &self,
        queue: &ClusterQueueName,
    ) -> impl Iterator<Item = &LocalQueueKey> {
        let state = self.cluster_queues.get(queue);
        state.into_iter().flat_map(|state| &state.local_queues)
    }

    /// The workloads of a LocalQueue after this one, by id, with what is known of those that are pending: queued or
    /// not, whatever they wait for. Each is looked at when it is asked for.
    pub fn workloads_of<'a>(
        &'a self,
        key: &LocalQueueKey,
        after: Option<&WorkloadId>,
    ) -> impl Iterator<Item = (&'a WorkloadId, Option<Pending<'a>>)> + use<'a> {
        let after = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.clone()));
        let state = self.local_queues.get(key);
        let ids = state.into_iter().flat_map(move |local_queue| {
            (local_queue.workloads).range((after.clone(), Bound::Unbounded))
        });
        ids.map(|id| (id, self.pending(id)))
    }

    /// The LocalQueue of a workload and what it asks for, whether or not it is pending.
    pub fn asked_for(&self, id: &WorkloadId) -> Option<(&LocalQueueKey, Pending<'_>)> {
        let info = self.workloads.get(id)?;
        let asked = Pending {
            priority: info.priority,
            created: info.created,
            requests: &info.shape.requests,
        };
        Some((&info.local_queue, asked))
    }

    fn pending(&self, id: &WorkloadId) -> Option<Pending<'_>> {
        let info = self.workloads.get(id)?;
        (info.state == WorkloadPhase::Pending).then(|| Pending {
            priority: info.priority,
            created: info.created,
            requests: &info.shape.requests,
        })
    }
}
