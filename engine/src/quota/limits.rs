//! What fits into a cohort tree: whether requested usage stays within every limit, how much is available,
//! and which node is the limit. What a node may borrow and lend is `quota_tree.rs`.

use crate::api::amount::Amount;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{Borrowing, NodeId, View};

impl QuotaTree {
    /// Whether every node whose usage this would raise stays within its limit.
    pub(crate) fn fits(
        &self,
        view: View,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
    ) -> bool {
        let (mut id, mut rest) = (Some(node), amount);
        while rest > Amount::ZERO
            && let Some(at) = id
        {
            // What can't be counted does not fit.
            let Some(node) = self.node(at) else {
                return false;
            };
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

    /// Whether each of these amounts fits.
    pub(crate) fn all_fit(&self, view: View, node: NodeId, requested: &RequestedUsage) -> bool {
        let mut requested = requested.iter();
        requested.all(|(cell, amount)| self.fits(view, node, *cell, *amount))
    }

    /// Whether this amount is available, with or without borrowing.
    pub(crate) fn is_available(
        &self,
        view: View,
        node: NodeId,
        (cell, amount): (FlavorResourceId, Amount),
        borrowing: Borrowing,
    ) -> bool {
        let is_within = || {
            let own = self.get(node, cell);
            own.usage(view).plus(amount) <= own.subtree
        };
        (borrowing == Borrowing::Allowed || is_within()) && self.fits(view, node, cell, amount)
    }

    /// Whether each of these amounts is available.
    pub(crate) fn are_all_available(
        &self,
        view: View,
        node: NodeId,
        requested: &RequestedUsage,
        borrowing: Borrowing,
    ) -> bool {
        let mut requested = requested.iter();
        requested.all(|(cell, amount)| self.is_available(view, node, (*cell, *amount), borrowing))
    }

    /// Whether this usage would take quota that is reserved for workloads that may not borrow.
    pub(crate) fn would_use_reserved_nominal(
        &self,
        node: NodeId,
        requested: &RequestedUsage,
    ) -> bool {
        requested.iter().any(|(cell, amount)| {
            let own = self.get(node, *cell);
            own.reserved_nominal > Amount::ZERO && own.planned.plus(*amount) > own.subtree
        })
    }

    /// The first node, from `node` up, that this usage would take above its limit.
    pub(crate) fn limit(
        &self,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
        borrowing: Borrowing,
    ) -> Option<NodeId> {
        if borrowing == Borrowing::Forbidden && amount > self.unused_quota(node, cell) {
            return Some(node);
        }
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

    /// How much more quota the node would have to have, or how much less to use, for this amount to be available now and
    /// after what is evicted and reserved. Zero if it is.
    pub(crate) fn lacking(
        &self,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
        borrowing: Borrowing,
    ) -> Amount {
        let own = self.get(node, cell);
        let above_nominal = |view| own.usage(view).plus(amount).minus(own.subtree);
        let in_view = |view| {
            let lacking = self.excess(view, node, cell, amount);
            match borrowing {
                Borrowing::Forbidden => lacking.max(above_nominal(view)),
                Borrowing::Allowed => lacking,
            }
        };
        let lacking = in_view(View::Now).max(in_view(View::Planned));
        if own.reserved_nominal > Amount::ZERO {
            return lacking.max(above_nominal(View::Planned));
        }
        lacking
    }

    /// How far this amount would take nodes above their limits, at most.
    fn excess(&self, view: View, node: NodeId, cell: FlavorResourceId, amount: Amount) -> Amount {
        // Of each node that the amount reaches: how far above its limit it would be, and how far above what it does not
        // lend. Whoever has so much more of that needs nothing of the nodes above.
        let mut levels = Vec::new();
        let mut rest = amount;
        for id in self.path(node) {
            if rest <= Amount::ZERO {
                break;
            }
            let cell = self.get(id, cell);
            let usage = cell.usage(view).plus(rest);
            let ceiling = match self.parent(id) {
                None => Some(cell.subtree),
                Some(_) => cell.borrowing_ceiling(),
            };
            let guaranteed = cell.guaranteed();
            let excess = ceiling.map(|ceiling| usage.minus(ceiling).at_least_zero());
            let reach = (guaranteed > Amount::ZERO).then(|| usage.minus(guaranteed));
            levels.push((excess.unwrap_or_default(), reach));
            let local = guaranteed.minus(cell.usage(view)).at_least_zero();
            rest = rest.minus(local).at_least_zero();
        }
        let levels = levels.into_iter().rev();
        levels.fold(Amount::ZERO, |above, (excess, reach)| {
            let above = reach.map_or(above, |reach| above.min(reach.at_least_zero()));
            excess.max(above)
        })
    }

    /// The part of the subtree quota of a node that is not used.
    fn unused_quota(&self, node: NodeId, cell: FlavorResourceId) -> Amount {
        let own = self.get(node, cell);
        own.subtree.minus(own.now).at_least_zero()
    }

    /// The largest amount that is available now.
    pub(crate) fn available(
        &self,
        node: NodeId,
        cell: FlavorResourceId,
        borrowing: Borrowing,
    ) -> Amount {
        let mut available = Amount::ZERO;
        for (cell, is_root) in self.path_from_root(node, cell) {
            if is_root {
                available = cell.subtree.minus(cell.now).at_least_zero();
                continue;
            }
            let guaranteed = cell.guaranteed();
            if let Some(ceiling) = cell.borrowing_ceiling() {
                let below_limit = ceiling.minus(cell.now.max(guaranteed)).at_least_zero();
                available = available.min(below_limit);
            }
            available = available.plus(guaranteed.minus(cell.now).at_least_zero());
        }
        match borrowing {
            Borrowing::Forbidden => available.min(self.unused_quota(node, cell)),
            Borrowing::Allowed => available,
        }
    }

    /// The largest amount that would fit without any usage.
    pub(crate) fn potential(&self, node: NodeId, cell: FlavorResourceId) -> Amount {
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
}
