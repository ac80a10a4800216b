//! The flavor options of a shape in a ClusterQueue: everything about its assignment that does not depend on
//! usage.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::amount::Amount;
use crate::api::explanation::MissReason;
use crate::api::names::{FlavorName, ResourceName};
use crate::api::queues::ClusterQueue;
use crate::api::quota::{Borrowing, FlavorQuotas, ResourceGroup};
use crate::api::workload::PodSet;
use crate::flavor::node_affinity::check_nodes;
use crate::flavor::undeclared_resources::requests_by_group;
use crate::quota::config::Config;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::usage::RequestedUsage;
use crate::workload::shape::Shape;

/// Which flavors a shape could be assigned in a queue.
#[derive(Debug)]
pub(crate) enum FlavorOptions {
    /// None with the present configuration.
    None(NoAssignment),
    /// One choice for each slot.
    Slots(Slots),
}

/// Why there is no assignment whatever the usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAssignment {
    /// No resource group covers this resource.
    NoQuota(ResourceName),
    /// No flavor suits these pods.
    NoFlavor(SlotId),
}

/// A pod set and a resource group of the queue, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId {
    pub(crate) pod_set: usize,
    pub(crate) group: usize,
}

/// What an assignment has to choose.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(super) in_order: Vec<Slot>,
    /// Whether more usage can never make the shape fit. It can when an early pod set is pushed to another
    /// flavor and so leaves quota to a later one. It also can for partial admission: a part never waits for
    /// the first flavor, so it fits only once others use that up.
    pub(crate) fit_is_monotone: bool,
    /// Whether a slot with several choices may take what a later slot needs.
    pub(crate) early_choice_matters: bool,
    /// Whether more usage can never improve its rank. It can with several choices: when the first one is
    /// used up, another choice may borrow less in a cohort, or lead to a smaller share.
    pub(crate) rank_is_monotone: bool,
    /// Whether it may borrow.
    pub(crate) borrowing: Borrowing,
}

/// One resource group for one pod set: all its resources come from one flavor.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) place: SlotId,
    pub(crate) choices: Vec<FlavorChoice>,
}

/// A flavor, and the usage of each pod in it.
#[derive(Debug)]
pub(crate) struct FlavorChoice {
    pub(crate) flavor: FlavorName,
    pub(crate) usage_per_pod: Vec<(ResourceName, FlavorResourceId, Amount)>,
}

/// Works out the flavor options of a shape in a queue.
pub(crate) fn flavor_options(
    config: &Config,
    queue: &ClusterQueue,
    shape: &Shape,
    pod: Amount,
) -> FlavorOptions {
    let mut slots = Vec::new();
    for (index, pod_set) in shape.pod_sets.iter().enumerate() {
        let groups = match requests_by_group(queue, pod_set, pod) {
            Ok(groups) => groups,
            Err(resource) => return FlavorOptions::None(NoAssignment::NoQuota(resource)),
        };
        for (number, (group, requests)) in groups {
            let choices: Vec<FlavorChoice> = (group.flavors.iter())
                .filter_map(|f| flavor_choice(config, group, f, pod_set, &requests).ok())
                .collect();
            let place = SlotId {
                pod_set: index,
                group: number,
            };
            if choices.is_empty() {
                // Without pods it needs none.
                if pod_set.count == 0 {
                    continue;
                }
                return FlavorOptions::None(NoAssignment::NoFlavor(place));
            }
            slots.push(Slot { place, choices });
        }
    }
    let one_choice = slots.iter().all(|slot| slot.choices.len() == 1);
    let is_whole = !shape.pod_sets.iter().any(is_reducible);
    let early_choice_matters = early_choice_matters_later(&slots);
    let fit_is_monotone = (is_whole || one_choice) && !early_choice_matters;
    FlavorOptions::Slots(Slots {
        in_order: slots,
        fit_is_monotone,
        early_choice_matters,
        rank_is_monotone: is_whole && one_choice,
        borrowing: shape.borrowing(),
    })
}

/// The usage of each pod in this flavor, or why the flavor is out of the question whatever the usage.
pub(crate) fn flavor_choice(
    config: &Config,
    group: &ResourceGroup,
    flavor: &FlavorQuotas,
    pod_set: &PodSet,
    requests: &BTreeMap<ResourceName, Amount>,
) -> Result<FlavorChoice, MissReason> {
    // A queue with a flavor that does not exist is inactive, so this is never called for it.
    if let Some(object) = config.flavors.get(&flavor.name) {
        check_nodes(config, group, object, pod_set).map_err(MissReason::Nodes)?;
    }
    let usage_of = |(resource, amount): (&ResourceName, &Amount)| {
        let listed = flavor.resources.contains_key(resource);
        match config.flavor_resources.get(&flavor.name, resource) {
            Some(cell) if listed => Ok((resource.clone(), cell, *amount)),
            _ => Err(MissReason::NoQuota(resource.clone())),
        }
    };
    let usage_per_pod = requests.iter().map(usage_of).collect::<Result<_, _>>()?;
    Ok(FlavorChoice {
        flavor: flavor.name.clone(),
        usage_per_pod,
    })
}

/// Whether a slot with several choices is followed by one that could use the same cell.
fn early_choice_matters_later(slots: &[Slot]) -> bool {
    let mut chosen: BTreeSet<FlavorResourceId> = BTreeSet::new();
    for slot in slots {
        let cells = || {
            slot.choices
                .iter()
                .flat_map(|c| c.usage_per_pod.iter().map(|(_, cell, _)| *cell))
        };
        if cells().any(|cell| chosen.contains(&cell)) {
            return true;
        }
        if slot.choices.len() > 1 {
            chosen.extend(cells());
        }
    }
    false
}

/// The usage of so many pods. Sums were checked when the shape was created.
pub(crate) fn for_pods(each: Amount, count: u32) -> Amount {
    each.checked_mul(count).unwrap_or(Amount::LIMIT)
}

/// The fewest pods of a set that are accepted.
pub(crate) fn fewest_pods(pod_set: &PodSet) -> u32 {
    pod_set
        .min_count
        .unwrap_or(pod_set.count)
        .min(pod_set.count)
}

/// Whether fewer pods than all are accepted.
pub(crate) fn is_reducible(pod_set: &PodSet) -> bool {
    fewest_pods(pod_set) < pod_set.count
}

impl FlavorChoice {
    /// The requested usage of its cells, above zero, including that of earlier slots.
    pub(super) fn requested(&self, count: u32, taken: &RequestedUsage) -> RequestedUsage {
        let usage = self.usage_per_pod.iter().filter_map(|(_, cell, each)| {
            let amount = for_pods(*each, count);
            // A request of zero always fits, even where a quota was lowered below its usage.
            let before = taken.get(cell).copied().unwrap_or_default();
            (amount > Amount::ZERO).then(|| (*cell, amount.plus(before)))
        });
        usage.collect()
    }
}

impl Slots {
    /// The usage that the fewest pods of a shape would request in the flavor that comes first for each slot.
    pub(crate) fn first_choice(&self, shape: &Shape) -> RequestedUsage {
        let mut requested = RequestedUsage::new();
        for slot in &self.in_order {
            let count = shape.pod_sets.get(slot.place.pod_set).map(fewest_pods);
            if let (Some(count), Some(choice)) = (count, slot.choices.first()) {
                requested.extend(choice.requested(count, &requested));
            }
        }
        requested
    }
}
