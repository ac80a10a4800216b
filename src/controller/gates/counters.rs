//! Gates with a counter: the places that were given. A place is taken by an object that the gate was lifted from and
//! that has not finished; that is kept on the object itself, so that a restart counts the same. How many places are free,
//! and who gets the next one, is told in `plan/gates/counter.rs`.

use std::collections::{BTreeMap, BTreeSet};

use sluice_kinds::gates::Gate;
use sluice_kinds::hold::Hold;

use sluice_engine::LocalQueueKey;
use sluice_kinds::suspension::Suspension;
use sluice_kinds::view::LabelledQueue;

use crate::cache::held::Held;
use crate::cache::{JobRecord, Subject};
use crate::controller::Controller;
use crate::plan::gates::counter::{self, PlaceAtGate, WithoutPlace};
use crate::plan::workload::priority::Priority;

/// Why such a gate is lifted, in the record of the object.
const FREE: &str = "a place was free";

/// The places that were given and that no object shows yet: the write is under way, or has failed and is tried
/// again. They count as taken.
#[derive(Debug, Default)]
pub struct Counters {
    given: BTreeMap<Gate, BTreeMap<Subject, Given>>,
    /// Places that the status of a Gate counts and no object shows: those objects may be of a kind that can't be listed.
    /// Noted when places are counted for the first time, and when a kind is forgotten; dropped once all kinds are listed.
    unlisted: Option<BTreeMap<Gate, usize>>,
}

/// What becomes of a place that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// The gate is to be lifted.
    ToUse,
    /// Its object would not go on any more, but may pass the gate yet: nobody knows how the last write has ended.
    InDoubt,
}

impl Counters {
    /// Why `gate` is to be lifted from `subject` now, if it has been given a place.
    pub fn opened(&self, gate: &Gate, subject: &Subject) -> Option<&'static str> {
        (self.place(gate, subject)? == Given::ToUse).then_some(FREE)
    }

    fn place(&self, gate: &Gate, subject: &Subject) -> Option<Given> {
        self.given.get(gate)?.get(subject).copied()
    }

    /// Gives back the places of an object from which its gates can't be lifted.
    pub fn give_back(&mut self, subject: &Subject) {
        for given in self.given.values_mut() {
            given.remove(subject);
        }
    }

    /// Whether an object was given a place that it does not show yet.
    fn has_given(&self, subject: &Subject) -> bool {
        self.given.values().any(|given| given.contains_key(subject))
    }

    /// So many objects that have passed `gate` are not known any more. Before places are counted for the first time, the
    /// status of the Gate says so.
    fn forgotten(&mut self, gate: Gate, count: usize) {
        if let Some(unlisted) = &mut self.unlisted
            && 0 < count
        {
            let of_gate = unlisted.entry(gate).or_default();
            *of_gate = of_gate.saturating_add(count);
        }
    }

    /// How many places of `gate` are taken that no object shows.
    fn not_shown(&self, gate: &Gate) -> usize {
        let given = self.given.get(gate).map_or(0, BTreeMap::len);
        let unlisted = self.unlisted.as_ref().and_then(|all| all.get(gate));
        given.saturating_add(unlisted.copied().unwrap_or_default())
    }

    /// Says anew of each place what becomes of it. Those that are shown, or not wanted any more, are forgotten. Returns
    /// whose doubt has ended: they are to be planned again.
    fn review(&mut self, of: impl Fn(&Gate, &Subject) -> Option<Given>) -> Vec<Subject> {
        let mut resumed = Vec::new();
        self.given.retain(|gate, given| {
            given.retain(|subject, place| {
                let next = of(gate, subject);
                if (*place, next) == (Given::InDoubt, Some(Given::ToUse)) {
                    resumed.push(subject.clone());
                }
                *place = next.unwrap_or(*place);
                next.is_some()
            });
            !given.is_empty()
        });
        resumed
    }
}

fn has_place_at_each(gates: &BTreeSet<Gate>, free: &BTreeMap<Gate, usize>) -> bool {
    let is_free = |gate: &Gate| free.get(gate).is_some_and(|free| 0 < *free);
    gates.iter().all(is_free)
}

impl Controller {
    /// Gives free places to those that wait, by priority and then age, and has them planned. A place is given to an
    /// object only when all gates without a counter are gone: it would not use it before. What several counters hold
    /// gets a place of each at once, or none: two objects would wait for each other's.
    pub(in crate::controller) fn count_places(&mut self) {
        let gates = self.cluster.gates.iter();
        let limits = gates.filter_map(|(gate, object)| Some((gate.clone(), object.limit()?)));
        let limits: BTreeMap<Gate, usize> = limits.collect();
        self.note_unlisted(&limits);
        let mut counters = std::mem::take(&mut self.counters);
        let resumed = counters.review(|gate, subject| self.given(gate, subject, &limits));
        self.counters = counters;
        self.agenda.plan_all(resumed);
        let free = limits.iter().map(|(gate, limit)| {
            let not_shown = self.counters.not_shown(gate);
            let free = counter::free(*limit, self.objects.passed(gate), not_shown);
            (gate.clone(), free)
        });
        let mut free: BTreeMap<Gate, usize> = free.collect();
        for gate in limits.keys() {
            for subject in self.next_at(gate, &free) {
                self.give_places(&subject, &mut free);
            }
        }
    }

    /// Gives an object a place of each gate that holds it, if all have one.
    fn give_places(&mut self, subject: &Subject, free: &mut BTreeMap<Gate, usize>) {
        let gates = self.gates_that_hold(subject);
        if !has_place_at_each(&gates, free) {
            return;
        }
        for gate in gates {
            if let Some(free) = free.get_mut(&gate) {
                *free = free.saturating_sub(1);
            }
            let given = self.counters.given.entry(gate).or_default();
            given.insert(subject.clone(), Given::ToUse);
        }
        self.agenda.plan(subject.clone());
    }

    /// The gates that hold an object.
    fn gates_that_hold(&self, subject: &Subject) -> BTreeSet<Gate> {
        let gated = self.objects.gates_of(subject);
        let names = gated.iter().flat_map(|gated| gated.gates.names());
        names.cloned().collect()
    }

    /// Objects that have passed may be of a kind that can't be listed: the status of the Gate says how many had passed.
    fn note_unlisted(&mut self, limits: &BTreeMap<Gate, usize>) {
        if self.kinds.all_listed() {
            self.counters.unlisted = Some(BTreeMap::new());
        } else if self.counters.unlisted.is_none() {
            let taken = limits.keys().filter_map(|gate| {
                let told = self.cluster.gates.get(gate)?.status.passed?;
                let missing = usize::try_from(told)
                    .ok()?
                    .checked_sub(self.objects.passed(gate))?;
                Some((gate.clone(), missing))
            });
            self.counters.unlisted = Some(taken.collect());
        }
    }

    /// Whether a job has one of the places that Gates count, or may turn out to have one.
    pub(in crate::controller) fn has_place_at_gate(&self, job: &JobRecord) -> bool {
        let counts = |gate: &Gate| {
            let object = self.cluster.gates.get(gate);
            object.is_some_and(|object| object.spec.counter.is_some())
        };
        let mut passed = job.gate_record.lifted_by_sluice(&job.uid);
        job.finished().is_none()
            && (passed.any(|lifted| Gate::parse(&lifted.gate, "").is_ok_and(|gate| counts(&gate)))
                || self.counters.has_given(&Subject::Job(job.uid.clone())))
    }

    /// How many objects have passed each Gate.
    pub(in crate::controller) fn passed_by_gate(&self) -> Vec<(Gate, usize)> {
        let gates = self.cluster.gates.iter();
        let passed = gates.map(|(gate, _)| (gate.clone(), self.objects.passed(gate)));
        passed.collect()
    }

    /// Objects are forgotten that were there when so many had passed: they stay counted until all kinds are listed.
    pub(in crate::controller) fn count_forgotten(&mut self, passed: Vec<(Gate, usize)>) {
        for (gate, before) in passed {
            let left = self.objects.passed(&gate);
            self.counters.forgotten(gate, before.saturating_sub(left));
        }
    }

    /// The first objects that wait for a place of `gate`, and find one at each other gate that holds them. What can't be
    /// written to now has its turn later.
    fn next_at(&self, gate: &Gate, free: &BTreeMap<Gate, usize>) -> Vec<Subject> {
        let count = free.get(gate).copied().unwrap_or_default();
        if count == 0 {
            return Vec::new();
        }
        let waiting = self.objects.held_by(gate).filter(|held| {
            self.counters.place(gate, &held.subject).is_none()
                && !self.writes.is_backing_off(&held.subject)
                && self.waits_at(gate, &held.subject, free)
                && has_place_at_each(&self.gates_that_hold(&held.subject), free)
        });
        counter::first(waiting.map(|held| self.place_at_gate(held)), count)
    }

    /// A gate is shared by tenants. Which classes an object may name says its ClusterQueue: without one it goes before
    /// nobody.
    fn place_at_gate(&self, held: &Held) -> PlaceAtGate {
        let of_queue = |queue: &LabelledQueue, priority: Option<Priority>| {
            priority.filter(|priority| *queue != LabelledQueue::None || priority.value < 0)
        };
        let priority = match &held.subject {
            Subject::Pod(uid) => {
                let pod = self.objects.pods.of(uid);
                pod.and_then(|(key, pod)| {
                    of_queue(&pod.queue, self.pod_priority(&key.namespace, pod).ok())
                })
            }
            subject => {
                let job = self.objects.job_of(subject);
                job.and_then(|(key, job)| {
                    of_queue(&job.queue, self.priority(&key.namespace, job).ok())
                })
            }
        };
        PlaceAtGate::new(priority.as_ref(), held.created, held.subject.clone())
    }

    /// What becomes of the place that was given to an object, if it still needs one.
    fn given(
        &self,
        gate: &Gate,
        subject: &Subject,
        counters: &BTreeMap<Gate, usize>,
    ) -> Option<Given> {
        if self.waits_at(gate, subject, counters) {
            return Some(Given::ToUse);
        }
        let gated = self.objects.gates_of(subject)?;
        let may_pass = !gated.has_ended
            && gated.gates.contains(gate)
            && self.writes.may_be_lifted(subject, self.now.moment);
        may_pass.then_some(Given::InDoubt)
    }

    /// Whether `gate` holds an object, with no gates but those that have a counter, and it goes on without them: what its
    /// user has suspended, or what names a queue that admits nothing, would take a place for nothing.
    fn waits_at(&self, gate: &Gate, subject: &Subject, counters: &BTreeMap<Gate, usize>) -> bool {
        let gated = self.objects.gates_of(subject).filter(|gated| gated.is_held);
        let Some(gated) = gated else {
            return false;
        };
        !gated.kept.is_deactivated()
            && gated.gates.contains(gate)
            && gated.gates.names().all(|name| counters.contains_key(name))
            && self.does_not_go_on(subject, gated.queue).is_none()
    }

    /// Why `gate` with its `limit` gives no place to an object that it holds.
    pub(super) fn without_place(
        &self,
        gate: &Gate,
        subject: &Subject,
        limit: usize,
    ) -> Option<WithoutPlace> {
        let gated = self.objects.gates_of(subject)?;
        let counts = |name: &Gate| {
            let object = self.cluster.gates.get(name);
            object.is_some_and(|object| object.limit().is_some())
        };
        let not_shown = self.counters.not_shown(gate);
        if let Some(why) = self.does_not_go_on(subject, gated.queue) {
            Some(why)
        } else if !gated.gates.names().all(counts) {
            Some(WithoutPlace::OtherGates)
        } else if counter::free(limit, self.objects.passed(gate), not_shown) == 0 {
            Some(WithoutPlace::Taken(limit))
        } else {
            None
        }
    }

    /// Why an object neither starts nor is queued when no gate holds it. Nothing is lifted while its kind is not planned;
    /// and of what can't be read only where its pods go on by themselves.
    fn does_not_go_on(&self, subject: &Subject, queue: &LabelledQueue) -> Option<WithoutPlace> {
        let job = self.objects.job_of(subject);
        if job.is_some_and(|(key, job)| {
            let is_planned = self.kinds.has_listed(&key.kind) && !self.kinds.is_retiring(&key.kind);
            !is_planned || job.reading.is_err() && job.hold != Hold::EachPod
        }) {
            return Some(WithoutPlace::NotStarted);
        }
        let suspension = job.map_or(Suspension::None, |(_, job)| job.suspension());
        let namespace = match (subject, job) {
            (_, Some((key, _))) => Some(&key.namespace),
            (Subject::Pod(uid), None) => self.objects.pods.key(uid).map(|key| &key.namespace),
            (_, None) => None,
        };
        counter::does_not_go_on(queue, suspension, &|queue| {
            namespace.is_some_and(|namespace| {
                let key = LocalQueueKey::new(namespace.clone(), queue);
                let active = self.engine.local_queue_active(&key);
                active.is_some_and(|active| active.is_ok())
            })
        })
    }
}
