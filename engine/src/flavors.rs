//! Which flavors a shape takes in a queue. First a plan: what could be taken, with everything that
//! doesn't depend on usage worked out. Then, as often as usage changes, a fit: what is taken.

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::Amount;
use crate::explain::MissReason;
use crate::forest::Config;
use crate::model::{
    Admission, ClusterQueue, FlavorQuotas, PodSet, PodSetAssignment, ResourceGroup, WhenCanBorrow,
};
use crate::names::{FlavorName, ResourceName};
use crate::nodes;
use crate::shape::Shape;
use crate::time::Time;
use crate::tree::{CellId, NodeId, QuotaTree};

/// How a shape could be placed in a queue.
#[derive(Debug)]
pub(crate) enum Plan {
    /// As the configuration stands, not at all.
    Hopeless(Obstacle),
    /// By one choice for each slot.
    Slots(Slots),
}

/// Why there is no way to place a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// No group covers this resource.
    NoQuota(ResourceName),
    /// No flavor is for these pods.
    NoFlavor(Place),
}

/// A pod set and one of the queue's resource groups, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pod_set: usize,
    pub(crate) group: usize,
}

/// What has to be chosen.
#[derive(Debug)]
pub(crate) struct Slots {
    in_order: Vec<Slot>,
    /// More usage in the tree never makes it fit. Not so when an early pod set that is pushed to
    /// another flavor leaves room to a later one.
    pub(crate) fit_is_monotone: bool,
    /// More usage in the tree never makes it fit *without borrowing*. Not so when the search stops
    /// at a flavor that can be borrowed, and goes on once it can't.
    pub(crate) rank_is_monotone: bool,
}

/// One resource group for one pod set: all its resources come from one flavor.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) place: Place,
    pub(crate) choices: Vec<Choice>,
}

/// A flavor, and what it would be charged.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) flavor: FlavorName,
    pub(crate) charges: Vec<(ResourceName, CellId, Amount)>,
}

/// What is taken.
#[derive(Debug)]
pub(crate) struct Fit<'a> {
    picks: Vec<(Place, &'a Choice)>,
    pub(crate) borrows: bool,
}

/// What a pod set asks for in a queue: its requests for all pods together, and the pods themselves
/// if the queue has quota for them. Sums were checked when the shape was taken in.
fn totals(queue: &ClusterQueue, pod_set: &PodSet, pod: Amount) -> BTreeMap<ResourceName, Amount> {
    let total = |amount: Amount| amount.checked_mul(pod_set.count).unwrap_or(Amount::LIMIT);
    let named = pod_set
        .requests
        .iter()
        .filter(|(resource, _)| !resource.is_pods());
    let mut totals: BTreeMap<ResourceName, Amount> = named
        .map(|(resource, amount)| (resource.clone(), total(*amount)))
        .collect();
    let pods = ResourceName::from(ResourceName::PODS);
    if group_of(queue, &pods).is_some() {
        totals.insert(pods, total(pod));
    }
    totals
}

/// The group that a resource counts in.
fn group_of(queue: &ClusterQueue, resource: &ResourceName) -> Option<usize> {
    queue
        .resource_groups
        .iter()
        .position(|group| group.covered_resources.contains(resource))
}

/// The requests of a pod set, by resource group; or the first resource that no group covers. To
/// ask for nothing of such a resource is fine.
pub(crate) fn by_group(
    queue: &ClusterQueue,
    pod_set: &PodSet,
    pod: Amount,
) -> Result<BTreeMap<usize, BTreeMap<ResourceName, Amount>>, ResourceName> {
    let mut groups: BTreeMap<usize, BTreeMap<ResourceName, Amount>> = BTreeMap::new();
    for (resource, amount) in totals(queue, pod_set, pod) {
        match group_of(queue, &resource) {
            Some(group) => {
                groups.entry(group).or_default().insert(resource, amount);
            }
            None if amount == Amount::ZERO => {}
            None => return Err(resource),
        }
    }
    Ok(groups)
}

/// What taking `requests` from this flavor would charge, or what speaks against it whatever is
/// used.
pub(crate) fn choice(
    config: &Config,
    tree: &QuotaTree,
    group: &ResourceGroup,
    flavor: &FlavorQuotas,
    pod_set: &PodSet,
    requests: &BTreeMap<ResourceName, Amount>,
) -> Result<Choice, MissReason> {
    // A queue with a flavor that doesn't exist is inactive, and nobody asks.
    if let Some(object) = config.flavors.get(&flavor.name) {
        let keys = label_keys(config, group);
        nodes::check(pod_set, object, &keys).map_err(MissReason::Nodes)?;
    }
    let charge = |(resource, amount): (&ResourceName, &Amount)| {
        let listed = flavor.resources.contains_key(resource);
        match tree.cell(&(flavor.name.clone(), resource.clone())) {
            Some(cell) if listed => Ok((resource.clone(), cell, *amount)),
            _ => Err(MissReason::NoQuota(resource.clone())),
        }
    };
    let charges = requests.iter().map(charge).collect::<Result<_, _>>()?;
    Ok(Choice {
        flavor: flavor.name.clone(),
        charges,
    })
}

/// The label keys that tell the flavors of a group apart.
fn label_keys<'a>(config: &'a Config, group: &ResourceGroup) -> BTreeSet<&'a str> {
    let flavors = group
        .flavors
        .iter()
        .filter_map(|flavor| config.flavors.get(&flavor.name));
    flavors
        .flat_map(|flavor| flavor.node_labels.keys().map(String::as_str))
        .collect()
}

/// Works out how a shape could be placed in a queue.
pub(crate) fn plan(
    config: &Config,
    tree: &QuotaTree,
    queue: &ClusterQueue,
    shape: &Shape,
    pod: Amount,
) -> Plan {
    let mut slots = Vec::new();
    for (index, pod_set) in shape.pod_sets.iter().enumerate() {
        let groups = match by_group(queue, pod_set, pod) {
            Ok(groups) => groups,
            Err(resource) => return Plan::Hopeless(Obstacle::NoQuota(resource)),
        };
        for (number, requests) in groups {
            let Some(group) = queue.resource_groups.get(number) else {
                continue;
            };
            let choices: Vec<Choice> = (group.flavors.iter())
                .filter_map(|f| choice(config, tree, group, f, pod_set, &requests).ok())
                .collect();
            let place = Place {
                pod_set: index,
                group: number,
            };
            if choices.is_empty() {
                return Plan::Hopeless(Obstacle::NoFlavor(place));
            }
            slots.push(Slot { place, choices });
        }
    }
    let fit_is_monotone = !early_choice_matters_later(&slots);
    let one_choice = slots.iter().all(|slot| slot.choices.len() == 1);
    let searches_on = queue.fungibility.when_can_borrow == WhenCanBorrow::TryNextFlavor;
    let rank_is_monotone = one_choice || (fit_is_monotone && searches_on);
    Plan::Slots(Slots {
        in_order: slots,
        fit_is_monotone,
        rank_is_monotone,
    })
}

/// Whether a slot with a choice is followed by one that could be charged to the same cell.
fn early_choice_matters_later(slots: &[Slot]) -> bool {
    let mut chosen: BTreeSet<CellId> = BTreeSet::new();
    for slot in slots {
        let cells = || {
            slot.choices
                .iter()
                .flat_map(|c| c.charges.iter().map(|(_, cell, _)| *cell))
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

impl Slots {
    /// Chooses a flavor for each slot, in order; what earlier slots take counts for later ones.
    /// If it doesn't work out, says where the search ended.
    pub(crate) fn fit(
        &self,
        tree: &QuotaTree,
        node: NodeId,
        when_can_borrow: WhenCanBorrow,
    ) -> Result<Fit<'_>, Place> {
        let mut fit = Fit {
            picks: Vec::new(),
            borrows: false,
        };
        let mut taken: BTreeMap<CellId, Amount> = BTreeMap::new();
        for slot in &self.in_order {
            let mut pick = None;
            for choice in &slot.choices {
                let Some(borrows) = choice.borrows_if_fits(tree, node, &taken) else {
                    continue;
                };
                if pick.is_none() || !borrows {
                    pick = Some((choice, borrows));
                }
                if !borrows || when_can_borrow == WhenCanBorrow::MayStopSearch {
                    break;
                }
            }
            let Some((choice, borrows)) = pick else {
                return Err(slot.place);
            };
            for (_, cell, amount) in &choice.charges {
                let sum = taken.entry(*cell).or_default();
                *sum = sum.plus(*amount);
            }
            fit.picks.push((slot.place, choice));
            fit.borrows |= borrows;
        }
        Ok(fit)
    }

    /// What slots before `place` take in any case, because they have only one choice.
    pub(crate) fn forced_before(&self, place: Place) -> BTreeMap<CellId, Amount> {
        let mut forced: BTreeMap<CellId, Amount> = BTreeMap::new();
        for slot in self.in_order.iter().take_while(|slot| slot.place != place) {
            let [choice] = slot.choices.as_slice() else {
                continue;
            };
            for (_, cell, amount) in &choice.charges {
                let sum = forced.entry(*cell).or_default();
                *sum = sum.plus(*amount);
            }
        }
        forced
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Slot> {
        self.in_order.iter()
    }
}

impl Choice {
    /// Whether this would borrow; none if it doesn't fit.
    fn borrows_if_fits(
        &self,
        tree: &QuotaTree,
        node: NodeId,
        taken: &BTreeMap<CellId, Amount>,
    ) -> Option<bool> {
        let mut borrows = false;
        for (_, cell, amount) in &self.charges {
            // Nothing always fits, even where a quota was lowered below what is used.
            if *amount > Amount::ZERO {
                let sum = amount.plus(taken.get(cell).copied().unwrap_or_default());
                if !tree.fits(node, *cell, sum) {
                    return None;
                }
                borrows |= tree.borrows(node, *cell, sum);
            }
        }
        Some(borrows)
    }
}

impl Fit<'_> {
    /// The admission that records this fit.
    pub(crate) fn admission(&self, queue: &ClusterQueue, shape: &Shape, now: Time) -> Admission {
        let mut pod_sets: Vec<PodSetAssignment> = (shape.pod_sets.iter())
            .map(|pod_set| PodSetAssignment {
                name: pod_set.name.clone(),
                count: pod_set.count,
                flavors: BTreeMap::new(),
                usage: BTreeMap::new(),
                bound: 0,
            })
            .collect();
        for (place, choice) in &self.picks {
            let Some(pod_set) = pod_sets.get_mut(place.pod_set) else {
                continue;
            };
            for (resource, _, amount) in &choice.charges {
                pod_set
                    .flavors
                    .insert(resource.clone(), choice.flavor.clone());
                pod_set.usage.insert(resource.clone(), *amount);
            }
        }
        Admission {
            queue: queue.name.clone(),
            since: now,
            unused_since: None,
            pod_sets,
        }
    }
}
