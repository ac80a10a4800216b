//! What blocks a shape at the present usage, and whether it could ever fit.

use crate::api::amount::Amount;
use crate::api::flavor::FlavorFungibility;
use crate::api::quota::Borrowing;
use crate::api::share::Part;
use crate::flavor::options::{FlavorChoice, FlavorOptions, Slot, SlotId, Slots, fewest_pods};
use crate::flavor::ways::{WaySearch, are_all, first_way, least_way, may_fit};
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{NodeId, View};
use crate::workload::shape::Shape;

impl FlavorOptions {
    /// Whether the shape would fit without any usage.
    pub(crate) fn ever_fits(&self, quota: &QuotaTree, node: NodeId, shape: &Shape) -> bool {
        match self {
            Self::None(_) => false,
            Self::Slots(slots) => slots.ever_fits(quota, node, shape),
        }
    }
}

impl Slots {
    /// Finds requested usage that does not fit in the planned view: one amount for each choice of the slot
    /// where the search ended. While none of them fits, the search ends there again, given
    /// [`Slots::fit_is_monotone`] and no preemption. Empty if nothing blocks it for certain; none if a choice has
    /// no such amount, which can't be.
    pub(crate) fn blocking_usage(
        &self,
        mut tree: &QuotaTree,
        node: NodeId,
        shape: &Shape,
    ) -> Option<Vec<(FlavorResourceId, Amount)>> {
        let counts = shape.pod_sets.iter().map(|pod_set| pod_set.count).collect();
        if self.borrowing == Borrowing::Forbidden {
            // What fits into the tree may still be above the nominal quota.
            return Some(Vec::new());
        }
        // It does not matter here which of the fitting choices is taken.
        let (fungibility, borrowing) = (FlavorFungibility::default(), self.borrowing);
        let Err(place) = self.assign(&mut tree, node, borrowing, fungibility, counts) else {
            // Nothing is known of what blocks it.
            return Some(Vec::new());
        };
        let taken = self.forced_before(place, shape);
        let count = shape.pod_sets.get(place.pod_set).map(|set| set.count);
        let slot = self.in_order.iter().find(|slot| slot.place == place);
        let choices = slot.into_iter().flat_map(|slot| &slot.choices);
        let blocking_usage = choices.map(|choice| {
            let requested = choice.requested(count.unwrap_or_default(), &taken);
            let mut requested = requested.into_iter();
            requested.find(|(cell, amount)| !tree.fits(View::Planned, node, *cell, *amount))
        });
        blocking_usage.collect()
    }

    /// The usage of slots before `place` that have only one choice.
    pub(crate) fn forced_before(&self, place: SlotId, shape: &Shape) -> RequestedUsage {
        let mut forced: RequestedUsage = RequestedUsage::new();
        for slot in self.in_order.iter().take_while(|slot| slot.place != place) {
            let [choice] = slot.choices.as_slice() else {
                continue;
            };
            let count = shape.pod_sets.get(slot.place.pod_set).map(fewest_pods);
            forced.extend(choice.requested(count.unwrap_or_default(), &forced));
        }
        forced
    }

    /// The first slot whose fewest pods fit into none of its flavors, even without any usage other than that of
    /// earlier slots with only one choice.
    pub(crate) fn never_fitting_slot(
        &self,
        tree: &QuotaTree,
        node: NodeId,
        shape: &Shape,
    ) -> Option<SlotId> {
        let mut forced = RequestedUsage::new();
        let never_fits = |slot: &&Slot| {
            let count = shape.pod_sets.get(slot.place.pod_set).map(fewest_pods);
            let requested =
                |choice: &FlavorChoice| choice.requested(count.unwrap_or_default(), &forced);
            let mut choices = slot.choices.iter().map(requested);
            let never_fits = !choices.any(|requested| self.is_within_most(tree, node, &requested));
            if let [choice] = slot.choices.as_slice() {
                forced.extend(requested(choice));
            }
            never_fits
        };
        Some(self.in_order.iter().find(never_fits)?.place)
    }

    /// Whether the fewest pods that are accepted would fit without any usage, by the same search as in a cycle.
    pub(crate) fn ever_fits(&self, tree: &QuotaTree, node: NodeId, shape: &Shape) -> bool {
        matches!(self.way_ever(tree, node, shape), WaySearch::Found(..))
    }

    /// Whether it is not known if they would: there are too many combinations of flavors to try.
    pub(crate) fn has_too_many_ways(&self, tree: &QuotaTree, node: NodeId, shape: &Shape) -> bool {
        matches!(self.way_ever(tree, node, shape), WaySearch::TooMany)
    }

    /// The first way in which the fewest pods that are accepted would fit without any usage.
    fn way_ever(&self, tree: &QuotaTree, node: NodeId, shape: &Shape) -> WaySearch<'_> {
        let counts: Vec<u32> = shape.pod_sets.iter().map(fewest_pods).collect();
        let places = self.places(&counts);
        let is_hopeless = self.never_fitting_slot(tree, node, shape).is_some()
            || !may_fit(&places, |cell| tree.most(node, cell, self.borrowing));
        if is_hopeless {
            return WaySearch::NotFound;
        }
        let is_within = |requested: &RequestedUsage| self.is_within_most(tree, node, requested);
        first_way(&places, is_within, |_| true)
    }

    /// The usage of the fewest pods that are accepted, in flavors of which the queue has enough nominal quota; none if
    /// it has not. Of several ways it is the one that [lacks least](Slots::least_lacking).
    pub(crate) fn within_nominal(
        &self,
        tree: &QuotaTree,
        node: NodeId,
        shape: &Shape,
    ) -> Option<RequestedUsage> {
        let counts: Vec<u32> = shape.pod_sets.iter().map(fewest_pods).collect();
        let is_within = |cell, amount| amount <= tree.nominal(node, cell);
        self.least_lacking(tree, (node, Borrowing::Forbidden), &counts, is_within)
    }

    /// The same in flavors in which it would fit without any usage.
    pub(crate) fn within_most(
        &self,
        tree: &QuotaTree,
        node: NodeId,
        shape: &Shape,
    ) -> Option<RequestedUsage> {
        let counts: Vec<u32> = shape.pod_sets.iter().map(fewest_pods).collect();
        let is_within = |cell, amount| amount <= tree.most(node, cell, self.borrowing);
        self.least_lacking(tree, (node, self.borrowing), &counts, is_within)
    }

    /// The usage of so many pods in the way that lacks least, of those of which each amount is accepted: of what it
    /// requests, the largest part that is not available in the planned view with this borrowing, then the next largest, so
    /// that nobody is evicted for what is unused in another flavor. Of equal ones it is the first. What is not accepted must
    /// not be with more usage either.
    pub(super) fn least_lacking(
        &self,
        tree: &QuotaTree,
        (node, borrowing): (NodeId, Borrowing),
        counts: &[u32],
        is_accepted: impl Fn(FlavorResourceId, Amount) -> bool,
    ) -> Option<RequestedUsage> {
        let places = self.places(counts);
        let are_accepted = |requested: &RequestedUsage| are_all(requested, &is_accepted);
        let unused = |cell| tree.available(View::Planned, node, cell, borrowing);
        let lacking = |requested: &RequestedUsage| {
            let requested = requested.iter();
            let lacking = requested.map(|(cell, amount)| {
                let unused = unused(*cell).at_least_zero();
                Part::of(amount.minus(unused), *amount)
            });
            let mut lacking: Vec<Part> = lacking.filter(|part| *part > Part::ZERO).collect();
            lacking.sort_unstable_by(|one, other| other.cmp(one));
            lacking
        };
        let (least, _) = least_way(&places, are_accepted, lacking);
        least
    }

    /// Whether each of these amounts could be admitted without any usage.
    pub(super) fn is_within_most(
        &self,
        tree: &QuotaTree,
        node: NodeId,
        requested: &RequestedUsage,
    ) -> bool {
        are_all(requested, &|cell, amount| {
            amount <= tree.most(node, cell, self.borrowing)
        })
    }
}
