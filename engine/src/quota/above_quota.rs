//! Borrowing in a cohort tree: which nodes are above their quota, or would be with more usage.

use crate::api::amount::Amount;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{Levels, NodeId, View};

impl QuotaTree {
    /// The distance that this usage would be borrowed over in the planned view: the number of levels up to
    /// the first node that stays within its quota. Zero if that is the node itself.
    pub(crate) fn borrowing_distance(
        &self,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
    ) -> usize {
        if amount <= Amount::ZERO {
            return 0;
        }
        let above_quota = self.levels_above_quota(node, cell, amount);
        let levels = self.path(node).enumerate();
        levels
            .take_while(|(level, _)| above_quota.contains(*level))
            .count()
    }

    /// The nodes, from `node` up, that this usage of `node` would take above their quota in the planned
    /// view.
    pub(crate) fn levels_above_quota(
        &self,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
    ) -> Levels {
        let (mut above_quota, mut rest) = (Levels::default(), amount);
        for (level, id) in self.path(node).enumerate() {
            let cell = self.get(id, cell);
            if cell.planned.plus(rest) > cell.subtree {
                above_quota.0 |= Levels::bit(level);
            }
            let local = cell.guaranteed().minus(cell.planned).at_least_zero();
            rest = rest.minus(local).at_least_zero();
        }
        above_quota
    }

    /// The height of the lowest node, from `node` up, that stays within its quota if these levels do not; that of the root
    /// if there is none below. Zero if `node` is a queue that does.
    pub(crate) fn height_of_lender(&self, node: NodeId, above_quota: Levels) -> usize {
        let mut path = self.path(node).enumerate();
        let is_root = |id| self.parent(id).is_none();
        let lender = path.find(|(level, id)| !above_quota.contains(*level) || is_root(*id));
        let lender = lender.and_then(|(_, id)| self.node(id));
        lender.map_or(0, |lender| lender.height)
    }

    /// Whether these are all nodes from `node` up, except the root.
    pub(crate) fn are_all_below_root(&self, node: NodeId, levels: Levels) -> bool {
        let mut below_root = self.below_root(node).enumerate();
        below_root.all(|(level, _)| levels.contains(level))
    }

    /// Whether a node is above its quota.
    pub(crate) fn is_borrowing(&self, view: View, node: NodeId, cell: FlavorResourceId) -> bool {
        let cell = self.get(node, cell);
        cell.usage(view) > cell.subtree
    }

    /// Whether `at`, which is `node` or one of its ancestors, would be above its quota in the planned view
    /// with this usage of `node`.
    pub(crate) fn would_borrow(
        &self,
        at: NodeId,
        node: NodeId,
        cell: FlavorResourceId,
        amount: Amount,
    ) -> bool {
        let level = self.path(node).position(|id| id == at);
        level.is_some_and(|level| self.levels_above_quota(node, cell, amount).contains(level))
    }
}
