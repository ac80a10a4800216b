//! Assigns flavors to a shape at the present usage. They are tried in the order of the resource group
//! (`options.rs`); which of them is taken, and whether the search ends there, is `fungibility.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::amount::Amount;
use crate::api::flavor::FlavorFungibility;
use crate::api::quota::Borrowing;
use crate::api::status::ResourceUsage;
use crate::api::workload::PodSetAssignment;
use crate::flavor::fungibility::{FitGrade, FitMode, ends_search, grade};
use crate::flavor::options::{FlavorChoice, SlotId, Slots, for_pods};
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::{RequestedUsage, WorkloadUsage};
use crate::quota::view::{NodeId, View};
use crate::workload::shape::Shape;

/// The flavors and pod counts that a shape gets.
#[derive(Debug)]
pub(crate) struct Assignment<'a> {
    /// The choice that each slot gets.
    taken: Vec<(SlotId, &'a FlavorChoice)>,
    /// Its number.
    choices_taken: Vec<usize>,
    counts: Vec<u32>,
    /// The first slot without quota at this moment: the workload has to wait for others to stop.
    pub(crate) waits_at: Option<SlotId>,
    /// The requested usage, above zero.
    pub(crate) requested: RequestedUsage,
}

/// What a preemption for requested usage would lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimulatedPreemption {
    /// The distance that the queue would borrow over: see [`QuotaTree::borrowing_distance`].
    pub(crate) distance: usize,
    /// Whether targets are in its own queue.
    pub(crate) costs_own: bool,
    /// Whether more than the nominal quota is requested, and only own workloads are preempted, as there is no right to
    /// preempt others in order to borrow. As in Kueue, no search ends there: nobody should be evicted where a later flavor
    /// may do.
    pub(crate) is_last_resort: bool,
}

/// Where quota is looked for, and whether preemption may make more available.
pub(crate) trait PreemptionOracle {
    /// The quota and usage to look at.
    fn quota_tree(&self) -> &QuotaTree;

    /// Counts a violation if an invariant is not met, where that is possible. Panics in builds with debug assertions.
    fn check(&mut self, is_met: bool, invariant: &str);

    /// What a preemption for this usage would lead to; none if it would not suffice.
    fn simulate_preemption(
        &mut self,
        requested: &RequestedUsage,
        borrowing: Borrowing,
    ) -> Option<SimulatedPreemption>;
}

/// Without preemption.
impl PreemptionOracle for &QuotaTree {
    fn quota_tree(&self) -> &QuotaTree {
        self
    }

    // Who only has a shared tree tries nothing that the cycle doesn't try too.
    fn check(&mut self, is_met: bool, invariant: &str) {
        debug_assert!(is_met, "violated: {invariant}");
    }

    fn simulate_preemption(
        &mut self,
        _: &RequestedUsage,
        _: Borrowing,
    ) -> Option<SimulatedPreemption> {
        None
    }
}

/// A choice of flavor that is available in some mode.
struct FlavorCandidate {
    /// Its number among the choices of the slot.
    pick: usize,
    /// The requested usage of its cells, including that of earlier slots.
    requested: RequestedUsage,
    mode: FitMode,
    /// The distance that is borrowed over; zero without borrowing.
    distance: usize,
    /// See [`SimulatedPreemption::is_last_resort`].
    is_last_resort: bool,
}

impl Slots {
    /// Assigns a flavor to each slot, in order, for `counts` pods of each set. What earlier slots use
    /// counts for later ones. The error is the slot without any available choice.
    pub(crate) fn assign(
        &self,
        oracle: &mut impl PreemptionOracle,
        node: NodeId,
        borrowing: Borrowing,
        fungibility: FlavorFungibility,
        counts: Vec<u32>,
    ) -> Result<Assignment<'_>, SlotId> {
        let mut assignment = Assignment {
            taken: Vec::new(),
            choices_taken: Vec::new(),
            counts,
            waits_at: None,
            requested: BTreeMap::new(),
        };
        for slot in &self.in_order {
            let count = assignment.counts.get(slot.place.pod_set).copied();
            oracle.check(count.is_some(), "each pod set has a count");
            let count = count.ok_or(slot.place)?;
            let mut best: Option<(FitGrade, FlavorCandidate, &FlavorChoice)> = None;
            for (pick, choice) in slot.choices.iter().enumerate() {
                let requested = choice.requested(count, &assignment.requested);
                let Some(candidate) = evaluate(oracle, node, pick, requested, borrowing) else {
                    continue;
                };
                let (mode, distance) = (candidate.mode, candidate.distance);
                let grade = grade(fungibility, mode, distance);
                let ends = !candidate.is_last_resort && ends_search(fungibility, mode, distance);
                if ends || best.as_ref().is_none_or(|(known, ..)| grade < *known) {
                    best = Some((grade, candidate, choice));
                }
                if ends {
                    break;
                }
            }
            let Some((_, candidate, choice)) = best else {
                return Err(slot.place);
            };
            assignment.taken.push((slot.place, choice));
            assignment.requested.extend(candidate.requested);
            assignment.choices_taken.push(candidate.pick);
            if candidate.mode != FitMode::Now {
                assignment.waits_at = assignment.waits_at.or(Some(slot.place));
            }
        }
        Ok(assignment)
    }
}

impl Slots {
    /// The assignment in which the slots have these choices, in order.
    pub(super) fn assignment<'a>(
        &self,
        chosen: &[(usize, &'a FlavorChoice)],
        counts: Vec<u32>,
        requested: RequestedUsage,
        waits_at: Option<SlotId>,
    ) -> Assignment<'a> {
        let places = self.in_order.iter().map(|slot| slot.place);
        Assignment {
            taken: (places.zip(chosen))
                .map(|(place, (_, choice))| (place, *choice))
                .collect(),
            choices_taken: chosen.iter().map(|(pick, _)| *pick).collect(),
            counts,
            waits_at,
            requested,
        }
    }
}

/// In which mode a choice with this usage is available; none if in no mode.
fn evaluate(
    oracle: &mut impl PreemptionOracle,
    node: NodeId,
    pick: usize,
    requested: RequestedUsage,
    borrowing: Borrowing,
) -> Option<FlavorCandidate> {
    let is_available =
        |tree: &QuotaTree, view| tree.are_all_available(view, node, &requested, borrowing);
    let mut is_last_resort = false;
    let (mode, distance) = if is_available(oracle.quota_tree(), View::Planned) {
        let is_reserved = oracle
            .quota_tree()
            .would_use_reserved_nominal(node, &requested);
        let is_now = is_available(oracle.quota_tree(), View::Now) && !is_reserved;
        let mode = if is_now { FitMode::Now } else { FitMode::Later };
        (
            mode,
            max_borrowing_distance(oracle.quota_tree(), node, &requested),
        )
    } else {
        let simulate_preemption = oracle.simulate_preemption(&requested, borrowing)?;
        let mode = if simulate_preemption.costs_own {
            FitMode::Preempt
        } else {
            FitMode::Reclaim
        };
        is_last_resort = simulate_preemption.is_last_resort;
        (mode, simulate_preemption.distance)
    };
    Some(FlavorCandidate {
        pick,
        requested,
        mode,
        distance,
        is_last_resort,
    })
}

/// The largest distance that a queue would borrow over for this usage in the planned view.
pub(crate) fn max_borrowing_distance(
    tree: &QuotaTree,
    node: NodeId,
    requested: &RequestedUsage,
) -> usize {
    let requested = requested.iter();
    let distances = requested.map(|(cell, amount)| tree.borrowing_distance(node, *cell, *amount));
    distances.max().unwrap_or_default()
}

/// An assignment in the form that is written, kept for the next workload of the class.
#[derive(Clone, Debug)]
pub(crate) struct CachedAssignment {
    /// The number of the choice that each slot gets.
    pub(crate) choices_taken: Vec<usize>,
    /// How many pods of each set.
    pub(crate) counts: Vec<u32>,
    pub(crate) pod_sets: Arc<[PodSetAssignment]>,
    pub(crate) usage: WorkloadUsage,
}

impl Assignment<'_> {
    /// Whether each slot has this choice, and each pod set this count.
    pub(crate) fn is_like(&self, choices_taken: &[usize], counts: &[u32]) -> bool {
        self.choices_taken == choices_taken && self.counts == counts
    }

    /// The assignment in the form that is written, for a workload of this shape. None if a slot is of no pod set,
    /// which can't be.
    pub(crate) fn cached(&self, shape: &Shape) -> Option<CachedAssignment> {
        let mut pod_sets: Vec<PodSetAssignment> = (shape.pod_sets.iter())
            .map(|pod_set| PodSetAssignment {
                name: pod_set.name.clone(),
                count: pod_set.count,
                flavors: BTreeMap::new(),
                usage: BTreeMap::new(),
                bound: 0,
            })
            .collect();
        for (pod_set, count) in pod_sets.iter_mut().zip(&self.counts) {
            pod_set.count = *count;
        }
        for (place, choice) in &self.taken {
            let pod_set = pod_sets.get_mut(place.pod_set)?;
            for (resource, _, each) in &choice.usage_per_pod {
                let (resource, flavor) = (resource.clone(), choice.flavor.clone());
                pod_set.flavors.insert(resource.clone(), flavor);
                pod_set
                    .usage
                    .insert(resource, for_pods(*each, pod_set.count));
            }
        }
        let total = |(cell, total): (&FlavorResourceId, &Amount)| {
            let (total, allocated) = (*total, Amount::ZERO);
            (*cell, ResourceUsage { total, allocated })
        };
        Some(CachedAssignment {
            choices_taken: self.choices_taken.clone(),
            counts: self.counts.clone(),
            pod_sets: pod_sets.into(),
            usage: self.requested.iter().map(total).collect(),
        })
    }
}
