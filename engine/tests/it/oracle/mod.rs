//! The same decisions, made slowly and by definition: before every single decision all waiting
//! workloads are judged anew. What a workload would get is `choice.rs`, who would have to go
//! `targets.rs`, which nodes belong together `cohort_trees.rs`, the arithmetic `quota.rs`; who holds what,
//! and for whom room is kept, stands below.

pub(crate) mod choice;
mod cohort_trees;
mod deleted_queues;
mod nominations;
mod preemption_rounds;
pub(crate) mod quota;
pub(crate) mod recount;
pub(crate) mod tally;
pub(crate) mod targets;
mod usage;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sluice_engine::{
    Admission, AdmissionScope, Amount, Borrowing, ClusterQueue, ClusterQueueName, Cohort,
    CohortName, Decision, Event, EvictReason, Flavor, FlavorName, LocalQueue, LocalQueueKey,
    PreemptionRight, QueueingStrategy, ResourceName, Settings, StopPolicy, Time, Workload,
    WorkloadId, WorkloadState,
};

pub(crate) use self::usage::charge_of;
use crate::oracle::choice::{Assignment, AssignmentResult, Scene, group_of};
pub(crate) use crate::oracle::quota::clamp;
use crate::oracle::quota::{Charge, Node, Tree, View, part, weighted};
use crate::oracle::tally::Tally;
use crate::oracle::targets::{Holder, Target};

/// What an engine has been told, and what it has decided.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    pub(crate) settings: Settings,
    pub(crate) flavors: BTreeMap<FlavorName, Flavor>,
    pub(crate) cohorts: BTreeMap<CohortName, Cohort>,
    pub(crate) queues: BTreeMap<ClusterQueueName, ClusterQueue>,
    /// Those of the queues that are gone and still used.
    pub(crate) deleted: BTreeSet<ClusterQueueName>,
    pub(crate) locals: BTreeMap<LocalQueueKey, LocalQueue>,
    pub(crate) workloads: BTreeMap<WorkloadId, Workload>,
    pub(crate) assumed: BTreeMap<WorkloadId, Admission>,
    /// Evictions that were decided and of which nothing has come yet.
    pub(crate) asked: BTreeMap<WorkloadId, EvictReason>,
    /// For whom somebody has left since the last decision.
    pub(crate) left_for: BTreeSet<WorkloadId>,
    /// Who has asked for something else since others had to leave for it.
    pub(crate) changed_its_mind: BTreeSet<WorkloadId>,
    /// For the least of whom others have to go, or had to since the last decision.
    pub(crate) goes_for_least_of: BTreeSet<WorkloadId>,
    /// Who was taken on a promise, which isn't recorded yet; and whether that was for the least of it.
    pub(crate) taken_as_promised: BTreeMap<WorkloadId, bool>,
    /// Who was preempted in the present round of each tree, by its root.
    pub(crate) rounds: BTreeMap<Node, BTreeSet<WorkloadId>>,
    /// The time of the last decision.
    pub(crate) decided_at: Option<Time>,
    /// What each LocalQueue has consumed up to the moment of the decision, as the engine says: the
    /// one thing that isn't worked out here.
    pub(crate) consumed: BTreeMap<LocalQueueKey, BTreeMap<ResourceName, i128>>,
    /// With how many candidates at most every subset of them is tried, to check who was chosen.
    pub(crate) subsets_of_max: usize,
    pub(crate) tally: Tally,
}

/// Who is first of those that stand alike: whoever can be taken, before one for whom a part of its own is kept.
type Turn = (bool, Order);

/// Who is first in a queue.
type Order = (Reverse<i32>, i64, WorkloadId);

/// For the nodes below the root down to the queue: whether it would use more than is its own, and with
/// fair sharing its share by then. And from how far it would borrow.
type Path = (Vec<(bool, i128)>, usize);

/// What there is room for in a tree, and who holds something of it.
struct Views {
    now: View,
    planned: View,
    unclaimed: View,
    holders: Vec<Holder>,
    kept: Vec<(usize, Charge)>,
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
            kept: self.kept.clone(),
        }
    }
}

/// What is planned for one who waits.
#[derive(Clone, Debug)]
struct Reservation {
    queue: usize,
    charge: Charge,
    may_borrow: bool,
}

/// Claims of a pass.
type Reservations = BTreeMap<WorkloadId, Reservation>;

impl Oracle {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            flavors: BTreeMap::new(),
            cohorts: BTreeMap::new(),
            queues: BTreeMap::new(),
            deleted: BTreeSet::new(),
            locals: BTreeMap::new(),
            workloads: BTreeMap::new(),
            assumed: BTreeMap::new(),
            asked: BTreeMap::new(),
            left_for: BTreeSet::new(),
            changed_its_mind: BTreeSet::new(),
            goes_for_least_of: BTreeSet::new(),
            taken_as_promised: BTreeMap::new(),
            rounds: BTreeMap::new(),
            decided_at: None,
            consumed: BTreeMap::new(),
            subsets_of_max: 6,
            tally: Tally::default(),
        }
    }

    pub(crate) fn apply(&mut self, event: Event) {
        let before = self.leaving_for();
        self.may_be_promised_again(&event);
        if let Event::UpsertWorkload(workload) = &event {
            self.may_change_its_mind(workload);
        }
        self.may_lose_its_place(&event);
        self.take_in_and_end_rounds(event);
        let after = self.leaving_for();
        let gone = before.iter().filter(|(id, by)| after.get(*id) != Some(by));
        let gone = gone.filter(|(_, by)| !self.changed_its_mind.contains(*by));
        self.left_for.extend(gone.map(|(_, by)| by.clone()));
    }

    pub(super) fn take_in(&mut self, event: Event) {
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
                self.deleted.remove(&queue.name);
                self.queues.insert(queue.name.clone(), queue);
            }
            Event::RemoveClusterQueue(name) => {
                self.delete_queue(&name);
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
                let id = &workload.id.clone();
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
                self.open_deleted_queue(id);
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
        self.drop_unused_deleted_queues();
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
        self.end_rounds_for_time(now);
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
        let waited_for: BTreeSet<WorkloadId> = self.leaving_for().into_values().collect();
        self.changed_its_mind.retain(|id| waited_for.contains(id));
        (self.goes_for_least_of).retain(|id| waited_for.contains(id) || left_for.contains(id));
        for root in self.roots() {
            let tree = self.tree(&root);
            let preempted = self.rounds.get(&root).into_iter().flatten();
            let holding =
                preempted.filter_map(|id| self.workloads.get(id).filter(|w| !self.leaves(w)));
            self.tally.protected +=
                holding.filter(|w| self.admission(&w.id).is_some()).count() as u64;
            self.left_for.clone_from(&left_for);
            self.passes(&tree, now, &mut decisions);
            // It was their turn; what they could not have is for all.
            self.left_for.clear();
            self.passes(&tree, now, &mut decisions);
        }
        decisions
    }

    fn admit(
        &mut self,
        id: WorkloadId,
        queue: ClusterQueueName,
        assignment: Assignment,
        now: Time,
    ) -> Decision {
        let is_part = self.is_part(&id, &assignment);
        self.tally.admitted += 1;
        self.tally.admitted_in_part += u64::from(is_part);
        self.tally.admitted_borrowing += u64::from(assignment.borrows);
        let admission = Admission {
            cohort: self.queues[&queue].cohort.clone(),
            queue,
            since: now,
            unused_since: None,
            had_nodes: false,
            pod_sets: assignment.pod_sets.into(),
        };
        self.assumed.insert(id.clone(), admission.clone());
        Decision::Admit { id, admission }
    }

    /// Whether this is for fewer pods than all.
    fn is_part(&self, id: &WorkloadId, assignment: &Assignment) -> bool {
        let asked = self.workloads[id].pod_sets.iter().map(|p| p.count);
        let given = assignment.pod_sets.iter().map(|p| p.count);
        asked.zip(given).any(|(asked, given)| given < asked)
    }

    /// What there is room for, with these claims.
    fn views<'a>(&self, tree: &Tree, claims: impl Iterator<Item = &'a Reservation>) -> Views {
        let unclaimed = self.view(tree, false);
        let mut planned = unclaimed.clone();
        let mut kept = Vec::new();
        for claim in claims {
            planned.add(claim.queue, &claim.charge);
            if !claim.may_borrow {
                kept.push((claim.queue, claim.charge.clone()));
            }
        }
        Views {
            now: self.view(tree, true),
            planned,
            unclaimed,
            holders: self.holders(tree),
            kept,
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
            kept: &views.kept,
            pod: clamp(self.settings.pod),
            fair: self.settings.fair_sharing.as_deref(),
            is_promised: false,
            subsets_of_max: self.subsets_of_max,
        }
    }

    fn claim(
        &self,
        tree: &Tree,
        queue: &ClusterQueueName,
        id: &WorkloadId,
        charge: Charge,
    ) -> Reservation {
        let pod_sets = &self.workloads[id].pod_sets;
        Reservation {
            queue: tree.queue(queue).unwrap(),
            charge,
            may_borrow: (pod_sets.iter()).all(|pod_set| pod_set.borrowing == Borrowing::Allowed),
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
                AssignmentResult::No => unreachable!("it has no rank"),
                AssignmentResult::Now(assignment) => {
                    decisions.push(self.admit(id, queue, assignment, now));
                }
                AssignmentResult::Keep(part, whole) => {
                    self.tally.kept_in_part += 1;
                    self.tally.kept_to_borrow += u64::from(whole.is_some());
                    let claim = self.claim(tree, &queue, &id, part);
                    claims.insert(id, claim);
                }
                AssignmentResult::Later(assignment, victims) => {
                    self.tally.later_for_nothing += u64::from(victims.is_empty());
                    self.tally.later_with_victims += u64::from(!victims.is_empty());
                    self.tally.several_victims += u64::from(victims.len() > 1);
                    if victims.is_empty() {
                        let claim = self.claim(tree, &queue, &id, assignment.charge);
                        claims.insert(id, claim);
                        continue;
                    }
                    self.changed_its_mind.remove(&id);
                    if self.is_part(&id, &assignment) {
                        self.goes_for_least_of.insert(id.clone());
                    } else {
                        self.goes_for_least_of.remove(&id);
                    }
                    for Target { id: victim, right } in victims {
                        match right {
                            PreemptionRight::InClusterQueue => self.tally.own += 1,
                            PreemptionRight::InCohortReclamation => self.tally.reclaimed += 1,
                            PreemptionRight::InCohortReclaimWhileBorrowing => {
                                self.tally.while_borrowing += 1;
                            }
                            PreemptionRight::InCohortFairSharing => self.tally.by_share += 1,
                        }
                        let root = self.root(&queue).unwrap();
                        let is_first = self.rounds.entry(root).or_default().insert(victim.clone());
                        assert!(is_first, "{victim} is preempted twice in a round");
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
        claims: &Reservations,
    ) -> Option<(ClusterQueueName, WorkloadId, AssignmentResult)> {
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
        let mut offers: Vec<(Path, Turn, ClusterQueueName, AssignmentResult)> = Vec::new();
        for queue in self.queues.values().filter(|queue| self.active(queue)) {
            let Some(node) = tree.queue(&queue.name) else {
                continue;
            };
            let mut passed: Vec<&Workload> = Vec::new();
            for workload in self.lined_up(queue, now, &mut tally) {
                let claimed = claims.contains_key(&workload.id);
                let mut verdict = if claimed {
                    AssignmentResult::No
                } else {
                    scene.verdict(queue, workload, &mut tally)
                };
                // The room that victims leave must not go to one before it that has no right to it.
                if let AssignmentResult::Later(_, victims) = &verdict
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
                let is_strict = queue.strategy == QueueingStrategy::StrictFifo;
                if matches!(verdict, AssignmentResult::No) && is_strict && !claimed {
                    let left = scene.left_for(queue, workload);
                    let keep = |(part, whole)| AssignmentResult::Keep(part, whole);
                    verdict = left.map_or(verdict, keep);
                }
                let charge = match &verdict {
                    AssignmentResult::Now(assignment) | AssignmentResult::Later(assignment, _) => {
                        Some(&assignment.charge)
                    }
                    AssignmentResult::Keep(part, whole) => Some(whole.as_ref().unwrap_or(part)),
                    AssignmentResult::No => None,
                };
                if let Some(charge) = charge {
                    let path = self.stands(tree, &views.planned, node, charge);
                    let is_kept = matches!(verdict, AssignmentResult::Keep(_, None));
                    let turn = (is_kept, order(workload));
                    offers.push((path, turn, queue.name.clone(), verdict));
                    break;
                }
                tally.parked += u64::from(!claimed);
                if is_strict {
                    break;
                }
            }
        }
        let without_shares =
            |((_, height), turn, _, _): &(Path, Turn, ClusterQueueName, AssignmentResult)| {
                (*height, turn.clone())
            };
        let other = offers.iter().map(without_shares).min();
        let best = if self.settings.fair_sharing.is_some() {
            let root = tree.path(tree.queue(&offers.first()?.2).unwrap()).pop();
            let best = Self::winner(tree, &offers, root.unwrap(), 0);
            best.map(|number| offers.swap_remove(number))
        } else {
            offers.into_iter().min_by_key(without_shares)
        };
        tally.shares_decide += u64::from(best.as_ref().map(without_shares) != other);
        self.tally = tally;
        best.map(|(_, (_, (_, _, id)), queue, verdict)| (queue, id, verdict))
    }

    /// Which of the offers below a node goes first: those of each cohort are compared with each other. So many
    /// levels are above the node.
    fn winner(
        tree: &Tree,
        offers: &[(Path, Turn, ClusterQueueName, AssignmentResult)],
        node: usize,
        level: usize,
    ) -> Option<usize> {
        let own = offers
            .iter()
            .position(|(_, _, queue, _)| tree.queue(queue) == Some(node));
        let children = tree.nodes[node].children.iter();
        let winners = children.filter_map(|child| Self::winner(tree, offers, *child, level + 1));
        let stands = |number: &usize| (offers[*number].0.0[level], offers[*number].1.clone());
        own.or_else(|| winners.min_by_key(stands))
    }

    /// How the nodes on the way down to a queue would stand, if it were charged, and from how far it would borrow: of each
    /// of what it is charged, the height of the first node that uses no more than is its own.
    fn stands(&self, tree: &Tree, planned: &View, queue: usize, charge: &Charge) -> Path {
        let with = planned.with(queue, charge);
        let is_fair = self.settings.fair_sharing.is_some();
        let mut path = tree.path(queue);
        let height_of_lender = |cell: usize| {
            let lender = (path.iter()).find(|node| !tree.is_above(&with, **node, [cell]));
            tree.height(*lender.or(path.last()).unwrap())
        };
        let height = charge.keys().map(|cell| height_of_lender(*cell)).max();
        path.pop();
        let stand = |node| {
            let over = tree.is_above(&with, node, charge.keys().copied());
            (over, if is_fair { tree.share(&with, node) } else { 0 })
        };
        let standing = path.into_iter().rev().map(stand).collect();
        (standing, height.unwrap_or(0))
    }

    /// Who waits in a queue and is considered at all, in the order in which that is done.
    fn lined_up(&self, queue: &ClusterQueue, now: Time, tally: &mut Tally) -> Vec<&Workload> {
        let mut lined_up = self.waiting(now).remove(&queue.name).unwrap_or_default();
        lined_up.retain(|workload| !self.is_passed(queue, workload));
        let before = lined_up.len();
        let mut lined_up = let_in(queue, lined_up);
        tally.queue_full += u64::from(lined_up.len() < before);
        if queue.admission_scope == AdmissionScope::ByUsage {
            let first = lined_up.first().map(|workload| workload.id.clone());
            lined_up.sort_by_cached_key(|w| (self.standing(queue, &w.queue), order(w)));
            let now_first = lined_up.first().map(|workload| workload.id.clone());
            tally.standings_decide += u64::from(first != now_first);
        }
        lined_up
    }

    /// Whether a workload holds nobody up, as it could not be admitted if nothing were used.
    pub(crate) fn is_passed(&self, queue: &ClusterQueue, workload: &Workload) -> bool {
        let may_hold_up =
            queue.strategy == QueueingStrategy::StrictFifo || queue.max_pending.is_some();
        if !may_hold_up || !self.active(queue) {
            return false;
        }
        let tree = self.tree(&self.root(&queue.name).unwrap());
        let nothing = tree.nothing();
        let views = Views {
            now: nothing.clone(),
            planned: nothing.clone(),
            unclaimed: nothing,
            holders: Vec::new(),
            kept: Vec::new(),
        };
        !self.scene(&tree, &views).ever_fits(queue, workload)
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
            let cells: Vec<usize> = cells.collect();
            let mut quota: i128 = cells.iter().map(|cell| tree.subtree(node, *cell)).sum();
            if quota == 0 {
                // What it could have in the flavors that it names for this.
                let named = |cell: &&usize| {
                    let group = group_of(&queue.resource_groups, resource);
                    let mut flavors = group.into_iter().flat_map(|(_, group)| &group.flavors);
                    let found = flavors.find(|flavor| flavor.name == tree.cells[**cell].0);
                    found.is_some_and(|flavor| flavor.resources.contains_key(resource))
                };
                let named = cells.iter().filter(named);
                quota = named.map(|cell| tree.potential(node, *cell)).sum();
            }
            let sum = consumed(resource).unwrap_or_default() + used(resource);
            if quota > 0 {
                most = most.max(part(sum, quota));
            }
        }
        match self.locals[key].fair_weight.thousandths() {
            0 => (i128::MAX / 2).saturating_add(most),
            weight => weighted(most, weight.into()),
        }
    }

    /// Who waits for which queue and could be taken now, in the order of the workloads.
    fn waiting(&self, now: Time) -> BTreeMap<ClusterQueueName, Vec<&Workload>> {
        let mut waiting: BTreeMap<ClusterQueueName, Vec<&Workload>> = BTreeMap::new();
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
                Some(admission.unused_since?.after(timeout(queue, admission)?))
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
        let timeout = queue.and_then(|queue| timeout(queue, admission));
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
}

/// Those that come in where only so many may wait, of all that wait in order: the first ones; or, where usage decides
/// between LocalQueues, the first of each, then the second of each.
fn let_in<'a>(queue: &ClusterQueue, all: Vec<&'a Workload>) -> Vec<&'a Workload> {
    let mut numbers: BTreeMap<&LocalQueueKey, usize> = BTreeMap::new();
    let number = |workload: &'a Workload| {
        let number = numbers.entry(&workload.queue).or_default();
        *number += usize::from(queue.admission_scope == AdmissionScope::ByUsage);
        (*number, workload)
    };
    let mut numbered: Vec<_> = all.into_iter().map(number).collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.truncate(queue.max_pending.unwrap_or(usize::MAX));
    let mut first: Vec<_> = numbered.into_iter().map(|(_, one)| one).collect();
    first.sort_by_key(|workload| order(workload));
    first
}

/// How long this admission may be unused in this queue.
fn timeout(queue: &ClusterQueue, admission: &Admission) -> Option<Duration> {
    if admission.had_nodes {
        queue.recovery_timeout
    } else {
        queue.reservation_timeout
    }
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
