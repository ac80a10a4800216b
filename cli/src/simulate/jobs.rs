//! The jobs of a simulation as the input has them, whatever they were read from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{ClusterQueueName, LocalQueueKey, PodSet, Time, WorkloadId};

use super::quotas::Quotas;
use super::span::Moment;
use sluice_estimates::durations::{Asked, Durations, Source};
use sluice_estimates::play::{self, Start};

/// Jobs that can be played. Each takes about half a KiB.
pub const JOBS_MAX: usize = 1_000_000;

/// Half of all cases, in thousandths.
const HALF: u16 = 500;

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
    /// How long it takes; none if nobody has said.
    pub duration: Option<Duration>,
    /// What it asks for.
    pub pod_sets: Arc<[PodSet]>,
    /// Its kind; empty for a line of a trace.
    pub kind: Arc<str>,
    /// What it is in the cluster that it was seen in; none for a job that is yet to come.
    pub seen: Option<SeenJob>,
}

/// A job of a cluster as it stands there.
#[derive(Debug, Clone)]
pub struct SeenJob {
    /// What the controller calls it.
    pub id: WorkloadId,
    /// How it stands. A preemptor is called as the controller calls it.
    pub start: Start,
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
            Some(Class::Workload(name)) => quotas.workload_priorities.get(&**name).copied(),
            Some(Class::Pod(name)) => quotas.pod_priority(name),
        };
        known.unwrap_or(self.value)
    }

    /// The name of its class.
    pub fn class(&self) -> Option<&str> {
        match self.class.as_ref()? {
            Class::Workload(name) | Class::Pod(name) => Some(name),
        }
    }
}

impl InputJob {
    /// What is to be known of it, to know how long it takes.
    pub fn asked(&self, now: Time) -> Asked<'_> {
        Asked {
            queue: &self.queue,
            kind: &self.kind,
            pod_sets: &self.pod_sets,
            said: self.duration,
            runs_for: (self.seen.as_ref()).map_or(Duration::ZERO, |seen| {
                seen.start.runs_for(&self.pod_sets, now)
            }),
        }
    }

    /// The ClusterQueue whose quota it holds, or waits for.
    pub fn cluster_queue<'a>(&'a self, quotas: &'a Quotas) -> Option<&'a ClusterQueueName> {
        match self.seen.as_ref().map(|seen| &seen.start) {
            Some(Start::Admitted { admission, .. } | Start::Evicting { admission, .. }) => {
                Some(&admission.queue)
            }
            _ => quotas.queue_of(&self.queue),
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

    /// Has each job take what is likely: half of the jobs like it take no longer. Returns how that is known, and of how
    /// many jobs.
    ///
    /// # Errors
    /// The names of those of which nothing is known.
    pub fn estimate_durations(
        &mut self,
        durations: &Durations,
        default: Option<Duration>,
        now: Time,
    ) -> Result<BTreeMap<Source, usize>, Vec<Arc<str>>> {
        let (mut known, mut unknown) = (BTreeMap::new(), Vec::new());
        for job in &mut self.all {
            let Some((source, likely)) = durations.likely(job.asked(now), default) else {
                unknown.push(job.name.clone());
                continue;
            };
            let takes = likely.within(HALF);
            job.duration = Some(takes);
            let count: &mut usize = known.entry(source).or_default();
            *count += 1;
        }
        if unknown.is_empty() {
            Ok(known)
        } else {
            unknown.sort_unstable();
            Err(unknown)
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
}

/// Jobs as they are played in `quotas`. Where the play begins `now`, at a moment in a cluster, times are those of
/// the cluster. Else moments are counted from the first of them. Jobs that nobody says anything of come one after
/// the other, with `interval` between them.
pub fn to_play(
    all: &[InputJob],
    quotas: &Quotas,
    interval: Duration,
    now: Option<Time>,
) -> Vec<play::Job> {
    let moments = all.iter().filter_map(|job| match job.arrival {
        Some(Moment::At(millis)) => Some(millis),
        _ => None,
    });
    let zero = match now {
        Some(_) => 0,
        None => moments.min().unwrap_or_default(),
    };
    let begin = now.unwrap_or_default();
    let mut next = begin;
    let mut created = |input: Option<Moment>| match input {
        Some(Moment::At(millis)) => Time::from_millis(millis.saturating_sub(zero)),
        Some(Moment::After(after)) => begin.after(after),
        None => {
            let at = next;
            next = next.after(interval);
            at
        }
    };
    let seen = all.iter().enumerate();
    let ids: BTreeMap<&WorkloadId, usize> = seen
        .filter_map(|(index, job)| Some((&job.seen.as_ref()?.id, index)))
        .collect();
    let job = |input: &InputJob| {
        let created = created(input.arrival);
        play::Job {
            queue: input.queue.clone(),
            priority: input.priority.value(quotas),
            arrival: created.max(begin),
            created: created.as_millis(),
            duration: input.duration.unwrap_or_default(),
            pod_sets: input.pod_sets.clone(),
            start: (input.seen.as_ref()).map_or(Start::Pending, |seen| seen.start.as_played(&ids)),
        }
    };
    all.iter().map(job).collect()
}

/// The one of `known` that equals `value`, which may be itself.
fn intern<T: Ord + Clone>(known: &mut BTreeSet<T>, value: T) -> T {
    if let Some(same) = known.get(&value) {
        return same.clone();
    }
    known.insert(value.clone());
    value
}
