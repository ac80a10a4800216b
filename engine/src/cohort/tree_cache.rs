//! All cohort trees: which queues and cohorts make up which tree, and when a tree has to be built again. How one is
//! built is `build.rs`; the arithmetic within one is the folder `quota`.
//!
//! A change of the configuration invalidates the trees that it touches: their members are without tree.
//! [`CohortTrees::build_missing`] gathers them into trees again. Nothing here recurses, so a chain of any
//! length is safe; one deeper than the limit becomes an inactive tree.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::names::{ClusterQueueName, NodeName, WorkloadId};
use crate::cohort::tree::CohortTree;
use crate::queue::cluster_queue::ClusterQueueStates;
use crate::quota::config::Config;
use crate::quota::violations::Violations;

/// All trees.
#[derive(Clone, Debug, Default)]
pub(crate) struct CohortTrees {
    /// By root; a tree with a cycle by the first cohort of the cycle.
    trees: BTreeMap<NodeName, CohortTree>,
    tree_of_node: BTreeMap<NodeName, NodeName>,
    without_tree: BTreeSet<NodeName>,
    changed: BTreeSet<NodeName>,
    /// Violations in trees that were dropped.
    violations: Violations,
}

impl CohortTrees {
    /// Drops the tree of a node, because the node or its links have changed.
    pub(crate) fn invalidate(&mut self, node: &NodeName) {
        if let Some(key) = self.tree_of_node.get(node)
            && let Some(tree) = self.trees.remove(key)
        {
            self.violations.add(tree.quota.violations());
            self.changed.remove(&key.clone());
            for member in tree.members {
                self.tree_of_node.remove(&member);
                self.without_tree.insert(member);
            }
        }
        self.without_tree.insert(node.clone());
    }

    /// Builds all missing trees, and returns the queues in them.
    pub(crate) fn build_missing(
        &mut self,
        config: &Config,
        cluster_queues: &ClusterQueueStates,
    ) -> Vec<ClusterQueueName> {
        let mut queues = Vec::new();
        while let Some(node) = self.without_tree.pop_first() {
            // The new tree may include an existing one that the change did not name, by a link from here.
            if !config.exists(&node) || self.tree_of_node.contains_key(&node) {
                continue;
            }
            let (key, tree) = config.build_tree(&node, cluster_queues);
            for member in &tree.members {
                self.tree_of_node.insert(member.clone(), key.clone());
                self.without_tree.remove(member);
                if let NodeName::ClusterQueue(queue) = member {
                    queues.push(queue.clone());
                }
            }
            self.changed.insert(key.clone());
            self.trees.insert(key, tree);
        }
        queues
    }

    /// The tree of a node; built for this call if it is missing.
    pub(crate) fn tree_of(
        &self,
        node: &NodeName,
        config: &Config,
        cluster_queues: &ClusterQueueStates,
    ) -> Option<Cow<'_, CohortTree>> {
        if let Some(tree) = self.tree_of_member(node) {
            return Some(Cow::Borrowed(tree));
        }
        config
            .exists(node)
            .then(|| Cow::Owned(config.build_tree(node, cluster_queues).1))
    }

    /// The tree of a queue, if it exists, to change its usage or what it considers again. The next decision
    /// runs a cycle over it.
    pub(crate) fn tree_mut(&mut self, queue: &ClusterQueueName) -> Option<&mut CohortTree> {
        let key = self
            .tree_of_node
            .get(&NodeName::ClusterQueue(queue.clone()))?;
        self.changed.insert(key.clone());
        self.trees.get_mut(key)
    }

    /// Re-opens the tree if the workload had a reservation, which others may use now.
    pub(crate) fn reopen_if_reserved(&mut self, queue: &ClusterQueueName, id: &WorkloadId) {
        let key = self
            .tree_of_node
            .get(&NodeName::ClusterQueue(queue.clone()));
        if let Some(key) = key
            && let Some(tree) = self.trees.get_mut(key)
            && tree.with_reservation.contains(id)
        {
            tree.reopened.reopen_all();
            self.changed.insert(key.clone());
        }
    }

    /// Ends the preemption round of the tree of a queue. Workloads that it protected are candidates again.
    pub(crate) fn end_preemption_round(&mut self, queue: &ClusterQueueName) {
        let key = self
            .tree_of_node
            .get(&NodeName::ClusterQueue(queue.clone()));
        if let Some(key) = key
            && let Some(tree) = self.trees.get_mut(key)
            && tree.preemption_round.protects_any()
        {
            tree.preemption_round.end();
            tree.reopened.reopen_all();
            self.changed.insert(key.clone());
        }
    }

    /// Whether a workload of this queue had a reservation at the end of the last cycle.
    pub(crate) fn has_reservation(&self, queue: &ClusterQueueName, id: &WorkloadId) -> bool {
        let tree = self.tree_of_member(&NodeName::ClusterQueue(queue.clone()));
        tree.is_some_and(|tree| tree.with_reservation.contains(id))
    }

    /// Whether any workload in the tree of a queue had a reservation at the end of the last cycle.
    pub(crate) fn has_reservations(&self, queue: &ClusterQueueName) -> bool {
        let tree = self.tree_of_member(&NodeName::ClusterQueue(queue.clone()));
        tree.is_some_and(|tree| !tree.with_reservation.is_empty())
    }

    /// The tree of a node, if it is there.
    fn tree_of_member(&self, node: &NodeName) -> Option<&CohortTree> {
        self.trees.get(self.tree_of_node.get(node)?)
    }

    /// Re-opens the tree of a queue whose order depends on time.
    pub(crate) fn reopen_for_time(&mut self, queue: &ClusterQueueName, is_strict: bool) {
        let key = self
            .tree_of_node
            .get(&NodeName::ClusterQueue(queue.clone()));
        if let Some(key) = key
            && let Some(tree) = self.trees.get_mut(key)
            && (is_strict || tree.evicting > 0)
        {
            tree.reopened.reopen_all();
            self.changed.insert(key.clone());
        }
    }

    /// Re-opens the classes that may gain from more usage or more preemptible workloads.
    pub(crate) fn reopen_by_usage(&mut self, queue: &ClusterQueueName) {
        let Some(key) = self
            .tree_of_node
            .get(&NodeName::ClusterQueue(queue.clone()))
        else {
            return;
        };
        if let Some(tree) = self.trees.get_mut(key)
            && tree.reopened.reopen_gaining_by_usage()
        {
            self.changed.insert(key.clone());
        }
    }

    /// Takes the changed trees, in order.
    pub(crate) fn take_changed(&mut self) -> Vec<(NodeName, CohortTree)> {
        let changed = std::mem::take(&mut self.changed);
        let tree = |key: NodeName| self.trees.remove(&key).map(|tree| (key, tree));
        changed.into_iter().filter_map(tree).collect()
    }

    /// How often usage was removed from a tree that was not there.
    pub(crate) fn violations(&self) -> Violations {
        let mut all = self.violations;
        for tree in self.trees.values() {
            all.add(tree.quota.violations());
        }
        all
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = &CohortTree> {
        self.trees.values()
    }

    pub(crate) fn put_back(&mut self, key: NodeName, tree: CohortTree) {
        self.trees.insert(key, tree);
    }
}
