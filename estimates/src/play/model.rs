//! Jobs as they are played, and what a play comes to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{
    Admission, Amount, ClusterQueueName, Engine, Explanation, FlavorName, LocalQueueKey, Outlook,
    PodSet, PreemptionRight, ResourceName, Settings, Time, WorkloadId,
};

/// A job to be played.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The LocalQueue that it names.
    pub queue: LocalQueueKey,
    /// Higher goes first.
    pub priority: i32,
    /// When it comes to be known; no earlier than the beginning.
    pub arrival: Time,
    /// When it was created, in milliseconds: among equal priorities the oldest goes first.
    pub created: i64,
    /// How long it takes with all its pods.
    pub duration: Duration,
    /// What it asks for.
    pub pod_sets: Arc<[PodSet]>,
    /// How it stands when it arrives.
    pub start: Start,
}

/// How a job stands when it arrives.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Start {
    /// It waits.
    #[default]
    Pending,
    /// It waits, and backs off until this time.
    BackingOff(Time),
    /// It holds quota, and runs since then.
    Admitted {
        /// What it holds.
        admission: Admission,
        /// With how many pods it was admitted, those included that have ended.
        pods: u32,
        /// Whether an eviction has an effect on it.
        evictable: bool,
    },
    /// It was evicted, and its pods have not ended.
    Evicting {
        /// What it holds.
        admission: Admission,
        /// The job that it was preempted for.
        preemptor: Option<WorkloadId>,
    },
}

/// How it is played.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What the engine is told once.
    pub settings: Settings,
    /// How long the pods of an evicted job take to stop.
    pub eviction: Duration,
    /// What an evicted job has done counts, or not.
    pub restart: Restart,
    /// Nothing is played that comes after this moment.
    pub until: Option<Time>,
    /// Nothing is played after each of these jobs was admitted; if there are none, all is.
    pub until_admitted: Vec<usize>,
}

/// Where an evicted job goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// At its beginning.
    FromStart,
    /// Where it was when it was evicted.
    WhereItWas,
}

/// A flavor and a resource.
pub type Cell = (FlavorName, ResourceName);

/// The usage of a run. Equal ones are kept once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunUsage {
    /// The ClusterQueue.
    pub queue: ClusterQueueName,
    /// The usage by flavor and resource.
    pub cells: BTreeMap<Cell, Amount>,
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The play ended before it was created.
    NotArrived,
    /// It waits, for the first time or again.
    Waiting,
    /// It runs.
    Running,
    /// It was evicted, and its pods have not ended.
    Stopping,
    /// It did what it was for.
    Finished(Time),
}

/// Once from an admission to the moment when its quota is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The number of the job.
    pub job: usize,
    /// When it was admitted.
    pub from: Time,
    /// When its quota was free; the end of the play if it was not.
    pub until: Time,
    /// The number of its usage.
    pub usage: usize,
    /// How many pods it was admitted with.
    pub pods: u32,
    /// When and why it was evicted, if it was.
    pub evicted: Option<(Time, Cause)>,
    /// The job that it was preempted for, if it was.
    pub preemptor: Option<usize>,
}

/// Why a job was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its ClusterQueue or LocalQueue was stopped.
    Stopped,
    /// It held quota that it didn't use.
    ReservationTimedOut,
    /// It was preempted.
    Preempted(PreemptionRight),
}

/// Why a play ended before all was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It was to end at that moment.
    Until,
    /// Jobs were evicted again and again.
    TooManyRuns,
    /// The jobs in question were admitted.
    Admitted,
}

/// What happened.
#[derive(Debug)]
pub struct Play {
    /// What became of each job.
    pub fates: Vec<Fate>,
    /// All runs, in the order of their admissions.
    pub runs: Vec<Run>,
    /// The usage of runs.
    pub usages: Vec<RunUsage>,
    /// When the first job was created.
    pub begin: Time,
    /// When the last thing happened.
    pub end: Time,
    /// Why it ended before all was over, if it did.
    pub cut: Option<Cut>,
    pub(super) engine: Engine,
}

impl Play {
    /// What the engine says of a job at the end.
    pub fn explain(&self, job: usize) -> Option<Explanation> {
        self.engine.explain(&id_of(job))
    }

    /// What a job holds at the end, if it does.
    pub fn admission(&self, job: usize) -> Option<&Admission> {
        self.engine.admission(&id_of(job))
    }

    /// How things stand at the end for a job that is queued then.
    pub fn outlook(&self, job: usize) -> Option<Outlook> {
        self.engine.outlook(&id_of(job))
    }
}

impl Cause {
    /// The word for it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::ReservationTimedOut => "ReservationTimedOut",
            Self::Preempted(right) => right.reason(),
        }
    }
}

impl Job {
    /// How many pods it has.
    pub fn pods(&self) -> u32 {
        let counts = self.pod_sets.iter().map(|set| set.count);
        counts.fold(0, u32::saturating_add)
    }

    /// What it is, in pods times milliseconds.
    pub(super) fn work(&self) -> u128 {
        self.duration.as_millis() * u128::from(self.pods().max(1))
    }
}

impl Start {
    /// Whether it waits, and held no quota before.
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending | Self::BackingOff(_))
    }
}

/// What the engine calls a job. Among equals the one that was named first goes first.
pub fn id_of(job: usize) -> WorkloadId {
    WorkloadId::from(format!("{job:07}"))
}

/// The number of the job that the engine calls `id`.
pub fn job_of(id: &WorkloadId) -> Option<usize> {
    id.as_str().parse().ok()
}
