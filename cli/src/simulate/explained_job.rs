//! Single jobs explained at the end of a play, as plain data: why a job waits, which quota is missing
//! and where, which jobs comes first, which jobs are not preempted. The engine finds that out; here
//! jobs get back their names.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use sluice_engine::{Amount, LimitingNode, NotPreempted, ResourceName, WorkloadId};

use super::basis::{Basis, Owner};
use super::units::Seconds;
use sluice_estimates::play::{Fate, job_of};

/// ClusterQueues whose pending jobs are explained one by one: each takes a walk through the whole cohort tree.
const QUEUES_MAX: usize = 10;
/// Pending jobs that are explained of each.
const JOBS_MAX: usize = 3;
/// Jobs that are named in a list; the others are counted.
const NAMES_MAX: usize = 100;

/// Who waits for a ClusterQueue at the end.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueOfWaiting {
    /// The ClusterQueue; nothing for LocalQueues that don't exist.
    pub cluster_queue: String,
    /// How many jobs wait.
    pub jobs: usize,
    /// The first of them, by priority and arrival.
    pub first: Vec<ExplainedJob>,
}

/// The state of a job, explained.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedJob {
    /// Its name, with its namespace.
    pub job: String,
    /// The LocalQueue that it names.
    pub local_queue: String,
    /// The ClusterQueue that this one points to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// When that is, since the arrival of the first job.
    pub at_seconds: Seconds,
    /// What it does.
    pub state: State,
    /// Since when it does that.
    pub since_seconds: Seconds,
    /// A word for why it waits, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What its condition in a cluster says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the engine says about it at this moment, if it is queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum State {
    /// It has not arrived.
    NotArrived,
    /// It waits, and never held quota.
    Waiting,
    /// It was evicted and waits again.
    WaitingAgain,
    /// It runs.
    Running,
    /// It was evicted and its pods have not stopped.
    Stopping,
    /// It did what it was for.
    Finished,
}

/// What the engine says about a queued job, with names of jobs, and amounts as they are written in the API.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// All of it in a sentence about the job.
    pub message: String,
    /// How many jobs of the ClusterQueue come before it.
    pub ahead: usize,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ahead: Option<String>,
    /// The unused quota of the ClusterQueue, borrowing included.
    pub free: Vec<Free>,
    /// The missing quota, in each flavor.
    pub short: Vec<Short>,
    /// Why jobs that hold the missing quota are not preempted.
    pub not_preempted: Vec<NotPreemptedJobs>,
    /// The evicted jobs of the same cohort tree that have not stopped.
    pub evicting: Names,
    /// The jobs after whose end the job would fit.
    pub fits_after: Names,
}

/// So much of something is free.
#[derive(Debug, Clone, Serialize)]
pub struct Free {
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// How much.
    pub amount: String,
}

/// Missing quota.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Short {
    /// The pod set.
    pub pod_set: String,
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// What is asked for.
    pub request: String,
    /// What is free.
    pub free: String,
    /// Whose quota or limit is used up.
    pub limit: Owner,
}

/// Jobs that are not preempted, for the same reason.
#[derive(Debug, Clone, Serialize)]
pub struct NotPreemptedJobs {
    /// A word for it.
    pub reason: &'static str,
    /// In words, after their number.
    pub message: &'static str,
    /// How many there are.
    pub jobs: usize,
}

/// Names of jobs.
#[derive(Debug, Clone, Serialize)]
pub struct Names {
    /// How many jobs there are.
    pub jobs: usize,
    /// The names of the first.
    pub names: Vec<String>,
}

/// The first pending jobs at the end, for the ClusterQueues with the most; and how many are pending in others.
pub fn first_waiting(basis: Basis<'_>) -> (Vec<QueueOfWaiting>, usize) {
    let mut waiting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, fate) in basis.play.fates.iter().enumerate() {
        if let (Fate::Waiting, Some(job)) = (fate, basis.jobs.get(index)) {
            let queue = basis.quotas.queue_of(&job.queue);
            let queue = queue.map_or("", |queue| queue.as_str());
            waiting.entry(queue).or_default().push(index);
        }
    }
    let mut queues: Vec<_> = waiting.into_iter().collect();
    queues.sort_by_key(|(_, jobs)| Reverse(jobs.len()));
    let others = queues.split_off(QUEUES_MAX.min(queues.len()));
    let first = |(queue, mut jobs): (&str, Vec<usize>)| {
        let order = |index: &usize| {
            let job = basis.jobs.get(*index);
            (job.map(|job| (Reverse(job.priority), job.created)), *index)
        };
        jobs.sort_by_key(order);
        let input = jobs.iter().take(JOBS_MAX);
        QueueOfWaiting {
            cluster_queue: queue.to_owned(),
            jobs: jobs.len(),
            first: input
                .filter_map(|job| ExplainedJob::of(basis, *job))
                .collect(),
        }
    };
    let more = others.iter().map(|(_, jobs)| jobs.len()).sum();
    (queues.into_iter().map(first).collect(), more)
}

impl ExplainedJob {
    /// The job `index` at the end of the play.
    pub fn of(basis: Basis<'_>, index: usize) -> Option<Self> {
        let Basis { play, quotas, .. } = basis;
        let input = basis.input.get(index)?;
        let job = basis.jobs.get(index)?;
        let run = play.runs.iter().rfind(|run| run.job == index);
        let evicted = run.and_then(|run| run.evicted);
        let (state, since) = match (play.fates.get(index)?, run) {
            (Fate::NotArrived, _) => (State::NotArrived, job.arrival),
            (Fate::Finished(at), _) => (State::Finished, *at),
            (Fate::Running, Some(run)) => (State::Running, run.from),
            (Fate::Stopping, Some(run)) => {
                (State::Stopping, evicted.map_or(run.from, |(at, _)| at))
            }
            (Fate::Waiting, Some(run)) => (State::WaitingAgain, run.until),
            (_, None) => (State::Waiting, job.arrival),
        };
        let explanation =
            (play.explain(index)).filter(|_| play.fates.get(index) == Some(&Fate::Waiting));
        let name = |job: usize| basis.input.get(job).map(|job| &*job.name);
        let seconds = |at: sluice_engine::Time| {
            Seconds(at.as_millis().saturating_sub(play.begin.as_millis()))
        };
        Some(Self {
            job: input.name.to_string(),
            local_queue: job.queue.to_string(),
            cluster_queue: quotas.queue_of(&job.queue).map(ToString::to_string),
            priority: job.priority,
            at_seconds: seconds(play.end),
            state,
            since_seconds: seconds(since),
            reason: explanation
                .as_ref()
                .and_then(sluice_engine::Explanation::pending_reason)
                .map(sluice_engine::PendingReason::as_str),
            message: explanation.map(|explanation| message(&explanation, &name)),
            outlook: play
                .outlook(index)
                .map(|outlook| Outlook::of(&outlook, &name)),
        })
    }
}

/// Why a job waits, in words. The other jobs have these names, by their numbers.
pub(super) fn message<'a>(
    explanation: &sluice_engine::Explanation,
    names: &dyn Fn(usize) -> Option<&'a str>,
) -> String {
    match explanation.head() {
        Some(head) => {
            let head = format!("job {:?}", name_of(head, names));
            explanation.display_behind(&format, &head).to_string()
        }
        None => explanation.display(&format).to_string(),
    }
}

fn name_of<'a>(id: &WorkloadId, names: &dyn Fn(usize) -> Option<&'a str>) -> String {
    let name = job_of(id).and_then(names);
    name.map_or_else(|| id.to_string(), str::to_owned)
}

impl Outlook {
    pub(super) fn of<'a>(
        outlook: &sluice_engine::Outlook,
        names: &dyn Fn(usize) -> Option<&'a str>,
    ) -> Self {
        let name = |id: &WorkloadId| name_of(id, names);
        let names = |ids: &[WorkloadId]| Names {
            jobs: ids.len(),
            names: ids.iter().take(NAMES_MAX).map(name).collect(),
        };
        let free = outlook.free.iter().map(|(flavor, resource, amount)| Free {
            flavor: flavor.to_string(),
            resource: resource.to_string(),
            amount: format(resource, *amount),
        });
        let short = outlook.short.iter().map(|short| Short {
            pod_set: short.pod_set.to_string(),
            flavor: short.flavor.to_string(),
            resource: short.resource.to_string(),
            request: format(&short.resource, short.request),
            free: format(&short.resource, short.free),
            limit: match &short.limit {
                LimitingNode::Queue(queue) => Owner::ClusterQueue(queue.to_string()),
                LimitingNode::Cohort(cohort) => Owner::Cohort(cohort.to_string()),
            },
        });
        let not_preempted =
            outlook
                .not_preempted
                .iter()
                .map(|(not_preempted, jobs)| NotPreemptedJobs {
                    reason: word(*not_preempted),
                    message: not_preempted.text(),
                    jobs: *jobs,
                });
        Self {
            message: outlook.display(&format, &name).to_string(),
            ahead: outlook.ahead,
            first_ahead: outlook.head.as_ref().map(name),
            free: free.collect(),
            short: short.collect(),
            not_preempted: not_preempted.collect(),
            evicting: names(&outlook.evicting),
            fits_after: names(&outlook.fits_after),
        }
    }
}

fn word(not_preempted: NotPreempted) -> &'static str {
    match not_preempted {
        NotPreempted::NotEvictable => "NotEvictable",
        NotPreempted::OwnQueueNever => "OwnQueueNever",
        NotPreempted::OwnQueueOrder => "OwnQueueOrder",
        NotPreempted::OtherLocalQueue => "OtherLocalQueue",
        NotPreempted::CohortNever => "CohortNever",
        NotPreempted::CohortPriority => "CohortPriority",
        NotPreempted::WithinItsQuota => "WithinItsQuota",
        NotPreempted::WouldBorrow => "WouldBorrow",
        NotPreempted::PreemptedBefore => "PreemptedBefore",
        NotPreempted::NotEnough => "NotEnough",
    }
}

/// An amount as it is written in the API.
pub fn format(resource: &ResourceName, amount: Amount) -> String {
    sluice_translate::quantity(resource, amount).to_string()
}
