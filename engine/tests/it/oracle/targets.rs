//! Preemption targets, by definition: candidates, greedy choice and fill-back for one workload that does not
//! fit; and, where there are few candidates, every subset of them.

use std::cmp::Reverse;

use sluice_engine::{
    BorrowWithinCohort, FairPreemption, LocalQueueKey, Preemption, PreemptionRight,
    ReclaimWithinCohort, Time, WithinClusterQueue, WorkloadId,
};

use crate::oracle::quota::{Charge, Tree, View};
use crate::oracle::tally::Tally;

/// A workload that may be evicted, now or once its admission is confirmed, as far as its state and its
/// tree go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) id: WorkloadId,
    pub(crate) queue: usize,
    pub(crate) local: LocalQueueKey,
    pub(crate) charge: Charge,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) since: Time,
    pub(crate) is_confirmed: bool,
    /// What it could have done, waiting in its queue.
    pub(crate) rules: Preemption,
    pub(crate) by_usage: bool,
}

/// Someone who wants room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemptor<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) planned: &'a View,
    /// What is planned, without claims: by that it is judged what others use.
    pub(crate) unclaimed: &'a View,
    pub(crate) holders: &'a [Holder],
    pub(crate) queue: usize,
    pub(crate) rules: Preemption,
    /// Of its own queue, only those of this LocalQueue may have to go; none means any.
    pub(crate) local: Option<&'a LocalQueueKey>,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) charge: &'a Charge,
    /// Whether its queue may use more than is its own then.
    pub(crate) may_borrow: bool,
    pub(crate) fair: Option<&'a [FairPreemption]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) id: WorkloadId,
    pub(crate) right: PreemptionRight,
}

/// A candidate with the right by which it would go.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate<'a> {
    holder: &'a Holder,
    right: PreemptionRight,
    /// The children of the lowest common ancestor, on the side of the one who wants room and on
    /// the candidate's. None for the own queue.
    sides: Option<(usize, usize)>,
}

use PreemptionRight::{
    InClusterQueue, InCohortFairSharing, InCohortReclaimWhileBorrowing, InCohortReclamation,
};

impl<'a> Preemptor<'a> {
    /// Who has to go; none if there is no way. Of several ways the first that costs the own queue least.
    pub(crate) fn victims(&self, candidates_max: usize, tally: &mut Tally) -> Option<Vec<Target>> {
        let found = self.enough_victims(tally);
        let all = found
            .clone()
            .map(|all| all.into_iter().map(Candidate::victim).collect::<Vec<_>>());
        self.check(all.as_deref(), candidates_max);
        let found = self.without_own_beside_whom_it_fits(&found?, tally);
        Some(found.into_iter().map(Candidate::victim).collect())
    }

    /// Of its own queue nobody has to go who would be back at once: beside whom there is room once the others have gone.
    /// All of them have to go if somebody goes by shares: they count there.
    fn without_own_beside_whom_it_fits(
        &self,
        found: &[Candidate<'a>],
        tally: &mut Tally,
    ) -> Vec<Candidate<'a>> {
        let mut spared = found.to_vec();
        if found
            .iter()
            .any(|candidate| candidate.right == InCohortFairSharing)
        {
            return spared;
        }
        for own in found
            .iter()
            .rev()
            .filter(|candidate| candidate.sides.is_none())
        {
            let mut fewer = spared.clone();
            fewer.retain(|candidate| !candidate.is(own));
            if self.has_room(&self.left(&fewer), self.charge) {
                spared = fewer;
            }
        }
        tally.own_spared += u64::from(spared.len() < found.len());
        spared
    }

    fn enough_victims(&self, tally: &mut Tally) -> Option<Vec<Candidate<'a>>> {
        let mut ways = Vec::new();
        if self.rules.reclaim_within_cohort == ReclaimWithinCohort::Never {
            ways.push(self.classic_of(&self.own(), None, tally));
        } else if let Some(strategies) = self.fair {
            ways.push(self.fair(strategies, &[], tally));
            ways.push(self.classic_of(&self.own(), None, tally));
            ways.push(self.fair(strategies, &self.own(), tally));
        } else if !self.may_borrow {
            ways.push(self.classic(Some(self.queue), tally));
        } else {
            ways.push(self.classic(None, tally));
            let mut path = self.tree.path(self.queue);
            path.pop();
            let mut without_own = self.planned.clone();
            for own in self.own() {
                without_own.take(self.queue, &own.holder.charge);
            }
            for s in path {
                if !self.takes_back(self.planned, s) && self.stays_within(&without_own, s) {
                    ways.push(self.classic(Some(s), tally));
                }
            }
        }
        let cost = |found: &Vec<Candidate<'a>>| {
            let own = found.iter().filter(|c| c.sides.is_none()).cloned();
            let mut own: Vec<_> = sorted(own).into_iter().map(|c| c.key()).collect();
            own.reverse();
            own
        };
        ways.into_iter().flatten().min_by_key(cost)
    }

    fn contested(&self) -> Vec<usize> {
        let alone = |cell, amount| Charge::from([(cell, amount)]);
        let cells = self.charge.iter().filter(|(_, amount)| **amount > 0);
        cells
            .filter(|(cell, amount)| !self.has_room(self.planned, &alone(**cell, **amount)))
            .map(|(cell, _)| *cell)
            .collect()
    }

    /// Whether there is room for so much: it fits, and is the queue's own if nothing may be borrowed.
    fn has_room(&self, view: &View, charge: &Charge) -> bool {
        let with = view.with(self.queue, charge);
        let borrows = self
            .tree
            .is_above(&with, self.queue, charge.keys().copied());
        self.tree.all_fit(view, self.queue, charge) && (self.may_borrow || !borrows)
    }

    /// The contested cells that a workload holds something of.
    fn contested_by(&self, holder: &Holder) -> Vec<usize> {
        let holds = |cell: &usize| holder.charge.get(cell).is_some_and(|amount| *amount > 0);
        self.contested().into_iter().filter(holds).collect()
    }

    /// Whether one is of its own queue, and may have to go.
    fn may_have_go(&self, holder: &Holder) -> bool {
        let stands = (self.priority, self.created);
        holder.is_confirmed
            && holder.queue == self.queue
            && self.local.is_none_or(|local| *local == holder.local)
            && comes_before(self.rules, stands, holder)
    }

    /// What is left without all of its own queue that may have to go.
    pub(crate) fn without_own(&self, view: &View) -> View {
        let own = self.holders.iter().filter(|h| self.may_have_go(h));
        own.fold(view.clone(), |view, own| {
            view.without(own.queue, &own.charge)
        })
    }

    fn own(&self) -> Vec<Candidate<'a>> {
        let own = self.holders.iter().filter(|h| self.may_have_go(h));
        let own = own.filter(|holder| !self.contested_by(holder).is_empty());
        sorted(own.map(|holder| Candidate {
            holder,
            right: InClusterQueue,
            sides: None,
        }))
    }

    /// Those of other queues, by the rights that there are if `within` stays within its own.
    fn foreign(&self, within: Option<usize>) -> Vec<Candidate<'a>> {
        let others = self.holders.iter().filter(|h| h.is_confirmed);
        let others = others.filter(|h| h.queue != self.queue);
        let others = others.filter(|holder| !self.contested_by(holder).is_empty());
        sorted(others.filter_map(|holder| {
            let (s, t) = self.sides(holder.queue);
            let right = match self.fair {
                // Which of the two rights is found out when its turn comes.
                Some(_) => self.reclaims(holder).then_some(InCohortFairSharing),
                None => self.classic_right(holder, s, within),
            };
            Some(Candidate {
                holder,
                right: right?,
                sides: Some((s, t)),
            })
        }))
    }

    /// Those of other queues that may have to go if those of the own queue do.
    fn any_foreign(&self) -> Vec<Candidate<'a>> {
        let mut all = self.foreign(None);
        let mut path = self.tree.path(self.queue);
        path.pop();
        for s in path {
            for candidate in self.foreign(Some(s)) {
                if !all.iter().any(|known| known.is(&candidate)) {
                    all.push(candidate);
                }
            }
        }
        all
    }

    fn reclaims(&self, holder: &Holder) -> bool {
        match self.rules.reclaim_within_cohort {
            ReclaimWithinCohort::Never => false,
            ReclaimWithinCohort::LowerPriority => holder.priority < self.priority,
            ReclaimWithinCohort::Any => true,
        }
    }

    fn classic_right(
        &self,
        holder: &Holder,
        s: usize,
        within: Option<usize>,
    ) -> Option<PreemptionRight> {
        let path = self.tree.path(self.queue);
        let up_to = path.iter().position(|node| *node == s).unwrap();
        let is_up_to = |node| path[..=up_to].contains(&node);
        let takes_back = within.is_some_and(is_up_to) || self.takes_back(self.planned, s);
        let borrows_in_spite_of_it = match self.rules.borrow_within_cohort {
            BorrowWithinCohort::Never => false,
            BorrowWithinCohort::LowerPriority {
                max_priority_threshold: threshold,
            } => {
                holder.priority < self.priority
                    && threshold.is_none_or(|threshold| holder.priority <= threshold)
            }
        };
        match self.reclaims(holder) {
            true if takes_back => Some(InCohortReclamation),
            true if borrows_in_spite_of_it => Some(InCohortReclaimWhileBorrowing),
            _ => None,
        }
    }

    /// The children of the lowest common ancestor with another queue of the tree.
    fn sides(&self, other: usize) -> (usize, usize) {
        let (mine, theirs) = (self.tree.path(self.queue), self.tree.path(other));
        let ancestor = *mine.iter().find(|node| theirs.contains(node)).unwrap();
        let below = |path: &[usize]| {
            let at = path.iter().position(|node| *node == ancestor).unwrap();
            path[at - 1]
        };
        (below(&mine), below(&theirs))
    }

    /// Whether any node on the way up to `s` stays within its own, with the one who wants room.
    fn takes_back(&self, view: &View, s: usize) -> bool {
        let path = self.tree.path(self.queue);
        let up_to = path.iter().position(|node| *node == s).unwrap();
        path[..=up_to]
            .iter()
            .any(|node| self.stays_within(view, *node))
    }

    /// The same, whatever any of them uses of what is not contested.
    fn takes_back_contested(&self, view: &View, s: usize) -> bool {
        let with = view.with(self.queue, self.charge);
        let mut path = self.tree.path(self.queue);
        path.truncate(path.iter().position(|node| *node == s).unwrap() + 1);
        let contested = self.contested();
        let is_above = |node: &usize| self.tree.is_above(&with, *node, contested.clone());
        !path.iter().all(is_above)
    }

    /// Whether a node on the way up stays within its own, with the one who wants room.
    fn stays_within(&self, view: &View, s: usize) -> bool {
        let with = view.with(self.queue, self.charge);
        let charged = self.charge.iter().filter(|(_, amount)| **amount > 0);
        !self.tree.is_above(&with, s, charged.map(|(cell, _)| *cell))
    }

    /// Whether a candidate holds something contested of which its queue and all above it, up to
    /// where the one who wants room comes in, use more than is theirs.
    fn borrows_there(&self, view: &View, candidate: &Candidate<'a>) -> bool {
        let Some((_, t)) = candidate.sides else {
            return true;
        };
        let path = self.tree.path(candidate.holder.queue);
        let up_to = path.iter().position(|node| *node == t).unwrap();
        let cells = self.contested_by(candidate.holder);
        cells.into_iter().any(|cell| {
            let mut nodes = path.iter().take(up_to + 1);
            nodes.all(|node| self.tree.is_above(view, *node, [cell]))
        })
    }

    fn left(&self, gone: &[Candidate<'a>]) -> View {
        without(self.planned, gone)
    }

    fn used(&self, gone: &[Candidate<'a>]) -> View {
        without(self.unclaimed, gone)
    }

    fn accepted(&self, gone: &[Candidate<'a>]) -> bool {
        let left = self.left(gone);
        let reclaimed = |gone: &Candidate<'a>| match gone.sides {
            Some((s, _)) if self.fair.is_none() && gone.right == InCohortReclamation => {
                self.takes_back(&left, s)
            }
            _ => true,
        };
        self.has_room(&left, self.charge) && gone.iter().all(reclaimed)
    }

    fn classic(&self, within: Option<usize>, tally: &mut Tally) -> Option<Vec<Candidate<'a>>> {
        let mut all = [self.foreign(within), self.own()].concat();
        all.sort_by_key(Candidate::turn);
        loop {
            let found = self.classic_of(&all, within, tally)?;
            let Some(spared) = self.would_return(&found) else {
                return Some(found);
            };
            all.retain(|candidate| !candidate.is(spared));
        }
    }

    /// Of those who would go so that the one who wants room can borrow, the most deserving that would be
    /// back first: it would keep to what is its queue's.
    fn would_return<'b>(&self, found: &'b [Candidate<'a>]) -> Option<&'b Candidate<'a>> {
        found.iter().rfind(|one| {
            let mut gone: Vec<_> = found.iter().filter(|c| !c.is(one)).cloned().collect();
            gone.extend(self.behind(one, found));
            matches!(
                one.right,
                InCohortReclaimWhileBorrowing | InCohortFairSharing
            ) && !self.borrows_there(&self.used(&gone), one)
        })
    }

    /// Those of its queue, besides those found, that one could have go if it waited.
    fn behind(&self, one: &Candidate<'a>, found: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
        let of = one.holder;
        let stands = (of.priority, of.created);
        let behind = self.holders.iter().filter(|h| {
            h.queue == of.queue
                && (!of.by_usage || h.local == of.local)
                && comes_before(of.rules, stands, h)
                && !self.contested_by(h).is_empty()
                && !found.iter().any(|gone| gone.holder.id == h.id)
        });
        behind
            .map(|holder| Candidate {
                holder,
                ..one.clone()
            })
            .collect()
    }

    fn classic_of(
        &self,
        candidates: &[Candidate<'a>],
        within: Option<usize>,
        tally: &mut Tally,
    ) -> Option<Vec<Candidate<'a>>> {
        let taken = self.first_accepted(candidates, within)?;
        let kept = Self::give_back(taken.clone(), |rest| self.accepted(rest));
        tally.spared += u64::from(kept.len() < taken.len());
        Some(kept)
    }

    /// Takes one after the other until that is enough; or else those first that were passed.
    fn first_accepted(
        &self,
        candidates: &[Candidate<'a>],
        within: Option<usize>,
    ) -> Option<Vec<Candidate<'a>>> {
        let (is_enough, taken, passed) = self.taken_in_order(candidates, within);
        if is_enough {
            return Some(taken);
        }
        let again = [passed, taken].concat();
        let (is_enough, mut taken, _) = self.taken_in_order(&again, within);
        taken.sort_by_key(|candidate| (candidate.turn(), candidate.key()));
        is_enough.then_some(taken)
    }

    /// Whether they are enough; those taken, and those passed.
    fn taken_in_order(
        &self,
        candidates: &[Candidate<'a>],
        within: Option<usize>,
    ) -> (bool, Vec<Candidate<'a>>, Vec<Candidate<'a>>) {
        let (mut taken, mut passed) = (Vec::new(), Vec::new());
        for candidate in candidates {
            if !self.borrows_there(&self.used(&taken), candidate) {
                passed.push(candidate.clone());
                continue;
            }
            taken.push(candidate.clone());
            let left = self.left(&taken);
            if self.has_room(&left, self.charge)
                && within.is_none_or(|s| self.stays_within(&left, s))
            {
                return (true, taken, passed);
            }
        }
        (false, taken, passed)
    }

    /// By the first strategy by which there is a way, with these of the own queue or none.
    fn fair(
        &self,
        strategies: &[FairPreemption],
        own: &[Candidate<'a>],
        tally: &mut Tally,
    ) -> Option<Vec<Candidate<'a>>> {
        for (number, strategy) in strategies.iter().enumerate() {
            if let Some(found) = self.fair_by(*strategy, own, tally) {
                tally.second_strategy += u64::from(number == 1);
                return Some(found);
            }
        }
        None
    }

    fn fair_by(
        &self,
        strategy: FairPreemption,
        own: &[Candidate<'a>],
        tally: &mut Tally,
    ) -> Option<Vec<Candidate<'a>>> {
        let mut foreign = self.foreign(None);
        while !foreign.is_empty() {
            let taken = self.first_fair(&[foreign.as_slice(), own].concat(), strategy)?;
            let kept = Self::give_back(taken.clone(), |rest| {
                self.accepted(rest) && self.fair_rights(rest, strategy).is_some()
            });
            let kept = self.fair_rights(&kept, strategy).unwrap();
            let Some(spared) = self.would_return(&kept) else {
                tally.spared += u64::from(kept.len() < taken.len());
                return Some(kept);
            };
            foreign.retain(|candidate| !candidate.is(spared));
        }
        None
    }

    fn first_fair(
        &self,
        candidates: &[Candidate<'a>],
        strategy: FairPreemption,
    ) -> Option<Vec<Candidate<'a>>> {
        let mut rest = sorted(candidates.iter().cloned());
        let mut passed = Vec::new();
        let mut taken = Vec::new();
        while let Some(queue) = self.largest_share(&taken, &rest) {
            let next = rest.iter().position(|c| c.holder.queue == queue).unwrap();
            let candidate = rest.remove(next);
            let Some(right) = self.fair_right(&taken, &candidate, strategy) else {
                passed.push(candidate);
                continue;
            };
            taken.push(Candidate { right, ..candidate });
            if self.accepted(&taken) {
                return Some(taken);
            }
            // Whatever was unfair before may be fair now.
            rest = sorted(rest.into_iter().chain(std::mem::take(&mut passed)));
        }
        None
    }

    /// Those taken, each by the right that it has when those before it have gone; none if one has none.
    fn fair_rights(
        &self,
        taken: &[Candidate<'a>],
        strategy: FairPreemption,
    ) -> Option<Vec<Candidate<'a>>> {
        let numbered = taken.iter().enumerate();
        let with_right = numbered.map(|(number, candidate)| {
            let right = self.fair_right(&taken[..number], candidate, strategy)?;
            Some(Candidate {
                right,
                ..candidate.clone()
            })
        });
        with_right.collect()
    }

    /// The queue with candidates that is reached from the root by the largest shares, when the one who wants room has it.
    fn largest_share(&self, taken: &[Candidate<'a>], rest: &[Candidate<'a>]) -> Option<usize> {
        let used = self.used(taken);
        let with = self.left(taken).with(self.queue, self.charge);
        let mine = self.tree.path(self.queue);
        let share = |node: usize| {
            let view = if mine.contains(&node) { &with } else { &used };
            self.tree.share(view, node)
        };
        let above = |node: usize| {
            let mut paths = rest.iter().map(|c| self.tree.path(c.holder.queue));
            paths.any(|path| path.contains(&node))
        };
        let mut node = *self.tree.path(self.queue).last()?;
        above(node).then_some(())?;
        loop {
            let children = self.tree.nodes[node].children.iter().copied();
            let place = |child: &usize| {
                let below = |c: &&Candidate<'a>| self.tree.path(c.holder.queue).contains(child);
                let first = rest.iter().filter(below).map(Candidate::key).min();
                (Reverse(share(*child)), first)
            };
            match children.filter(|child| above(*child)).min_by_key(place) {
                Some(child) => node = child,
                None => return Some(node),
            }
        }
    }

    fn fair_right(
        &self,
        taken: &[Candidate<'a>],
        candidate: &Candidate<'a>,
        strategy: FairPreemption,
    ) -> Option<PreemptionRight> {
        let Some((s, t)) = candidate.sides else {
            return Some(InClusterQueue);
        };
        let (left, used) = (self.left(taken), self.used(taken));
        if !self.borrows_there(&used, candidate) {
            return None;
        }
        // One who may not borrow takes nothing before it keeps to its own.
        if !self.may_borrow || self.takes_back_contested(&left, s) {
            return Some(InCohortReclamation);
        }
        let holder = candidate.holder;
        let gains = self.tree.share(&left.with(self.queue, self.charge), s);
        let fair = match strategy {
            FairPreemption::LessThanOrEqualToFinalShare => {
                let final_share = self
                    .tree
                    .share(&used.without(holder.queue, &holder.charge), t);
                gains <= final_share
            }
            FairPreemption::LessThanInitialShare => gains < self.tree.share(&used, t),
        };
        fair.then_some(InCohortFairSharing)
    }

    /// Puts back who needn't go after all, the most deserving first, until nobody can be.
    fn give_back(
        mut taken: Vec<Candidate<'a>>,
        accepted: impl Fn(&[Candidate<'a>]) -> bool,
    ) -> Vec<Candidate<'a>> {
        loop {
            let before = taken.len();
            for index in (0..taken.len()).rev() {
                let mut fewer = taken.clone();
                fewer.remove(index);
                if accepted(&fewer) {
                    taken = fewer;
                }
            }
            if taken.len() == before {
                return taken;
            }
        }
    }

    /// What must be true of the answer, whatever way it was found, by trying every subset of the
    /// candidates. Says nothing if there are too many.
    fn check(&self, found: Option<&[Target]>, candidates_max: usize) {
        let (own, foreign) = (self.own(), self.any_foreign());
        if own.len() + foreign.len() > candidates_max {
            return;
        }
        if let Some(found) = found {
            let of = |victim: &Target| {
                let mut all = own.iter().chain(&foreign);
                let known = all.find(|c| c.holder.id == victim.id).unwrap();
                Candidate {
                    right: victim.right,
                    ..known.clone()
                }
            };
            let found: Vec<_> = found.iter().map(of).collect();
            assert!(self.accepted(&found), "not sufficient: {found:?}");
            let is_fair = |some: &[Candidate<'a>]| {
                self.fair.is_none_or(|strategies| {
                    let mut strategies = strategies.iter();
                    strategies.any(|strategy| self.fair_rights(some, *strategy).is_some())
                })
            };
            assert!(is_fair(&found), "not fair: {found:?}");
            // By one strategy each is spared that could be by another.
            let is_checked = |mask: u32| {
                let is_one_less = mask.count_ones() as usize + 1 == found.len();
                self.fair
                    .is_none_or(|strategies| strategies.len() == 1 && is_one_less)
            };
            for mask in (0..(1u32 << found.len()) - 1).filter(|mask| is_checked(*mask)) {
                let fewer = subset(&found, mask);
                let is_enough = self.accepted(&fewer) && is_fair(&fewer);
                assert!(!is_enough, "{fewer:?} of {found:?} is enough");
            }
        }
        if foreign.is_empty() {
            // Smaller numbers are sets that spare those further down the list, whatever they cost
            // among those before.
            let mut masks = 1..1u32 << own.len();
            let best = masks.find(|mask| self.accepted(&subset(&own, *mask)));
            let best = best.map(|mask| subset(&own, mask));
            let best = best.map(|best| best.into_iter().map(Candidate::victim).collect::<Vec<_>>());
            assert_eq!(
                found,
                best.as_deref(),
                "another set spares the more deserving"
            );
        }
    }
}

fn without(view: &View, gone: &[Candidate<'_>]) -> View {
    gone.iter().fold(view.clone(), |view, gone| {
        view.without(gone.holder.queue, &gone.holder.charge)
    })
}

fn subset<T: Clone>(all: &[T], mask: u32) -> Vec<T> {
    let chosen = all.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1);
    chosen.map(|(_, one)| one.clone()).collect()
}

/// Lowest priority first, then admitted last, then the larger id.
fn sorted<'a>(candidates: impl IntoIterator<Item = Candidate<'a>>) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<_> = candidates.into_iter().collect();
    candidates.sort_by_key(Candidate::key);
    candidates
}

impl Candidate<'_> {
    /// Who has to go first.
    fn key(&self) -> (i32, Reverse<Time>, Reverse<WorkloadId>) {
        let holder = self.holder;
        (
            holder.priority,
            Reverse(holder.since),
            Reverse(holder.id.clone()),
        )
    }

    /// What is taken back comes first, and the own queue last.
    fn turn(&self) -> usize {
        match self.right {
            InCohortReclamation | InCohortFairSharing => 0,
            InCohortReclaimWhileBorrowing => 1,
            InClusterQueue => 2,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.holder.id == other.holder.id
    }

    fn victim(self) -> Target {
        Target {
            id: self.holder.id.clone(),
            right: self.right,
        }
    }
}

/// Whether one of this priority, created then, may have a holder of its queue go.
fn comes_before(rules: Preemption, (priority, created): (i32, i64), holder: &Holder) -> bool {
    match rules.within_cluster_queue {
        WithinClusterQueue::Never => false,
        WithinClusterQueue::LowerPriority => holder.priority < priority,
        WithinClusterQueue::LowerOrNewerEqualPriority => {
            holder.priority < priority || (holder.priority == priority && holder.created > created)
        }
    }
}
