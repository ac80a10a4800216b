//! What fits into a cohort tree: whether requested usage stays within every limit, how much is available,
//! and which node is the limit. What a node may borrow and lend is `quota_tree.rs`.

use crate::api::amount::Amount;
use crate::api::quota::Borrowing;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::{NodeQuota, QuotaTree};
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{NodeId, View};

/// A node whose usage a request would raise.
struct RaisedNode {
    id: NodeId,
    cell: NodeQuota,
    /// The usage that it would have.
    usage: Amount,
    /// The most that it may use; none if only its ancestors limit it.
    limit: Option<Amount>,
}

impl RaisedNode {
    fn is_above_limit(&self) -> bool {
        self.limit.is_some_and(|limit| self.usage > limit)
    }
}

impl QuotaTree {
    /// The nodes from `node` up whose usage this would raise.
    fn raised_nodes(
        &self,
        view: View,
        node: NodeId,
        (cell, amount): (FlavorResourceId, Amount),
        borrowing: Borrowing,
    ) -> impl Iterator<Item = RaisedNode> {
        let (queue, mut next, mut rest) = (node, Some(node), amount);
        std::iter::from_fn(move || {
            let id = next.filter(|_| rest > Amount::ZERO)?;
            // A node that is not there counts as a root without quota: what can't be counted does not fit.
            let node = self.node(id);
            next = node.and_then(|node| node.parent);
            let cell = node.and_then(|node| node.cells.get(&cell));
            let cell = cell.copied().unwrap_or_default();
            let mut limit = match next {
                None => Some(cell.subtree),
                Some(_) => cell.borrowing_ceiling(),
            };
            if borrowing == Borrowing::Forbidden && id == queue {
                limit = Some(limit.map_or(cell.subtree, |limit| limit.min(cell.subtree)));
            }
            let usage = cell.usage(view).plus(rest);
            let local = cell.guaranteed().minus(cell.usage(view)).at_least_zero();
            rest = rest.minus(local).at_least_zero();
            Some(RaisedNode {
                id,
                cell,
                usage,
                limit,
            })
        })
    }

    /// Whether every node whose usage this would raise stays within its limit.
    pub(crate) fn fits(
        &self,
        view: View,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
    ) -> bool {
        self.is_available(view, node, (cell, amount), Borrowing::Allowed)
    }

    /// Whether each of these amounts fits.
    pub(crate) fn all_fit(&self, view: View, node: NodeId, requested: &RequestedUsage) -> bool {
        self.are_all_available(view, node, requested, Borrowing::Allowed)
    }

    /// Whether this amount is available, with or without borrowing.
    pub(crate) fn is_available(
        &self,
        view: View,
        node: NodeId,
        request: (FlavorResourceId, Amount),
        borrowing: Borrowing,
    ) -> bool {
        let mut raised = self.raised_nodes(view, node, request, borrowing);
        raised.all(|node| !node.is_above_limit())
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

    /// The first node, from `node` up, that this usage would take above its limit now.
    pub(crate) fn limit(
        &self,
        node: NodeId,
        request: (FlavorResourceId, Amount),
        borrowing: Borrowing,
    ) -> Option<NodeId> {
        let mut raised = self.raised_nodes(View::Now, node, request, borrowing);
        Some(raised.find(RaisedNode::is_above_limit)?.id)
    }

    /// How much more quota the node would have to have, or how much less to use, for this amount to be available now.
    /// Zero if it is. What is evicted is still used, and between two decisions nothing is reserved: so there is no
    /// view in which more is lacking.
    pub(crate) fn lacking(
        &self,
        node: NodeId,
        request: (FlavorResourceId, Amount),
        borrowing: Borrowing,
    ) -> Amount {
        let raised: Vec<_> = self
            .raised_nodes(View::Now, node, request, borrowing)
            .collect();
        raised.iter().rev().fold(Amount::ZERO, |above, node| {
            // A node with so much more quota that it does not lend needs nothing of the nodes above.
            let guaranteed = node.cell.guaranteed();
            let above = if guaranteed > Amount::ZERO {
                above.min(node.usage.minus(guaranteed).at_least_zero())
            } else {
                above
            };
            let excess = node.limit.map(|limit| node.usage.minus(limit));
            excess.unwrap_or_default().max(above)
        })
    }

    /// The largest amount that is available.
    pub(crate) fn available(
        &self,
        view: View,
        node: NodeId,
        cell: FlavorResourceId,
        borrowing: Borrowing,
    ) -> Amount {
        let mut available = Amount::ZERO;
        for (cell, is_root) in self.path_from_root(node, cell) {
            if is_root {
                available = cell.subtree.minus(cell.usage(view)).at_least_zero();
                continue;
            }
            let guaranteed = cell.guaranteed();
            if let Some(ceiling) = cell.borrowing_ceiling() {
                let below_limit = ceiling.minus(cell.usage(view).max(guaranteed));
                let below_limit = below_limit.at_least_zero();
                available = available.min(below_limit);
            }
            available = available.plus(guaranteed.minus(cell.usage(view)).at_least_zero());
        }
        match borrowing {
            Borrowing::Forbidden => {
                let own = self.get(node, cell);
                available.min(own.subtree.minus(own.usage(view)).at_least_zero())
            }
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

    /// The largest amount that could be admitted without any usage, with or without borrowing.
    pub(crate) fn most(
        &self,
        node: NodeId,
        cell: FlavorResourceId,
        borrowing: Borrowing,
    ) -> Amount {
        let potential = self.potential(node, cell);
        match borrowing {
            Borrowing::Allowed => potential,
            Borrowing::Forbidden => potential.min(self.nominal(node, cell)),
        }
    }
}
