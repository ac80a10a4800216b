//! One cohort tree: its quota, its queues, and the heads that are re-opened for the next decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::amount::Amount;
use crate::api::names::{ClusterQueueName, CohortName, NodeName, ResourceName, WorkloadId};
use crate::api::outlook::LimitingNode;
use crate::api::queues::ClusterQueue;
use crate::api::status::InactiveReason;
use crate::cohort::preemption_round::PreemptionRound;
use crate::cohort::reopening::{ClassRef, Reopened};
use crate::flavor::options_cache::{LayoutId, OptionsCache};
use crate::queue::admission_order::AdmissionOrder;
use crate::queue::cluster_queue::ClusterQueueId;
use crate::queue::local_queue::LocalQueues;
use crate::quota::flavor_resources::FlavorResources;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::WorkloadUsage;
use crate::quota::view::{NodeId, View};
use crate::workload::shape::ClassId;

/// One cohort tree, or a single queue without cohort.
#[derive(Clone, Debug, Default)]
pub(crate) struct CohortTree {
    pub(super) members: Vec<NodeName>,
    pub(crate) quota: QuotaTree,
    /// Empty in an inactive tree.
    pub(crate) queues: TreeQueues,
    /// Empty in an inactive tree.
    pub(crate) cohorts: BTreeMap<CohortName, NodeId>,
    /// The flavor options of shapes in its queues.
    pub(crate) options_cache: OptionsCache,
    /// Why nothing in this tree is admitted.
    pub(crate) inactive: Option<InactiveReason>,
    pub(crate) reopened: Reopened,
    /// The number of evicted workloads that still have usage here.
    pub(crate) evicting: usize,
    /// The workloads with a reservation since the last decision.
    pub(crate) with_reservation: BTreeSet<WorkloadId>,
    /// Those of them that have a part of what they request (`cycle/strict_head_reservation.rs`).
    pub(crate) with_reserved_part: BTreeSet<WorkloadId>,
    pub(crate) preemption_round: PreemptionRound,
}

/// A queue in its tree.
#[derive(Clone, Debug)]
pub(crate) struct QueueNode {
    pub(crate) id: NodeId,
    pub(crate) cluster_queue: ClusterQueueId,
    pub(crate) config: Arc<ClusterQueue>,
    pub(crate) layout: LayoutId,
    /// The quota by which usage is measured. Empty where jobs are not admitted by usage.
    pub(crate) quota_for_usage: BTreeMap<ResourceName, Amount>,
    pub(crate) inactive: Option<InactiveReason>,
}

/// The queues of a tree, by name and by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeQueues {
    ids: BTreeMap<ClusterQueueName, NodeId>,
    /// None for a cohort.
    nodes: Vec<Option<QueueNode>>,
}

impl QueueNode {
    /// The order of the workloads of this queue.
    pub(crate) fn admission_order<'a>(
        &'a self,
        local_queues: &'a LocalQueues,
        flavor_resources: &'a FlavorResources,
    ) -> AdmissionOrder<'a> {
        AdmissionOrder {
            mode: self.config.admission_scope,
            quota: &self.quota_for_usage,
            local_queues,
            flavor_resources,
        }
    }
}

impl TreeQueues {
    pub(super) fn insert(&mut self, node: QueueNode) {
        self.ids.insert(node.config.name.clone(), node.id);
        if self.nodes.len() <= node.id {
            self.nodes.resize_with(node.id.saturating_add(1), || None);
        }
        if let Some(place) = self.nodes.get_mut(node.id) {
            *place = Some(node);
        }
    }

    pub(crate) fn node(&self, name: &ClusterQueueName) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn get(&self, name: &ClusterQueueName) -> Option<&QueueNode> {
        self.at(self.node(name)?)
    }

    pub(crate) fn at(&self, id: NodeId) -> Option<&QueueNode> {
        self.nodes.get(id)?.as_ref()
    }

    /// All of them.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &QueueNode> {
        self.nodes.iter().flatten()
    }

    pub(super) fn nodes_mut(&mut self) -> impl Iterator<Item = &mut QueueNode> {
        self.nodes.iter_mut().flatten()
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ClusterQueueName, &QueueNode)> {
        let node = |(name, id): (_, &NodeId)| Some((name, self.at(*id)?));
        self.ids.iter().filter_map(node)
    }
}

impl CohortTree {
    /// Its nodes.
    pub(crate) fn members(&self) -> &[NodeName] {
        &self.members
    }

    /// Why a queue of this tree admits nothing.
    pub(crate) fn queue_inactive(&self, queue: &ClusterQueueName) -> Option<&InactiveReason> {
        let own = || self.queues.get(queue).and_then(|n| n.inactive.as_ref());
        self.inactive.as_ref().or_else(own)
    }

    /// Whether the quota of a workload is reserved, and free once evicted workloads have stopped.
    pub(crate) fn waits_for_evicted(&self, id: &WorkloadId) -> bool {
        self.with_reservation.contains(id) && !self.with_reserved_part.contains(id)
    }

    /// Re-opens a class for the next decision.
    pub(crate) fn reopen(&mut self, queue: &ClusterQueueName, class: ClassId) {
        if let Some(node) = self.queues.node(queue) {
            self.reopened.reopen(ClassRef { node, id: class });
        }
    }

    /// The name of a node, as the one whose quota or limit is exhausted.
    pub(crate) fn limiting_node(&self, id: NodeId) -> Option<LimitingNode> {
        let cohort = self.cohorts.iter().find(|(_, node)| **node == id);
        let queue = || self.queues.at(id).map(|node| node.config.name.clone());
        match cohort {
            Some((name, _)) => Some(LimitingNode::Cohort(name.clone())),
            None => queue().map(LimitingNode::Queue),
        }
    }

    pub(crate) fn add_usage(
        &mut self,
        view: View,
        node: NodeId,
        usage: &WorkloadUsage,
        cells: &FlavorResources,
    ) {
        for (cell, used) in &**usage {
            self.quota.register(*cell, cells);
            self.quota.add_usage(view, node, *cell, used.total);
        }
    }

    pub(crate) fn remove_usage(&mut self, view: View, node: NodeId, usage: &WorkloadUsage) {
        for (cell, used) in &**usage {
            self.quota.remove_usage(view, node, *cell, used.total);
        }
    }
}
