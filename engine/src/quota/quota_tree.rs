//! The arithmetic of one cohort tree: the quota and usage of each node. Knows no workloads and no order;
//! the nodes of a tree are gathered by the folder `cohort`.
//!
//! A node is a ClusterQueue or a Cohort; the rules are the same for both. A *cell* is one resource in one
//! flavor; cells don't influence each other. For each cell of a node:
//!
//! * **subtree quota** = its nominal quota + what its children lend it;
//! * **guaranteed** = the part of the subtree quota that is not lent: what is above the lending limit.
//!   Without a lending limit that is nothing;
//! * a child lends its parent its subtree quota less its guaranteed quota;
//! * **usage** counts at a node up to its guaranteed quota; what is above that also counts at its parent.
//!   So the usage of a cohort is what its children use above their guaranteed quota;
//! * usage is kept in three views: the present usage (**now**); the usage once evicted workloads have
//!   stopped and reservations are taken (**planned**); and the latter without reservations
//!   (**without_reservations**);
//! * a **root** may use its subtree quota, any other node its subtree quota + its borrowing limit.
//!
//! Requested usage **fits** if every node whose usage it raises stays within its limit. So a node may
//! always use its guaranteed quota, even when a cohort above it is over its quota because that was lowered.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::amount::Amount;
use crate::api::quota::{Borrowing, Quota, ResourceGroup};
use crate::api::share::Weight;
use crate::api::status::NodeAmounts;
use crate::quota::configured_quotas::configured_quotas;
use crate::quota::flavor_resources::{FlavorResource, FlavorResourceId, FlavorResources};
use crate::quota::view::{NodeId, View};
use crate::quota::violations::Violations;

/// Quota and usage of all nodes of a tree. Parents come before their children.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuotaTree {
    pub(super) nodes: Vec<Node>,
    /// All cells of this tree.
    pub(super) cells: BTreeMap<FlavorResource, FlavorResourceId>,
    known: BTreeSet<FlavorResourceId>,
    violations: Violations,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: Option<NodeId>,
    /// The number of levels below it.
    pub(super) height: usize,
    pub(super) weight: Weight,
    /// A missing cell has no quota, no limits and no usage.
    pub(super) cells: BTreeMap<FlavorResourceId, NodeQuota>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeQuota {
    pub(super) quota: Quota,
    pub(super) subtree: Amount,
    pub(super) now: Amount,
    pub(super) planned: Amount,
    pub(super) without_reservations: Amount,
    /// The part of the quota that is reserved for workloads that may not borrow.
    pub(super) reserved_nominal: Amount,
}

impl NodeQuota {
    pub(super) fn usage(&self, view: View) -> Amount {
        match view {
            View::Now => self.now,
            View::Planned => self.planned,
            View::WithoutReservations => self.without_reservations,
        }
    }

    fn usage_mut(&mut self, view: View) -> &mut Amount {
        match view {
            View::Now => &mut self.now,
            View::Planned => &mut self.planned,
            View::WithoutReservations => &mut self.without_reservations,
        }
    }

    /// The usage above the guaranteed quota, which also counts at the parent.
    fn above_guaranteed(&self, view: View) -> Amount {
        self.usage(view).minus(self.guaranteed()).at_least_zero()
    }

    /// The part of the subtree quota that is not lent.
    pub(super) fn guaranteed(&self) -> Amount {
        match self.quota.lending_limit {
            Some(limit) => self.subtree.minus(limit).at_least_zero(),
            None => Amount::ZERO,
        }
    }

    /// The most that the node may use, borrowing included; none if only its ancestors limit it.
    pub(super) fn borrowing_ceiling(&self) -> Option<Amount> {
        self.quota
            .borrowing_limit
            .map(|limit| self.subtree.plus(limit))
    }
}

impl QuotaTree {
    /// Adds a node below a node that was added before, with its quota and its own usage. Call
    /// [`QuotaTree::sum_up`] when all nodes are there.
    pub(crate) fn add(
        &mut self,
        parent: Option<NodeId>,
        groups: &[ResourceGroup],
        weight: Weight,
        used: impl IntoIterator<Item = (FlavorResourceId, Amount)>,
        names: &FlavorResources,
    ) -> NodeId {
        let mut cells: BTreeMap<FlavorResourceId, NodeQuota> = BTreeMap::new();
        for ((flavor, resource), quota) in configured_quotas(groups) {
            // Every pair with quota got its number when its object was applied.
            if let Some(id) = names.get(&flavor, &resource) {
                let own = NodeQuota {
                    quota,
                    subtree: quota.nominal,
                    ..NodeQuota::default()
                };
                cells.insert(id, own);
            }
        }
        for (id, amount) in used {
            let cell = cells.entry(id).or_default();
            (cell.now, cell.planned, cell.without_reservations) = (amount, amount, amount);
        }
        for id in cells.keys() {
            self.register(*id, names);
        }
        self.nodes.push(Node {
            parent,
            height: 0,
            weight,
            cells,
        });
        self.nodes.len() - 1
    }

    /// Adds to each parent what its children lend it, and what they use of that.
    pub(crate) fn sum_up(&mut self) {
        for id in (0..self.nodes.len()).rev() {
            // A child comes after its parent, so this cuts the parent from its children.
            let (above, below) = self.nodes.split_at_mut(id);
            let Some((node, parent)) = below.first().and_then(|node| Some((node, node.parent?)))
            else {
                continue;
            };
            let Some(parent) = above.get_mut(parent) else {
                self.violations
                    .check(false, "a parent comes before its children");
                continue;
            };
            parent.height = parent.height.max(node.height.saturating_add(1));
            for (cell_id, cell) in &node.cells {
                let sum = parent.cells.entry(*cell_id).or_default();
                sum.subtree = sum.subtree.plus(cell.subtree.minus(cell.guaranteed()));
                sum.now = sum.now.plus(cell.above_guaranteed(View::Now));
                sum.planned = sum.planned.plus(cell.above_guaranteed(View::Planned));
                sum.without_reservations = sum
                    .without_reservations
                    .plus(cell.above_guaranteed(View::WithoutReservations));
            }
        }
    }

    /// Makes a cell part of this tree. Call it before the cell has usage.
    pub(crate) fn register(&mut self, id: FlavorResourceId, names: &FlavorResources) {
        if self.known.insert(id) {
            let name = names.name(id);
            self.violations
                .check(name.is_some(), "each cell has a flavor and a resource");
            self.cells.extend(name.map(|name| (name.clone(), id)));
        }
    }

    /// Adds usage to a node in one view. What is above the guaranteed quota is also added to its ancestors.
    /// Planned usage is also added to the view without reservations.
    pub(crate) fn add_usage(
        &mut self,
        view: View,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
    ) {
        self.raise(view, node, cell, amount);
        if view == View::Planned {
            self.raise(View::WithoutReservations, node, cell, amount);
        }
    }

    /// The reverse of [`QuotaTree::add_usage`].
    pub(crate) fn remove_usage(
        &mut self,
        view: View,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
    ) {
        self.lower(view, node, cell, amount);
        if view == View::Planned {
            self.lower(View::WithoutReservations, node, cell, amount);
        }
    }

    /// Reserves quota: the amount counts in the planned view only.
    pub(crate) fn reserve(
        &mut self,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
        borrowing: Borrowing,
    ) {
        self.raise(View::Planned, node, cell, amount);
        if let Some(reserved_nominal) = self.reserved_nominal_mut(node, cell, borrowing) {
            *reserved_nominal = reserved_nominal.plus(amount);
        }
    }

    /// The reverse of [`QuotaTree::reserve`].
    pub(crate) fn unreserve(
        &mut self,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
        borrowing: Borrowing,
    ) {
        self.lower(View::Planned, node, cell, amount);
        if let Some(reserved_nominal) = self.reserved_nominal_mut(node, cell, borrowing) {
            *reserved_nominal = reserved_nominal.minus(amount);
        }
    }

    fn reserved_nominal_mut(
        &mut self,
        node: NodeId,
        cell: FlavorResourceId,
        borrowing: Borrowing,
    ) -> Option<&mut Amount> {
        let node = self
            .nodes
            .get_mut(node)
            .filter(|_| borrowing == Borrowing::Forbidden)?;
        Some(&mut node.cells.entry(cell).or_default().reserved_nominal)
    }

    fn raise(&mut self, view: View, node: NodeId, cell: FlavorResourceId, amount: Amount) {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(at) = id
        {
            let Some(node) = self.nodes.get_mut(at) else {
                return self
                    .violations
                    .check(false, "usage is of a node of the tree");
            };
            let cell = node.cells.entry(cell).or_default();
            let local = cell.guaranteed().minus(cell.usage(view)).at_least_zero();
            let usage = cell.usage_mut(view);
            *usage = usage.plus(rest);
            rest = rest.minus(local).at_least_zero();
            id = node.parent;
        }
    }

    fn lower(&mut self, view: View, node: NodeId, cell: FlavorResourceId, amount: Amount) {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(at) = id
        {
            let Some(node) = self.nodes.get_mut(at) else {
                return self
                    .violations
                    .check(false, "usage is of a node of the tree");
            };
            let cell = node.cells.entry(cell).or_default();
            let above = cell.above_guaranteed(view);
            let usage = cell.usage_mut(view);
            *usage = usage.minus(rest);
            let is_below_zero = *usage < Amount::ZERO;
            self.violations
                .check(!is_below_zero, "usage that is removed was there");
            rest = rest.min(above);
            id = node.parent;
        }
    }

    /// Counts a violation if an invariant is not met. Panics in builds with debug assertions.
    pub(crate) fn check(&mut self, is_met: bool, invariant: &str) {
        self.violations.check(is_met, invariant);
    }

    pub(crate) fn violations(&self) -> Violations {
        self.violations
    }

    /// Whether the usage of all nodes is the same in all views, and nothing is reserved.
    pub(crate) fn has_same_usage_as(&self, other: &Self) -> bool {
        let usage = |tree: &Self, node, cell| {
            let cell = tree.get(node, cell);
            let views = (cell.now, cell.planned, cell.without_reservations);
            (views, cell.reserved_nominal)
        };
        let mut cells = self.known.union(&other.known);
        self.nodes.len() == other.nodes.len()
            && cells.all(|cell| {
                let mut nodes = 0..self.nodes.len();
                nodes.all(|node| usage(self, node, *cell) == usage(other, node, *cell))
            })
    }

    /// A node, its parent and so on up to the root.
    pub(crate) fn path(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let parent = |id: &NodeId| self.parent(*id);
        std::iter::successors(Some(node), parent)
    }

    /// The same without the root.
    pub(crate) fn below_root(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.path(node).filter(|id| self.parent(*id).is_some())
    }

    /// The parent of a node.
    pub(crate) fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.node(node)?.parent
    }

    /// A node. Whoever has its number has it from this tree.
    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        let node = self.nodes.get(id);
        debug_assert!(node.is_some(), "node {id} is in the tree");
        node
    }

    /// The same tree with these cells only.
    pub(crate) fn of_cells(&self, cells: &BTreeSet<FlavorResourceId>) -> Self {
        let node = |node: &Node| Node {
            cells: (cells.iter())
                .filter_map(|cell| Some((*cell, *node.cells.get(cell)?)))
                .collect(),
            ..*node
        };
        Self {
            nodes: self.nodes.iter().map(node).collect(),
            known: cells.clone(),
            ..Self::default()
        }
    }

    /// The usage of a node for a cell.
    pub(crate) fn usage(&self, view: View, node: NodeId, cell: FlavorResourceId) -> Amount {
        self.get(node, cell).usage(view)
    }

    /// The nominal quota of a node for a cell.
    pub(crate) fn nominal(&self, node: NodeId, cell: FlavorResourceId) -> Amount {
        self.get(node, cell).quota.nominal
    }

    /// Subtree quota and present usage of each cell of a node.
    pub(crate) fn amounts(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = (&FlavorResource, Amount, Amount)> {
        let node = self.node(node);
        self.cells.iter().filter_map(move |(name, id)| {
            let cell = node?.cells.get(id)?;
            Some((name, cell.subtree, cell.now))
        })
    }

    /// What each cell of a node comes to at present.
    pub(crate) fn node_amounts(
        &self,
        id: NodeId,
    ) -> impl Iterator<Item = (&FlavorResource, NodeAmounts)> {
        let node = self.node(id);
        self.cells.iter().filter_map(move |(name, cell)| {
            let own = node?.cells.get(cell)?;
            let lendable = own.subtree.minus(own.guaranteed());
            let above_guaranteed = own.above_guaranteed(View::Now);
            let lent = node?.parent.map(|parent| {
                let parent = self.get(parent, *cell);
                let quota_of_others = parent.subtree.minus(lendable);
                let used_by_others = parent.now.minus(above_guaranteed);
                let not_used = lendable.minus(above_guaranteed);
                let missing = used_by_others.minus(quota_of_others);
                missing.min(not_used).at_least_zero()
            });
            let amounts = NodeAmounts {
                nominal: own.quota.nominal,
                quota: own.subtree,
                used: own.now,
                borrowed: own.now.minus(own.subtree).at_least_zero(),
                lendable: if node?.parent.is_some() {
                    lendable
                } else {
                    Amount::ZERO
                },
                lent: lent.unwrap_or_default(),
            };
            Some((name, amounts))
        })
    }

    pub(super) fn get(&self, node: NodeId, cell: FlavorResourceId) -> NodeQuota {
        let node = self.node(node);
        node.and_then(|node| node.cells.get(&cell))
            .copied()
            .unwrap_or_default()
    }

    /// The cell in all nodes from the root down to `node`; the flag says whether it is the cell of the
    /// root.
    pub(super) fn path_from_root(
        &self,
        node: NodeId,
        cell: FlavorResourceId,
    ) -> impl Iterator<Item = (NodeQuota, bool)> {
        let path: Vec<NodeId> = self.path(node).collect();
        let root = path.last().copied();
        path.into_iter()
            .rev()
            .map(move |id| (self.get(id, cell), Some(id) == root))
    }
}
