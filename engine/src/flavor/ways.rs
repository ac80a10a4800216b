//! The search for one choice of each slot so that all fit together. Unlike `flavor_assigner.rs` it goes back where a slot
//! finds nothing, and knows no preference but the order of the flavors.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::amount::Amount;
use crate::api::flavor::FlavorFungibility;
use crate::api::names::ResourceName;
use crate::flavor::flavor_assigner::Assignment;
use crate::flavor::options::{FlavorChoice, Slot, SlotId, Slots, for_pods};
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{Borrowing, NodeId, View};

/// The number of choices that are tried in a cycle. Bounds the work for many pod sets with many flavors: each admission
/// may have it done again for each class.
pub(super) const WAYS_TRIED_MAX: usize = 100;

/// A slot, and how many pods it is for.
pub(super) type Place<'a> = (&'a Slot, u32);

/// What a search has found.
pub(super) enum WaySearch<'a> {
    /// The choice of each slot, with its number, and the usage of all.
    Found(Vec<(usize, &'a FlavorChoice)>, RequestedUsage),
    /// There is no way.
    NotFound,
    /// There are too many to try.
    TooMany,
}

/// The choice of a slot that is tried.
struct WayStep<'a> {
    /// The usage of all slots before.
    taken: RequestedUsage,
    /// The number of the next choice to try.
    next: usize,
    /// The choice that is tried.
    chosen: Option<(usize, &'a FlavorChoice)>,
}

impl WayStep<'_> {
    fn after(taken: RequestedUsage) -> Self {
        let (next, chosen) = (0, None);
        Self {
            taken,
            next,
            chosen,
        }
    }
}

/// Whether nothing says at once that these pods fit in no way, however many combinations there are: all flavors
/// together have enough of each resource, with so much of each cell, and enough places for requests of each size.
pub(super) fn may_fit(places: &[Place<'_>], limit: impl Fn(FlavorResourceId) -> Amount) -> bool {
    let mut wanted: BTreeMap<&ResourceName, (Vec<Amount>, BTreeSet<FlavorResourceId>)> =
        BTreeMap::new();
    for (slot, count) in places {
        let mut amounts: BTreeMap<&ResourceName, Amount> = BTreeMap::new();
        for (resource, cell, each) in slot.choices.iter().flat_map(|c| &c.usage_per_pod) {
            amounts.insert(resource, for_pods(*each, *count));
            wanted.entry(resource).or_default().1.insert(*cell);
        }
        for (resource, amount) in amounts {
            // A request of zero always fits.
            if amount > Amount::ZERO {
                wanted.entry(resource).or_default().0.push(amount);
            }
        }
    }
    wanted.into_values().all(|(mut amounts, cells)| {
        let limits: Vec<i128> = (cells.into_iter())
            .map(|cell| limit(cell).at_least_zero().get())
            .collect();
        let sum = |all: &mut dyn Iterator<Item = i128>| all.fold(0, i128::saturating_add);
        let all = sum(&mut amounts.iter().map(|amount| amount.get()));
        if sum(&mut limits.iter().copied()) < all {
            return false;
        }
        // The largest first: so many are at least as large as this one.
        amounts.sort_unstable_by(|one, other| other.cmp(one));
        let mut so_large = (1..).zip(&amounts);
        so_large.all(|(count, amount)| {
            count <= sum(&mut limits.iter().map(|limit| limit / amount.get().max(1)))
        })
    })
}

/// The first way for each slot to have a choice whose usage fits, with that of the slots before it, if all together are
/// accepted.
pub(super) fn first_way<'a>(
    places: &[Place<'a>],
    tries_max: usize,
    fits: impl Fn(&RequestedUsage) -> bool,
    is_accepted: impl Fn(&RequestedUsage) -> bool,
) -> WaySearch<'a> {
    let mut tries_left = tries_max;
    let mut steps = vec![WayStep::after(RequestedUsage::new())];
    while let Some(depth) = steps.len().checked_sub(1)
        && let Some(step) = steps.last_mut()
    {
        let Some((slot, count)) = places.get(depth) else {
            if !is_accepted(&step.taken) {
                steps.pop();
                continue;
            }
            let taken = std::mem::take(&mut step.taken);
            let chosen = steps.into_iter().filter_map(|step| step.chosen);
            return WaySearch::Found(chosen.collect(), taken);
        };
        let Some(choice) = slot.choices.get(step.next) else {
            steps.pop();
            continue;
        };
        if tries_left == 0 {
            return WaySearch::TooMany;
        }
        tries_left -= 1;
        step.chosen = Some((step.next, choice));
        step.next = step.next.saturating_add(1);
        let requested = choice.requested(*count, &step.taken);
        if fits(&requested) {
            let mut taken = step.taken.clone();
            taken.extend(requested);
            steps.push(WayStep::after(taken));
        }
    }
    WaySearch::NotFound
}

impl Slots {
    /// Assigns a flavor to each slot without preemption: as [`Slots::assign`] does or, where that ends at a slot without
    /// any, in any other way. The error is that slot.
    pub(crate) fn assign_in_any_way(
        &self,
        quota: &QuotaTree,
        node: NodeId,
        borrowing: Borrowing,
        fungibility: FlavorFungibility,
        counts: Vec<u32>,
    ) -> Result<Assignment<'_>, SlotId> {
        let place = match self.assign(&mut &*quota, node, borrowing, fungibility, counts.clone()) {
            Ok(assignment) => return Ok(assignment),
            Err(place) => place,
        };
        self.assign_in_other_ways(quota, (node, borrowing), counts, place)
    }

    /// The same where the flavors that [`Slots::assign`] prefers leave nothing to the slot at this place.
    pub(crate) fn assign_in_other_ways(
        &self,
        quota: &QuotaTree,
        (node, borrowing): (NodeId, Borrowing),
        counts: Vec<u32>,
        place: SlotId,
    ) -> Result<Assignment<'_>, SlotId> {
        // Where no slot takes anything from a later one, there is no other way.
        if !self.early_choice_matters || self.has_hopeless_slot(quota, (node, borrowing), &counts) {
            return Err(place);
        }
        let places = self.places(&counts);
        // Most workloads that wait need more in sum than all flavors have left.
        let planned = |cell| quota.available(View::Planned, node, cell, borrowing);
        if !may_fit(&places, planned) {
            return Err(place);
        }
        let is_available = |view, requested: &RequestedUsage| {
            quota.are_all_available(view, node, requested, borrowing)
        };
        let is_later = |requested: &RequestedUsage| is_available(View::Planned, requested);
        let is_now = |requested: &RequestedUsage| {
            is_later(requested)
                && is_available(View::Now, requested)
                && !quota.would_use_reserved_nominal(node, requested)
        };
        if let WaySearch::Found(chosen, requested) =
            first_way(&places, WAYS_TRIED_MAX, is_now, |_| true)
        {
            return Ok(self.assignment(&chosen, counts, requested, None));
        }
        match first_way(&places, WAYS_TRIED_MAX, is_later, |_| true) {
            WaySearch::Found(chosen, requested) => {
                Ok(self.assignment(&chosen, counts, requested, Some(place)))
            }
            WaySearch::NotFound | WaySearch::TooMany => Err(place),
        }
    }

    /// Whether no choice of some slot is available even if no earlier slot takes what it could leave. So it is with most
    /// workloads that wait, and nothing need be tried.
    fn has_hopeless_slot(
        &self,
        quota: &QuotaTree,
        (node, borrowing): (NodeId, Borrowing),
        counts: &[u32],
    ) -> bool {
        let mut forced = RequestedUsage::new();
        self.places(counts).into_iter().any(|(slot, count)| {
            let mut requested = slot.choices.iter().map(|c| c.requested(count, &forced));
            let is_available = |requested: RequestedUsage| {
                quota.are_all_available(View::Planned, node, &requested, borrowing)
            };
            let is_hopeless = !requested.any(is_available);
            if let [choice] = slot.choices.as_slice() {
                forced.extend(choice.requested(count, &forced));
            }
            is_hopeless
        })
    }

    /// The slots, in order, each with the count of its pod set.
    pub(super) fn places(&self, counts: &[u32]) -> Vec<Place<'_>> {
        let place = |slot: &'_ Slot| counts.get(slot.place.pod_set).copied();
        (self.in_order.iter())
            .filter_map(|slot| Some((slot, place(slot)?)))
            .collect()
    }
}
