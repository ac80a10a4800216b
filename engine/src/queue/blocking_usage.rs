//! The usage that blocks the classes of a queue, in sum. Shows whether any class may fit again without a
//! look at each. The amounts of one class are in `equivalence_class.rs`.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::api::amount::Amount;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{Levels, NodeId, View};

/// Requested usage that did not fit, of all classes of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockingUsage {
    /// The number of classes that each amount blocks.
    classes_blocked: BTreeMap<(FlavorResourceId, Amount), usize>,
    /// The number of classes for which nothing is known.
    unknown: usize,
}

impl BlockingUsage {
    /// For so many classes, nothing is known.
    pub(crate) fn unknown(classes: usize) -> Self {
        Self {
            classes_blocked: BTreeMap::new(),
            unknown: classes,
        }
    }

    /// Adds the amounts of one class.
    pub(crate) fn add(&mut self, blocking_usage: &[(FlavorResourceId, Amount)]) {
        if blocking_usage.is_empty() {
            self.unknown = self.unknown.saturating_add(1);
        }
        for blocking in blocking_usage {
            let number = self.classes_blocked.entry(*blocking).or_default();
            *number = number.saturating_add(1);
        }
    }

    /// The reverse of [`BlockingUsage::add`]. Says whether all of it was there.
    #[must_use]
    pub(crate) fn remove(&mut self, blocking_usage: &[(FlavorResourceId, Amount)]) -> bool {
        let mut was_there = true;
        if blocking_usage.is_empty() {
            was_there = self.unknown > 0;
            self.unknown = self.unknown.saturating_sub(1);
        }
        for blocking in blocking_usage {
            let Some(number) = self.classes_blocked.get_mut(blocking) else {
                was_there = false;
                continue;
            };
            *number = number.saturating_sub(1);
            if *number == 0 {
                self.classes_blocked.remove(blocking);
            }
        }
        was_there
    }

    /// Whether every class is blocked, and all amounts still do not fit.
    pub(crate) fn remain(&self, quota: &QuotaTree, node: NodeId) -> bool {
        let mut smallest = self.smallest();
        let is_free = |(cell, amount): (FlavorResourceId, Amount)| {
            // What is larger does not fit either.
            quota.fits(View::Planned, node, cell, amount)
        };
        self.unknown == 0 && !smallest.any(is_free)
    }

    /// The levels, from the queue up, that a workload of any class would certainly take above their quota.
    pub(crate) fn min_levels_above_quota(&self, quota: &QuotaTree, node: NodeId) -> Levels {
        if self.unknown > 0 {
            return Levels::default();
        }
        let smallest = self.smallest();
        let above_quota =
            smallest.map(|(cell, amount)| quota.levels_above_quota(node, cell, amount));
        above_quota.reduce(Levels::and).unwrap_or_default()
    }

    /// The smallest amount of each cell.
    fn smallest(&self) -> impl Iterator<Item = (FlavorResourceId, Amount)> {
        let first = self
            .classes_blocked
            .first_key_value()
            .map(|(first, _)| *first);
        std::iter::successors(first, |(cell, _)| {
            let largest = Bound::Excluded((*cell, Amount::new(i128::MAX)));
            let mut after = self.classes_blocked.range((largest, Bound::Unbounded));
            after.next().map(|(next, _)| *next)
        })
    }
}
