//! The dominant resource share of a node of a cohort tree.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::names::ResourceName;
use crate::api::share::{Part, Share};
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{NodeId, View};

impl QuotaTree {
    /// The dominant resource share of a node: what it borrows, in relation to what its parent could lend. A
    /// resource of which the parent can lend nothing does not count, as in Kueue: what is used of it was
    /// admitted before the quota was lowered, and would keep the queue from all other resources.
    pub(crate) fn share(&self, view: View, id: NodeId) -> Share {
        let Some((node, parent)) = self.node(id).and_then(|node| Some((node, node.parent?))) else {
            // The root borrows from nobody.
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
        let part = |(resource, amount): (&ResourceName, Amount)| {
            let cells = self.cells.iter().filter(|((_, of), _)| of == resource);
            let lent = cells.map(|(_, cell)| self.potential(parent, *cell));
            let lent = lent.fold(Amount::ZERO, Amount::plus);
            (lent > Amount::ZERO).then(|| Part::of(amount, lent))
        };
        let parts = borrowed.into_iter().filter_map(part);
        let dominant = parts.max().unwrap_or_default();
        dominant.weighted(node.weight)
    }
}
