//! For whom others leave, or have left since the last decision: what they leave is promised to them. What
//! comes of it is `pass/promised.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::WorkloadId;

/// Those to whom room is promised.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises {
    /// How many are on their way out for each.
    leaving: BTreeMap<WorkloadId, usize>,
    /// Those for whom somebody has left since the last decision.
    left: BTreeSet<WorkloadId>,
}

impl Promises {
    /// Somebody is on the way out for `whom`.
    pub(crate) fn make(&mut self, whom: WorkloadId) {
        let leaving = self.leaving.entry(whom).or_default();
        *leaving = leaving.saturating_add(1);
    }

    /// The reverse of [`Promises::make`]: that one has left, or stays after all.
    pub(crate) fn mature(&mut self, whom: &WorkloadId) {
        if let Some(leaving) = self.leaving.get_mut(whom) {
            *leaving = leaving.saturating_sub(1);
            if *leaving == 0 {
                self.leaving.remove(whom);
            }
        }
        self.left.insert(whom.clone());
    }

    /// Those for whom somebody has left since this was last asked: the next decision is theirs.
    pub(crate) fn take_matured(&mut self) -> BTreeSet<WorkloadId> {
        std::mem::take(&mut self.left)
    }

    /// Those for whom somebody is on the way out.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &WorkloadId> {
        self.leaving.keys()
    }
}
