//! What the gates hold, and what has passed them. One index for jobs and one for pods; both are asked by
//! [`super::objects::ObjectCache::held`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_engine::LocalQueueKey;
use sluice_kinds::gates::{Gate, GateState};
use sluice_kinds::view::LabelledQueue;

use super::job::{JobKey, JobRecord};
use super::kept_gates::KeptGates;
use super::pod::{PodKey, PodRecord};
use super::subject::Subject;
use super::subject::Uid;
use crate::process::hashing::{HashMap, remove_from};
use crate::process::invariants::violated;

/// A job or a pod, as far as its gates are concerned.
#[derive(Debug, Clone, Copy)]
pub struct Gated<'a> {
    /// Its UID.
    pub uid: &'a Uid,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Since when it exists, on this process's clock.
    pub exists_since: Option<Timestamp>,
    /// Its gates.
    pub gates: &'a GateState,
    /// What it keeps of them.
    pub kept: &'a KeptGates,
    /// Whether its gates hold it, rather than having come too late.
    pub is_held: bool,
    /// Whether it has finished, or its pod has ended.
    pub has_ended: bool,
    /// The LocalQueue that it names.
    pub queue: &'a LabelledQueue,
}

impl<'a> From<&'a JobRecord> for Gated<'a> {
    fn from(job: &'a JobRecord) -> Self {
        Self {
            uid: &job.uid,
            created: job.created,
            exists_since: job.exists_since,
            gates: &job.gates,
            kept: &job.gate_record,
            is_held: job.is_held_by_gates(),
            has_ended: job.finished().is_some(),
            queue: &job.queue,
        }
    }
}

impl<'a> From<&'a PodRecord> for Gated<'a> {
    fn from(pod: &'a PodRecord) -> Self {
        Self {
            uid: &pod.uid,
            created: pod.created,
            exists_since: pod.exists_since(),
            gates: &pod.gates,
            kept: &pod.gate_record,
            is_held: pod.is_held_by_gates(),
            has_ended: !pod.is_live(),
            queue: &pod.queue,
        }
    }
}

impl Gated<'_> {
    /// Whether no gate holds it, and none is kept as lifted: so it is with most.
    fn is_free(self) -> bool {
        !self.is_held && self.kept.lifted.is_empty()
    }
}

/// An object that a gate holds. The order is by age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name of its JobKind; none for a pod.
    pub kind: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
    /// The object.
    pub subject: Subject,
    /// Since when it exists, on this process's clock.
    pub exists_since: Option<Timestamp>,
}

/// How many objects of each LocalQueue are held by other gates than Sluice's, of jobs or of pods.
#[derive(Debug, Default)]
pub struct GatedCounts(BTreeMap<LocalQueueKey, i32>);

impl GatedCounts {
    /// The counts that are not zero.
    pub fn by_queue(&self) -> &BTreeMap<LocalQueueKey, i32> {
        &self.0
    }

    pub(super) fn add(&mut self, queue: LocalQueueKey) {
        let count = self.0.entry(queue).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn remove(&mut self, queue: &LocalQueueKey) {
        let Some(count) = self.0.get_mut(queue) else {
            return violated("what gates do not hold any more was counted");
        };
        *count = count.saturating_sub(1);
        if *count <= 0 {
            self.0.remove(queue);
        }
    }
}

/// What the gates hold, of jobs or of pods.
#[derive(Debug, Default)]
pub struct HeldObjects {
    by_gate: HashMap<Gate, ByAge>,
    by_queue: HashMap<LocalQueueKey, OfQueue>,
    /// What each gate was lifted from and has not finished.
    passed: HashMap<Gate, BTreeSet<Subject>>,
}

/// What one gate holds.
#[derive(Debug, Default)]
struct ByAge {
    all: BTreeSet<Held>,
    /// Those for which no deadline of the gate has passed.
    unexpired: BTreeSet<Held>,
}

/// What gates hold of one LocalQueue.
#[derive(Debug, Default)]
struct OfQueue {
    all: BTreeSet<Held>,
    by_gate: HashMap<Gate, BTreeSet<Held>>,
}

/// How much one gate holds of one LocalQueue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldOfQueue {
    /// How many objects.
    pub count: usize,
    /// When the oldest of them was created.
    pub oldest: Option<Timestamp>,
    /// Since when that one exists, on this process's clock.
    pub oldest_exists_since: Option<Timestamp>,
}

impl HeldOfQueue {
    /// This and what else is held, as one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let oldest = |one: Option<_>, other| one.into_iter().chain(other).min();
        Self {
            count: self.count.saturating_add(other.count),
            oldest: oldest(self.oldest, other.oldest),
            oldest_exists_since: oldest(self.oldest_exists_since, other.oldest_exists_since),
        }
    }
}

impl HeldObjects {
    /// How many objects `gate` holds.
    pub fn count(&self, gate: &Gate) -> usize {
        self.by_gate.get(gate).map_or(0, |held| held.all.len())
    }

    /// What `gate` holds, the oldest first.
    pub fn of(&self, gate: &Gate) -> impl Iterator<Item = &Held> {
        let held = self.by_gate.get(gate);
        held.into_iter().flat_map(|held| &held.all)
    }

    /// What `gate` holds and no deadline of it has passed for, the oldest first.
    pub fn unexpired(&self, gate: &Gate) -> impl Iterator<Item = &Held> {
        let held = self.by_gate.get(gate);
        held.into_iter().flat_map(|held| &held.unexpired)
    }

    /// How many objects `gate` was lifted from that have not finished, as far as that is kept on the objects.
    pub fn passed(&self, gate: &Gate) -> usize {
        self.passed.get(gate).map_or(0, BTreeSet::len)
    }

    /// What gates hold of a LocalQueue, the oldest first.
    pub fn of_queue(&self, queue: &LocalQueueKey) -> impl Iterator<Item = &Held> {
        let held = self.by_queue.get(queue);
        held.into_iter().flat_map(|held| &held.all)
    }

    /// How much each gate holds of a LocalQueue.
    pub fn of_queue_by_gate(
        &self,
        queue: &LocalQueueKey,
    ) -> impl Iterator<Item = (&Gate, HeldOfQueue)> {
        let held = self.by_queue.get(queue);
        let gates = held.into_iter().flat_map(|held| &held.by_gate);
        gates.map(|(gate, held)| {
            let oldest = held.first();
            let of_queue = HeldOfQueue {
                count: held.len(),
                oldest: oldest.and_then(|held| held.created),
                oldest_exists_since: oldest.and_then(|held| held.exists_since),
            };
            (gate, of_queue)
        })
    }

    pub(super) fn add_job(&mut self, key: &JobKey, job: &JobRecord) {
        self.add(job.into(), || held_job(key, job));
    }

    pub(super) fn remove_job(&mut self, key: &JobKey, job: &JobRecord) {
        self.remove(job.into(), || held_job(key, job));
    }

    pub(super) fn add_pod(&mut self, key: &PodKey, pod: &PodRecord) {
        self.add(pod.into(), || held_pod(key, pod));
    }

    pub(super) fn remove_pod(&mut self, key: &PodKey, pod: &PodRecord) {
        self.remove(pod.into(), || held_pod(key, pod));
    }

    fn add(&mut self, gated: Gated<'_>, held: impl FnOnce() -> Held) {
        if gated.is_free() {
            return;
        }
        let held = held();
        if !gated.has_ended {
            for gate in passed_gates(gated) {
                let passed = self.passed.entry(gate).or_default();
                passed.insert(held.subject.clone());
            }
        }
        if !gated.is_held {
            return;
        }
        if let Some(queue) = queue_of(&held, gated) {
            let of_queue = self.by_queue.entry(queue).or_default();
            of_queue.all.insert(held.clone());
            for gate in gated.gates.names() {
                let of_gate = of_queue.by_gate.entry(gate.clone()).or_default();
                of_gate.insert(held.clone());
            }
        }
        for gate in gated.gates.names() {
            let of_gate = self.by_gate.entry(gate.clone()).or_default();
            of_gate.all.insert(held.clone());
            if !gated.kept.has_expired(gate, gated.uid) {
                of_gate.unexpired.insert(held.clone());
            }
        }
    }

    fn remove(&mut self, gated: Gated<'_>, held: impl FnOnce() -> Held) {
        if gated.is_free() {
            return;
        }
        let held = held();
        for gate in passed_gates(gated) {
            remove_from(&mut self.passed, &gate, &held.subject);
        }
        if !gated.is_held {
            return;
        }
        if let Some(queue) = queue_of(&held, gated)
            && let Some(of_queue) = self.by_queue.get_mut(&queue)
        {
            of_queue.all.remove(&held);
            for gate in gated.gates.names() {
                remove_from(&mut of_queue.by_gate, gate, &held);
            }
            if of_queue.all.is_empty() {
                self.by_queue.remove(&queue);
            }
        }
        for gate in gated.gates.names() {
            if let Some(of_gate) = self.by_gate.get_mut(gate) {
                of_gate.all.remove(&held);
                of_gate.unexpired.remove(&held);
                if of_gate.all.is_empty() {
                    self.by_gate.remove(gate);
                }
            }
        }
    }
}

fn queue_of(held: &Held, gated: Gated<'_>) -> Option<LocalQueueKey> {
    match gated.queue {
        LabelledQueue::Named(queue) => {
            Some(LocalQueueKey::new(held.namespace.clone(), queue.as_str()))
        }
        LabelledQueue::None | LabelledQueue::Invalid(_) => None,
    }
}

/// The gates that Sluice lifted from an object: one that somebody lifts by hand takes no place.
fn passed_gates(gated: Gated<'_>) -> impl Iterator<Item = Gate> {
    let lifted = gated.kept.lifted_by_sluice(gated.uid);
    let names = lifted.map(|lifted| lifted.gate.as_str());
    names.filter_map(|name| Gate::parse(name, "").ok())
}

fn held_job(key: &JobKey, job: &JobRecord) -> Held {
    Held {
        created: job.created,
        namespace: key.namespace.clone(),
        kind: Some(key.kind.clone()),
        name: key.name.clone(),
        subject: Subject::Job(job.uid.clone()),
        exists_since: job.exists_since,
    }
}

fn held_pod(key: &PodKey, pod: &PodRecord) -> Held {
    Held {
        created: pod.created,
        namespace: key.namespace.clone(),
        kind: None,
        name: key.name.clone(),
        subject: Subject::Pod(pod.uid.clone()),
        exists_since: pod.exists_since(),
    }
}
