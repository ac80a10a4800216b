//! The jobs of a simulation as the input has them, whatever they were read from.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{LocalQueueKey, PodSet, Time};

use super::play;
use super::quotas::Quotas;
use super::span::Moment;

/// Jobs that can be played. Each takes about half a KiB.
pub const JOBS_MAX: usize = 1_000_000;

/// A job as the input has it.
#[derive(Debug, Clone)]
pub struct InputJob {
    /// Its name, with its namespace.
    pub name: Arc<str>,
    /// The LocalQueue that it names.
    pub queue: LocalQueueKey,
    /// Its priority.
    pub priority: Priority,
    /// When it is created; none if nobody says.
    pub arrival: Option<Moment>,
    /// How long it takes.
    pub duration: Duration,
    /// What it asks for.
    pub pod_sets: Arc<[PodSet]>,
}

/// The priority of a job.
#[derive(Debug, Clone, Default)]
pub struct Priority {
    /// The class that it comes from.
    pub class: Option<Class>,
    /// Its value, if there is no such class.
    pub value: i32,
}

/// A class of priorities.
#[derive(Debug, Clone)]
pub enum Class {
    /// A WorkloadPriorityClass.
    Workload(Arc<str>),
    /// A PriorityClass.
    Pod(Arc<str>),
}

/// All jobs of a simulation. What is equal in them is kept once.
#[derive(Debug, Default)]
pub struct Jobs {
    all: Vec<InputJob>,
    pod_sets: BTreeSet<Arc<[PodSet]>>,
    queues: BTreeSet<LocalQueueKey>,
    names: BTreeSet<Arc<str>>,
    refused: usize,
}

impl Priority {
    /// What it is where these classes are.
    pub fn value(&self, quotas: &Quotas) -> i32 {
        let known = match &self.class {
            None => None,
            Some(Class::Workload(name)) => quotas.workload_priorities.get(&**name),
            Some(Class::Pod(name)) => quotas.pod_priorities.get(&**name),
        };
        known.copied().unwrap_or(self.value)
    }

    /// The name of its class.
    pub fn class(&self) -> Option<&str> {
        match self.class.as_ref()? {
            Class::Workload(name) | Class::Pod(name) => Some(name),
        }
    }
}

impl Jobs {
    /// One more; it is counted, and not kept, if there are too many.
    pub fn push(&mut self, job: InputJob) {
        if JOBS_MAX <= self.all.len() {
            self.refused += 1;
            return;
        }
        let pod_sets = intern(&mut self.pod_sets, job.pod_sets);
        let queue = intern(&mut self.queues, job.queue);
        self.all.push(InputJob {
            queue,
            pod_sets,
            ..job
        });
    }

    /// `text`, kept once.
    pub fn name(&mut self, text: &str) -> Arc<str> {
        match self.names.get(text) {
            Some(known) => known.clone(),
            None => intern(&mut self.names, text.into()),
        }
    }

    /// The jobs, in the order of the input.
    pub fn all(&self) -> &[InputJob] {
        &self.all
    }

    /// How many there are too many.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// The jobs as they are played in `quotas`. Moments are counted from the first of them; those
    /// jobs that nobody says anything of come one after the other, with `interval` between them.
    pub fn to_play(&self, quotas: &Quotas, interval: Duration) -> Vec<play::Job> {
        let moments = self.all.iter().filter_map(|job| match job.arrival {
            Some(Moment::At(millis)) => Some(millis),
            _ => None,
        });
        let zero = moments.min().unwrap_or_default();
        let mut next = Time::default();
        let mut arrival = |input: Option<Moment>| match input {
            Some(Moment::At(millis)) => Time::from_millis(millis.saturating_sub(zero)),
            Some(Moment::After(after)) => Time::default().after(after),
            None => {
                let at = next;
                next = next.after(interval);
                at
            }
        };
        let job = |input: &InputJob| play::Job {
            queue: input.queue.clone(),
            priority: input.priority.value(quotas),
            arrival: arrival(input.arrival),
            duration: input.duration,
            pod_sets: input.pod_sets.clone(),
        };
        self.all.iter().map(job).collect()
    }
}

/// The one of `known` that equals `value`, which may be itself.
fn intern<T: Ord + Clone>(known: &mut BTreeSet<T>, value: T) -> T {
    if let Some(same) = known.get(&value) {
        return same.clone();
    }
    known.insert(value.clone());
    value
}
