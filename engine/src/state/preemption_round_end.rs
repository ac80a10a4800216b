//! What ends the preemption round of a cohort tree: every change that is not a decision of this engine being
//! carried out. A restart and a change of the configuration also end it, as trees are built again without
//! rounds.
//!
//! The rule and its proof are in docs/queues.md, "Preemption comes to an end".

use crate::api::names::{ClusterQueueName, WorkloadId};
use crate::state::engine::Engine;
use crate::workload::info::{WorkloadInfo, WorkloadPhase};

impl Engine {
    /// Ends the round of the tree that a workload is in, if it is in one.
    pub(crate) fn end_preemption_round_of(&mut self, id: &WorkloadId) {
        let info = self.workloads.get(id);
        if let Some(queue) = info.and_then(|info| self.queue_of(info)).cloned() {
            self.cohort_trees.end_preemption_round(&queue);
        }
    }

    /// The ClusterQueue in whose tree a workload has usage or waits for quota.
    fn queue_of<'a>(&'a self, info: &'a WorkloadInfo) -> Option<&'a ClusterQueueName> {
        match &info.state {
            WorkloadPhase::Pending => {
                let local_queue = self.local_queues.get(&info.local_queue)?;
                local_queue.active_cluster_queue()
            }
            WorkloadPhase::Inactive | WorkloadPhase::Finished => None,
            WorkloadPhase::Assumed(_)
            | WorkloadPhase::Admitted { .. }
            | WorkloadPhase::Evicting { .. } => Some(&info.state.admission()?.queue),
        }
    }
}
