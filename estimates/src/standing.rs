//! The jobs of a cohort tree as they stand, and how they are played from then on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{Event, LocalQueueKey, PodSet, Settings, Time, WorkloadId};

use crate::durations::{Asked, Durations};
use crate::play::{Job, Start, id_of};

/// A job as it stands.
#[derive(Debug, Clone)]
pub struct StandingJob {
    /// What it is called, by which others name the job that they are preempted for; none for one that is yet to come.
    pub id: Option<WorkloadId>,
    /// Its LocalQueue.
    pub queue: LocalQueueKey,
    /// Its kind.
    pub kind: Arc<str>,
    /// What it asks for.
    pub pod_sets: Arc<[PodSet]>,
    /// Higher goes first.
    pub priority: i32,
    /// When it was created, or will be.
    pub created: Time,
    /// How long it takes, if it says so; [`FOREVER`](crate::durations::FOREVER) if it never ends.
    pub said: Option<Duration>,
    /// How it stands. A preemptor is called by its id.
    pub start: Start,
}

/// A cohort tree as it stands.
#[derive(Debug, Clone, Copy)]
pub struct Tree<'a> {
    /// When that is so.
    pub now: Time,
    /// What the engine is told once.
    pub settings: &'a Settings,
    /// What makes its queues.
    pub setup: &'a [Event],
    /// Its jobs.
    pub jobs: &'a [StandingJob],
    /// Those of its jobs that have finished, as far as they are known: more of them may come.
    pub finished: &'a [StandingJob],
    /// Since when all are known that came and have finished; none if nothing is forgotten.
    pub known_since: Option<Time>,
    /// How long jobs run that have finished.
    pub durations: &'a Durations,
    /// How long a job runs if none like it has finished.
    pub default: Option<Duration>,
}

impl StandingJob {
    /// What is to be known of it, to know how long it takes.
    pub fn asked(&self, now: Time) -> Asked<'_> {
        Asked {
            queue: &self.queue,
            kind: &self.kind,
            pod_sets: &self.pod_sets,
            said: self.said,
            runs_for: self.start.runs_for(&self.pod_sets, now),
        }
    }
}

/// Jobs as they are played from `now` on, but for how long they take.
pub(crate) fn to_play<'a>(
    jobs: impl Iterator<Item = &'a StandingJob> + Clone,
    now: Time,
) -> Vec<Job> {
    let numbered = jobs.clone().enumerate();
    let ids: BTreeMap<&WorkloadId, usize> = numbered
        .filter_map(|(index, job)| Some((job.id.as_ref()?, index)))
        .collect();
    let job = |job: &StandingJob| Job {
        queue: job.queue.clone(),
        priority: job.priority,
        arrival: job.created.max(now),
        created: job.created.as_millis(),
        duration: job.said.unwrap_or_default(),
        pod_sets: job.pod_sets.clone(),
        start: job.start.as_played(&ids),
    };
    jobs.map(job).collect()
}

impl Start {
    /// The same, with its preemptor as it is called in a play of the jobs with these ids.
    #[must_use]
    pub fn as_played(&self, ids: &BTreeMap<&WorkloadId, usize>) -> Self {
        match self {
            Self::Evicting {
                admission,
                preemptor: Some(preemptor),
            } => Self::Evicting {
                admission: admission.clone(),
                preemptor: ids.get(preemptor).map(|index| id_of(*index)),
            },
            other => other.clone(),
        }
    }

    /// For how long a job with these pod sets has run, as if with all its pods.
    pub fn runs_for(&self, pod_sets: &[PodSet], now: Time) -> Duration {
        let Self::Admitted {
            admission, pods, ..
        } = self
        else {
            return Duration::ZERO;
        };
        let all = pod_sets.iter().map(|set| set.count);
        let all = all.fold(0, u32::saturating_add).max(1);
        now.since(admission.since).saturating_mul((*pods).min(all)) / all
    }
}
