//! Gates with a counter: who gets the next place. A place is taken by an object that the gate was lifted from and
//! that has not finished; that is kept on the object itself, so that a restart counts the same.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use sluice_kinds::gates::Gate;

use crate::cache::held::Held;
use crate::cache::{ObjectCache, Subject};
use crate::controller::Controller;

/// Why such a gate is lifted, in the record of the object.
const FREE: &str = "a place was free";

/// The places that were given and that no object shows yet: the write is under way, or has failed and is tried
/// again. They count as taken.
#[derive(Debug, Default)]
pub struct Counters {
    given: BTreeMap<Gate, BTreeSet<Subject>>,
}

impl Counters {
    /// Why `gate` is to be lifted from `subject` now, if it has been given a place.
    pub fn opened(&self, gate: &Gate, subject: &Subject) -> Option<&'static str> {
        let given = self.given.get(gate)?;
        given.contains(subject).then_some(FREE)
    }

    /// Forgets the places that are shown, or not wanted any more; and gates that do not count any more.
    fn forget(&mut self, counts: &BTreeMap<Gate, usize>, wants: impl Fn(&Gate, &Subject) -> bool) {
        self.given.retain(|gate, given| {
            given.retain(|subject| wants(gate, subject));
            counts.contains_key(gate) && !given.is_empty()
        });
    }
}

impl Controller {
    /// Gives free places to those that wait, by priority and then age, and has them planned. A place is given
    /// to an object only when all its other gates are gone: it would not use it before.
    pub(in crate::controller) fn count_places(&mut self) {
        let gates = self.cluster.gates.iter();
        let limits = gates.filter_map(|(gate, object)| Some((gate.clone(), object.spec.counter?)));
        let limits: BTreeMap<Gate, usize> = limits
            .map(|(gate, counter)| (gate, usize::try_from(counter.limit).unwrap_or_default()))
            .collect();
        let objects = &self.objects;
        self.counters
            .forget(&limits, |gate, subject| waits(objects, gate, subject));
        for (gate, limit) in limits {
            let shown = self.objects.passed(&gate);
            let given = self.counters.given.get(&gate).map_or(0, BTreeSet::len);
            let free = limit.saturating_sub(shown.saturating_add(given));
            if free == 0 {
                continue;
            }
            let next = self.next_at(&gate, free);
            if !next.is_empty() {
                self.agenda.plan_all(next.iter().cloned());
                self.counters.given.entry(gate).or_default().extend(next);
            }
        }
    }

    /// The first objects that `gate` alone holds.
    fn next_at(&self, gate: &Gate, count: usize) -> Vec<Subject> {
        let waiting = self.objects.held_by(gate).filter(|held| {
            self.counters.opened(gate, &held.subject).is_none()
                && waits(&self.objects, gate, &held.subject)
        });
        let mut waiting: Vec<_> = waiting
            .map(|held| (self.place_at_gate(held), held))
            .collect();
        waiting.sort_by(|(one, _), (other, _)| one.cmp(other));
        let first = waiting.into_iter().take(count);
        first.map(|(_, held)| held.subject.clone()).collect()
    }

    /// The higher priority first, then the older object. What names a class that is not there has none.
    fn place_at_gate(&self, held: &Held) -> (Reverse<i32>, Option<Timestamp>, Subject) {
        let priority = match &held.subject {
            Subject::Pod(uid) => {
                let pod = self.objects.pods.of(uid);
                pod.and_then(|(_, pod)| self.pod_priority(pod).ok())
            }
            subject => {
                let job = self.objects.job_of(subject);
                job.and_then(|(_, job)| self.priority(job).ok())
            }
        };
        let priority = priority.map_or(0, |priority| priority.value);
        (Reverse(priority), held.created, held.subject.clone())
    }
}

/// Whether `gate` alone holds an object that may go on without it.
fn waits(objects: &ObjectCache, gate: &Gate, subject: &Subject) -> bool {
    let gated = objects.gates_of(subject).filter(|gated| gated.is_held);
    gated.is_some_and(|gated| !gated.kept.is_deactivated() && gated.gates.names().eq([gate]))
}
