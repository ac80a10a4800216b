//! Which nodes make up which tree, by following every name each time. Part of the oracle.

use std::collections::BTreeSet;

use sluice_engine::{ClusterQueue, ClusterQueueName, Quota, StopPolicy};

use crate::oracle::choice::group_of;
use crate::oracle::quota::{Cell, Member, Node, Tree};
use crate::oracle::{Oracle, charge_of};

impl Oracle {
    pub(crate) fn active(&self, queue: &ClusterQueue) -> bool {
        let mut flavors = queue
            .resource_groups
            .iter()
            .flat_map(|group| &group.flavors);
        queue.stop == StopPolicy::None
            && flavors.all(|flavor| self.flavors.contains_key(&flavor.name))
            && self.path(&Node::Queue(queue.name.clone())).is_some()
    }

    fn parent(&self, node: &Node) -> Option<Node> {
        let parent = match node {
            Node::Cohort(name) => self
                .cohorts
                .get(name)
                .and_then(|cohort| cohort.parent.clone()),
            Node::Queue(name) => self.queues.get(name).and_then(|queue| queue.cohort.clone()),
        };
        parent.map(Node::Cohort)
    }

    /// From a node up to its root; none if there is no root.
    pub(crate) fn path(&self, node: &Node) -> Option<Vec<Node>> {
        let mut path = vec![node.clone()];
        while let Some(parent) = self.parent(path.last().unwrap()) {
            if path.contains(&parent) {
                return None;
            }
            path.push(parent);
        }
        Some(path)
    }

    /// The root of the tree that a queue is in.
    pub(crate) fn root(&self, queue: &ClusterQueueName) -> Option<Node> {
        self.path(&Node::Queue(queue.clone()))?.pop()
    }

    /// The roots of the trees in which there are queues.
    pub(crate) fn roots(&self) -> BTreeSet<Node> {
        self.queues
            .keys()
            .filter_map(|queue| self.root(queue))
            .collect()
    }

    /// The tree below a root.
    pub(crate) fn tree(&self, root: &Node) -> Tree {
        let groups = (self.queues.values().map(|queue| &queue.resource_groups))
            .chain(self.cohorts.values().map(|cohort| &cohort.resource_groups))
            .flatten();
        let quotas = groups.flat_map(|group| &group.flavors);
        let quotas = quotas.flat_map(|f| f.resources.keys().map(|r| (f.name.clone(), r.clone())));
        let charged = self.held().flat_map(|(_, admission)| charge_of(admission));
        let cells: BTreeSet<Cell> = quotas.chain(charged.map(|(cell, _)| cell)).collect();
        let mut tree = Tree {
            nodes: Vec::new(),
            cells: cells.into_iter().collect(),
        };
        self.plant(&mut tree, root, None);
        tree.sum_up(0);
        tree
    }

    fn plant(&self, tree: &mut Tree, name: &Node, parent: Option<usize>) {
        let number = tree.nodes.len();
        let weight = match name {
            Node::Cohort(name) => self.cohorts.get(name).map(|cohort| cohort.fair_weight),
            Node::Queue(name) => self.queues.get(name).map(|queue| queue.fair_weight),
        };
        tree.nodes.push(Member {
            name: name.clone(),
            parent,
            children: Vec::new(),
            quota: tree
                .cells
                .iter()
                .map(|cell| self.quota(name, cell))
                .collect(),
            weight: weight.unwrap_or_default().thousandths().into(),
            subtree: Vec::new(),
            guaranteed: Vec::new(),
        });
        if let Some(parent) = parent {
            tree.nodes[parent].children.push(number);
        }
        let cohorts = self.cohorts.keys().cloned().map(Node::Cohort);
        for child in cohorts.chain(self.queues.keys().cloned().map(Node::Queue)) {
            if self.parent(&child).as_ref() == Some(name) {
                self.plant(tree, &child, Some(number));
            }
        }
    }

    fn quota(&self, node: &Node, cell: &Cell) -> Quota {
        let groups = match node {
            Node::Cohort(name) => self.cohorts.get(name).map(|c| c.resource_groups.as_slice()),
            Node::Queue(name) => self.queues.get(name).map(|q| q.resource_groups.as_slice()),
        };
        let group = group_of(groups.unwrap_or_default(), &cell.1);
        let flavors = group.into_iter().flat_map(|(_, group)| &group.flavors);
        let mut quotas = flavors
            .filter(|f| f.name == cell.0)
            .map(|f| f.resources.get(&cell.1));
        quotas.next().flatten().copied().unwrap_or_default()
    }
}
