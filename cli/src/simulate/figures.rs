//! What follows from a play, as plain data: the form that `-o json` and `-o yaml` show. How it is worked
//! out of runs and fates is said in the modules below; `print` and `chart` show them to people.

use std::collections::BTreeMap;

use serde::Serialize;

use super::basis::Basis;
use super::explained_job::{self, QueueOfWaiting};
use super::units::Seconds;
use sluice_estimates::play::{Cut, Fate, Play};

mod groups;
mod meters;
mod sizes;

pub use groups::{Group, Spread};
pub use meters::{QuotaUse, STEPS, Series};

/// Reasons that are listed; the jobs of the others are counted.
const REASONS_MAX: usize = 50;

/// All that was found out by one play.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// From the arrival of the first job to the last that happened.
    pub makespan_seconds: Seconds,
    /// Why the play ended before all was over: `until`, or `evictions` that came to no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<&'static str>,
    /// All jobs.
    pub all: Group,
    /// Jobs by ClusterQueue; those of LocalQueues that don't exist by nothing.
    pub cluster_queues: Vec<Group>,
    /// Jobs by LocalQueue.
    pub local_queues: Vec<Group>,
    /// Jobs by priority, the highest first.
    pub priorities: Vec<Group>,
    /// Jobs by what they ask for, the smallest first.
    pub sizes: Vec<Group>,
    /// Why jobs that wait at the end do, those of the most jobs first.
    pub waiting: Vec<Reason>,
    /// How the first of them stand, for the ClusterQueues where the most wait.
    pub first_waiting: Vec<QueueOfWaiting>,
    /// How many wait for other ClusterQueues.
    pub waiting_elsewhere: usize,
    /// How much of the quota was used: of everything, of each tree of cohorts, of each ClusterQueue.
    pub quotas: Vec<QuotaUse>,
    /// What was used and who waited, over time.
    pub series: Series,
}

/// Why jobs wait at the end.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// A word for it.
    #[serde(rename = "reason")]
    pub word: String,
    /// What the engine says.
    pub message: String,
    /// How many jobs.
    pub jobs: usize,
    /// How many of them held no quota at any time.
    pub never_admitted: usize,
    /// The first of them.
    pub example: String,
}

impl Figures {
    /// What follows from a play.
    pub fn of(basis: Basis<'_>) -> Self {
        let Play {
            begin, end, cut, ..
        } = basis.play;
        let (quotas, series) = meters::measure(basis);
        let grouped = groups::group(basis);
        let (first_waiting, waiting_elsewhere) = explained_job::first_waiting(basis);
        Self {
            makespan_seconds: Seconds(end.as_millis().saturating_sub(begin.as_millis())),
            cut: cut.map(|cut| match cut {
                Cut::Until => "until",
                Cut::TooManyRuns => "evictions",
                Cut::Admitted => "admitted",
            }),
            all: grouped.all,
            cluster_queues: grouped.cluster_queues,
            local_queues: grouped.local_queues,
            priorities: grouped.priorities,
            sizes: grouped.sizes,
            waiting: reasons(basis),
            first_waiting,
            waiting_elsewhere,
            quotas,
            series,
        }
    }
}

/// Why jobs wait at the end.
fn reasons(basis: Basis<'_>) -> Vec<Reason> {
    let Basis { input, play, .. } = basis;
    let mut was_admitted = vec![false; input.len()];
    for run in &play.runs {
        if let Some(was_admitted) = was_admitted.get_mut(run.job) {
            *was_admitted = true;
        }
    }
    let mut by_message: BTreeMap<String, Reason> = BTreeMap::new();
    let jobs = input.iter().zip(&play.fates).zip(was_admitted).enumerate();
    let name_of = |job: usize| basis.input.get(job).map(|job| &*job.name);
    for (index, ((input, fate), was_admitted)) in jobs {
        if *fate != Fate::Waiting {
            continue;
        }
        let Some(explanation) = play.explain(index) else {
            continue;
        };
        let Some(pending) = explanation.pending_reason() else {
            continue;
        };
        let message = explained_job::message(&explanation, &name_of);
        let reason = by_message
            .entry(message)
            .or_insert_with_key(|message| Reason {
                word: pending.as_str().to_owned(),
                message: message.clone(),
                jobs: 0,
                never_admitted: 0,
                example: input.name.to_string(),
            });
        reason.jobs += 1;
        reason.never_admitted += usize::from(!was_admitted);
    }
    let mut all: Vec<_> = by_message.into_values().collect();
    all.sort_by(|a, b| (b.jobs, &a.message).cmp(&(a.jobs, &b.message)));
    if REASONS_MAX < all.len() {
        let rest = all.split_off(REASONS_MAX - 1);
        all.push(Reason {
            word: "Other".to_owned(),
            message: format!("{} other reasons", rest.len()),
            jobs: rest.iter().map(|reason| reason.jobs).sum(),
            never_admitted: rest.iter().map(|reason| reason.never_admitted).sum(),
            example: rest
                .into_iter()
                .next()
                .map_or_else(String::new, |r| r.example),
        });
    }
    all
}
