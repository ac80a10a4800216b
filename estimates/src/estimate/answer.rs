//! What is answered to the question when a job will start: an estimate, or why there is none.

use serde::Serialize;
use sluice_engine::Explanation;

use crate::durations::Source;
use crate::seconds::Seconds;

/// Fewer plays say nothing about the rare cases.
pub const PLAYS_MIN: u32 = 20;
/// Jobs of one cohort tree that are played. More would take minutes.
pub const JOBS_MAX: usize = 20_000;
/// Of 100 jobs estimated so, so many are to start within the range.
pub const PERCENT: u32 = 80;

/// When a job will start.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// From now on: of 10 jobs estimated so, one starts earlier. That is the 5th percentile of the plays, see
    /// `docs/simulate.md`. None: the job starts in fewer plays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earliest_seconds: Option<Seconds>,
    /// In half of the plays the job has started by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<Seconds>,
    /// Of 10 jobs estimated so, one starts later: the 95th percentile of the plays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_seconds: Option<Seconds>,
    /// How often it was played.
    pub plays: u32,
    /// How many jobs were played: those of its cohort tree.
    pub jobs: usize,
    /// Whether more jobs come in the plays, as they came in the cluster lately.
    pub more_come: bool,
    /// How long they run, and of how many that is known so.
    pub durations: Vec<Known>,
}

/// How it is known how long jobs run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    /// By what.
    pub source: Source,
    /// Of how many jobs.
    pub jobs: usize,
}

/// The estimate for a job, or why there is none.
pub type Answer = Result<Estimate, NoEstimate>;

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoEstimate {
    /// It is not known how long these jobs run, by their numbers.
    NoDurations(Vec<usize>),
    /// It can't be admitted as things are.
    Inadmissible(Box<Explanation>),
    /// It is not queued.
    NotQueued,
    /// There are so many jobs, which is more than are played.
    TooManyJobs(usize),
    /// The time was up after so many plays.
    TooSlow(u32),
}
