//! When pending jobs will start, as far as the caller may see what that depends on.

use std::time::Duration;

use kube::Client;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use super::super::clock::Clock;
use super::super::export::{Besides, export_with};
use super::super::jobs::{Job, State};
use crate::cluster::Tell;
use crate::simulate::{Seen, estimate};

/// How long the queues and jobs of the cluster may take to be read: an explanation is not to wait for them for longer.
const READ_DEADLINE: Duration = Duration::from_secs(20);

/// Estimates when the jobs that wait will start, or notes why that can't be known.
pub async fn estimate_starts(
    client: &Client,
    jobs: &mut [Job],
    duration: Option<Duration>,
    tell: &mut Tell<'_>,
) {
    if !jobs.iter().any(is_pending) {
        not_pending(jobs);
        return;
    }
    let seen = seen(client, tell).await;
    let mut clock = Clock::new();
    play_starts(seen, jobs, duration, |plays| clock.goes_on(plays, tell));
}

/// The same, on a thread of its own, so that others are served meanwhile. `under_way` is kept until that has ended, also if
/// nobody waits for it any more.
///
/// # Errors
/// The thread has ended early.
pub async fn estimate_starts_beside(
    client: &Client,
    mut jobs: Vec<Job>,
    duration: Option<Duration>,
    under_way: OwnedSemaphorePermit,
    tell: &mut Tell<'_>,
) -> Result<Vec<Job>, JoinError> {
    if !jobs.iter().any(is_pending) {
        not_pending(&mut jobs);
        return Ok(jobs);
    }
    let seen = seen(client, tell).await;
    let playing = spawn_blocking(move || {
        let mut clock = Clock::new();
        play_starts(seen, &mut jobs, duration, |plays| clock.has_time(plays));
        drop(under_way);
        jobs
    });
    playing.await
}

fn is_pending(job: &Job) -> bool {
    job.state == State::Pending
}

/// Why there is no estimate for jobs that can't start as they stand.
fn not_pending(jobs: &mut [Job]) {
    for job in jobs {
        job.no_estimate = match job.state {
            State::Gated => Some("gates hold it, and may do so for ever".to_owned()),
            State::Inactive => Some("its Workload is deactivated".to_owned()),
            State::Pending | State::Admitted | State::Evicted | State::Finished => None,
        };
    }
}

/// Gives the jobs that wait their estimates, and all others why they have none.
fn play_starts(
    seen: Result<Seen, String>,
    jobs: &mut [Job],
    duration: Option<Duration>,
    goes_on: impl FnMut(u32) -> bool,
) {
    not_pending(jobs);
    let pending: Vec<&mut Job> = jobs.iter_mut().filter(|job| is_pending(job)).collect();
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            for job in pending {
                job.no_estimate = Some(why.clone());
            }
            return;
        }
    };
    let names = pending.iter().map(|job| {
        let name = format!("{}/{}", job.namespace, job.name);
        (job.kind.clone(), name)
    });
    let names: Vec<(String, String)> = names.collect();
    let asked: Vec<(&str, &str)> = names
        .iter()
        .map(|(kind, name)| (kind.as_str(), name.as_str()))
        .collect();
    let answers = estimate(seen, &asked, duration, goes_on);
    let answers = answers.unwrap_or_else(|why| vec![Err(why); asked.len()]);
    for (job, answer) in pending.into_iter().zip(answers) {
        match answer {
            Ok(start) => job.start = Some(start),
            Err(why) => job.no_estimate = Some(why.to_string()),
        }
    }
}

/// The queues and jobs of the cluster, or why they can't be read.
async fn seen(client: &Client, tell: &mut Tell<'_>) -> Result<Seen, String> {
    match timeout(READ_DEADLINE, export_with(client, Besides::Nothing, tell)).await {
        Ok(Ok(seen)) => Ok(seen),
        Ok(Err(why)) => Err(why.to_string()),
        Err(_) => {
            let limit = READ_DEADLINE.as_secs();
            Err(format!(
                "the queues and jobs of the cluster can't be read within {limit} s"
            ))
        }
    }
}
