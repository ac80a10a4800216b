//! What a workload would get, by definition: flavors slot by slot, and fewer pods if need be. In
//! what order workloads are looked at is `mod.rs`.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    AdmissionScope, Amount, BorrowWithinCohort, Borrowing, ClusterQueue, FairPreemption, Flavor,
    FlavorName, FlavorPreference, PodSet, PodSetAssignment, ReclaimWithinCohort, ResourceGroup,
    ResourceName, TaintEffect, UndeclaredResources, WhenCanBorrow, WhenCanPreempt,
    WithinClusterQueue, Workload,
};

use crate::oracle::quota::{Charge, Tree, View};
use crate::oracle::tally::Tally;
use crate::oracle::targets::{Holder, Preemptor, Target};

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
    /// Queues, and what is planned in them for some who may not borrow.
    pub(crate) kept: &'a [(usize, Charge)],
    pub(crate) pod: i128,
    pub(crate) fair: Option<&'a [FairPreemption]>,
    /// Whether others have left for whom this is about, or are to leave.
    pub(crate) is_promised: bool,
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
pub(crate) enum AssignmentResult {
    Now(Assignment),
    Later(Assignment, Vec<Target>),
    /// A part is kept for it: of its queue's own, or else of all that it would borrow, too.
    Keep(Charge, Option<Charge>),
    No,
}

impl Assignment {
    /// Now, or once those who leave have left.
    pub(crate) fn at_its_time(self) -> AssignmentResult {
        if self.fits_now {
            AssignmentResult::Now(self)
        } else {
            AssignmentResult::Later(self, Vec::new())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Now,
    Later,
    /// Only workloads of other queues have to go.
    Reclaim,
    Preempt,
}

/// One way to fill a slot.
struct Way {
    flavor: FlavorName,
    mode: Mode,
    /// How far up it borrows.
    distance: usize,
    /// Only own ones have to go for more than is the queue's own, and others would not have to.
    is_last_resort: bool,
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
    ) -> AssignmentResult {
        self.verdict_by(queue, workload, true, tally)
    }

    /// What becomes of a workload for which nobody may be made to go.
    pub(crate) fn verdict_without_rights(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> AssignmentResult {
        self.verdict_by(queue, workload, false, tally)
    }

    /// All of it, or a part for which there is room, or the least of it once there is.
    fn verdict_by(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        may_preempt: bool,
        tally: &mut Tally,
    ) -> AssignmentResult {
        let whole = self.whole(queue, workload, may_preempt, tally);
        if !matches!(whole, AssignmentResult::No) {
            return whole;
        }
        if let Some(part) = self.part(queue, workload, tally) {
            return AssignmentResult::Now(part);
        }
        let least = least_of(workload);
        let is_covered = |pod_set| self.by_group(queue, pod_set).is_some();
        if least.pod_sets == workload.pod_sets || !workload.pod_sets.iter().all(is_covered) {
            return AssignmentResult::No;
        }
        let verdict = self.whole(queue, &least, may_preempt, tally);
        let waits = matches!(verdict, AssignmentResult::Later(..));
        tally.least_waits += u64::from(waits);
        verdict
    }

    /// Whether something can be done for a workload, by what its queue may do.
    pub(crate) fn can_serve(&self, queue: &ClusterQueue, workload: &Workload) -> bool {
        let verdict = self.verdict(queue, workload, &mut Tally::default());
        !matches!(verdict, AssignmentResult::No)
    }

    /// What a workload would get, at once or later.
    pub(crate) fn would_get(&self, queue: &ClusterQueue, workload: &Workload) -> Option<Charge> {
        match self.verdict(queue, workload, &mut Tally::default()) {
            AssignmentResult::Now(way) | AssignmentResult::Later(way, _) => Some(way.charge),
            AssignmentResult::No | AssignmentResult::Keep(..) => None,
        }
    }

    /// What is left for the least of a workload that blocks its queue: of its queue's own; or, if all of that is too little,
    /// of what it would borrow, too, and then all of that. None if nothing is left, or it has no right to it.
    pub(crate) fn left_for(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
    ) -> Option<(Charge, Option<Charge>)> {
        let node = self.tree.queue(&queue.name).unwrap();
        for pod_set in &workload.pod_sets {
            self.by_group(queue, pod_set)?;
        }
        let least = least_of(workload);
        let nothing = self.tree.nothing();
        let is_own = |way: &Assignment| {
            let with = nothing.with(node, &way.charge);
            !self.tree.is_above(&with, node, way.charge.keys().copied())
        };
        let (own, mut others): (Vec<_>, Vec<_>) =
            self.ways(queue, &least).into_iter().partition(is_own);
        let left = |cell, wanted| self.left_of(node, cell, wanted);
        let Some(way) = lacks_least(left, own) else {
            let others_would = self.fair.is_some()
                || queue.preemption.borrow_within_cohort != BorrowWithinCohort::Never;
            if queue.preemption.reclaim_within_cohort == ReclaimWithinCohort::Never || !others_would
            {
                return None;
            }
            others.retain(|way| self.has_room(workload, &nothing, node, &way.charge));
            let left = |cell, wanted| self.left_to(workload, node, cell, wanted);
            let whole = lacks_least(left, others)?.charge;
            let part: Charge = (whole.iter())
                .map(|(cell, wanted)| (*cell, left(*cell, *wanted)))
                .filter(|(_, left)| *left > 0)
                .collect();
            return (!part.is_empty()).then_some((part, Some(whole)));
        };
        // Who may always take it back need not save it up.
        if queue.preemption.reclaim_within_cohort == ReclaimWithinCohort::Any
            && !self.only_borrowing_forbids_it(workload, node, &way.charge)
        {
            return None;
        }
        let left = |(cell, wanted)| {
            let left = self.left_of(node, cell, wanted);
            (left > 0).then_some((cell, left))
        };
        let part: Charge = way.charge.into_iter().filter_map(left).collect();
        (!part.is_empty()).then_some((part, None))
    }

    /// How much of so much is left of a queue's own.
    fn left_of(&self, node: usize, cell: usize, wanted: i128) -> i128 {
        most_of(wanted, |amount: i128| {
            let charge = Charge::from([(cell, amount)]);
            let with = self.planned.with(node, &charge);
            self.tree.fits(self.planned, node, cell, amount)
                && !self.tree.is_above(&with, node, [cell])
        })
    }

    /// How much of so much there is room for.
    fn left_to(&self, workload: &Workload, node: usize, cell: usize, wanted: i128) -> i128 {
        most_of(wanted, |amount: i128| {
            self.has_room(
                workload,
                self.planned,
                node,
                &Charge::from([(cell, amount)]),
            )
        })
    }

    /// What becomes of one that finds nothing slot by slot. It takes back what is its queue's own and the queue leaves; or
    /// what the queue would leave without those it may have go; or they have to go, and that is enough.
    fn by_other_ways(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> AssignmentResult {
        let ways = self.ways(queue, workload);
        // A single one has been tried.
        if !has_a_right(queue) || ways.len() < 2 {
            return AssignmentResult::No;
        }
        let nothing = Charge::new();
        let wanting = self.wanting(queue, workload, &nothing);
        let without_own = wanting.without_own(self.planned);
        let mut tries = vec![(&without_own, false)];
        if queue.preemption.reclaim_within_cohort != ReclaimWithinCohort::Never {
            tries = vec![
                (self.planned, true),
                (&without_own, true),
                (&without_own, false),
            ];
        }
        for (view, is_nominal) in tries {
            let ways = ways.clone();
            if let Some(found) = self.within(queue, workload, ways, view, is_nominal, tally) {
                let with_own = !std::ptr::eq(view, self.planned);
                tally.taken_back += u64::from(!with_own);
                tally.with_own += u64::from(with_own);
                return found;
            }
        }
        AssignmentResult::No
    }

    /// Of the ways that would be within what is its queue's own then, or else for which there would be room, the one that
    /// lacks least.
    fn within(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        mut ways: Vec<Assignment>,
        view: &View,
        is_nominal: bool,
        tally: &mut Tally,
    ) -> Option<AssignmentResult> {
        let node = self.tree.queue(&queue.name).unwrap();
        let is_accepted = |(cell, amount): (&usize, &i128)| {
            let charge = Charge::from([(*cell, *amount)]);
            let with = view.with(node, &charge);
            let has_enough = self.has_room(workload, view, node, &charge);
            let is_own = !self.tree.is_above(&with, node, [*cell]);
            // By shares only what it lacks has to be.
            (is_nominal && is_own) || ((!is_nominal || self.fair.is_some()) && has_enough)
        };
        ways.retain(|way| way.charge.iter().all(is_accepted));
        let left = |cell, wanted| {
            if is_nominal {
                self.left_of(node, cell, wanted)
            } else {
                self.left_to(workload, node, cell, wanted)
            }
        };
        let way = lacks_least(left, ways)?;
        let victims = self.victims(queue, workload, &way.charge, tally)?;
        Some(AssignmentResult::Later(way, victims))
    }

    /// Whether a queue may not take back what it lacks, as it borrows of something else that it has enough of.
    fn only_borrowing_forbids_it(&self, workload: &Workload, node: usize, charge: &Charge) -> bool {
        let alone = charge.iter().map(|(cell, amount)| {
            let charge = Charge::from([(*cell, *amount)]);
            let has_room = self.has_room(workload, self.planned, node, &charge);
            let with = self.planned.with(node, &charge);
            (has_room, self.tree.is_above(&with, node, [*cell]))
        });
        let alone: Vec<(bool, bool)> = alone.collect();
        self.fair.is_none()
            && alone.contains(&(true, true))
            && alone.contains(&(false, false))
            && !alone.contains(&(false, true))
    }

    /// Whether the least of a workload fits by any choice of flavors; the scene is one where nothing is used.
    pub(crate) fn ever_fits(&self, queue: &ClusterQueue, workload: &Workload) -> bool {
        let node = self.tree.queue(&queue.name).unwrap();
        let least = least_of(workload);
        // Less than all of it may be of nothing that isn't covered.
        let is_covered = |pod_set| self.by_group(queue, pod_set).is_some();
        workload.pod_sets.iter().all(is_covered)
            && (self.ways(queue, &least).iter())
                .any(|way| self.has_room(workload, self.now, node, &way.charge))
    }

    /// Every way to give each pod set flavors that suit it, whatever is used. Those with earlier flavors first.
    fn ways(&self, queue: &ClusterQueue, workload: &Workload) -> Vec<Assignment> {
        let mut ways = vec![Assignment {
            pod_sets: Vec::new(),
            charge: Charge::new(),
            borrows: false,
            fits_now: false,
        }];
        for pod_set in &workload.pod_sets {
            for way in &mut ways {
                way.pod_sets.push(PodSetAssignment {
                    name: pod_set.name.clone(),
                    count: pod_set.count,
                    flavors: BTreeMap::new(),
                    usage: BTreeMap::new(),
                    bound: 0,
                });
            }
            let Some(groups) = self.by_group(queue, pod_set) else {
                return Vec::new();
            };
            for (index, wanted) in groups {
                let group = &queue.resource_groups[index];
                let flavors = self.suiting(group, &wanted, pod_set);
                let with = |way: Assignment| {
                    let of = |flavor: &&FlavorName| {
                        let mut way = way.clone();
                        let charge = self.charge(flavor, &wanted, &way.charge);
                        way.charge.extend(charge);
                        let last = way.pod_sets.last_mut().unwrap();
                        for (resource, amount) in &wanted {
                            last.flavors.insert(resource.clone(), (*flavor).clone());
                            last.usage.insert(resource.clone(), Amount::new(*amount));
                        }
                        way
                    };
                    flavors.iter().map(of).collect::<Vec<_>>()
                };
                ways = ways.into_iter().flat_map(with).collect();
            }
        }
        ways
    }

    /// Of all ways to give it flavors the first for which there is room now, or else will be.
    fn in_any_way(&self, queue: &ClusterQueue, workload: &Workload) -> Option<Assignment> {
        let node = self.tree.queue(&queue.name).unwrap();
        let mut ways = self.ways(queue, workload);
        ways.retain(|way| self.has_room(workload, self.planned, node, &way.charge));
        for way in &mut ways {
            way.fits_now = self.has_room(workload, self.now, node, &way.charge)
                && !self.takes_what_is_kept(node, &way.charge);
            way.borrows = self.tree.borrows_from(self.planned, node, &way.charge) > 0;
        }
        let now = ways.iter().position(|way| way.fits_now);
        (!ways.is_empty()).then(|| ways.swap_remove(now.unwrap_or(0)))
    }

    fn whole(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        may_preempt: bool,
        tally: &mut Tally,
    ) -> AssignmentResult {
        let found = match self.slot_by_slot(queue, workload, may_preempt, tally) {
            AssignmentResult::No if may_preempt => self.by_other_ways(queue, workload, tally),
            found => found,
        };
        match found {
            AssignmentResult::Later(way, victims) if !victims.is_empty() && !self.is_promised => {
                self.without_needless(queue, workload, (way, victims), tally)
            }
            found => found,
        }
    }

    /// Nobody goes who needn't for the flavors that it gets once all have gone.
    fn without_needless(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        (mut way, mut victims): (Assignment, Vec<Target>),
        tally: &mut Tally,
    ) -> AssignmentResult {
        let node = self.tree.queue(&queue.name).unwrap();
        let without = |view: &View, gone: &[Target]| {
            let gone = |holder: &&Holder| gone.iter().any(|victim| victim.id == holder.id);
            let gone = self.holders.iter().filter(gone);
            gone.fold(view.clone(), |view, gone| {
                view.without(gone.queue, &gone.charge)
            })
        };
        let then = |now: &View, planned: &View| {
            let scene = Scene {
                now,
                planned,
                is_promised: true,
                ..*self
            };
            scene.slot_by_slot(queue, workload, false, &mut Tally::default())
        };
        loop {
            let planned = without(self.planned, &victims);
            let (AssignmentResult::Now(anew) | AssignmentResult::Later(anew, _)) =
                then(&without(self.now, &victims), &planned)
            else {
                break;
            };
            if anew.charge == way.charge {
                break;
            }
            way = anew;
            let before = victims.len();
            for index in (0..before).rev() {
                let mut fewer = victims.clone();
                fewer.remove(index);
                let left = without(self.planned, &fewer);
                if self.has_room(workload, &left, node, &way.charge) {
                    victims = fewer;
                }
            }
            tally.needless += u64::from(victims.len() < before);
            if victims.is_empty() {
                return match then(self.now, self.planned) {
                    AssignmentResult::No => AssignmentResult::Later(way, victims),
                    found => found,
                };
            }
        }
        // What it would get at once then, it may have anyway.
        if let AssignmentResult::Now(found) = then(self.now, &without(self.planned, &victims))
            && self.has_room(workload, self.planned, node, &found.charge)
            && !self.takes_what_is_kept(node, &found.charge)
        {
            tally.needless += 1;
            return AssignmentResult::Now(found);
        }
        AssignmentResult::Later(way, victims)
    }

    fn slot_by_slot(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        may_preempt: bool,
        tally: &mut Tally,
    ) -> AssignmentResult {
        let may_preempt = may_preempt && has_a_right(queue);
        let Some(assignment) = self.assign(queue, workload, may_preempt, tally) else {
            // With flavors for which nobody has to go, perhaps.
            if may_preempt {
                return self.slot_by_slot(queue, workload, false, tally);
            }
            let found = self.in_any_way(queue, workload).map(|found| {
                let own = self.own_for_promised(queue, workload, &found);
                own.unwrap_or(found)
            });
            return match found {
                Some(found) if found.fits_now => {
                    tally.any_way += 1;
                    AssignmentResult::Now(found)
                }
                Some(found) => AssignmentResult::Later(found, Vec::new()),
                None => AssignmentResult::No,
            };
        };
        let node = self.tree.queue(&queue.name).unwrap();
        let has_room = self.has_room(workload, self.planned, node, &assignment.charge);
        if has_room && let Some(own) = self.own_for_promised(queue, workload, &assignment) {
            return own.at_its_time();
        }
        if assignment.fits_now {
            return AssignmentResult::Now(assignment);
        }
        if self.has_room(workload, self.planned, node, &assignment.charge) {
            return AssignmentResult::Later(assignment, Vec::new());
        }
        if !may_preempt {
            return AssignmentResult::No;
        }
        // With flavors for which nobody has to go, if they are as good.
        let rules = queue.fungibility;
        if self.is_promised || rules.when_can_preempt == WhenCanPreempt::TryNextFlavor {
            let without = self.slot_by_slot(queue, workload, false, tally);
            if let AssignmentResult::Now(way) | AssignmentResult::Later(way, _) = &without
                && (self.is_promised
                    || rules.preference == FlavorPreference::BorrowingOverPreemption
                    || !way.borrows)
            {
                return without;
            }
        }
        match self.victims(queue, workload, &assignment.charge, tally) {
            Some(victims) => AssignmentResult::Later(assignment, victims),
            None => self.slot_by_slot(queue, workload, false, tally),
        }
    }

    /// What it gets of what is its queue's own, if it would borrow and others have left for it.
    fn own_for_promised(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        found: &Assignment,
    ) -> Option<Assignment> {
        let node = self.tree.queue(&queue.name).unwrap();
        let slots: usize = (workload.pod_sets.iter())
            .filter_map(|pod_set| Some(self.by_group(queue, pod_set)?.len()))
            .sum();
        let ways = self.ways(queue, workload);
        if !self.is_promised
            || queue.preemption.reclaim_within_cohort == ReclaimWithinCohort::Never
            || slots < 2
            || ways.len() < 2
            || self.tree.borrows_from(self.planned, node, &found.charge) == 0
        {
            return None;
        }
        match self.slot_by_slot(queue, &thrifty(workload), false, &mut Tally::default()) {
            AssignmentResult::Now(own) | AssignmentResult::Later(own, _) => Some(own),
            AssignmentResult::No | AssignmentResult::Keep(..) => None,
        }
    }

    /// Who has to go to make room for this, and whether that is as it should be.
    fn victims(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        charge: &Charge,
        tally: &mut Tally,
    ) -> Option<Vec<Target>> {
        let wanting = self.wanting(queue, workload, charge);
        let found = wanting.victims(self.subsets_of_max, tally);
        let fits = self.tree.all_fit(self.planned, wanting.queue, charge);
        tally.for_nominal += u64::from(fits && found.is_some());
        found
    }

    fn wanting<'a>(
        &'a self,
        queue: &ClusterQueue,
        workload: &'a Workload,
        charge: &'a Charge,
    ) -> Preemptor<'a> {
        Preemptor {
            tree: self.tree,
            planned: self.planned,
            unclaimed: self.unclaimed,
            holders: self.holders,
            queue: self.tree.queue(&queue.name).unwrap(),
            rules: queue.preemption,
            local: (queue.admission_scope == AdmissionScope::ByUsage).then_some(&workload.queue),
            priority: workload.priority,
            created: workload.created,
            charge,
            may_borrow: may_borrow(workload),
            fair: self.fair,
        }
    }

    /// The least reduction that fits at once.
    fn part(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> Option<Assignment> {
        if least_of(workload).pod_sets == workload.pod_sets || !self.covers(queue, workload) {
            return None;
        }
        least_reduction(workload, 1, |reduced| {
            match self.whole(queue, reduced, false, tally) {
                AssignmentResult::Now(assignment) => Some(assignment),
                _ => None,
            }
        })
    }

    /// What becomes of the least of one for which others had to go.
    pub(crate) fn verdict_for_least(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> AssignmentResult {
        if !self.covers(queue, workload) {
            return AssignmentResult::No;
        }
        self.whole(queue, &least_of(workload), true, tally)
    }

    /// As much of it as is its queue's own.
    pub(crate) fn verdict_within_own(
        &self,
        queue: &ClusterQueue,
        workload: &Workload,
        tally: &mut Tally,
    ) -> AssignmentResult {
        if !self.covers(queue, workload) {
            return AssignmentResult::No;
        }
        let own = least_reduction(&thrifty(workload), 0, |reduced| {
            match self.whole(queue, reduced, false, tally) {
                AssignmentResult::No => None,
                verdict => Some(verdict),
            }
        });
        own.unwrap_or(AssignmentResult::No)
    }

    /// Of what the queue has no quota for, even nothing is too much if all of it isn't nothing.
    fn covers(&self, queue: &ClusterQueue, workload: &Workload) -> bool {
        let covered = |pod_set| self.by_group(queue, pod_set).is_some();
        workload.pod_sets.iter().all(covered)
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
                for flavor in self.suiting(group, &wanted, pod_set) {
                    let charge = self.charge(flavor, &wanted, &found.charge);
                    ways.extend(self.way(queue, workload, flavor, charge, may_preempt, tally));
                    if ways.last().is_some_and(|way| stops(queue, way)) {
                        let last = group.flavors.last().map(|last| &last.name);
                        tally.stopped_early += u64::from(last != Some(flavor));
                        break;
                    }
                }
                let way = pick(queue, ways, tally)?;
                found.fits_now &= way.mode == Mode::Now;
                found.borrows |= way.distance > 0;
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

    /// What a pod set asks for, by resource group; none if there is no group for something, or no flavor for its pods. Where
    /// it has no pods it needs no flavor.
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
                None if Self::is_ignored(queue, &resource) => {}
                None => return None,
            }
        }
        let suits = |(index, wanted): (&usize, &BTreeMap<ResourceName, i128>)| {
            let group = &queue.resource_groups[*index];
            !self.suiting(group, wanted, pod_set).is_empty()
        };
        if pod_set.count > 0 {
            return wanted.iter().all(suits).then_some(wanted);
        }
        wanted.retain(|index, wanted| suits((index, wanted)));
        Some(wanted)
    }

    /// The flavors of a group that suit a pod set.
    fn suiting<'a>(
        &self,
        group: &'a ResourceGroup,
        wanted: &BTreeMap<ResourceName, i128>,
        pod_set: &PodSet,
    ) -> Vec<&'a FlavorName> {
        let flavors = group.flavors.iter().filter(|flavor| {
            wanted.keys().all(|r| flavor.resources.contains_key(r))
                && self.matches(group, &self.flavors[&flavor.name], pod_set)
        });
        flavors.map(|flavor| &flavor.name).collect()
    }

    fn is_ignored(queue: &ClusterQueue, resource: &ResourceName) -> bool {
        match queue.undeclared_resources.as_ref() {
            None | Some(UndeclaredResources::Block) => false,
            Some(UndeclaredResources::Ignore) => true,
            Some(UndeclaredResources::IgnoreOnly(ignored)) => ignored.contains(resource),
        }
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
        let planned = self.has_room(workload, self.planned, node, &charge);
        let now = self.has_room(workload, self.now, node, &charge);
        let mut left = self.planned.clone();
        let takes_what_is_kept = self.takes_what_is_kept(node, &charge);
        tally.nominal_kept += u64::from(planned && now && takes_what_is_kept);
        let mut only_own = false;
        let mode = if planned && now && !takes_what_is_kept {
            Mode::Now
        } else if planned {
            Mode::Later
        } else if may_preempt {
            let mut mode = Mode::Reclaim;
            only_own = true;
            for victim in self.victims(queue, workload, &charge, tally)? {
                let holder = self.holders.iter().find(|holder| holder.id == victim.id)?;
                left.take(holder.queue, &holder.charge);
                if holder.queue == node {
                    mode = Mode::Preempt;
                } else {
                    only_own = false;
                }
            }
            mode
        } else {
            return None;
        };
        let distance = self.tree.borrows_from(&left, node, &charge);
        assert!(may_borrow(workload) || distance == 0, "it would borrow");
        let cells = charge.keys().copied();
        let is_above = (self.tree).is_above(&self.tree.nothing().with(node, &charge), node, cells);
        let rules = queue.preemption;
        let others_would = rules.reclaim_within_cohort != ReclaimWithinCohort::Never
            && (self.fair.is_some() || rules.borrow_within_cohort != BorrowWithinCohort::Never);
        Some(Way {
            flavor: flavor.clone(),
            mode,
            distance,
            is_last_resort: only_own && is_above && !others_would,
            charge,
        })
    }

    /// Whether a workload may have this: it fits, and its queue uses no more than is its own if it may not
    /// borrow.
    fn has_room(&self, workload: &Workload, view: &View, node: usize, charge: &Charge) -> bool {
        self.tree.all_fit(view, node, charge)
            && (may_borrow(workload) || self.tree.borrows_from(view, node, charge) == 0)
    }

    /// Whether one who may not borrow, and for whom room is kept in the queue, would have to borrow then.
    fn takes_what_is_kept(&self, node: usize, charge: &Charge) -> bool {
        let with = self.planned.with(node, charge);
        let of_queue = self.kept.iter().filter(|(queue, _)| *queue == node);
        let mut cells = of_queue.flat_map(|(_, kept)| kept.keys());
        cells.any(|cell| charge.contains_key(cell) && self.tree.is_above(&with, node, [*cell]))
    }

    /// The generator makes only taints without value and selectors of equality.
    fn matches(&self, group: &ResourceGroup, flavor: &Flavor, pod_set: &PodSet) -> bool {
        let known = group.flavors.iter();
        let known: Vec<&Flavor> = known.filter_map(|f| self.flavors.get(&f.name)).collect();
        let keys = |flavors: &[&Flavor]| -> BTreeSet<String> {
            let labels = flavors.iter().flat_map(|flavor| flavor.node_labels.keys());
            labels.cloned().collect()
        };
        let selects = |flavor: &Flavor, keys: BTreeSet<String>| {
            let mut selected = pod_set.node_selector.iter();
            selected.all(|(key, value)| {
                !keys.contains(key) || flavor.node_labels.get(key) == Some(value)
            })
        };
        // Where none has all that is selected, what a flavor doesn't declare doesn't count.
        let some_has_all = known.iter().any(|flavor| selects(flavor, keys(&known)));
        let considered = if some_has_all {
            keys(&known)
        } else {
            keys(&[flavor])
        };
        let tolerations = || pod_set.tolerations.iter().chain(&flavor.tolerations);
        selects(flavor, considered)
            && flavor.node_taints.iter().all(|taint| {
                taint.effect == TaintEffect::PreferNoSchedule
                    || tolerations().any(|toleration| toleration.key.as_ref() == Some(&taint.key))
            })
    }
}

/// A workload that may not borrow.
fn thrifty(workload: &Workload) -> Workload {
    let mut thrifty = workload.clone();
    for pod_set in &mut thrifty.pod_sets {
        pod_set.borrowing = Borrowing::Forbidden;
    }
    thrifty
}

/// A workload with no more pods than have to be.
fn least_of(workload: &Workload) -> Workload {
    let mut least = workload.clone();
    for pod_set in &mut least.pod_sets {
        let count = pod_set.min_count.unwrap_or(pod_set.count);
        pod_set.count = pod_set.count.min(count);
    }
    least
}

/// What is found for the most pods, if at least so many are left out, by bisection.
fn least_reduction<T>(
    workload: &Workload,
    from: u64,
    mut find: impl FnMut(&Workload) -> Option<T>,
) -> Option<T> {
    let spare = |p: &PodSet| u64::from(p.count.saturating_sub(p.min_count.unwrap_or(p.count)));
    let most: u64 = workload.pod_sets.iter().map(spare).sum();
    let mut try_less = |less: u64| {
        let mut reduced = workload.clone();
        for pod_set in &mut reduced.pod_sets {
            let gone = u128::from(spare(pod_set)) * u128::from(less) / u128::from(most.max(1));
            pod_set.count -= u32::try_from(gone).unwrap();
        }
        find(&reduced)
    };
    let mut found = try_less(most)?;
    let (mut lo, mut hi) = (from, most);
    while lo < hi {
        let mid = lo.midpoint(hi);
        match try_less(mid) {
            Some(better) => (found, hi) = (better, mid),
            None => lo = mid + 1,
        }
    }
    Some(found)
}

fn may_borrow(workload: &Workload) -> bool {
    workload
        .pod_sets
        .iter()
        .all(|set| set.borrowing == Borrowing::Allowed)
}

/// Whether this way is good enough not to look at later flavors.
fn stops(queue: &ClusterQueue, way: &Way) -> bool {
    let rules = queue.fungibility;
    !way.is_last_resort
        && (way.mode == Mode::Now || rules.when_can_preempt == WhenCanPreempt::MayStopSearch)
        && (way.distance == 0 || rules.when_can_borrow == WhenCanBorrow::MayStopSearch)
}

/// Which way is taken, of those that were looked at.
fn pick(queue: &ClusterQueue, mut ways: Vec<Way>, tally: &mut Tally) -> Option<Way> {
    if ways.last().is_some_and(|way| stops(queue, way)) {
        return ways.pop();
    }
    let preempts = |way: &Way| way.mode != Mode::Now;
    let grade = |way: &Way| match queue.fungibility.preference {
        FlavorPreference::BorrowingOverPreemption => (way.mode as usize, way.distance),
        FlavorPreference::PreemptionOverBorrowing => (way.distance, way.mode as usize),
    };
    let is = |p: bool, b: bool| {
        ways.iter()
            .any(|way| (preempts(way), way.distance > 0) == (p, b))
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

/// The largest of all amounts up to this for which there is room.
fn most_of(wanted: i128, has_room: impl Fn(i128) -> bool) -> i128 {
    let (mut most, mut too_much) = (0, wanted + 1);
    while most + 1 < too_much {
        let middle = most + (too_much - most) / 2;
        if has_room(middle) {
            most = middle;
        } else {
            too_much = middle;
        }
    }
    most
}

/// The first of the ways that lack least, if so much of each amount is `left`: of the largest part first.
fn lacks_least(left: impl Fn(usize, i128) -> i128, ways: Vec<Assignment>) -> Option<Assignment> {
    let lacks = |way: &Assignment| {
        let part = |(cell, wanted): (&usize, &i128)| {
            (wanted - left(*cell, *wanted)) * 1_000_000_000 / wanted
        };
        let mut parts: Vec<i128> = way.charge.iter().map(part).filter(|p| *p > 0).collect();
        parts.sort_unstable_by(|one, other| other.cmp(one));
        parts
    };
    ways.into_iter().min_by_key(lacks)
}
