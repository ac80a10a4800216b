//! What is answered to the question when a job will start: an estimate, or why there is none.

use std::fmt;

use serde::Serialize;

use crate::simulate::durations::Source;
use crate::simulate::units::{Seconds, time};

/// Fewer plays say nothing about the rare cases.
pub(super) const PLAYS_MIN: u32 = 20;
/// Jobs of one cohort tree that are played. More would take minutes.
pub(super) const JOBS_MAX: usize = 20_000;

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
    /// It is not known how long jobs run.
    NoDurations {
        /// How many jobs.
        jobs: usize,
        /// The first of them.
        first: String,
    },
    /// It can't be admitted as things are.
    Inadmissible(String),
    /// It is not queued.
    NotQueued,
    /// It is not queued, or was left out.
    LeftOut,
    /// The queues and jobs can't be read.
    Unreadable(String),
    /// There are too many jobs.
    TooManyJobs(usize),
    /// The time was up.
    TooSlow(u32),
}

impl fmt::Display for NoEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDurations { jobs, first } => write!(
                f,
                "how long {jobs} of the jobs run is not known ({first} is the first): no job has finished in the cluster, and --duration is not set"
            ),
            Self::Inadmissible(why) | Self::Unreadable(why) => f.write_str(why),
            Self::NotQueued => f.write_str("it is not queued"),
            Self::LeftOut => {
                f.write_str("it is not queued, or can't be read: see what is left out")
            }
            Self::TooManyJobs(jobs) => write!(
                f,
                "its cohort has {jobs} jobs, which is more than the {JOBS_MAX} that are played"
            ),
            Self::TooSlow(plays) => write!(
                f,
                "only {plays} simulations were done in time, and {PLAYS_MIN} are needed"
            ),
        }
    }
}

impl Estimate {
    /// When it will start, in words.
    pub fn range(&self) -> String {
        match (self.earliest_seconds, self.latest_seconds) {
            (Some(from), Some(until)) if from == until => match from {
                Seconds(..1000) => "at once".to_owned(),
                from => format!("in {}", time(from)),
            },
            (Some(from), Some(until)) => format!("in {} to {}", time(from), time(until)),
            (Some(from), None) => format!("in {} at the earliest", time(from)),
            (None, _) => "later than the simulations reach".to_owned(),
        }
    }

    /// What that follows from, in words.
    pub fn reason(&self) -> String {
        let Self { plays, jobs, .. } = self;
        let jobs = match jobs {
            1 => "this one job".to_owned(),
            jobs => format!("the {jobs} jobs in its cohort"),
        };
        let known = self.durations.iter();
        let known: Vec<String> = match &*self.durations {
            [Known { source, .. }] => vec![source.to_string()],
            _ => known
                .map(|known| format!("{} {}", known.jobs, known.source))
                .collect(),
        };
        format!(
            "8 of 10 jobs start within such a range ({plays} simulations of {jobs}{}; durations: {})",
            if self.more_come {
                " and of new jobs arriving as before"
            } else {
                ""
            },
            known.join(", ")
        )
    }
}
