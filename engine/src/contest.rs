//! What can be done for one waiting workload: admit all of it, keep room for it, make others go, or
//! admit a part of it. Whose turn it is is `pass.rs`.

use std::collections::BTreeMap;

use crate::accounts::AccountId;
use crate::amount::Amount;
use crate::cells::CellId;
use crate::flavors::{self, Fit, Room, Slots, is_reducible, least};
use crate::model::{ClusterQueue, PodSet};
use crate::names::LocalQueueKey;
use crate::pending::OrderKey;
use crate::preemption::Preemption;
use crate::shape::Shape;
use crate::tree::{NodeId, QuotaTree, View};
use crate::victims::{self, Bid, Field, Victim};

/// What came of looking at a candidate.
pub(crate) enum Verdict<'a> {
    /// There is room for this.
    Now(Fit<'a>),
    /// There will be room for these charges, when these and others that leave have gone.
    Later(BTreeMap<CellId, Amount>, Vec<Victim>),
}

impl Verdict<'_> {
    /// What it is charged, now or then.
    pub(crate) fn cells(&self) -> &BTreeMap<CellId, Amount> {
        match self {
            Self::Now(fit) => &fit.cells,
            Self::Later(cells, _) => cells,
        }
    }
}

/// A workload's quest for room: what is free, and what others hold that it may make them leave.
pub(crate) struct Contest<'a> {
    pub(crate) quota: &'a mut QuotaTree,
    pub(crate) field: Field<'a>,
    pub(crate) account: AccountId,
    pub(crate) node: NodeId,
    pub(crate) rules: Preemption,
    pub(crate) order: &'a OrderKey,
    /// Where others of the same queue may not have to go: none means anywhere.
    pub(crate) local: Option<&'a LocalQueueKey>,
}

impl Contest<'_> {
    /// Works out what can be done, if anything.
    pub(crate) fn judge<'a>(
        &mut self,
        slots: &'a Slots,
        config: &ClusterQueue,
        shape: &Shape,
    ) -> Option<Verdict<'a>> {
        let all: Vec<u32> = shape.pod_sets.iter().map(|set| set.count).collect();
        if let Ok(fit) = slots.fit(self, self.node, config.fungibility, all.clone()) {
            let fit = match self.without_victims(fit) {
                Ok(verdict) => return Some(verdict),
                Err(fit) => fit,
            };
            if let Some(victims) = self.victims(&fit.cells) {
                return Some(Verdict::Later(fit.cells, victims));
            }
        }
        // What others could be made to leave may not go together, or leave nothing to a later pod set:
        // there may be other flavors.
        if self.rules.has_any()
            && let Ok(fit) = slots.fit(&mut &*self.quota, self.node, config.fungibility, all)
            && let Ok(verdict) = self.without_victims(fit)
        {
            return Some(verdict);
        }
        if !shape.pod_sets.iter().any(is_reducible) {
            return None;
        }
        let mut fit = |counts| {
            let fit = slots.fit(&mut &*self.quota, self.node, config.fungibility, counts);
            fit.ok().filter(|fit| fit.waits_at.is_none())
        };
        fewest_less(shape, &mut fit).map(Verdict::Now)
    }

    /// What comes of a fit if nobody is made to go; the fit itself if nothing does.
    fn without_victims<'a>(&self, fit: Fit<'a>) -> Result<Verdict<'a>, Fit<'a>> {
        if fit.waits_at.is_none() {
            return Ok(Verdict::Now(fit));
        }
        if (self.quota).all_fit(View::Planned, self.node, &fit.cells) {
            return Ok(Verdict::Later(fit.cells, Vec::new()));
        }
        Err(fit)
    }

    fn victims(&mut self, cells: &BTreeMap<CellId, Amount>) -> Option<Vec<Victim>> {
        if !self.rules.has_any() {
            return None;
        }
        let bid = Bid {
            account: self.account,
            node: self.node,
            rules: self.rules,
            order: self.order,
            local: self.local,
            cells,
        };
        victims::find(self.field, self.quota, bid)
    }
}

impl Room for Contest<'_> {
    fn tree(&self) -> &QuotaTree {
        self.quota
    }

    fn made(&mut self, cells: &BTreeMap<CellId, Amount>) -> Option<bool> {
        let victims = self.victims(cells)?;
        for victim in &victims {
            victim.leave(self.quota);
        }
        let borrows = flavors::borrows(self.quota, self.node, cells);
        for victim in &victims {
            victim.stay(self.quota);
        }
        Some(borrows)
    }
}

/// The fit with the fewest pods less than all, found by bisection: between the minimum and all, the
/// pod sets are cut down evenly.
fn fewest_less<'a>(
    shape: &Shape,
    fit: &mut dyn FnMut(Vec<u32>) -> Option<Fit<'a>>,
) -> Option<Fit<'a>> {
    let spare = |pod_set: &PodSet| u64::from(pod_set.count.saturating_sub(least(pod_set)));
    let most = shape
        .pod_sets
        .iter()
        .map(spare)
        .fold(0, u64::saturating_add);
    let counts = |less: u64| -> Vec<u32> {
        let count = |pod_set| {
            let product = u128::from(spare(pod_set)) * u128::from(less);
            let cut = product.checked_div(u128::from(most)).unwrap_or_default();
            let cut = u32::try_from(cut).unwrap_or(u32::MAX);
            pod_set.count.saturating_sub(cut)
        };
        shape.pod_sets.iter().map(count).collect()
    };
    let mut best = fit(counts(most))?;
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = low.midpoint(high);
        match fit(counts(middle)) {
            Some(found) => (best, high) = (found, middle),
            None => low = middle + 1,
        }
    }
    Some(best)
}
