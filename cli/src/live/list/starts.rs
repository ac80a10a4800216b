//! When pending jobs will start, as far as the caller may see what that depends on.

use std::time::Duration;

use kube::Client;
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use super::super::clock::EstimateClock;
use super::super::export::{Besides, export_with};
use super::super::jobs::{Job, State};
use super::super::outcome::LiveError;
use crate::cluster::{Tell, Told};
use crate::simulate::{Assumed, Seen, estimate};

/// How long the queues and jobs of the cluster may take to be read: an explanation is not to wait for them for longer.
const READ_DEADLINE: Duration = Duration::from_secs(20);

/// Why there is no estimate at all.
#[derive(Debug, Error)]
enum NotRead {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("the queues and jobs of the cluster can't be read within {} s", READ_DEADLINE.as_secs())]
    Late,
}

/// Estimates when the jobs that wait will start, or notes why that can't be known, and what was left out.
///
/// # Errors
/// A note can't be told.
pub async fn estimate_starts(
    client: &Client,
    jobs: &mut [Job],
    assumed: &Assumed,
    tell: &mut Tell<'_>,
) -> Result<(), LiveError> {
    if !jobs.iter().any(is_pending) {
        not_pending(jobs);
        return Ok(());
    }
    let seen = seen(client, tell).await;
    let mut clock = EstimateClock::new();
    let notes = play_starts(seen, jobs, assumed, |plays| clock.goes_on(plays, tell));
    for note in notes {
        tell(Told::Note(note))?;
    }
    Ok(())
}

/// The same, on a thread of its own, so that others are served meanwhile: the jobs, and what was left out. `under_way` is
/// kept until that has ended, also if nobody waits for it any more.
///
/// # Errors
/// The thread has ended early.
pub async fn estimate_starts_beside(
    client: &Client,
    mut jobs: Vec<Job>,
    assumed: Assumed,
    under_way: OwnedSemaphorePermit,
    tell: &mut Tell<'_>,
) -> Result<(Vec<Job>, Vec<String>), JoinError> {
    if !jobs.iter().any(is_pending) {
        not_pending(&mut jobs);
        return Ok((jobs, Vec::new()));
    }
    let seen = seen(client, tell).await;
    let playing = spawn_blocking(move || {
        let mut clock = EstimateClock::new();
        let notes = play_starts(seen, &mut jobs, &assumed, |plays| clock.has_time(plays));
        drop(under_way);
        (jobs, notes)
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

/// Gives the jobs that wait their estimates, and all others why they have none. Returns what was left out.
fn play_starts(
    seen: Result<Seen, NotRead>,
    jobs: &mut [Job],
    assumed: &Assumed,
    goes_on: impl FnMut(u32) -> bool,
) -> Vec<String> {
    not_pending(jobs);
    let pending: Vec<&mut Job> = jobs.iter_mut().filter(|job| is_pending(job)).collect();
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            for job in pending {
                job.no_estimate = Some(why.to_string());
            }
            return Vec::new();
        }
    };
    let asked: Vec<&str> = pending.iter().map(|job| job.id()).collect();
    let answers = estimate(seen, &asked, assumed, goes_on);
    let (answers, notes) = answers.unwrap_or_else(|why| (vec![Err(why); asked.len()], Vec::new()));
    for (job, answer) in pending.into_iter().zip(answers) {
        match answer {
            Ok(start) => job.start = Some(start),
            Err(why) => job.no_estimate = Some(why.to_string()),
        }
    }
    let notes = notes.into_iter();
    notes
        .map(|note| format!("for the estimate of starts: {note}"))
        .collect()
}

/// The queues and jobs of the cluster.
async fn seen(client: &Client, tell: &mut Tell<'_>) -> Result<Seen, NotRead> {
    let reading = export_with(client, Besides::Nothing, tell);
    let seen = timeout(READ_DEADLINE, reading).await;
    Ok(seen.map_err(|_| NotRead::Late)??)
}
