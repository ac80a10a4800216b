//! What the search for targets sees of a cohort tree: its queues and their admitted workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::settings::Settings;
use crate::cohort::preemption_round::PreemptionRound;
use crate::cohort::tree::TreeQueues;
use crate::preemption::candidate_ordering::{Candidate, CommonAncestor};
use crate::preemption::preemptor::Preemptor;
use crate::preemption::target::Target;
use crate::queue::cluster_queue::{ClusterQueueId, ClusterQueueStates};
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::NodeId;
use crate::workload::info::{WorkloadInfo, Workloads};
use crate::workload::preemption_order::PreemptionOrder;
use crate::workload::queue_order::QueueOrder;

/// The queues of a cohort tree, and all workloads.
#[derive(Clone, Copy)]
pub(crate) struct PreemptionSnapshot<'a> {
    pub(crate) queues: &'a TreeQueues,
    pub(crate) cluster_queues: &'a ClusterQueueStates,
    pub(crate) workloads: &'a Workloads,
    pub(crate) settings: &'a Settings,
    pub(crate) round: &'a PreemptionRound,
}

impl<'a> PreemptionSnapshot<'a> {
    /// The preemptible workloads of a queue, in the order of preemption, without those that the round protects.
    pub(crate) fn evictable(
        self,
        cluster_queue: ClusterQueueId,
    ) -> impl Iterator<Item = (&'a PreemptionOrder, &'a WorkloadInfo)> {
        let cluster_queue = self.cluster_queues.at(cluster_queue);
        let keys = cluster_queue
            .into_iter()
            .flat_map(|cluster_queue| &cluster_queue.evictable);
        let unprotected = keys.filter(move |key| !self.round.protects(key.id()));
        unprotected.filter_map(move |key| Some((key, self.workloads.get(key.id())?)))
    }

    /// The place that a candidate would have in its queue if it were pending.
    pub(crate) fn order(self, key: &PreemptionOrder) -> Option<QueueOrder> {
        let info = self.workloads.get(key.id())?;
        Some(info.order(key.id()))
    }

    /// The target for a candidate, with its usage.
    pub(crate) fn target(self, quota: &mut QuotaTree, candidate: Candidate) -> Target {
        let info = self.workloads.get(candidate.key.id());
        let admitted = info.and_then(|info| info.state.admission_usage());
        quota.check(admitted.is_some(), "a candidate has usage");
        Target {
            usage: admitted
                .map(|admitted| Arc::clone(&admitted.usage))
                .unwrap_or_default(),
            candidate,
        }
    }

    /// The other queues of the tree, each with the common ancestor.
    pub(crate) fn other_queues(
        self,
        quota: &QuotaTree,
        preemptor: &Preemptor<'_>,
    ) -> Vec<(ClusterQueueId, NodeId, CommonAncestor)> {
        let path: Vec<NodeId> = quota.path(preemptor.node).collect();
        // For each cohort above the preemptor, its child on the way down.
        let below: BTreeMap<NodeId, NodeId> = (path.iter().skip(1).copied())
            .zip(path.iter().copied())
            .collect();
        let others = self
            .queues
            .nodes()
            .filter(|queue| queue.id != preemptor.node);
        let common_ancestor = |target_side: NodeId| {
            let preemptor_side = below.get(&quota.parent(target_side)?).copied()?;
            Some(CommonAncestor {
                preemptor_side,
                target_side,
            })
        };
        let other_queues = others.filter_map(|queue| {
            let common_ancestor = quota.path(queue.id).find_map(common_ancestor)?;
            Some((queue.cluster_queue, queue.id, common_ancestor))
        });
        other_queues.collect()
    }
}
