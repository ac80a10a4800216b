//! Which flavors a shape takes in a queue. First a plan: what could be taken, with everything that
//! doesn't depend on usage worked out. Then, as often as usage changes, a fit: what is taken.

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::Amount;
use crate::cells::CellId;
use crate::explain::MissReason;
use crate::forest::Config;
use crate::model::{
    ClusterQueue, FlavorFungibility, FlavorPreference, FlavorQuotas, PodSet, PodSetAssignment,
    ResourceGroup, WhenCanBorrow, WhenCanPreempt,
};
use crate::names::{FlavorName, ResourceName};
use crate::nodes;
use crate::pending::Grant;
use crate::shape::Shape;
use crate::status::Charged;
use crate::tree::{NodeId, QuotaTree, View};

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
    /// another flavor leaves room to a later one; or when a part would have to wait for the first flavor,
    /// which a part never does, until others take that.
    pub(crate) fit_is_monotone: bool,
    /// More usage in the tree never lets it rank better. Not so when there is another choice, which is
    /// taken once there is no room for the first: a cohort may borrow less then, or have a smaller share.
    pub(crate) rank_is_monotone: bool,
}

/// One resource group for one pod set: all its resources come from one flavor.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) place: Place,
    pub(crate) choices: Vec<Choice>,
}

/// A flavor, and what it would be charged for each pod.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) flavor: FlavorName,
    pub(crate) charges: Vec<(ResourceName, CellId, Amount)>,
}

/// What is taken.
#[derive(Debug)]
pub(crate) struct Fit<'a> {
    slots: &'a [Slot],
    /// Which of its choices each slot gets.
    picks: Vec<usize>,
    counts: Vec<u32>,
    /// Whether the queue is above its own quota then, as is planned.
    pub(crate) borrows: bool,
    /// The first place where there is no room at this moment, and others have to go first.
    pub(crate) waits_at: Option<Place>,
    /// What it charges, above zero.
    pub(crate) cells: BTreeMap<CellId, Amount>,
}

/// How a choice could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// There is room.
    Now,
    /// There will be, when those that leave have gone or others are made to.
    Later,
}

/// Where room is looked for.
pub(crate) trait Room {
    /// What is used.
    fn tree(&self) -> &QuotaTree;

    /// Whether the queue would borrow, when others have been made to go for the sake of these charges;
    /// none if they can't be.
    fn made(&mut self, cells: &BTreeMap<CellId, Amount>) -> Option<bool>;
}

/// Nobody is made to go.
impl Room for &QuotaTree {
    fn tree(&self) -> &QuotaTree {
        self
    }

    fn made(&mut self, _: &BTreeMap<CellId, Amount>) -> Option<bool> {
        None
    }
}

/// What so many pods are charged. Sums were checked when the shape was taken in.
pub(crate) fn total(each: Amount, count: u32) -> Amount {
    each.checked_mul(count).unwrap_or(Amount::LIMIT)
}

/// What each pod of a set asks for in a queue: its requests, and the pod itself if the queue has
/// quota for pods.
fn asked(queue: &ClusterQueue, pod_set: &PodSet, pod: Amount) -> BTreeMap<ResourceName, Amount> {
    let requests = pod_set.requests.iter();
    let named = requests.filter(|(resource, _)| !resource.is_pods());
    let mut asked: BTreeMap<ResourceName, Amount> = named
        .map(|(resource, amount)| (resource.clone(), *amount))
        .collect();
    let pods = ResourceName::from(ResourceName::PODS);
    if group_of(queue, &pods).is_some() {
        asked.insert(pods, pod);
    }
    asked
}

/// The group that a resource counts in.
fn group_of(queue: &ClusterQueue, resource: &ResourceName) -> Option<usize> {
    queue
        .resource_groups
        .iter()
        .position(|group| group.covered_resources.contains(resource))
}

/// The requests of each pod of a set, by resource group; or the first resource that no group covers.
/// To ask for nothing of such a resource is fine.
pub(crate) fn by_group(
    queue: &ClusterQueue,
    pod_set: &PodSet,
    pod: Amount,
) -> Result<BTreeMap<usize, BTreeMap<ResourceName, Amount>>, ResourceName> {
    let mut groups: BTreeMap<usize, BTreeMap<ResourceName, Amount>> = BTreeMap::new();
    for (resource, amount) in asked(queue, pod_set, pod) {
        match group_of(queue, &resource) {
            Some(group) => {
                groups.entry(group).or_default().insert(resource, amount);
            }
            None if total(amount, pod_set.count) == Amount::ZERO => {}
            None => return Err(resource),
        }
    }
    Ok(groups)
}

/// What taking `requests` from this flavor would charge for each pod, or what speaks against it
/// whatever is used.
pub(crate) fn choice(
    config: &Config,
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
        match config.cells.get(&flavor.name, resource) {
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
pub(crate) fn plan(config: &Config, queue: &ClusterQueue, shape: &Shape, pod: Amount) -> Plan {
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
                .filter_map(|f| choice(config, group, f, pod_set, &requests).ok())
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
    let one_choice = slots.iter().all(|slot| slot.choices.len() == 1);
    let is_whole = !shape.pod_sets.iter().any(is_reducible);
    let fit_is_monotone = (is_whole || one_choice) && !early_choice_matters_later(&slots);
    Plan::Slots(Slots {
        in_order: slots,
        fit_is_monotone,
        rank_is_monotone: is_whole && one_choice,
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

/// How many pods of a set will do.
pub(crate) fn least(pod_set: &PodSet) -> u32 {
    pod_set
        .min_count
        .unwrap_or(pod_set.count)
        .min(pod_set.count)
}

/// Whether fewer pods than all would do.
pub(crate) fn is_reducible(pod_set: &PodSet) -> bool {
    least(pod_set) < pod_set.count
}

/// A choice that could be had.
struct Candidate {
    /// Its number among the choices of the slot.
    pick: usize,
    /// What is charged to each of its cells, with what was taken before.
    cells: BTreeMap<CellId, Amount>,
    mode: Mode,
    borrows: bool,
}

impl Slots {
    /// Chooses a flavor for each slot, in order, for `counts` pods of each set; what earlier slots
    /// take counts for later ones. If it doesn't work out, says where the search ended.
    pub(crate) fn fit(
        &self,
        room: &mut impl Room,
        node: NodeId,
        fungibility: FlavorFungibility,
        counts: Vec<u32>,
    ) -> Result<Fit<'_>, Place> {
        let mut fit = Fit {
            slots: &self.in_order,
            picks: Vec::new(),
            counts,
            borrows: false,
            waits_at: None,
            cells: BTreeMap::new(),
        };
        for slot in &self.in_order {
            let count = fit
                .counts
                .get(slot.place.pod_set)
                .copied()
                .unwrap_or_default();
            let mut best: Option<(u8, Candidate)> = None;
            for (pick, choice) in slot.choices.iter().enumerate() {
                let cells = choice.cells(count, &fit.cells);
                let Some(found) = look(room, node, pick, cells) else {
                    continue;
                };
                let (grade, ends) = (found.grade(fungibility), found.ends_search(fungibility));
                if ends || best.as_ref().is_none_or(|(known, _)| grade < *known) {
                    best = Some((grade, found));
                }
                if ends {
                    break;
                }
            }
            let Some((_, found)) = best else {
                return Err(slot.place);
            };
            fit.cells.extend(found.cells);
            fit.picks.push(found.pick);
            fit.borrows |= found.borrows;
            if found.mode == Mode::Later {
                fit.waits_at = fit.waits_at.or(Some(slot.place));
            }
        }
        Ok(fit)
    }

    /// Where the search for a fit of all pods ends, a charge for each choice that there is no room for
    /// as is planned. As long as that is so, the search ends there, if only what is free counts and
    /// [`Slots::fit_is_monotone`].
    pub(crate) fn obstacles(
        &self,
        mut tree: &QuotaTree,
        node: NodeId,
        shape: &Shape,
    ) -> Vec<(CellId, Amount)> {
        let counts = shape.pod_sets.iter().map(|pod_set| pod_set.count).collect();
        // Which of the choices that there is room for is taken is no matter.
        let Err(place) = self.fit(&mut tree, node, FlavorFungibility::default(), counts) else {
            return Vec::new();
        };
        let taken = self.forced_before(place, shape);
        let count = shape.pod_sets.get(place.pod_set).map(|set| set.count);
        let slot = self.in_order.iter().find(|slot| slot.place == place);
        let obstacles = slot
            .into_iter()
            .flat_map(|slot| &slot.choices)
            .map(|choice| {
                let cells = choice.cells(count.unwrap_or_default(), &taken);
                let mut cells = cells.into_iter();
                cells.find(|(cell, amount)| !tree.fits(View::Planned, node, *cell, *amount))
            });
        // Each choice has one, or the search would have gone on.
        obstacles.collect::<Option<_>>().unwrap_or_default()
    }

    /// What slots before `place` take in any case, because they have only one choice.
    pub(crate) fn forced_before(&self, place: Place, shape: &Shape) -> BTreeMap<CellId, Amount> {
        let mut forced: BTreeMap<CellId, Amount> = BTreeMap::new();
        for slot in self.in_order.iter().take_while(|slot| slot.place != place) {
            let [choice] = slot.choices.as_slice() else {
                continue;
            };
            let count = shape.pod_sets.get(slot.place.pod_set).map(least);
            forced.extend(choice.cells(count.unwrap_or_default(), &forced));
        }
        forced
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Slot> {
        self.in_order.iter()
    }
}

impl Candidate {
    /// Whether no later choice is looked at.
    fn ends_search(&self, fungibility: FlavorFungibility) -> bool {
        let may_borrow = fungibility.when_can_borrow == WhenCanBorrow::MayStopSearch;
        let may_wait = fungibility.when_can_preempt == WhenCanPreempt::MayStopSearch;
        (!self.borrows || may_borrow) && (self.mode == Mode::Now || may_wait)
    }

    /// How good it is; less is better.
    fn grade(&self, fungibility: FlavorFungibility) -> u8 {
        let borrowing_first = fungibility.preference == FlavorPreference::BorrowingOverPreemption;
        match (self.mode, self.borrows) {
            (Mode::Now, false) => 0,
            (Mode::Now, true) if borrowing_first => 1,
            (Mode::Later, false) if borrowing_first => 2,
            (Mode::Later, false) => 1,
            (Mode::Now, true) => 2,
            (Mode::Later, true) => 3,
        }
    }
}

impl Choice {
    /// What is charged to each of its cells, above zero, with what was taken before.
    fn cells(&self, count: u32, taken: &BTreeMap<CellId, Amount>) -> BTreeMap<CellId, Amount> {
        let charges = self.charges.iter().filter_map(|(_, cell, each)| {
            let amount = total(*each, count);
            // Nothing always fits, even where a quota was lowered below what is used.
            let before = taken.get(cell).copied().unwrap_or_default();
            (amount > Amount::ZERO).then(|| (*cell, amount.plus(before)))
        });
        charges.collect()
    }
}

/// How a choice that is charged like this could be had; none if it could not.
fn look(
    room: &mut impl Room,
    node: NodeId,
    pick: usize,
    cells: BTreeMap<CellId, Amount>,
) -> Option<Candidate> {
    let fits = |tree: &QuotaTree, view| tree.all_fit(view, node, &cells);
    let (mode, borrows) = if fits(room.tree(), View::Planned) {
        let is_now = fits(room.tree(), View::Now);
        let mode = if is_now { Mode::Now } else { Mode::Later };
        (mode, borrows(room.tree(), node, &cells))
    } else {
        (Mode::Later, room.made(&cells)?)
    };
    Some(Candidate {
        pick,
        cells,
        mode,
        borrows,
    })
}

/// Whether these charges would take a node above its own quota, as is planned.
pub(crate) fn borrows(tree: &QuotaTree, node: NodeId, cells: &BTreeMap<CellId, Amount>) -> bool {
    let mut cells = cells.iter();
    cells.any(|(cell, amount)| tree.borrows(node, *cell, *amount))
}

impl Fit<'_> {
    /// Whether each slot gets this choice, and each pod set so many pods.
    pub(crate) fn is_like(&self, picks: &[usize], counts: &[u32]) -> bool {
        self.picks == picks && self.counts == counts
    }

    /// What a workload of this shape gets.
    pub(crate) fn grant(&self, shape: &Shape) -> Grant {
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
        for (slot, pick) in self.slots.iter().zip(&self.picks) {
            let pod_set = pod_sets.get_mut(slot.place.pod_set);
            let (Some(pod_set), Some(choice)) = (pod_set, slot.choices.get(*pick)) else {
                continue;
            };
            for (resource, _, each) in &choice.charges {
                let (resource, flavor) = (resource.clone(), choice.flavor.clone());
                pod_set.flavors.insert(resource.clone(), flavor);
                pod_set.usage.insert(resource, total(*each, pod_set.count));
            }
        }
        let charged = |(cell, total): (&CellId, &Amount)| {
            let (total, allocated) = (*total, Amount::ZERO);
            (*cell, Charged { total, allocated })
        };
        Grant {
            picks: self.picks.clone(),
            counts: self.counts.clone(),
            pod_sets: pod_sets.into(),
            charge: self.cells.iter().map(charged).collect(),
        }
    }
}
