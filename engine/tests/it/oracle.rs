//! The same decisions, made slowly and by definition: before every single decision all waiting
//! workloads are judged anew. What a workload would get is `choice.rs`, who would have to go
//! `victims.rs`, which nodes belong together `forest.rs`, the arithmetic `quota.rs`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    Admission, AdmissionMode, Amount, ByFlavor, ClusterQueue, Cohort, CohortName, Decision, Event,
    EvictReason, Flavor, FlavorName, LocalQueue, LocalQueueKey, PreemptionRight, QueueName,
    QueueingStrategy, ResourceName, Settings, Snapshot, StopPolicy, Time, Workload, WorkloadId,
    WorkloadState,
};

use crate::choice::{Assignment, Scene, Verdict};
pub(crate) use crate::quota::clamp;
use crate::quota::{Cell, Charge, Node, Tree, View, weighted};
use crate::tally::Tally;
use crate::victims::{Holder, Victim};

/// What an engine has been told, and what it has decided.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    pub(crate) settings: Settings,
    pub(crate) flavors: BTreeMap<FlavorName, Flavor>,
    pub(crate) cohorts: BTreeMap<CohortName, Cohort>,
    pub(crate) queues: BTreeMap<QueueName, ClusterQueue>,
    pub(crate) locals: BTreeMap<LocalQueueKey, LocalQueue>,
    pub(crate) workloads: BTreeMap<WorkloadId, Workload>,
    pub(crate) assumed: BTreeMap<WorkloadId, Admission>,
    /// Evictions that were decided and of which nothing has come yet.
    pub(crate) asked: BTreeMap<WorkloadId, EvictReason>,
    /// For whom somebody has left since the last decision.
    pub(crate) left_for: BTreeSet<WorkloadId>,
    /// What each LocalQueue has consumed up to the moment of the decision, as the engine says: the
    /// one thing that isn't worked out here.
    pub(crate) consumed: BTreeMap<LocalQueueKey, BTreeMap<ResourceName, i128>>,
    /// With how many candidates at most every subset of them is tried, to check who was chosen.
    pub(crate) subsets_of_max: usize,
    pub(crate) tally: Tally,
}

/// Who is first in a queue.
type Order = (Reverse<i32>, i64, WorkloadId);

/// For the nodes below the root down to the queue: whether it would use more than is its own, and with
/// fair sharing its share by then.
type Path = Vec<(bool, i128)>;

/// What there is room for in a tree, and who holds something of it.
struct Views {
    now: View,
    planned: View,
    unclaimed: View,
    holders: Vec<Holder>,
}

impl Views {
    /// When some have gone.
    fn without(&self, goes: impl Fn(&Holder) -> bool) -> Self {
        let (gone, holders): (Vec<Holder>, Vec<Holder>) =
            self.holders.iter().cloned().partition(goes);
        let without = |view: &View| {
            (gone.iter()).fold(view.clone(), |view, gone| {
                view.without(gone.queue, &gone.charge)
            })
        };
        Self {
            now: self.now.clone(),
            planned: without(&self.planned),
            unclaimed: without(&self.unclaimed),
            holders,
        }
    }
}

/// Claims of a pass: by workload, the queue's number and the charge.
type Claims = BTreeMap<WorkloadId, (usize, Charge)>;

impl Oracle {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            flavors: BTreeMap::new(),
            cohorts: BTreeMap::new(),
            queues: BTreeMap::new(),
            locals: BTreeMap::new(),
            workloads: BTreeMap::new(),
            assumed: BTreeMap::new(),
            asked: BTreeMap::new(),
            left_for: BTreeSet::new(),
            consumed: BTreeMap::new(),
            subsets_of_max: 6,
            tally: Tally::default(),
        }
    }

    pub(crate) fn apply(&mut self, event: Event) {
        let before = self.leaving_for();
        self.take_in(event);
        let after = self.leaving_for();
        let gone = before.iter().filter(|(id, by)| after.get(*id) != Some(by));
        self.left_for.extend(gone.map(|(_, by)| by.clone()));
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::UpsertFlavor(flavor) => {
                self.flavors.insert(flavor.name.clone(), flavor);
            }
            Event::RemoveFlavor(name) => {
                self.flavors.remove(&name);
            }
            Event::UpsertCohort(cohort) => {
                self.cohorts.insert(cohort.name.clone(), cohort);
            }
            Event::RemoveCohort(name) => {
                self.cohorts.remove(&name);
            }
            Event::UpsertClusterQueue(queue) => {
                self.queues.insert(queue.name.clone(), queue);
            }
            Event::RemoveClusterQueue(name) => {
                self.queues.remove(&name);
            }
            Event::UpsertLocalQueue(local) => {
                self.locals.insert(local.key.clone(), local);
            }
            Event::RemoveLocalQueue(key) => {
                self.locals.remove(&key);
            }
            Event::UpsertWorkload(mut workload) => {
                let known = self.made_to_go_by(&workload.id).cloned();
                if let WorkloadState::Evicting(_, by) = &mut workload.state {
                    *by = by.take().or(known);
                }
                let id = &workload.id;
                if workload.state != WorkloadState::Pending {
                    self.assumed.remove(id);
                }
                let before = self.workloads.get(id).map(|known| &known.state);
                let goes = |workload: &Workload| workload.evictable;
                let stays = match (before, &workload.state) {
                    (Some(WorkloadState::Admitted(old)), WorkloadState::Admitted(new)) => {
                        old.queue == new.queue
                            && self.workloads.get(id).map(goes) == Some(goes(&workload))
                    }
                    _ => false,
                };
                if !stays {
                    self.asked.remove(id);
                }
                self.workloads.insert(id.clone(), workload);
            }
            Event::RemoveWorkload(id) => {
                self.assumed.remove(&id);
                self.asked.remove(&id);
                self.workloads.remove(&id);
            }
            Event::AdmissionFailed(id) => {
                self.assumed.remove(&id);
            }
            Event::EvictionFailed(id) => {
                self.asked.remove(&id);
            }
        }
        let asked = std::mem::take(&mut self.asked);
        let still = |(id, reason): &(WorkloadId, EvictReason)| match reason {
            EvictReason::ClusterQueueStopped | EvictReason::LocalQueueStopped => {
                self.stops(id).contains(reason)
            }
            EvictReason::ReservationTimedOut | EvictReason::Preempted { .. } => true,
        };
        self.asked = asked.into_iter().filter(still).collect();
    }

    /// Decides for all trees, one after the other.
    pub(crate) fn decide(&mut self, now: Time) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for id in self.workloads.keys().cloned().collect::<Vec<_>>() {
            if self.asked.contains_key(&id) {
                continue;
            }
            let stopped = self.stops(&id).into_iter().next();
            let timed_out = || {
                self.timed_out(&id, now)
                    .then_some(EvictReason::ReservationTimedOut)
            };
            if let Some(reason) = stopped.or_else(timed_out) {
                match reason {
                    EvictReason::ReservationTimedOut => self.tally.timed_out += 1,
                    _ => self.tally.stopped += 1,
                }
                self.asked.insert(id.clone(), reason.clone());
                decisions.push(Decision::Evict { id, reason });
            }
        }
        let left_for = std::mem::take(&mut self.left_for);
        for root in self.roots() {
            let tree = self.tree(&root);
            self.left_for.clone_from(&left_for);
            self.passes(&tree, now, &mut decisions);
            // It was their turn; what they could not have is for all.
            self.left_for.clear();
            self.passes(&tree, now, &mut decisions);
        }
        decisions
    }

    /// Keeps the room for those for whom others leave, or have just left; then each of them has its turn
    /// before all others. Of equal ones the first has it.
    fn keep_promises(&mut self, tree: &Tree, now: Time, decisions: &mut Vec<Decision>) -> Claims {
        let promised = self.promised(tree, now);
        let mut kept: Vec<(WorkloadId, Workload, (usize, Charge))> = Vec::new();
        for id in &promised {
            let before: Vec<&WorkloadId> = kept.iter().map(|(_, first, _)| &first.id).collect();
            let charges = kept.iter().map(|(_, _, charge)| charge);
            let turn = self.turn_of(tree, now, id, &before, charges);
            if let Some((queue, first, verdict)) = turn {
                let (Verdict::Now(assignment) | Verdict::Later(assignment, _)) = verdict else {
                    unreachable!("it has a turn")
                };
                let charge = (tree.queue(&queue.name).unwrap(), assignment.charge);
                let first = first.clone();
                kept.push((id.clone(), first, charge));
            }
        }
        // One that stands before it in its queue, and would gain the room, has it instead.
        let all: Vec<WorkloadId> = kept.iter().map(|(_, first, _)| first.id.clone()).collect();
        let mut still = kept.clone();
        for (id, first, _) in &kept {
            let others = kept.iter().filter(|(_, other, _)| other.id != first.id);
            let views = self.views(tree, others.map(|(_, _, charge)| charge));
            let scene = self.scene(tree, &views);
            let queue = &self.queues[&self.locals[&first.queue].cluster_queue];
            let mut ignored = Tally::default();
            let lined_up = self.lined_up(queue, now, &mut ignored);
            let before = lined_up.into_iter().take_while(|w| w.id != first.id);
            let mut before = before.filter(|w| !all.contains(&w.id));
            if before.any(|w| scene.can_serve(queue, w)) {
                self.tally.promise_broken += 1;
                still.retain(|(other, ..)| other != id);
            }
        }
        let mut claims = Claims::new();
        for (id, ..) in still {
            let before: Vec<&WorkloadId> = claims.keys().collect();
            let turn = self.turn_of(tree, now, &id, &before, claims.values());
            let Some((queue, first, verdict)) = turn else {
                continue;
            };
            let (queue, first) = (queue.name.clone(), first.id.clone());
            self.tally.promise_kept += 1;
            match verdict {
                Verdict::Now(assignment) => {
                    decisions.push(self.admit(first, queue, assignment, now));
                }
                Verdict::Later(assignment, _) => {
                    claims.insert(first, (tree.queue(&queue).unwrap(), assignment.charge));
                }
                Verdict::No => unreachable!("it has a turn"),
            }
        }
        claims
    }

    /// Who waits in a tree and is promised room, in order.
    fn promised(&self, tree: &Tree, now: Time) -> Vec<WorkloadId> {
        let mut ids: BTreeSet<WorkloadId> = self.leaving_for().into_values().collect();
        ids.extend(self.left_for.iter().cloned());
        let queues = self.queues.values();
        let queues = queues.filter(|q| self.active(q) && tree.queue(&q.name).is_some());
        let mut ignored = Tally::default();
        let waiting = queues.flat_map(|queue| self.lined_up(queue, now, &mut ignored));
        let mut promised: Vec<&Workload> = waiting.filter(|w| ids.contains(&w.id)).collect();
        promised.sort_by_cached_key(|workload| order(workload));
        promised.into_iter().map(|w| w.id.clone()).collect()
    }

    /// The first of those that are like this one and have not had their turn, and what can be done for it
    /// without others going.
    fn turn_of<'a>(
        &'a self,
        tree: &Tree,
        now: Time,
        id: &WorkloadId,
        before: &[&WorkloadId],
        claims: impl Iterator<Item = &'a (usize, Charge)>,
    ) -> Option<(&'a ClusterQueue, &'a Workload, Verdict)> {
        let promised = &self.workloads[id];
        let queue = &self.queues[&self.locals[&promised.queue].cluster_queue];
        let by_usage = queue.admission_mode == AdmissionMode::ByUsage;
        let is_like = |w: &&Workload| {
            w.pod_sets == promised.pod_sets && (!by_usage || w.queue == promised.queue)
        };
        let mut ignored = Tally::default();
        let mut like = self.lined_up(queue, now, &mut ignored);
        like.retain(|w| is_like(w) && !before.contains(&&w.id));
        let first = like.into_iter().next()?;
        let views = self.views(tree, claims);
        let verdict = self.scene(tree, &views).verdict(queue, first, &mut ignored);
        match &verdict {
            Verdict::No => None,
            Verdict::Later(_, victims) if !victims.is_empty() => None,
            _ => Some((queue, first, verdict)),
        }
    }

    fn admit(
        &mut self,
        id: WorkloadId,
        queue: QueueName,
        assignment: Assignment,
        now: Time,
    ) -> Decision {
        let asked = self.workloads[&id].pod_sets.iter().map(|p| p.count);
        let given = assignment.pod_sets.iter().map(|p| p.count);
        let is_part = given.fold(0, u32::saturating_add) < asked.fold(0, u32::saturating_add);
        self.tally.admitted += 1;
        self.tally.admitted_in_part += u64::from(is_part);
        self.tally.admitted_borrowing += u64::from(assignment.borrows);
        let admission = Admission {
            queue,
            since: now,
            unused_since: None,
            pod_sets: assignment.pod_sets.into(),
        };
        self.assumed.insert(id.clone(), admission.clone());
        Decision::Admit { id, admission }
    }

    /// For whom somebody is to make room, whether that is under way or only decided.
    pub(crate) fn made_to_go_by(&self, id: &WorkloadId) -> Option<&WorkloadId> {
        match (&self.workloads.get(id)?.state, self.asked.get(id)) {
            (WorkloadState::Evicting(_, by), _) => by.as_ref(),
            (WorkloadState::Admitted(_), Some(EvictReason::Preempted { by, .. })) => Some(by),
            _ => None,
        }
    }

    /// Those who leave for others, with whom they leave for.
    fn leaving_for(&self) -> BTreeMap<WorkloadId, WorkloadId> {
        let leaving = self.workloads.values().filter(|w| self.leaves(w));
        let leaving = leaving.filter_map(|w| Some((&w.id, self.made_to_go_by(&w.id)?)));
        leaving.map(|(id, by)| (id.clone(), by.clone())).collect()
    }

    /// What there is room for, with these claims.
    fn views<'a>(&self, tree: &Tree, claims: impl Iterator<Item = &'a (usize, Charge)>) -> Views {
        let unclaimed = self.view(tree, false);
        let mut planned = unclaimed.clone();
        for (queue, charge) in claims {
            planned.add(*queue, charge);
        }
        Views {
            now: self.view(tree, true),
            planned,
            unclaimed,
            holders: self.holders(tree),
        }
    }

    fn scene<'a>(&'a self, tree: &'a Tree, views: &'a Views) -> Scene<'a> {
        Scene {
            tree,
            flavors: &self.flavors,
            now: &views.now,
            planned: &views.planned,
            unclaimed: &views.unclaimed,
            holders: &views.holders,
            pod: clamp(self.settings.pod),
            fair: self.settings.fair_sharing.as_deref(),
            subsets_of_max: self.subsets_of_max,
        }
    }

    /// A pass that comes to nothing would come to nothing again.
    fn passes(&mut self, tree: &Tree, now: Time, decisions: &mut Vec<Decision>) {
        let mut passes = 0;
        while self.pass(tree, now, decisions) {
            passes += 1;
            self.tally.second_pass += u64::from(passes == 2);
        }
    }

    /// Looks at everyone again and again, until nothing can be done for anybody, or until somebody
    /// has to make room. Claims are dropped at the end. Says whether anything was decided.
    fn pass(&mut self, tree: &Tree, now: Time, decisions: &mut Vec<Decision>) -> bool {
        let before = decisions.len();
        let mut claims = self.keep_promises(tree, now, decisions);
        while let Some((queue, id, verdict)) = self.best(tree, now, &claims) {
            match verdict {
                Verdict::No => unreachable!("it has no rank"),
                Verdict::Now(assignment) => decisions.push(self.admit(id, queue, assignment, now)),
                Verdict::Later(assignment, victims) => {
                    self.tally.later_for_nothing += u64::from(victims.is_empty());
                    self.tally.later_with_victims += u64::from(!victims.is_empty());
                    self.tally.several_victims += u64::from(victims.len() > 1);
                    if victims.is_empty() {
                        claims.insert(id, (tree.queue(&queue).unwrap(), assignment.charge));
                        continue;
                    }
                    for Victim { id: victim, right } in victims {
                        match right {
                            PreemptionRight::InClusterQueue => self.tally.own += 1,
                            PreemptionRight::InCohortReclamation => self.tally.reclaimed += 1,
                            PreemptionRight::InCohortReclaimWhileBorrowing => {
                                self.tally.while_borrowing += 1;
                            }
                            PreemptionRight::InCohortFairSharing => self.tally.by_share += 1,
                        }
                        let by = id.clone();
                        let reason = EvictReason::Preempted { by, right };
                        self.asked.insert(victim.clone(), reason.clone());
                        decisions.push(Decision::Evict { id: victim, reason });
                    }
                    break;
                }
            }
        }
        decisions.len() > before
    }

    /// Who is next in a tree, and what becomes of it.
    fn best(
        &mut self,
        tree: &Tree,
        now: Time,
        claims: &Claims,
    ) -> Option<(QueueName, WorkloadId, Verdict)> {
        let views = self.views(tree, claims.values());
        let mut tally = self.tally;
        let pending = |w: &&Workload| w.state == WorkloadState::Pending;
        let backs_off = |w: &&Workload| w.not_before.is_some_and(|moment| moment > now);
        let backing_off = self
            .workloads
            .values()
            .filter(pending)
            .any(|w| backs_off(&w));
        tally.backing_off += u64::from(backing_off);
        let scene = self.scene(tree, &views);
        let mut offers: Vec<(Path, Order, QueueName, Verdict)> = Vec::new();
        for queue in self.queues.values().filter(|queue| self.active(queue)) {
            let Some(node) = tree.queue(&queue.name) else {
                continue;
            };
            let mut passed: Vec<&Workload> = Vec::new();
            for workload in self.lined_up(queue, now, &mut tally) {
                let claimed = claims.contains_key(&workload.id);
                let mut verdict = if claimed {
                    Verdict::No
                } else {
                    scene.verdict(queue, workload, &mut tally)
                };
                // The room that victims leave must not go to one before it that has no right to it.
                if let Verdict::Later(_, victims) = &verdict
                    && !victims.is_empty()
                {
                    let goes = |holder: &Holder| victims.iter().any(|v| v.id == holder.id);
                    let then = views.without(goes);
                    let then = self.scene(tree, &then);
                    if passed.iter().any(|w| then.can_serve(queue, w)) {
                        tally.another_would_gain += 1;
                        verdict = scene.verdict_without_rights(queue, workload, &mut tally);
                    }
                }
                if !claimed {
                    passed.push(workload);
                }
                if let Verdict::Now(assignment) | Verdict::Later(assignment, _) = &verdict {
                    let path = self.stands(tree, &views.planned, node, &assignment.charge);
                    offers.push((path, order(workload), queue.name.clone(), verdict));
                    break;
                }
                tally.parked += u64::from(!claimed);
                if queue.strategy == QueueingStrategy::StrictFifo {
                    break;
                }
            }
        }
        let without_shares = |(path, order, ..): &(Path, Order, QueueName, Verdict)| {
            let over: Vec<bool> = path.iter().map(|(over, _)| *over).collect();
            (over, order.clone())
        };
        let other = offers.iter().map(without_shares).min();
        let first = |offer: &(Path, Order, QueueName, Verdict)| (offer.0.clone(), offer.1.clone());
        let best = offers.into_iter().min_by_key(first);
        tally.shares_decide += u64::from(best.as_ref().map(without_shares) != other);
        self.tally = tally;
        best.map(|(_, (_, _, id), queue, verdict)| (queue, id, verdict))
    }

    /// How the nodes on the way down to a queue would stand, if it were charged.
    fn stands(&self, tree: &Tree, planned: &View, queue: usize, charge: &Charge) -> Path {
        let with = planned.with(queue, charge);
        let is_fair = self.settings.fair_sharing.is_some();
        let mut path = tree.path(queue);
        path.pop();
        let stand = |node| {
            let over = tree.is_above(&with, node, charge.keys().copied());
            (over, if is_fair { tree.share(&with, node) } else { 0 })
        };
        path.into_iter().rev().map(stand).collect()
    }

    /// Who waits in a queue and is considered at all, in the order in which that is done.
    fn lined_up(&self, queue: &ClusterQueue, now: Time, tally: &mut Tally) -> Vec<&Workload> {
        let mut lined_up = self.waiting(now).remove(&queue.name).unwrap_or_default();
        let most = queue.max_pending.unwrap_or(usize::MAX);
        tally.queue_full += u64::from(lined_up.len() > most);
        lined_up.truncate(most);
        if queue.admission_mode == AdmissionMode::ByUsage {
            let first = lined_up.first().map(|workload| workload.id.clone());
            lined_up.sort_by_cached_key(|w| (self.standing(queue, &w.queue), order(w)));
            let now_first = lined_up.first().map(|workload| workload.id.clone());
            tally.standings_decide += u64::from(first != now_first);
        }
        lined_up
    }

    /// What a LocalQueue has used of what its ClusterQueue has.
    fn standing(&self, queue: &ClusterQueue, key: &LocalQueueKey) -> i128 {
        let tree = self.tree(
            self.path(&Node::Queue(queue.name.clone()))
                .unwrap()
                .last()
                .unwrap(),
        );
        let node = tree.queue(&queue.name).unwrap();
        let used = |resource: &ResourceName| {
            let of_this = self.held().filter(|(workload, _)| workload.queue == *key);
            let cells = of_this.flat_map(|(_, admission)| charge_of(admission));
            let cells = cells.filter(|((_, charged), _)| charged == resource);
            cells.map(|(_, amount)| amount).sum::<i128>()
        };
        let consumed = |resource| {
            self.consumed
                .get(key)
                .and_then(|c| c.get(resource))
                .copied()
        };
        let mut most = 0;
        let resources: BTreeSet<_> = tree.cells.iter().map(|(_, resource)| resource).collect();
        for resource in resources {
            let cells = (0..tree.cells.len()).filter(|cell| tree.cells[*cell].1 == *resource);
            let quota: i128 = cells.map(|cell| tree.subtree(node, cell)).sum();
            let sum = consumed(resource).unwrap_or_default() + used(resource);
            if quota > 0 {
                most = most.max(sum.saturating_mul(1_000_000_000) / quota);
            }
        }
        weighted(most, self.locals[key].fair_weight.thousandths().into())
    }

    /// Who waits for which queue and could be taken now, in the order of the workloads.
    fn waiting(&self, now: Time) -> BTreeMap<QueueName, Vec<&Workload>> {
        let mut waiting: BTreeMap<QueueName, Vec<&Workload>> = BTreeMap::new();
        for (id, workload) in &self.workloads {
            let open = |l: &&LocalQueue| l.stop == StopPolicy::None && l.namespace_selected;
            if workload.state == WorkloadState::Pending
                && !self.assumed.contains_key(id)
                && workload.not_before.is_none_or(|moment| moment <= now)
                && countable(workload)
                && let Some(local) = self.locals.get(&workload.queue).filter(open)
            {
                let queue = local.cluster_queue.clone();
                waiting.entry(queue).or_default().push(workload);
            }
        }
        for workloads in waiting.values_mut() {
            workloads.sort_by_key(|w| order(w));
        }
        waiting
    }

    /// When something will have to be decided though nothing happens.
    pub(crate) fn next_wake(&self, now: Time) -> Option<Time> {
        let moment = |(id, workload): (&WorkloadId, &Workload)| match &workload.state {
            WorkloadState::Pending if !self.assumed.contains_key(id) => {
                workload.not_before.filter(|moment| *moment > now)
            }
            WorkloadState::Admitted(admission) if !self.asked.contains_key(id) => {
                let queue = self.queues.get(&admission.queue)?;
                Some(admission.unused_since?.after(queue.reservation_timeout?))
            }
            _ => None,
        };
        self.workloads.iter().filter_map(moment).min()
    }

    fn timed_out(&self, id: &WorkloadId, now: Time) -> bool {
        let WorkloadState::Admitted(admission) = &self.workloads[id].state else {
            return false;
        };
        let queue = self.queues.get(&admission.queue);
        let timeout = queue.and_then(|queue| queue.reservation_timeout);
        match (admission.unused_since, timeout) {
            (Some(since), Some(timeout)) => since.after(timeout) <= now,
            _ => false,
        }
    }

    /// The stops for which a workload has to go.
    fn stops(&self, id: &WorkloadId) -> Vec<EvictReason> {
        let Some(workload) = self.workloads.get(id) else {
            return Vec::new();
        };
        let WorkloadState::Admitted(admission) = &workload.state else {
            return Vec::new();
        };
        let queue = self.queues.get(&admission.queue).map(|queue| queue.stop);
        let local = self.locals.get(&workload.queue).map(|local| local.stop);
        let mut reasons = Vec::new();
        if queue == Some(StopPolicy::HoldAndDrain) {
            reasons.push(EvictReason::ClusterQueueStopped);
        }
        if local == Some(StopPolicy::HoldAndDrain) {
            reasons.push(EvictReason::LocalQueueStopped);
        }
        reasons
    }

    /// Who holds quota, and what.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&Workload, &Admission)> {
        self.workloads
            .values()
            .filter_map(|workload| match &workload.state {
                WorkloadState::Admitted(admission) | WorkloadState::Evicting(admission, _) => {
                    Some((workload, admission))
                }
                _ => Some((workload, self.assumed.get(&workload.id)?)),
            })
    }

    pub(crate) fn admission(&self, id: &WorkloadId) -> Option<&Admission> {
        self.held()
            .find(|(workload, _)| workload.id == *id)
            .map(|(_, admission)| admission)
    }

    /// Whether a workload that holds quota is on its way out.
    fn leaves(&self, workload: &Workload) -> bool {
        matches!(workload.state, WorkloadState::Evicting(..))
            || (self.asked.contains_key(&workload.id) && workload.evictable)
    }

    /// What is charged in a tree, by those who are leaving too or only by the others.
    pub(crate) fn view(&self, tree: &Tree, with_leaving: bool) -> View {
        let mut view = tree.nothing();
        for (workload, admission) in self.held() {
            if let Some(queue) = tree.queue(&admission.queue)
                && (with_leaving || !self.leaves(workload))
            {
                view.add(queue, &charge_in(tree, admission));
            }
        }
        view
    }

    /// Who might be evicted, as far as that depends on them alone.
    fn holders(&self, tree: &Tree) -> Vec<Holder> {
        let holders = self.held().filter_map(|(workload, admission)| {
            let confirmed = matches!(workload.state, WorkloadState::Admitted(_));
            let stays = !self.asked.contains_key(&workload.id);
            (confirmed && stays && workload.evictable).then_some(())?;
            let queue = self.queues.get(&admission.queue)?;
            Some(Holder {
                rules: queue.preemption,
                by_usage: queue.admission_mode == AdmissionMode::ByUsage,
                id: workload.id.clone(),
                queue: tree.queue(&admission.queue)?,
                local: workload.queue.clone(),
                charge: charge_in(tree, admission),
                priority: workload.priority,
                created: workload.created,
                since: admission.since,
            })
        });
        holders.collect()
    }

    /// What the engine's own snapshot must be.
    pub(crate) fn snapshot(&self, now: Time) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (_, admission) in self.held() {
            for ((flavor, resource), amount) in
                charge_of(admission).into_iter().filter(|(_, a)| *a > 0)
            {
                let queue = snapshot.queues.entry(admission.queue.clone()).or_default();
                let sum = queue
                    .entry(flavor)
                    .or_default()
                    .entry(resource)
                    .or_default();
                *sum = Amount::new(sum.get() + amount);
            }
        }
        let named = self
            .queues
            .values()
            .filter_map(|queue| queue.cohort.clone());
        let parents = self
            .cohorts
            .values()
            .filter_map(|cohort| cohort.parent.clone());
        let cohorts = named.chain(parents).chain(self.cohorts.keys().cloned());
        let roots = cohorts.filter_map(|name| self.path(&Node::Cohort(name))?.pop());
        for root in roots.collect::<BTreeSet<_>>() {
            let tree = self.tree(&root);
            let view = self.view(&tree, true);
            for (number, member) in tree.nodes.iter().enumerate() {
                let Node::Cohort(cohort) = &member.name else {
                    continue;
                };
                let usage =
                    |(cell, name): (usize, &Cell)| (name.clone(), tree.usage(&view, number, cell));
                let usage = by_flavor(tree.cells.iter().enumerate().map(usage).collect());
                if !usage.is_empty() {
                    snapshot.cohorts.insert(cohort.clone(), usage);
                }
            }
        }
        for (name, workloads) in self.waiting(now) {
            let most = self.queues.get(&name).and_then(|queue| queue.max_pending);
            let ids = workloads.into_iter().map(|workload| workload.id.clone());
            let first = ids.take(most.unwrap_or(usize::MAX));
            snapshot.pending.insert(name, first.collect());
        }
        snapshot
    }
}

/// What an admission charges, by cell.
pub(crate) fn charge_of(admission: &Admission) -> Vec<(Cell, i128)> {
    let mut charge: BTreeMap<Cell, i128> = BTreeMap::new();
    for pod_set in &*admission.pod_sets {
        for (resource, amount) in &pod_set.usage {
            if let Some(flavor) = pod_set.flavors.get(resource) {
                let sum = charge
                    .entry((flavor.clone(), resource.clone()))
                    .or_default();
                *sum += clamp(*amount);
            }
        }
    }
    charge.into_iter().collect()
}

fn charge_in(tree: &Tree, admission: &Admission) -> Charge {
    let charge = charge_of(admission).into_iter();
    charge
        .map(|(cell, amount)| (tree.cell(&cell), amount))
        .collect()
}

fn by_flavor(cells: BTreeMap<Cell, i128>) -> ByFlavor<Amount> {
    let mut usage: ByFlavor<Amount> = ByFlavor::new();
    for ((flavor, resource), amount) in cells.into_iter().filter(|(_, amount)| *amount != 0) {
        usage
            .entry(flavor)
            .or_default()
            .insert(resource, Amount::new(amount));
    }
    usage
}

fn order(workload: &Workload) -> Order {
    (
        Reverse(workload.priority),
        workload.created,
        workload.id.clone(),
    )
}

pub(crate) fn countable(workload: &Workload) -> bool {
    let mut sums: BTreeMap<&ResourceName, i128> = BTreeMap::new();
    for pod_set in &workload.pod_sets {
        for (resource, amount) in &pod_set.requests {
            let total = amount.get().checked_mul(i128::from(pod_set.count));
            let sum = sums.entry(resource).or_default();
            match total.and_then(|total| sum.checked_add(total)) {
                Some(total) if amount.get() >= 0 && total <= Amount::LIMIT.get() => *sum = total,
                _ => return false,
            }
        }
    }
    true
}
