//! What a workload would get, by definition: flavors slot by slot, and fewer pods if need be. In
//! what order workloads are looked at is `oracle.rs`.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    AdmissionMode, Amount, ClusterQueue, FairPreemption, Flavor, FlavorName, FlavorPreference,
    PodSet, PodSetAssignment, ReclaimWithinCohort, ResourceGroup, ResourceName, TaintEffect,
    WhenCanBorrow, WhenCanPreempt, WithinClusterQueue, Workload,
};

use crate::quota::{Charge, Tree, View};
use crate::tally::Tally;
use crate::victims::{Holder, Victim, Wanting};

/// How things stand at one moment of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) flavors: &'a BTreeMap<FlavorName, Flavor>,
    pub(crate) now: &'a View,
    pub(crate) planned: &'a View,
    /// What is planned, without claims.
    pub(crate) unclaimed: &'a View,
    pub(crate) holders: &'a [Holder],
    pub(crate) pod: i128,
    pub(crate) fair: Option<&'a [FairPreemption]>,
    /// With how many candidates at most every subset of them is tried.
    pub(crate) subsets_of_max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) pod_sets: Vec<PodSetAssignment>,
    pub(crate) charge: Charge,
    pub(crate) borrows: bool,
    fits_now: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Now(Assignment),
    Later(Assignment, Vec<Victim>),
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Now,
    Later,
    Preempt,
}

/// One way to fill a slot.
struct Way {
    flavor: FlavorName,
    mode: Mode,
    borrows: bool,
    /// With what earlier slots take of the same.
    charge: Charge,
}

impl Scene<'_> {
    /// What becomes of a workload.
    pub(crate) fn verdict(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> Verdict {
        match self.whole(queue, workload, true, tally) {
            Verdict::No => self
                .part(queue, workload, tally)
                .map_or(Verdict::No, Verdict::Now),
            verdict => verdict,
        }
    }

    /// What becomes of a workload for which nobody may be made to go.
    pub(crate) fn verdict_without_rights(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> Verdict {
        match self.whole(queue, workload, false, tally) {
            Verdict::No => self
                .part(queue, workload, tally)
                .map_or(Verdict::No, Verdict::Now),
            verdict => verdict,
        }
    }

    /// Whether something can be done for a workload, by what its queue may do, or there will be room for
    /// the least of it.
    pub(crate) fn can_serve(&self, queue: &ClusterQueue, workload: &Workload) -> bool {
        let mut ignored = Tally::default();
        let verdict = self.verdict(queue, workload, &mut ignored);
        let mut least = workload.clone();
        for pod_set in &mut least.pod_sets {
            let count = pod_set.min_count.unwrap_or(pod_set.count);
            pod_set.count = pod_set.count.min(count);
        }
        let is_covered = |pod_set| self.by_group(queue, pod_set).is_some();
        !matches!(verdict, Verdict::No)
            || workload.pod_sets.iter().all(is_covered)
                && self.assign(queue, &least, false, &mut ignored).is_some()
    }

    fn whole(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        may_preempt: bool,
        tally: &mut Tally,
    ) -> Verdict {
        let may_preempt = may_preempt && has_a_right(queue);
        let Some(assignment) = self.assign(queue, workload, may_preempt, tally) else {
            // With flavors for which nobody has to go, perhaps.
            return if may_preempt {
                self.whole(queue, workload, false, tally)
            } else {
                Verdict::No
            };
        };
        if assignment.fits_now {
            return Verdict::Now(assignment);
        }
        let node = self.tree.queue(&queue.name).unwrap();
        if self.tree.all_fit(self.planned, node, &assignment.charge) {
            return Verdict::Later(assignment, Vec::new());
        }
        if !may_preempt {
            return Verdict::No;
        }
        match self.victims(queue, workload, &assignment.charge, tally) {
            Some(victims) => Verdict::Later(assignment, victims),
            None => self.whole(queue, workload, false, tally),
        }
    }

    /// Who has to go to make room for this, and whether that is as it should be.
    fn victims(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        charge: &Charge,
        tally: &mut Tally,
    ) -> Option<Vec<Victim>> {
        let wanting = Wanting {
            tree: self.tree,
            planned: self.planned,
            unclaimed: self.unclaimed,
            holders: self.holders,
            queue: self.tree.queue(&queue.name).unwrap(),
            rules: queue.preemption,
            id: &workload.id,
            local: (queue.admission_mode == AdmissionMode::ByUsage).then_some(&workload.queue),
            priority: workload.priority,
            created: workload.created,
            charge,
            fair: self.fair,
        };
        let found = wanting.victims(tally);
        wanting.check(found.as_deref(), self.subsets_of_max);
        found
    }

    /// The least reduction that fits at once, by bisection.
    fn part(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> Option<Assignment> {
        let spare = |p: &PodSet| u64::from(p.count.saturating_sub(p.min_count.unwrap_or(p.count)));
        let most: u64 = workload.pod_sets.iter().map(spare).sum();
        let mut try_less = |less: u64| {
            let mut reduced = workload.clone();
            for pod_set in &mut reduced.pod_sets {
                let gone = u128::from(spare(pod_set)) * u128::from(less) / u128::from(most);
                pod_set.count -= u32::try_from(gone).unwrap();
            }
            match self.whole(queue, &reduced, false, tally) {
                Verdict::Now(assignment) => Some(assignment),
                _ => None,
            }
        };
        // Of what the queue has no quota for, even nothing is too much if all of it isn't nothing.
        let covered = |pod_set| self.by_group(queue, pod_set).is_some();
        if most == 0 || !workload.pod_sets.iter().all(covered) {
            return None;
        }
        let mut found = try_less(most)?;
        let (mut lo, mut hi) = (1, most);
        while lo < hi {
            let mid = lo.midpoint(hi);
            match try_less(mid) {
                Some(assignment) => (found, hi) = (assignment, mid),
                None => lo = mid + 1,
            }
        }
        Some(found)
    }

    fn assign(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        may_preempt: bool,
        tally: &mut Tally,
    ) -> Option<Assignment> {
        let mut found = Assignment {
            pod_sets: Vec::new(),
            charge: Charge::new(),
            borrows: false,
            fits_now: true,
        };
        for pod_set in &workload.pod_sets {
            let mut assignment = PodSetAssignment {
                name: pod_set.name.clone(),
                count: pod_set.count,
                flavors: BTreeMap::new(),
                usage: BTreeMap::new(),
                bound: 0,
            };
            for (index, wanted) in self.by_group(queue, pod_set)? {
                let group = &queue.resource_groups[index];
                let mut ways = Vec::new();
                for flavor in &group.flavors {
                    let listed = wanted.keys().all(|r| flavor.resources.contains_key(r));
                    if !listed || !self.matches(group, &self.flavors[&flavor.name], pod_set) {
                        continue;
                    }
                    let charge = self.charge(&flavor.name, &wanted, &found.charge);
                    ways.extend(self.way(
                        queue,
                        workload,
                        &flavor.name,
                        charge,
                        may_preempt,
                        tally,
                    ));
                    if ways.last().is_some_and(|way| stops(queue, way)) {
                        tally.stopped_early += u64::from(group.flavors.last() != Some(flavor));
                        break;
                    }
                }
                let way = pick(queue, ways, tally)?;
                found.fits_now &= way.mode == Mode::Now;
                found.borrows |= way.borrows;
                found.charge.extend(way.charge);
                for (resource, amount) in wanted {
                    assignment
                        .flavors
                        .insert(resource.clone(), way.flavor.clone());
                    assignment.usage.insert(resource, Amount::new(amount));
                }
            }
            found.pod_sets.push(assignment);
        }
        Some(found)
    }

    /// What a pod set asks for, by resource group; none if there is no group for something.
    fn by_group(
        &self,
        queue: &ClusterQueue,
        pod_set: &PodSet,
    ) -> Option<BTreeMap<usize, BTreeMap<ResourceName, i128>>> {
        let mut wanted: BTreeMap<usize, BTreeMap<ResourceName, i128>> = BTreeMap::new();
        let mut requests = pod_set.requests.clone();
        requests.insert("pods".into(), Amount::new(self.pod));
        for (resource, amount) in requests {
            let total = amount.get() * i128::from(pod_set.count);
            match group_of(&queue.resource_groups, &resource) {
                Some((index, _)) => {
                    wanted.entry(index).or_default().insert(resource, total);
                }
                None if total == 0 || resource.as_str() == "pods" => {}
                None => return None,
            }
        }
        Some(wanted)
    }

    fn charge(
        &self,
        flavor: &FlavorName,
        wanted: &BTreeMap<ResourceName, i128>,
        taken: &Charge,
    ) -> Charge {
        let above_zero = wanted.iter().filter(|(_, amount)| **amount > 0);
        let of = |(resource, amount): (&ResourceName, &i128)| {
            let cell = self.tree.cell(&(flavor.clone(), resource.clone()));
            (cell, taken.get(&cell).copied().unwrap_or_default() + amount)
        };
        above_zero.map(of).collect()
    }

    fn way(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        flavor: &FlavorName,
        charge: Charge,
        may_preempt: bool,
        tally: &mut Tally,
    ) -> Option<Way> {
        let node = self.tree.queue(&queue.name).unwrap();
        let planned = self.tree.all_fit(self.planned, node, &charge);
        let mut left = self.planned.clone();
        let mode = if planned && self.tree.all_fit(self.now, node, &charge) {
            Mode::Now
        } else if planned {
            Mode::Later
        } else if may_preempt {
            for victim in self.victims(queue, workload, &charge, tally)? {
                let holder = self.holders.iter().find(|holder| holder.id == victim.id)?;
                left.take(holder.queue, &holder.charge);
            }
            Mode::Preempt
        } else {
            return None;
        };
        Some(Way {
            flavor: flavor.clone(),
            mode,
            borrows: self.tree.takes_above(&left, node, &charge),
            charge,
        })
    }

    /// The generator makes only taints without value and selectors of equality.
    fn matches(&self, group: &ResourceGroup, flavor: &Flavor, pod_set: &PodSet) -> bool {
        let labels = |name| self.flavors.get(name).map(|flavor| &flavor.node_labels);
        let known = group
            .flavors
            .iter()
            .filter_map(|flavor| labels(&flavor.name));
        let keys: BTreeSet<&String> = known.flat_map(BTreeMap::keys).collect();
        let selected = (pod_set.node_selector.iter())
            .all(|(key, value)| !keys.contains(key) || flavor.node_labels.get(key) == Some(value));
        let tolerations = || pod_set.tolerations.iter().chain(&flavor.tolerations);
        selected
            && flavor.node_taints.iter().all(|taint| {
                taint.effect == TaintEffect::PreferNoSchedule
                    || tolerations().any(|toleration| toleration.key.as_ref() == Some(&taint.key))
            })
    }
}

/// Whether this way is good enough not to look at later flavors.
fn stops(queue: &ClusterQueue, way: &Way) -> bool {
    let rules = queue.fungibility;
    (way.mode == Mode::Now || rules.when_can_preempt == WhenCanPreempt::MayStopSearch)
        && (!way.borrows || rules.when_can_borrow == WhenCanBorrow::MayStopSearch)
}

/// Which way is taken, of those that were looked at.
fn pick(queue: &ClusterQueue, mut ways: Vec<Way>, tally: &mut Tally) -> Option<Way> {
    if ways.last().is_some_and(|way| stops(queue, way)) {
        return ways.pop();
    }
    let preempts = |way: &Way| way.mode != Mode::Now;
    let grade = |way: &Way| match queue.fungibility.preference {
        FlavorPreference::BorrowingOverPreemption => (preempts(way), way.borrows),
        FlavorPreference::PreemptionOverBorrowing => (way.borrows, preempts(way)),
    };
    let is = |p: bool, b: bool| {
        ways.iter()
            .any(|way| (preempts(way), way.borrows) == (p, b))
    };
    let undecided = is(false, true) && is(true, false);
    tally.by_grade += u64::from(ways.len() > 1);
    let best = ways.into_iter().min_by_key(grade)?;
    tally.preempt_beats_borrowing += u64::from(undecided && preempts(&best));
    tally.borrowing_beats_preempt += u64::from(undecided && !preempts(&best));
    Some(best)
}

fn has_a_right(queue: &ClusterQueue) -> bool {
    queue.preemption.within_cluster_queue != WithinClusterQueue::Never
        || queue.preemption.reclaim_within_cohort != ReclaimWithinCohort::Never
}

pub(crate) fn group_of<'a>(
    groups: &'a [ResourceGroup],
    resource: &ResourceName,
) -> Option<(usize, &'a ResourceGroup)> {
    groups
        .iter()
        .enumerate()
        .find(|(_, group)| group.covered_resources.contains(resource))
}
