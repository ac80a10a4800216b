//! Takes the steps of a history, with an engine and the oracle side by side, and compares them
//! after each.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_engine::{
    Admission, AdmissionScope, Amount, Consumed, Decision, Engine, Event, EvictReason, Explanation,
    LocalQueue, LocalQueueKey, ResourceName, Snapshot, Time, Workload, WorkloadId, WorkloadState,
};

use crate::histories::explained::check_trials;
use crate::histories::steps::{History, Move, Step};
use crate::oracle::quota::{Charge, Node};
use crate::oracle::recount::check_account;
use crate::oracle::tally::Tally;
use crate::oracle::{Oracle, charge_of};

/// More rounds of decisions than this without rest are taken for a circle.
const ROUNDS_MAX: usize = 60;

struct Play {
    engine: Engine,
    oracle: Oracle,
    now: Time,
    salt: u64,
    /// The moment of the last decision, and what each LocalQueue has used since, where that counts.
    used_since: (Time, BTreeMap<LocalQueueKey, BTreeMap<ResourceName, i128>>),
}

/// Plays a history and checks everything on the way; says what happened how often.
pub(crate) fn play(history: History, salt: u64, subsets_of_max: usize) -> Tally {
    let mut play = Play {
        engine: Engine::new(history.settings.clone()),
        oracle: Oracle::new(history.settings),
        now: Time::default(),
        salt,
        used_since: (Time::default(), BTreeMap::new()),
    };
    play.oracle.subsets_of_max = subsets_of_max;
    for step in history.steps {
        play.step(step);
        // Questions may be asked at any time, also between a change and the next decision.
        check_account(&play.engine, &play.oracle);
    }
    play.comes_to_rest();
    play.oracle.tally
}

impl Play {
    fn step(&mut self, step: Step) {
        match step {
            Step::Tell(event) => self.tell(event),
            Step::Arrive(workload) => self.tell(Event::UpsertWorkload(workload)),
            Step::Move(id, to) => {
                if let Some(workload) = self.moved(&id, to) {
                    self.tell(Event::UpsertWorkload(workload));
                }
            }
            Step::ConfirmAll => self.confirm_all(),
            Step::FailAll => self.fail_all(),
            Step::CarryOut => self.carry_out(),
            Step::Pass(millis) => self.now = later(self.now, millis),
            Step::Decide => {
                self.decide();
            }
        }
    }

    fn tell(&mut self, event: Event) {
        if let Event::RemoveLocalQueue(key) | Event::UpsertLocalQueue(LocalQueue { key, .. }) =
            &event
        {
            self.used_since.1.remove(key);
        }
        self.engine.apply(event.clone());
        self.oracle.apply(event);
    }

    fn moved(&self, id: &WorkloadId, to: Move) -> Option<Workload> {
        let mut workload = self.oracle.workloads.get(id)?.clone();
        let admission = self.oracle.admission(id).cloned();
        workload.state = match to {
            Move::Pend => WorkloadState::Pending,
            Move::Requeue(millis) => {
                workload.not_before = Some(later(self.now, millis));
                WorkloadState::Pending
            }
            Move::Prioritize(priority) => {
                workload.priority = priority;
                workload.state
            }
            Move::Confirm => WorkloadState::Admitted(admission?),
            Move::Bind(bound) => still(&workload.state, bind(admission?, bound)),
            Move::End(ended) => still(&workload.state, end(admission?, ended)),
            Move::Unused(unused) => {
                let unused_since = unused.then_some(self.now);
                let admission = Admission {
                    unused_since,
                    ..admission?
                };
                still(&workload.state, admission)
            }
            Move::Evict => WorkloadState::Evicting(admission?, None),
            Move::Finish => WorkloadState::Finished,
            Move::Deactivate => WorkloadState::Inactive,
        };
        Some(workload)
    }

    fn confirm_all(&mut self) {
        for id in self.oracle.assumed.keys().cloned().collect::<Vec<_>>() {
            let confirmed = self.moved(&id, Move::Confirm).unwrap();
            self.tell(Event::UpsertWorkload(confirmed));
        }
    }

    fn fail_all(&mut self) {
        for id in self.oracle.assumed.keys().cloned().collect::<Vec<_>>() {
            self.tell(Event::AdmissionFailed(id));
        }
    }

    fn carry_out(&mut self) {
        for (id, workload) in self.oracle.workloads.clone() {
            let to = match workload.state {
                WorkloadState::Evicting(..) => Move::Pend,
                _ if self.oracle.asked.contains_key(&id) => Move::Evict,
                _ => continue,
            };
            let moved = self.moved(&id, to).unwrap();
            self.tell(Event::UpsertWorkload(moved));
        }
    }

    /// Decides, and compares all there is to compare.
    fn decide(&mut self) -> Vec<Decision> {
        let before = self.engine.snapshot();
        let consumed = self.consumed();
        let decided = self.engine.decide(self.now);
        self.check_consumed(&consumed);
        self.learn_consumed();
        let mut judge = self.oracle.clone();
        let expected = self.oracle.decide(self.now);
        assert_eq!(
            self.by_tree(&decided),
            self.by_tree(&expected),
            "engine left, oracle right"
        );
        assert_eq!(self.engine.next_wake(), self.oracle.next_wake(self.now));
        let after = self.engine.snapshot();
        assert_eq!(after, self.oracle.snapshot(self.now));
        judge.check_admissions(&decided);
        check_charges(before, &after, &decided);
        let again = self.engine.decide(self.now);
        assert_eq!(again, [], "a second decision has nothing left to do");
        self.note_usage();
        self.check_against_a_new_one();
        self.check_explanations();
        let mut tally = self.oracle.tally;
        check_trials(&self.engine, &self.oracle, self.now, &mut tally);
        self.oracle.tally = tally;
        decided
    }

    /// An engine that starts now decides what this one would, if all that it decided were written. It doesn't know for
    /// the least of whom others go.
    fn check_against_a_new_one(&self) {
        if !self.oracle.goes_for_least_of.is_empty() {
            return;
        }
        let mut old = Play {
            engine: self.engine.clone(),
            oracle: self.oracle.clone(),
            used_since: self.used_since.clone(),
            ..*self
        };
        old.confirm_all();
        let asked: Vec<_> = old.oracle.asked.keys().cloned().collect();
        for id in &asked {
            if old.oracle.workloads[id].evictable {
                let evicting = old.moved(id, Move::Evict).unwrap();
                old.tell(Event::UpsertWorkload(evicting));
            }
        }
        // A restart begins a new round of preemptions.
        if !old.oracle.rounds.is_empty() {
            old.end_rounds();
        }
        let mut new = old.rebuilt(self.salt);
        let mut decided = new.decide(self.now);
        // It doesn't know who was asked to go and doesn't.
        decided.retain(|decision| !asked.contains(id_of(decision)));
        assert_eq!(decided, old.engine.decide(self.now), "new left, old right");
        assert_eq!(new.snapshot(), old.engine.snapshot(), "new left, old right");
    }

    /// In each queue a workload comes and goes: that changes nothing else.
    fn end_rounds(&mut self) {
        for key in self.oracle.locals.keys().cloned().collect::<Vec<_>>() {
            let guest = Workload::new("guest".into(), key);
            self.tell(Event::UpsertWorkload(guest));
            self.tell(Event::RemoveWorkload("guest".into()));
        }
    }

    /// Decisions by tree, in order; those that make room for the same one sorted.
    fn by_tree(&self, decisions: &[Decision]) -> BTreeMap<Option<Node>, Vec<Decision>> {
        let mut trees: BTreeMap<Option<Node>, Vec<Decision>> = BTreeMap::new();
        for decision in decisions {
            let root = match decision {
                Decision::Evict {
                    id,
                    reason: EvictReason::Preempted { .. },
                }
                | Decision::Admit { id, .. } => {
                    let admission = self.oracle.admission(id).unwrap();
                    self.oracle.root(&admission.queue)
                }
                Decision::Evict { .. } => None,
            };
            trees.entry(root).or_default().push(decision.clone());
        }
        let by = |decision: &Decision| match decision {
            Decision::Evict {
                reason: EvictReason::Preempted { by, .. },
                ..
            } => Some(by.clone()),
            _ => None,
        };
        for decisions in trees.values_mut() {
            for victims in
                decisions.chunk_by_mut(|one, next| by(one) == by(next) && by(one).is_some())
            {
                victims.sort_by_key(|decision| id_of(decision).clone());
            }
        }
        trees
    }

    /// What each LocalQueue has consumed, where that counts.
    fn consumed(&self) -> BTreeMap<LocalQueueKey, Consumed> {
        let status = |key| self.engine.local_queue_status(key)?.consumed;
        let keys = self.oracle.locals.keys();
        keys.filter_map(|key| Some((key.clone(), status(key)?)))
            .collect()
    }

    /// What was consumed before fades, and what was used since the last decision comes in; not exactly, as this is by
    /// floats.
    #[allow(
        clippy::cast_precision_loss,
        clippy::disallowed_types,
        reason = "to compare exact amounts with another way to work them out"
    )]
    fn check_consumed(&self, before: &BTreeMap<LocalQueueKey, Consumed>) {
        let (at, used) = &self.used_since;
        let half_life = self.oracle.settings.usage_half_life.as_millis() as f64;
        let elapsed = (self.now.as_millis() - at.as_millis()) as f64;
        let left = 0.5f64.powf(elapsed / half_life);
        for (key, after) in self.consumed() {
            let (Some(before), Some(used)) = (before.get(&key), used.get(&key)) else {
                continue;
            };
            if before.at != *at {
                continue;
            }
            let amount = |consumed: &Consumed, resource: &ResourceName| {
                let amount = consumed.amounts.get(resource);
                amount.map_or(0.0, |amount| amount.get() as f64)
            };
            let resources = before.amounts.keys().chain(after.amounts.keys());
            for resource in resources.chain(used.keys()) {
                let used = used.get(resource).copied().unwrap_or_default().max(0) as f64;
                let expected = amount(before, resource) * left + used * (1.0 - left);
                let found = amount(&after, resource);
                let most = 2.0 + expected * 1e-6;
                assert!(
                    (found - expected).abs() <= most,
                    "{key:?} has consumed {expected} of {resource}, not {found}"
                );
            }
        }
    }

    fn note_usage(&mut self) {
        let mut used_since = BTreeMap::new();
        for key in self.consumed().into_keys() {
            let mut used: BTreeMap<ResourceName, i128> = BTreeMap::new();
            let held = self.oracle.held();
            for (_, admission) in held.filter(|(workload, _)| workload.queue == key) {
                for ((_, resource), amount) in charge_of(admission) {
                    *used.entry(resource).or_default() += amount;
                }
            }
            used_since.insert(key, used);
        }
        self.used_since = (self.now, used_since);
    }

    /// What the engine says was consumed up to now, the oracle takes as given.
    fn learn_consumed(&mut self) {
        for key in self.oracle.locals.keys() {
            let status = self.engine.local_queue_status(key).unwrap();
            let amounts = status.consumed.unwrap_or_default().amounts.into_iter();
            let amounts = amounts.map(|(resource, amount)| (resource, amount.get()));
            self.oracle.consumed.insert(key.clone(), amounts.collect());
        }
    }

    /// An engine that is told what the oracle knows, in an order that depends on `salt`.
    fn rebuilt(&self, salt: u64) -> Engine {
        rebuilt(&self.oracle, &self.engine, salt)
    }

    /// Every workload that waits is told why, and what "can never fit" doesn't even fit alone.
    fn check_explanations(&self) {
        for (id, workload) in &self.oracle.workloads {
            let explanation = self.engine.explain(id).unwrap();
            let text = explanation
                .display(&|_, amount| amount.to_string())
                .to_string();
            assert!(!text.is_empty());
            let told = !matches!(explanation, Explanation::Queued { .. });
            assert!(told || self.waits_by_usage(workload), "{id}: {text}");
            if explanation.never_fits() {
                let mut alone = self.oracle.clone();
                alone.assumed.clear();
                alone.workloads.clear();
                alone.workloads.insert(id.clone(), workload.clone());
                let decided = rebuilt(&alone, &self.engine, 0).decide(self.now);
                assert_eq!(decided, [], "{text}");
            }
        }
    }

    /// Whether it may wait behind another one that comes first because of what was used.
    fn waits_by_usage(&self, workload: &Workload) -> bool {
        let local = self.oracle.locals.get(&workload.queue);
        let queue = local.and_then(|local| self.oracle.queues.get(&local.cluster_queue));
        queue.is_some_and(|queue| queue.admission_scope == AdmissionScope::ByUsage)
    }

    /// With all that was decided carried out at once, and everybody who was evicted back in the
    /// queue, there is nothing left to decide after a while.
    fn comes_to_rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.now = later(self.now, 1);
            if self.decide().is_empty() {
                let mut fresh = self.rebuilt(self.salt);
                let mut other = self.rebuilt(self.salt.wrapping_add(1));
                assert_eq!(
                    fresh.decide(self.now),
                    other.decide(self.now),
                    "the order of events"
                );
                assert_eq!(fresh.snapshot(), other.snapshot());
                return;
            }
            self.confirm_all();
            self.carry_out();
            self.carry_out();
        }
        panic!("no rest after {ROUNDS_MAX} rounds");
    }
}

impl Oracle {
    /// Charges these admissions one after the other: none takes any node above what it may use.
    fn check_admissions(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            let Decision::Admit { id, admission } = decision else {
                continue;
            };
            let workload = &self.workloads[id];
            assert!(!self.assumed.contains_key(id), "{id} is admitted twice");
            assert_eq!(workload.state, WorkloadState::Pending, "{id} doesn't wait");
            for (pod_set, given) in workload.pod_sets.iter().zip(&*admission.pod_sets) {
                let least = pod_set
                    .min_count
                    .unwrap_or(pod_set.count)
                    .min(pod_set.count);
                assert!(
                    (least..=pod_set.count).contains(&given.count),
                    "{id}: {given:?}"
                );
            }
            let tree = self.tree(&self.root(&admission.queue).unwrap());
            let queue = tree.queue(&admission.queue).unwrap();
            let charge: Charge = (charge_of(admission).into_iter())
                .map(|(cell, amount)| (tree.cell(&cell), amount))
                .collect();
            let view = self.view(&tree, true);
            assert!(tree.all_fit(&view, queue, &charge), "{id} takes too much");
            self.assumed.insert(id.clone(), admission.clone());
        }
    }
}

/// A decision frees nothing, and charges what it admits.
fn check_charges(before: Snapshot, after: &Snapshot, decisions: &[Decision]) {
    let mut queues = before.queues;
    for decision in decisions {
        let Decision::Admit { admission, .. } = decision else {
            continue;
        };
        for ((flavor, resource), amount) in charge_of(admission) {
            if amount > 0 {
                let queue = queues.entry(admission.queue.clone()).or_default();
                let sum = queue
                    .entry(flavor)
                    .or_default()
                    .entry(resource)
                    .or_default();
                *sum = Amount::new(sum.get() + amount);
            }
        }
    }
    assert_eq!(
        queues, after.queues,
        "charged before, with what was admitted"
    );
}

fn later(now: Time, millis: i64) -> Time {
    Time::from_millis(now.as_millis() + millis)
}

fn id_of(decision: &Decision) -> &WorkloadId {
    match decision {
        Decision::Evict { id, .. } | Decision::Admit { id, .. } => id,
    }
}

/// On its way out or not, as before.
fn still(state: &WorkloadState, admission: Admission) -> WorkloadState {
    match state {
        WorkloadState::Evicting(_, by) => WorkloadState::Evicting(admission, by.clone()),
        _ => WorkloadState::Admitted(admission),
    }
}

/// A pod that has ended gives back what one pod was charged. Worked out pod by pod; what is absurd or
/// doesn't divide is left as it is.
fn end(mut admission: Admission, ended: u32) -> Admission {
    for pod_set in Arc::make_mut(&mut admission.pod_sets) {
        for _ in 0..ended.min(pod_set.count) {
            let before = pod_set.count;
            let divides = |amount: &Amount| amount.get() % i128::from(before) == 0;
            if !pod_set.usage.values().all(divides) {
                break;
            }
            let expected = pod_set.usage.clone().into_iter().map(|(resource, amount)| {
                let one = amount.get() / i128::from(before);
                (resource, Amount::new(amount.get() - one))
            });
            let expected = expected.collect();
            *pod_set = pod_set.clone().without(1);
            assert_eq!((pod_set.count, &pod_set.usage), (before - 1, &expected));
        }
    }
    admission
}

fn bind(mut admission: Admission, bound: u32) -> Admission {
    let pod_sets = Arc::make_mut(&mut admission.pod_sets);
    for (pod_set, more) in pod_sets.iter_mut().zip(0..) {
        pod_set.bound = bound.saturating_add(more);
    }
    admission
}

/// An engine that is told what the oracle knows, in an order that depends on `salt`. Those whose
/// eviction was decided are on their way out by then, but for those that don't go. Nobody is told of a preemptor that has
/// changed its mind, as only an engine that has seen that knows it.
pub(crate) fn rebuilt(oracle: &Oracle, engine: &Engine, salt: u64) -> Engine {
    let mut events: Vec<Event> = Vec::new();
    events.extend(oracle.flavors.values().cloned().map(Event::UpsertFlavor));
    events.extend(oracle.cohorts.values().cloned().map(Event::UpsertCohort));
    events.extend(
        oracle
            .queues
            .values()
            .cloned()
            .map(Event::UpsertClusterQueue),
    );
    events.extend(oracle.locals.values().cloned().map(|local| {
        let status = engine.local_queue_status(&local.key);
        let consumed = status.and_then(|status| status.consumed);
        let consumed = consumed.or(local.consumed.clone());
        Event::UpsertLocalQueue(LocalQueue { consumed, ..local })
    }));
    for (id, workload) in &oracle.workloads {
        let assumed = oracle.assumed.get(id).cloned();
        let by = oracle.made_to_go_by(id).cloned();
        let by = by.filter(|by| !oracle.changed_its_mind.contains(by));
        let state = match (&workload.state, assumed) {
            (WorkloadState::Admitted(admission), _)
                if oracle.asked.contains_key(id) && workload.evictable =>
            {
                WorkloadState::Evicting(admission.clone(), by)
            }
            (WorkloadState::Evicting(admission, _), None) => {
                WorkloadState::Evicting(admission.clone(), by)
            }
            (_, Some(admission)) => WorkloadState::Admitted(admission),
            (state, None) => state.clone(),
        };
        events.push(Event::UpsertWorkload(Workload {
            state,
            ..workload.clone()
        }));
    }
    let mut order: Vec<(u64, Event)> = (0u64..)
        .map(|n| {
            (n ^ salt)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
        .zip(events)
        .collect();
    order.sort_by_key(|(key, _)| *key);
    let mut engine = Engine::new(oracle.settings.clone());
    for (_, event) in order {
        engine.apply(event);
    }
    engine
}
