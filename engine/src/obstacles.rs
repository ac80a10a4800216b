//! What keeps the classes of a queue from fitting, all together: whether any of it is out of the way is
//! seen without looking at each class, however many there are. What it is for one class is `pending.rs`.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::amount::Amount;
use crate::cells::CellId;
use crate::tree::{Levels, NodeId, QuotaTree, View};

/// Charges that there was no room for, of all classes of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Obstacles {
    /// How many classes met each.
    met: BTreeMap<(CellId, Amount), usize>,
    /// For how many classes none is known.
    unknown: usize,
}

impl Obstacles {
    /// Those of so many classes for which none is known.
    pub(crate) fn unknown(classes: usize) -> Self {
        Self {
            met: BTreeMap::new(),
            unknown: classes,
        }
    }

    /// Adds those of one class.
    pub(crate) fn add(&mut self, obstacles: &[(CellId, Amount)]) {
        if obstacles.is_empty() {
            self.unknown = self.unknown.saturating_add(1);
        }
        for obstacle in obstacles {
            let number = self.met.entry(*obstacle).or_default();
            *number = number.saturating_add(1);
        }
    }

    /// The reverse of [`Obstacles::add`].
    pub(crate) fn remove(&mut self, obstacles: &[(CellId, Amount)]) {
        if obstacles.is_empty() {
            self.unknown = self.unknown.saturating_sub(1);
        }
        for obstacle in obstacles {
            if let Some(number) = self.met.get_mut(obstacle) {
                *number = number.saturating_sub(1);
                if *number == 0 {
                    self.met.remove(obstacle);
                }
            }
        }
    }

    /// Whether each class has met some, and all of them are still there.
    pub(crate) fn remain(&self, quota: &QuotaTree, node: NodeId) -> bool {
        let mut smallest = self.smallest();
        let is_free = |(cell, amount): (CellId, Amount)| {
            // What is larger doesn't fit either.
            quota.fits(View::Planned, node, cell, amount)
        };
        self.unknown == 0 && !smallest.any(is_free)
    }

    /// Which nodes, from that of the queue up, a workload of any class would take above their quota at
    /// least.
    pub(crate) fn over_at_least(&self, quota: &QuotaTree, node: NodeId) -> Levels {
        if self.unknown > 0 {
            return Levels::default();
        }
        let smallest = self.smallest();
        let over = smallest.map(|(cell, amount)| quota.over_with(node, cell, amount));
        over.reduce(Levels::and).unwrap_or_default()
    }

    /// The smallest of each cell.
    fn smallest(&self) -> impl Iterator<Item = (CellId, Amount)> {
        let first = self.met.first_key_value().map(|(first, _)| *first);
        std::iter::successors(first, |(cell, _)| {
            let largest = Bound::Excluded((*cell, Amount::new(i128::MAX)));
            let mut after = self.met.range((largest, Bound::Unbounded));
            after.next().map(|(next, _)| *next)
        })
    }
}
