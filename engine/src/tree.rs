//! The arithmetic of one cohort tree: what each node has, lends, borrows and is charged. Knows no
//! workloads and no order; which nodes make up a tree is `forest.rs`.
//!
//! A node is a ClusterQueue or a Cohort; the rules are the same for both. A *cell* is one resource
//! in one flavor; cells don't influence each other. For each cell of a node:
//!
//! * **subtree quota** = its nominal quota + what its children lend it;
//! * **guaranteed** = what of the subtree quota it keeps for itself: what is above its lending
//!   limit. Without a lending limit that is nothing, since all of it may be lent;
//! * a child lends its parent its subtree quota less what it is guaranteed;
//! * **usage** is charged to a node as far as what it is guaranteed goes, and what is above that
//!   also to its parent. So the usage of a cohort = what its children use above what they are
//!   guaranteed;
//! * a **root** may use its subtree quota, any other node its subtree quota + its borrowing limit.
//!
//! A charge **fits** if every node whose usage it raises stays within what it may use. It follows
//! that a node may always use what it is guaranteed, even when a cohort above it is over its
//! quota because that was lowered.

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::model::{Quota, ResourceGroup};
use crate::names::{FlavorName, ResourceName};

/// One resource in one flavor.
pub(crate) type FlavorResource = (FlavorName, ResourceName);

/// A cell's number within its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellId(usize);

/// A node's number within its tree.
pub(crate) type NodeId = usize;

/// Quota and usage of all nodes of a tree. Parents come before their children.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuotaTree {
    nodes: Vec<Node>,
    cells: BTreeMap<FlavorResource, CellId>,
}

#[derive(Clone, Debug)]
struct Node {
    parent: Option<NodeId>,
    /// A cell that is missing has no quota, no limits and no usage.
    cells: BTreeMap<CellId, Cell>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    quota: Quota,
    subtree: Amount,
    usage: Amount,
}

/// The quotas that groups give. A resource counts in the first group that covers it, a flavor at
/// its first mention in that group.
pub(crate) fn quotas(groups: &[ResourceGroup]) -> BTreeMap<FlavorResource, Quota> {
    let mut quotas = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        let earlier = groups.get(..index).unwrap_or_default();
        for flavor in &group.flavors {
            for (resource, quota) in &flavor.resources {
                let covered_earlier = earlier
                    .iter()
                    .any(|g| g.covered_resources.contains(resource));
                if group.covered_resources.contains(resource) && !covered_earlier {
                    let cell = (flavor.name.clone(), resource.clone());
                    quotas.entry(cell).or_insert_with(|| clamped(*quota));
                }
            }
        }
    }
    quotas
}

fn clamped(quota: Quota) -> Quota {
    Quota {
        nominal: quota.nominal.clamped(),
        borrowing_limit: quota.borrowing_limit.map(Amount::clamped),
        lending_limit: quota.lending_limit.map(Amount::clamped),
    }
}

impl Cell {
    /// What of the subtree quota isn't lent.
    fn guaranteed(&self) -> Amount {
        match self.quota.lending_limit {
            Some(limit) => self.subtree.minus(limit).at_least_zero(),
            None => Amount::ZERO,
        }
    }

    /// What the node may use at most, borrowing included; none if only its ancestors limit it.
    fn borrowing_ceiling(&self) -> Option<Amount> {
        self.quota
            .borrowing_limit
            .map(|limit| self.subtree.plus(limit))
    }
}

impl QuotaTree {
    /// Adds a node below one that has been added before, with its quota and what is charged to it
    /// directly. Call [`QuotaTree::sum_up`] when all nodes are there.
    pub(crate) fn add<'a>(
        &mut self,
        parent: Option<NodeId>,
        groups: &[ResourceGroup],
        charged: impl IntoIterator<Item = (&'a FlavorResource, &'a Amount)>,
    ) -> NodeId {
        let mut cells: BTreeMap<CellId, Cell> = BTreeMap::new();
        for (cell, quota) in quotas(groups) {
            let own = Cell {
                quota,
                subtree: quota.nominal,
                usage: Amount::ZERO,
            };
            cells.insert(self.intern(&cell), own);
        }
        for (cell, amount) in charged {
            cells.entry(self.intern(cell)).or_default().usage = *amount;
        }
        self.nodes.push(Node { parent, cells });
        self.nodes.len() - 1
    }

    /// Brings what children lend, and what they use of it, up to their parents.
    pub(crate) fn sum_up(&mut self) {
        for id in (0..self.nodes.len()).rev() {
            // A child comes after its parent, so this cuts the parent from its children.
            let (above, below) = self.nodes.split_at_mut(id);
            let Some(node) = below.first() else { continue };
            let Some(parent) = node.parent.and_then(|parent| above.get_mut(parent)) else {
                continue;
            };
            for (cell_id, cell) in &node.cells {
                let guaranteed = cell.guaranteed();
                let sum = parent.cells.entry(*cell_id).or_default();
                sum.subtree = sum.subtree.plus(cell.subtree.minus(guaranteed));
                sum.usage = sum.usage.plus(cell.usage.minus(guaranteed).at_least_zero());
            }
        }
    }

    /// The number of a cell, given out at its first mention.
    pub(crate) fn intern(&mut self, cell: &FlavorResource) -> CellId {
        if let Some(id) = self.cells.get(cell) {
            return *id;
        }
        let id = CellId(self.cells.len());
        self.cells.insert(cell.clone(), id);
        id
    }

    /// The number of a cell that was mentioned before.
    pub(crate) fn cell(&self, cell: &FlavorResource) -> Option<CellId> {
        self.cells.get(cell).copied()
    }

    /// Charges an amount to a node, and to its ancestors what is above what is guaranteed below.
    pub(crate) fn charge(&mut self, node: NodeId, cell: CellId, amount: Amount) {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(node) = id.and_then(|id| self.nodes.get_mut(id))
        {
            let cell = node.cells.entry(cell).or_default();
            let local = cell.guaranteed().minus(cell.usage).at_least_zero();
            cell.usage = cell.usage.plus(rest);
            rest = rest.minus(local).at_least_zero();
            id = node.parent;
        }
    }

    /// Takes a charge back: the reverse of [`QuotaTree::charge`].
    pub(crate) fn discharge(&mut self, node: NodeId, cell: CellId, amount: Amount) {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(node) = id.and_then(|id| self.nodes.get_mut(id))
        {
            let cell = node.cells.entry(cell).or_default();
            let above = cell.usage.minus(cell.guaranteed()).at_least_zero();
            cell.usage = cell.usage.minus(rest);
            rest = rest.min(above);
            id = node.parent;
        }
    }

    /// Whether every node that this charge would raise stays within what it may use.
    pub(crate) fn fits(&self, node: NodeId, cell: CellId, amount: Amount) -> bool {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(node) = id.and_then(|id| self.nodes.get(id))
        {
            let cell = node.cells.get(&cell).copied().unwrap_or_default();
            let usage = cell.usage.plus(rest);
            let ceiling = match node.parent {
                None => Some(cell.subtree),
                Some(_) => cell.borrowing_ceiling(),
            };
            if ceiling.is_some_and(|ceiling| usage > ceiling) {
                return false;
            }
            let local = cell.guaranteed().minus(cell.usage).at_least_zero();
            rest = rest.minus(local).at_least_zero();
            id = node.parent;
        }
        true
    }

    /// Whether this charge would take the node above its own quota.
    pub(crate) fn borrows(&self, node: NodeId, cell: CellId, amount: Amount) -> bool {
        let cell = self.get(node, cell);
        amount > Amount::ZERO && cell.usage.plus(amount) > cell.subtree
    }

    /// The largest charge that fits now.
    pub(crate) fn available(&self, node: NodeId, cell: CellId) -> Amount {
        let mut available = Amount::ZERO;
        for (cell, is_root) in self.path_from_root(node, cell) {
            if is_root {
                available = cell.subtree.minus(cell.usage).at_least_zero();
                continue;
            }
            let guaranteed = cell.guaranteed();
            if let Some(ceiling) = cell.borrowing_ceiling() {
                let room = ceiling.minus(cell.usage.max(guaranteed)).at_least_zero();
                available = available.min(room);
            }
            available = available.plus(guaranteed.minus(cell.usage).at_least_zero());
        }
        available
    }

    /// The largest charge that would fit if nothing were used.
    pub(crate) fn potential(&self, node: NodeId, cell: CellId) -> Amount {
        let mut potential = Amount::ZERO;
        for (cell, is_root) in self.path_from_root(node, cell) {
            if is_root {
                potential = cell.subtree;
                continue;
            }
            potential = potential.plus(cell.guaranteed());
            if let Some(ceiling) = cell.borrowing_ceiling() {
                potential = potential.min(ceiling);
            }
        }
        potential
    }

    /// A node's own quota for a cell.
    pub(crate) fn nominal(&self, node: NodeId, cell: CellId) -> Amount {
        self.get(node, cell).quota.nominal
    }

    /// Subtree quota and usage of each cell that a node has either of.
    pub(crate) fn amounts(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = (&FlavorResource, Amount, Amount)> {
        let node = self.nodes.get(node);
        self.cells.iter().filter_map(move |(name, id)| {
            let cell = node?.cells.get(id)?;
            Some((name, cell.subtree, cell.usage))
        })
    }

    fn get(&self, node: NodeId, cell: CellId) -> Cell {
        let node = self.nodes.get(node);
        node.and_then(|node| node.cells.get(&cell))
            .copied()
            .unwrap_or_default()
    }

    /// The cell in all nodes from the root down to `node`, each with whether it is the root's.
    fn path_from_root(&self, node: NodeId, cell: CellId) -> impl Iterator<Item = (Cell, bool)> {
        let parent = |id: &NodeId| self.nodes.get(*id).and_then(|node| node.parent);
        let path: Vec<NodeId> = std::iter::successors(Some(node), parent).collect();
        let root = path.last().copied();
        path.into_iter()
            .rev()
            .map(move |id| (self.get(id, cell), Some(id) == root))
    }
}
