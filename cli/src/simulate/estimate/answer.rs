//! What is told of an estimate, and why there is none.

use std::fmt;

use sluice_estimates::estimate::{Estimate, JOBS_MAX, Known, PERCENT, PLAYS_MIN};
use sluice_estimates::seconds::Seconds;

use crate::simulate::units::time;

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

/// When a job will start, in words.
pub fn range(estimate: &Estimate) -> String {
    match (estimate.earliest_seconds, estimate.latest_seconds) {
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
pub fn reason(estimate: &Estimate) -> String {
    let Estimate { plays, jobs, .. } = estimate;
    let jobs = match jobs {
        1 => "this one job".to_owned(),
        jobs => format!("the {jobs} jobs in its cohort"),
    };
    let known = estimate.durations.iter();
    let known: Vec<String> = match &*estimate.durations {
        [Known { source, .. }] => vec![source.to_string()],
        _ => known
            .map(|known| format!("{} {}", known.jobs, known.source))
            .collect(),
    };
    format!(
        "{} of 10 jobs start within such a range ({plays} simulations of {jobs}{}; durations: {})",
        PERCENT / 10,
        if estimate.more_come {
            " and of new jobs arriving as before"
        } else {
            ""
        },
        known.join(", ")
    )
}
