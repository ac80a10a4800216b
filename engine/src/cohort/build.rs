//! Builds cohort trees from the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::limits::TREE_DEPTH_MAX;
use crate::api::names::{CohortName, NodeName};
use crate::api::queues::AdmissionScope;
use crate::api::status::InactiveReason;
use crate::cohort::tree::{CohortTree, QueueNode};
use crate::queue::cluster_queue::ClusterQueueStates;
use crate::queue::local_queue::quota_for_usage;
use crate::quota::config::Config;
use crate::quota::usage::QueueUsage;
use crate::quota::view::NodeId;

impl Config {
    /// All nodes that are connected with `start`, in whichever direction.
    fn component(&self, start: &NodeName) -> BTreeSet<NodeName> {
        let mut found = BTreeSet::from([start.clone()]);
        let mut open = vec![start.clone()];
        while let Some(node) = open.pop() {
            let parent = self.parent(&node).cloned().map(NodeName::Cohort);
            for next in self.children(&node).cloned().chain(parent) {
                if found.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        found
    }

    /// The cohorts of the cycle that the parents of `start` lead into, in a component without root.
    fn cohort_cycle(&self, start: &NodeName) -> BTreeSet<CohortName> {
        let mut seen: BTreeSet<&CohortName> = BTreeSet::new();
        let mut next = self.parent(start);
        while let Some(name) = next
            && seen.insert(name)
        {
            next = self
                .cohorts
                .get(name)
                .and_then(|cohort| cohort.parent.as_ref());
        }
        // `next` was seen before, so it is on the cycle: walk around once from there.
        let mut cycle = BTreeSet::new();
        while let Some(name) = next
            && cycle.insert(name.clone())
        {
            next = self
                .cohorts
                .get(name)
                .and_then(|cohort| cohort.parent.as_ref());
        }
        cycle
    }

    /// Builds the tree that `start` is part of; also returns the name that it is kept under.
    pub(crate) fn build_tree(
        &self,
        start: &NodeName,
        cluster_queues: &ClusterQueueStates,
    ) -> (NodeName, CohortTree) {
        let members = self.component(start);
        let mut tree = CohortTree::default();
        tree.reopened.reopen_all();
        let root = members
            .iter()
            .find(|node| self.parent(node).is_none())
            .cloned();
        let Some(root) = root else {
            let cycle = self.cohort_cycle(start);
            let key = cycle
                .first()
                .cloned()
                .map_or_else(|| start.clone(), NodeName::Cohort);
            tree.members = members.into_iter().collect();
            tree.inactive = Some(InactiveReason::CohortCycle(cycle.into_iter().collect()));
            return (key, tree);
        };
        let mut level = vec![(root.clone(), None)];
        for _ in 0..TREE_DEPTH_MAX {
            let mut below = Vec::new();
            for (node, parent) in level {
                let id = self.add_node(&mut tree, &node, parent, cluster_queues);
                below.extend(self.children(&node).map(|child| (child.clone(), Some(id))));
            }
            level = below;
        }
        if level.is_empty() {
            tree.quota.sum_up();
            self.set_quota_for_usage(&mut tree);
        } else {
            let inactive = Some(InactiveReason::CohortTreeTooDeep);
            tree = CohortTree {
                inactive,
                ..CohortTree::default()
            };
        }
        tree.members = members.into_iter().collect();
        (root, tree)
    }

    /// Sets the quota by which usage is measured, as it does not depend on usage.
    fn set_quota_for_usage(&self, tree: &mut CohortTree) {
        let (quota, cells) = (&tree.quota, &self.flavor_resources);
        for node in tree.queues.nodes_mut() {
            if node.config.admission_scope == AdmissionScope::ByUsage {
                let groups = &node.config.resource_groups;
                node.quota_for_usage = quota_for_usage(quota, node.id, groups, cells);
            }
        }
    }

    /// Adds one node to a tree.
    fn add_node(
        &self,
        tree: &mut CohortTree,
        node: &NodeName,
        parent: Option<NodeId>,
        cluster_queues: &ClusterQueueStates,
    ) -> NodeId {
        match node {
            NodeName::Cohort(name) => {
                let config = self.cohorts.get(name);
                let groups = config.map(|cohort| cohort.resource_groups.as_slice());
                let weight = config.map(|cohort| cohort.fair_weight).unwrap_or_default();
                let groups = groups.unwrap_or_default();
                let id = tree
                    .quota
                    .add(parent, groups, weight, None, &self.flavor_resources);
                tree.cohorts.insert(name.clone(), id);
                id
            }
            NodeName::ClusterQueue(name) => {
                let config = self.queues.get(name);
                let groups = config.map(|config| config.resource_groups.as_slice());
                let weight = config.map(|config| config.fair_weight).unwrap_or_default();
                let usage = cluster_queues
                    .get(name)
                    .map(|cluster_queue| &cluster_queue.usage);
                let used = usage.into_iter().flat_map(QueueUsage::totals);
                let groups = groups.unwrap_or_default();
                let id = (tree.quota).add(parent, groups, weight, used, &self.flavor_resources);
                if let (Some(config), Some(cluster_queue)) = (config, cluster_queues.id(name)) {
                    tree.queues.insert(QueueNode {
                        id,
                        cluster_queue,
                        config: Arc::clone(config),
                        layout: tree.options_cache.layout(config),
                        quota_for_usage: BTreeMap::new(),
                        inactive: self.queue_inactive(config),
                    });
                }
                id
            }
        }
    }
}
