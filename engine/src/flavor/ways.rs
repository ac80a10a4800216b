//! The search for one choice of each slot so that all fit together. Unlike `flavor_assigner.rs` it goes back where a slot
//! finds nothing, and knows no preference but the order of the flavors.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::amount::Amount;
use crate::api::flavor::FlavorFungibility;
use crate::api::names::ResourceName;
use crate::api::quota::Borrowing;
use crate::api::share::Part;
use crate::flavor::flavor_assigner::Assignment;
use crate::flavor::options::{FlavorChoice, Slot, SlotId, Slots, for_pods};
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{NodeId, View};

/// The number of choices that are tried in one search, apart from those that it takes to try each choice once. Bounds the
/// work for many pod sets with many flavors: each admission may have it done again for each class.
const WAYS_TRIED_MAX: usize = 100;

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

/// The usage of the first way of least cost, of those whose usage fits; and whether all ways were tried. See [`first_way`].
pub(super) fn least_way<C: Ord>(
    places: &[Place<'_>],
    fits: impl Fn(&RequestedUsage) -> bool,
    cost: impl Fn(&RequestedUsage) -> C,
) -> (Option<RequestedUsage>, bool) {
    let mut best: Option<(C, RequestedUsage)> = None;
    // Accepts none, so that the search goes on.
    let searched = first_way(places, fits, |requested| {
        let cost = cost(requested);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, requested.clone()));
        }
        false
    });
    let were_all_tried = !matches!(searched, WaySearch::TooMany);
    (best.map(|(_, requested)| requested), were_all_tried)
}

/// The first way for each slot to have a choice whose usage fits, with that of the slots before it, if all together are
/// accepted. What does not fit must not fit with more usage either.
pub(super) fn first_way<'a>(
    places: &[Place<'a>],
    fits: impl Fn(&RequestedUsage) -> bool,
    mut is_accepted: impl FnMut(&RequestedUsage) -> bool,
) -> WaySearch<'a> {
    let choices = places.iter().map(|(slot, _)| slot.choices.len());
    let mut tries_left = choices.fold(WAYS_TRIED_MAX, usize::saturating_add);
    let mut steps = vec![WayStep::after(RequestedUsage::new())];
    while let Some(depth) = steps.len().checked_sub(1)
        && let Some(step) = steps.last_mut()
    {
        let Some(((slot, count), rest)) = places.get(depth..).and_then(<[_]>::split_first) else {
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
            if leaves_enough(&taken, rest, &fits) {
                steps.push(WayStep::after(taken));
            }
        }
    }
    WaySearch::NotFound
}

/// Whether so much usage leaves a choice to each of these slots. Where it leaves only one, that counts for the slots
/// after it. So a flavor that one slot needs is not tried for all slots before it in turn.
fn leaves_enough(
    taken: &RequestedUsage,
    places: &[Place<'_>],
    fits: impl Fn(&RequestedUsage) -> bool,
) -> bool {
    let mut taken = taken.clone();
    places.iter().all(|(slot, count)| {
        let mut left = (slot.choices.iter())
            .map(|choice| choice.requested(*count, &taken))
            .filter(|requested| fits(requested));
        let (first, second) = (left.next(), left.next());
        match (first, second) {
            (Some(only), None) => {
                taken.extend(only);
                true
            }
            (first, _) => first.is_some(),
        }
    })
}

/// Whether each amount is accepted.
pub(super) fn are_all(
    requested: &RequestedUsage,
    is_accepted: &impl Fn(FlavorResourceId, Amount) -> bool,
) -> bool {
    let mut requested = requested.iter();
    requested.all(|(cell, amount)| is_accepted(*cell, *amount))
}

/// Whether each of these amounts is available at this moment, in all views.
pub(crate) fn is_available_now(
    quota: &QuotaTree,
    (node, borrowing): (NodeId, Borrowing),
    requested: &RequestedUsage,
) -> bool {
    let is_available = |view| quota.are_all_available(view, node, requested, borrowing);
    is_available(View::Planned)
        && is_available(View::Now)
        && !quota.would_use_reserved_nominal(node, requested)
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
        if !self.early_choice_matters {
            return Err(place);
        }
        let places = self.places(&counts);
        let is_later = |requested: &RequestedUsage| {
            quota.are_all_available(View::Planned, node, requested, borrowing)
        };
        let is_now =
            |requested: &RequestedUsage| is_available_now(quota, (node, borrowing), requested);
        // Most workloads that wait have a slot for which nothing is left, or need more in sum than all flavors have.
        let planned = |cell| quota.available(View::Planned, node, cell, borrowing);
        if !leaves_enough(&RequestedUsage::new(), &places, is_later) || !may_fit(&places, planned) {
            return Err(place);
        }
        if let WaySearch::Found(chosen, requested) = first_way(&places, is_now, |_| true) {
            return Ok(self.assignment(&chosen, counts, requested, None));
        }
        match first_way(&places, is_later, |_| true) {
            WaySearch::Found(chosen, requested) => {
                Ok(self.assignment(&chosen, counts, requested, Some(place)))
            }
            WaySearch::NotFound | WaySearch::TooMany => Err(place),
        }
    }

    /// Assigns flavors of which each amount is accepted, whether it is available or not. Of several ways it is the one
    /// that [lacks least](Slots::least_lacking) with `lacking_with`.
    pub(crate) fn assign_least_lacking(
        &self,
        quota: &QuotaTree,
        (node, borrowing): (NodeId, Borrowing),
        lacking_with: Borrowing,
        counts: Vec<u32>,
        is_accepted: impl Fn(FlavorResourceId, Amount) -> bool,
    ) -> Option<Assignment<'_>> {
        let places = self.places(&counts);
        let least = self.least_lacking(quota, (node, lacking_with), &counts, &is_accepted)?;
        let are_accepted = |requested: &RequestedUsage| are_all(requested, &is_accepted);
        let found = first_way(&places, are_accepted, |requested| *requested == least);
        let WaySearch::Found(chosen, requested) = found else {
            return None;
        };
        let is_now = is_available_now(quota, (node, borrowing), &requested);
        let waits_at = (self.in_order.first()).map(|slot| slot.place);
        Some(self.assignment(&chosen, counts, requested, waits_at.filter(|_| !is_now)))
    }

    /// The choice of each slot in the way of which least is lacking, which `lacking` says: of what is requested of one
    /// resource in all flavors, the largest part, then the next largest. A way that could be had without any usage comes
    /// before one that could not. Of equal ones it is the first. None if there are more ways than are tried.
    pub(crate) fn way_lacking_least(
        &self,
        quota: &QuotaTree,
        node: NodeId,
        counts: &[u32],
        lacking: impl Fn(FlavorResourceId, Amount) -> Amount,
    ) -> Option<Vec<(SlotId, &FlavorChoice)>> {
        let places = self.places(counts);
        let chosen = |way: Vec<(usize, _)>| {
            let slots = self.in_order.iter().map(|slot| slot.place);
            slots.zip(way.into_iter().map(|(_, choice)| choice))
        };
        let lacks_nothing = |cell, amount| lacking(cell, amount) == Amount::ZERO;
        let fits = |requested: &RequestedUsage| are_all(requested, &lacks_nothing);
        if let WaySearch::Found(way, _) = first_way(&places, fits, |_| true) {
            return Some(chosen(way).collect());
        }
        let is_possible = |requested: &RequestedUsage| self.is_within_most(quota, node, requested);
        let possible: [&dyn Fn(&RequestedUsage) -> bool; 2] = [&is_possible, &|_| true];
        for is_possible in possible {
            let parts = |requested: &RequestedUsage| self.parts(requested, &lacking);
            let (least, were_all_tried) = least_way(&places, is_possible, parts);
            if !were_all_tried {
                return None;
            }
            if let Some(least) = least
                && let WaySearch::Found(way, _) =
                    first_way(&places, is_possible, |requested| *requested == least)
            {
                return Some(chosen(way).collect());
            }
        }
        None
    }

    /// What part of each requested resource is lacking, the largest one first.
    fn parts(
        &self,
        requested: &RequestedUsage,
        lacking: impl Fn(FlavorResourceId, Amount) -> Amount,
    ) -> Vec<Part> {
        let choices = self.in_order.iter().flat_map(|slot| &slot.choices);
        let cells = choices.flat_map(|choice| &choice.usage_per_pod);
        let resources: BTreeMap<_, _> = cells.map(|(of, cell, _)| (*cell, of)).collect();
        let mut sums: BTreeMap<&ResourceName, (Amount, Amount)> = BTreeMap::new();
        for (cell, amount) in requested {
            if let Some(resource) = resources.get(cell) {
                let (lacks, all) = sums.entry(resource).or_default();
                *lacks = lacks.plus(lacking(*cell, *amount));
                *all = all.plus(*amount);
            }
        }
        let parts = sums.into_values().map(|(lacks, all)| Part::of(lacks, all));
        let mut parts: Vec<Part> = parts.collect();
        parts.sort_unstable_by(|one, other| other.cmp(one));
        parts
    }

    /// Whether there may be other combinations than that of the flavors which [`Slots::assign`] prefers for one slot after
    /// the other. A single slot has the best of all.
    pub(crate) fn have_other_ways(&self) -> bool {
        self.in_order.len() > 1 && self.in_order.iter().any(|slot| slot.choices.len() > 1)
    }

    /// The cells of all choices.
    pub(crate) fn cells(&self) -> impl Iterator<Item = FlavorResourceId> {
        let choices = self.in_order.iter().flat_map(|slot| &slot.choices);
        choices.flat_map(|choice| choice.usage_per_pod.iter().map(|(_, cell, _)| *cell))
    }

    /// The slots, in order, each with the count of its pod set.
    pub(super) fn places(&self, counts: &[u32]) -> Vec<Place<'_>> {
        let place = |slot: &'_ Slot| counts.get(slot.place.pod_set).copied();
        (self.in_order.iter())
            .filter_map(|slot| Some((slot, place(slot)?)))
            .collect()
    }
}
