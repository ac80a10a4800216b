//! How a tree of cohorts stands, for readers of `visibility.sluice.dev`: taken a part at a time, so that no decision waits for
//! it.

use std::collections::BTreeMap;
use std::ops::Bound;

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
    /// Objects that gates hold, by ClusterQueue, and where they are counted: jobs first, and then pods.
    gated: BTreeMap<ClusterQueueName, u64>,
    counting: Counting,
    last: Option<LocalQueueKey>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    Jobs,
    Pods,
    Done,
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
            gated: BTreeMap::new(),
            counting: Counting::Jobs,
            last: None,
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
            return false;
        }
        let counts = match taking.counting {
            Counting::Jobs => self.objects.gated(),
            Counting::Pods => self.objects.pods.gated(),
            Counting::Done => return true,
        };
        let after = taking.last.take();
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut places = counts.range((after, Bound::Unbounded));
        for (key, count) in places.by_ref().take(left) {
            taking.last = Some(key.clone());
            if let Some(queue) = self.cluster.cluster_queue_of(key) {
                let sum = taking.gated.entry(queue.into()).or_default();
                *sum = sum.saturating_add(u64::try_from(*count).unwrap_or_default());
            }
        }
        if places.next().is_none() {
            taking.last = None;
            taking.counting = match taking.counting {
                Counting::Jobs => Counting::Pods,
                Counting::Pods | Counting::Done => Counting::Done,
            };
        }
        taking.counting == Counting::Done
    }
}
