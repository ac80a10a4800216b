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
//! * usage is kept in three views: what is charged **now**, what will be when those that leave have
//!   gone and those that wait for them have come (**planned**), and when they have gone and nobody has
//!   come (**settled**);
//! * a **root** may use its subtree quota, any other node its subtree quota + its borrowing limit.
//!
//! A charge **fits** if every node whose usage it raises stays within what it may use. It follows
//! that a node may always use what it is guaranteed, even when a cohort above it is over its
//! quota because that was lowered.

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::Amount;
use crate::cells::{CellId, Cells, FlavorResource};
use crate::limits::TREE_DEPTH_MAX;
use crate::model::{Quota, ResourceGroup, Weight};
use crate::names::ResourceName;
use crate::share::Share;

/// A node's number within its tree.
pub(crate) type NodeId = usize;

/// Which usage is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// What is charged.
    Now,
    /// What is charged, without what leaves and with what is claimed.
    Planned,
    /// What is planned without what is only claimed: what others have a right against.
    Settled,
}

/// Some of the nodes of a path: how far they are above its first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels(u64);

const _: () = assert!(TREE_DEPTH_MAX <= 64);

impl Levels {
    pub(crate) fn contains(self, level: usize) -> bool {
        self.0 & Self::bit(level) != 0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The lowest so many levels, the highest of them first.
    pub(crate) fn seen_from_above(self, depth: usize) -> u64 {
        let unused = u32::try_from(64_usize.saturating_sub(depth)).ok();
        let shifted = unused.and_then(|unused| self.0.checked_shl(unused));
        shifted.unwrap_or_default()
    }

    fn bit(level: usize) -> u64 {
        let level = u32::try_from(level).ok();
        level
            .and_then(|level| 1_u64.checked_shl(level))
            .unwrap_or_default()
    }
}

/// Quota and usage of all nodes of a tree. Parents come before their children.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuotaTree {
    nodes: Vec<Node>,
    /// All cells that are mentioned here.
    cells: BTreeMap<FlavorResource, CellId>,
    known: BTreeSet<CellId>,
}

#[derive(Clone, Debug)]
struct Node {
    parent: Option<NodeId>,
    weight: Weight,
    /// A cell that is missing has no quota, no limits and no usage.
    cells: BTreeMap<CellId, Cell>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    quota: Quota,
    subtree: Amount,
    now: Amount,
    planned: Amount,
    settled: Amount,
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
    fn usage(&self, view: View) -> Amount {
        match view {
            View::Now => self.now,
            View::Planned => self.planned,
            View::Settled => self.settled,
        }
    }

    fn usage_mut(&mut self, view: View) -> &mut Amount {
        match view {
            View::Now => &mut self.now,
            View::Planned => &mut self.planned,
            View::Settled => &mut self.settled,
        }
    }

    /// What of the usage is above what is guaranteed, and so is charged to the parent too.
    fn passed_up(&self, view: View) -> Amount {
        self.usage(view).minus(self.guaranteed()).at_least_zero()
    }

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
    pub(crate) fn add(
        &mut self,
        parent: Option<NodeId>,
        groups: &[ResourceGroup],
        weight: Weight,
        charged: impl IntoIterator<Item = (CellId, Amount)>,
        names: &Cells,
    ) -> NodeId {
        let mut cells: BTreeMap<CellId, Cell> = BTreeMap::new();
        for ((flavor, resource), quota) in quotas(groups) {
            // All that quota is given for was given a number when it was told.
            if let Some(id) = names.get(&flavor, &resource) {
                let own = Cell {
                    quota,
                    subtree: quota.nominal,
                    ..Cell::default()
                };
                cells.insert(id, own);
            }
        }
        for (id, amount) in charged {
            let cell = cells.entry(id).or_default();
            (cell.now, cell.planned, cell.settled) = (amount, amount, amount);
        }
        for id in cells.keys() {
            self.mention(*id, names);
        }
        self.nodes.push(Node {
            parent,
            weight,
            cells,
        });
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
                let sum = parent.cells.entry(*cell_id).or_default();
                sum.subtree = sum.subtree.plus(cell.subtree.minus(cell.guaranteed()));
                sum.now = sum.now.plus(cell.passed_up(View::Now));
                sum.planned = sum.planned.plus(cell.passed_up(View::Planned));
                sum.settled = sum.settled.plus(cell.passed_up(View::Settled));
            }
        }
    }

    /// Makes a cell one of this tree. To be called before it is charged.
    pub(crate) fn mention(&mut self, id: CellId, names: &Cells) {
        if self.known.insert(id)
            && let Some(name) = names.name(id)
        {
            self.cells.insert(name.clone(), id);
        }
    }

    /// Charges an amount to a node in one view, and to its ancestors what is above what is guaranteed
    /// below. What is planned is settled too.
    pub(crate) fn charge(&mut self, view: View, node: NodeId, cell: CellId, amount: Amount) {
        self.raise(view, node, cell, amount);
        if view == View::Planned {
            self.raise(View::Settled, node, cell, amount);
        }
    }

    /// Takes a charge back: the reverse of [`QuotaTree::charge`].
    pub(crate) fn discharge(&mut self, view: View, node: NodeId, cell: CellId, amount: Amount) {
        self.lower(view, node, cell, amount);
        if view == View::Planned {
            self.lower(View::Settled, node, cell, amount);
        }
    }

    /// Plans for an amount to be charged that isn't yet.
    pub(crate) fn claim(&mut self, node: NodeId, cell: CellId, amount: Amount) {
        self.raise(View::Planned, node, cell, amount);
    }

    /// Takes a claim back: the reverse of [`QuotaTree::claim`].
    pub(crate) fn disclaim(&mut self, node: NodeId, cell: CellId, amount: Amount) {
        self.lower(View::Planned, node, cell, amount);
    }

    fn raise(&mut self, view: View, node: NodeId, cell: CellId, amount: Amount) {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(node) = id.and_then(|id| self.nodes.get_mut(id))
        {
            let cell = node.cells.entry(cell).or_default();
            let local = cell.guaranteed().minus(cell.usage(view)).at_least_zero();
            let usage = cell.usage_mut(view);
            *usage = usage.plus(rest);
            rest = rest.minus(local).at_least_zero();
            id = node.parent;
        }
    }

    fn lower(&mut self, view: View, node: NodeId, cell: CellId, amount: Amount) {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(node) = id.and_then(|id| self.nodes.get_mut(id))
        {
            let cell = node.cells.entry(cell).or_default();
            let above = cell.passed_up(view);
            let usage = cell.usage_mut(view);
            *usage = usage.minus(rest);
            rest = rest.min(above);
            id = node.parent;
        }
    }

    /// Whether every node that this charge would raise stays within what it may use.
    pub(crate) fn fits(&self, view: View, node: NodeId, cell: CellId, amount: Amount) -> bool {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(node) = id.and_then(|id| self.nodes.get(id))
        {
            let cell = node.cells.get(&cell).copied().unwrap_or_default();
            let usage = cell.usage(view).plus(rest);
            let ceiling = match node.parent {
                None => Some(cell.subtree),
                Some(_) => cell.borrowing_ceiling(),
            };
            if ceiling.is_some_and(|ceiling| usage > ceiling) {
                return false;
            }
            let local = cell.guaranteed().minus(cell.usage(view)).at_least_zero();
            rest = rest.minus(local).at_least_zero();
            id = node.parent;
        }
        true
    }

    /// Whether each of these charges fits.
    pub(crate) fn all_fit(
        &self,
        view: View,
        node: NodeId,
        cells: &BTreeMap<CellId, Amount>,
    ) -> bool {
        let mut cells = cells.iter();
        cells.all(|(cell, amount)| self.fits(view, node, *cell, *amount))
    }

    /// The first node, from `node` up, that this charge would take above what it may use now.
    pub(crate) fn limit(&self, node: NodeId, cell: CellId, amount: Amount) -> Option<NodeId> {
        let mut rest = amount;
        for id in self.path(node) {
            if rest <= Amount::ZERO {
                return None;
            }
            let cell = self.get(id, cell);
            let ceiling = match self.parent(id) {
                None => Some(cell.subtree),
                Some(_) => cell.borrowing_ceiling(),
            };
            if ceiling.is_some_and(|ceiling| cell.now.plus(rest) > ceiling) {
                return Some(id);
            }
            let local = cell.guaranteed().minus(cell.now).at_least_zero();
            rest = rest.minus(local).at_least_zero();
        }
        None
    }

    /// Whether this charge would take the node above its own quota, as is planned.
    pub(crate) fn borrows(&self, node: NodeId, cell: CellId, amount: Amount) -> bool {
        let cell = self.get(node, cell);
        amount > Amount::ZERO && cell.planned.plus(amount) > cell.subtree
    }

    /// Which nodes, from `node` up, would be above their quota as is planned, with this charge to
    /// `node`.
    pub(crate) fn over_with(&self, node: NodeId, cell: CellId, amount: Amount) -> Levels {
        let (mut over, mut rest) = (Levels::default(), amount);
        for (level, id) in self.path(node).enumerate() {
            let cell = self.get(id, cell);
            if cell.planned.plus(rest) > cell.subtree {
                over.0 |= Levels::bit(level);
            }
            let local = cell.guaranteed().minus(cell.planned).at_least_zero();
            rest = rest.minus(local).at_least_zero();
        }
        over
    }

    /// Whether these are all nodes from `node` up, but for the root.
    pub(crate) fn is_below_root(&self, node: NodeId, levels: Levels) -> bool {
        let mut below_root = self.below_root(node).enumerate();
        below_root.all(|(level, _)| levels.contains(level))
    }

    /// Whether a node is above its quota.
    pub(crate) fn is_borrowing(&self, view: View, node: NodeId, cell: CellId) -> bool {
        let cell = self.get(node, cell);
        cell.usage(view) > cell.subtree
    }

    /// Whether a node or one of its ancestors, `at`, would be above its quota as is planned, with
    /// this charge to the node.
    pub(crate) fn would_borrow(
        &self,
        at: NodeId,
        node: NodeId,
        cell: CellId,
        amount: Amount,
    ) -> bool {
        let level = self.path(node).position(|id| id == at);
        level.is_some_and(|level| self.over_with(node, cell, amount).contains(level))
    }

    /// The dominant share of what is lent that a node has borrowed.
    pub(crate) fn share(&self, view: View, id: NodeId) -> Share {
        let Some(node) = self.nodes.get(id) else {
            return Share::ZERO;
        };
        let Some(parent) = node.parent else {
            return Share::ZERO;
        };
        let mut borrowed: BTreeMap<&ResourceName, Amount> = BTreeMap::new();
        for ((_, resource), cell_id) in &self.cells {
            if let Some(cell) = node.cells.get(cell_id)
                && cell.usage(view) > cell.subtree
            {
                let sum = borrowed.entry(resource).or_default();
                *sum = sum.plus(cell.usage(view).minus(cell.subtree));
            }
        }
        let share = |(resource, amount): (&ResourceName, Amount)| {
            let cells = self.cells.iter().filter(|((_, of), _)| of == resource);
            let lent = cells.map(|(_, cell)| self.potential(parent, *cell));
            Share::of(amount, lent.fold(Amount::ZERO, Amount::plus))
        };
        let dominant = borrowed.into_iter().map(share).max().unwrap_or_default();
        dominant.weighted(node.weight)
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

    /// The node above.
    pub(crate) fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes.get(node).and_then(|node| node.parent)
    }

    /// The largest charge that fits now.
    pub(crate) fn available(&self, node: NodeId, cell: CellId) -> Amount {
        let mut available = Amount::ZERO;
        for (cell, is_root) in self.path_from_root(node, cell) {
            if is_root {
                available = cell.subtree.minus(cell.now).at_least_zero();
                continue;
            }
            let guaranteed = cell.guaranteed();
            if let Some(ceiling) = cell.borrowing_ceiling() {
                let room = ceiling.minus(cell.now.max(guaranteed)).at_least_zero();
                available = available.min(room);
            }
            available = available.plus(guaranteed.minus(cell.now).at_least_zero());
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
            Some((name, cell.subtree, cell.now))
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
        let path: Vec<NodeId> = self.path(node).collect();
        let root = path.last().copied();
        path.into_iter()
            .rev()
            .map(move |id| (self.get(id, cell), Some(id) == root))
    }
}
