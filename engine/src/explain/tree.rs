//! A tree of cohorts as it stands, for a reader that takes as few nodes at a time as it likes. The types are in
//! `api/status.rs`.

use crate::api::names::NodeName;
use crate::api::status::{ByFlavor, NodeAmounts, TreeNode};
use crate::cohort::tree::CohortTree;
use crate::queue::demand::Demand;
use crate::quota::usage::QueueUsage;
use crate::quota::view::View;
use crate::state::engine::Engine;

impl Engine {
    /// The nodes of the tree that a ClusterQueue or cohort is in, in no order; none if there is no such node.
    pub fn tree_members(&self, of: &NodeName) -> Option<Vec<NodeName>> {
        Some(self.tree_of(of)?.members().to_vec())
    }

    /// How some nodes of one tree stand. Those that are gone are left out.
    pub fn tree_nodes(&self, names: &[NodeName]) -> Vec<TreeNode> {
        let first = names.first();
        let Some(tree) = first.and_then(|first| self.tree_of(first)) else {
            return Vec::new();
        };
        let nodes = names.iter().filter(|name| self.config.exists(name));
        nodes.map(|name| self.tree_node(&tree, name)).collect()
    }

    fn tree_node(&self, tree: &CohortTree, name: &NodeName) -> TreeNode {
        let (id, active, weight, state) = match name {
            NodeName::Cohort(cohort) => {
                let config = self.config.cohorts.get(cohort);
                let weight = config.map(|config| config.fair_weight);
                let inactive = tree.inactive.clone();
                (tree.cohorts.get(cohort).copied(), inactive, weight, None)
            }
            NodeName::ClusterQueue(queue) => {
                let config = self.config.queues.get(queue);
                let weight = config.map(|config| config.fair_weight);
                let inactive = tree.queue_inactive(queue).cloned();
                let state = self.cluster_queues.get(queue);
                (tree.queues.node(queue), inactive, weight, state)
            }
        };
        let mut amounts: ByFlavor<NodeAmounts> = ByFlavor::new();
        let cells = id.into_iter().flat_map(|id| tree.quota.node_amounts(id));
        for ((flavor, resource), of_cell) in cells {
            let of_flavor = amounts.entry(flavor.clone()).or_default();
            of_flavor.insert(resource.clone(), of_cell);
        }
        let is_fair = self.settings.fair_sharing.is_some();
        TreeNode {
            name: name.clone(),
            parent: self.config.parent(name).cloned(),
            active: active.map_or(Ok(()), Err),
            amounts,
            weight: weight.unwrap_or_default(),
            share: id
                .filter(|_| is_fair)
                .map(|id| tree.quota.share(View::Planned, id)),
            pending: state.map_or(0, |state| Demand::workloads(&state.demand)),
            reserving: state.map_or(0, |state| QueueUsage::reserving(&state.usage)),
        }
    }
}
