//! How a tree of cohorts stands, for readers of `visibility.sluice.dev`: taken a part at a time, so that no decision waits for
//! it.

use std::collections::BTreeMap;

use sluice_engine::{ClusterQueueName, LocalQueueKey, NodeName};

use crate::controller::Controller;
use crate::visibility::TakenTree;

/// A node costs as much as so many workloads: it may have quota for many resources.
const LOOKS_OF_NODE: usize = 10;

/// A tree, as far as it is taken.
pub struct TakingTree {
    taken: TakenTree,
    /// The nodes that are left to look at.
    left: Vec<NodeName>,
    /// The LocalQueues of its ClusterQueues that are left to look at: those of other trees are none of its business.
    local_queues: Vec<(ClusterQueueName, LocalQueueKey)>,
    /// Objects that gates hold, by ClusterQueue.
    gated: BTreeMap<ClusterQueueName, u64>,
}

impl TakingTree {
    /// All of it.
    pub fn end(self) -> TakenTree {
        let mut taken = self.taken;
        for (node, gated) in &mut taken.nodes {
            if let NodeName::ClusterQueue(name) = &node.name {
                *gated = self.gated.get(name).copied().unwrap_or_default();
            }
        }
        taken
    }
}

impl Controller {
    /// Begins to take the tree that a node is in. None if there is no such node.
    pub(in crate::controller) fn begin_tree(&self, of: &NodeName) -> Option<TakingTree> {
        let mut left = self.engine.tree_members(of)?;
        // The first one is looked at first.
        left.reverse();
        Some(TakingTree {
            taken: TakenTree {
                of: of.clone(),
                nodes: Vec::new(),
            },
            left,
            local_queues: Vec::new(),
            gated: BTreeMap::new(),
        })
    }

    /// Looks at one part more, as much as so many workloads. Returns whether that was the end.
    pub(in crate::controller) fn go_on_tree(&self, taking: &mut TakingTree, left: usize) -> bool {
        if !taking.left.is_empty() {
            let nodes = left.div_ceil(LOOKS_OF_NODE);
            let rest = taking.left.len().saturating_sub(nodes);
            let part = taking.left.split_off(rest);
            let found = self.engine.tree_nodes(&part).into_iter();
            taking.taken.nodes.extend(found.map(|node| (node, 0)));
            for node in &part {
                if let NodeName::ClusterQueue(name) = node {
                    let own = self.engine.local_queues_of(name);
                    let own = own.map(|key| (name.clone(), key.clone()));
                    taking.local_queues.extend(own);
                }
            }
            return false;
        }
        let rest = taking.local_queues.len().saturating_sub(left);
        for (name, key) in taking.local_queues.split_off(rest) {
            let jobs = self.objects.gated().get(&key);
            let pods = self.objects.pods.gated().get(&key);
            let sum = taking.gated.entry(name).or_default();
            for count in jobs.into_iter().chain(pods) {
                *sum = sum.saturating_add(u64::try_from(*count).unwrap_or_default());
            }
        }
        taking.local_queues.is_empty()
    }
}
