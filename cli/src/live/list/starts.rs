//! When pending jobs will start: as visibility.sluice.dev says, or else as far as the caller may see what that depends on.

use std::time::Duration;

use kube::Client;
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use super::super::clock::EstimateClock;
use super::super::export::{JobKinds, export_with};
use super::super::jobs::{Job, State};
use super::super::outcome::LiveError;
use super::start_answers::{Told, ask};
use crate::cluster::{self, Tell};
use crate::simulate::{Assumed, Seen, estimate};

/// How long visibility.sluice.dev may take to tell of all jobs: less where somebody waits for the page, whose answer has to hold
/// what the plugin works out besides.
const TOLD_DEADLINE: Duration = Duration::from_secs(40);
const TOLD_DEADLINE_BESIDE: Duration = Duration::from_secs(8);
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
    let told = told(client, jobs, assumed, TOLD_DEADLINE).await;
    if told.is_all {
        return Ok(());
    }
    let seen = seen(client, usize::MAX, tell).await;
    let mut clock = EstimateClock::new();
    let goes_on = |plays| clock.goes_on(plays, tell);
    let notes = play_starts(seen, &told, jobs, assumed, goes_on);
    for note in notes {
        tell(cluster::Told::Note(note))?;
    }
    Ok(())
}

/// The same, on a thread of its own, so that others are served meanwhile: the jobs, and what was left out. `under_way` is
/// kept until that has ended, also if nobody waits for it any more. What is read of the cluster for it takes so much memory at
/// most.
///
/// # Errors
/// The thread has ended early.
pub async fn estimate_starts_beside(
    client: &Client,
    mut jobs: Vec<Job>,
    assumed: Assumed,
    under_way: OwnedSemaphorePermit,
    bytes_max: usize,
    tell: &mut Tell<'_>,
) -> Result<(Vec<Job>, Vec<String>), JoinError> {
    let told = told(client, &mut jobs, &assumed, TOLD_DEADLINE_BESIDE).await;
    if told.is_all {
        return Ok((jobs, Vec::new()));
    }
    let seen = seen(client, bytes_max, tell).await;
    let playing = spawn_blocking(move || {
        let mut clock = EstimateClock::new();
        let goes_on = |plays| clock.has_time(plays);
        let notes = play_starts(seen, &told, &mut jobs, &assumed, goes_on);
        drop(under_way);
        (jobs, notes)
    });
    playing.await
}

/// What can be told without the jobs of others: of jobs that can't start as they stand, and by visibility.sluice.dev, which
/// knows no other run time than those of finished jobs.
async fn told(client: &Client, jobs: &mut [Job], assumed: &Assumed, within: Duration) -> Told {
    not_pending(jobs);
    let pending: Vec<&mut Job> = jobs.iter_mut().filter(|job| is_pending(job)).collect();
    if assumed.duration.is_some() {
        return Told {
            is_all: pending.is_empty(),
            unseen: None,
        };
    }
    ask(client, pending, within).await
}

fn is_pending(job: &Job) -> bool {
    job.state == State::Pending
}

/// Why there is no estimate for jobs that can't start as they stand.
fn not_pending(jobs: &mut [Job]) {
    for job in jobs {
        job.no_estimate = match job.state {
            State::Gated => Some("gates hold it, and may do so for ever".to_owned()),
            State::OnHold => Some("its user has suspended it".to_owned()),
            State::Inactive => Some("it is deactivated, or is being deleted".to_owned()),
            State::Pending | State::Admitted | State::Evicted | State::Finished => None,
        };
    }
}

/// Gives the jobs that wait and have no estimate theirs, or why they have none. Returns what was left out.
fn play_starts(
    seen: Result<Seen, NotRead>,
    told: &Told,
    jobs: &mut [Job],
    assumed: &Assumed,
    goes_on: impl FnMut(u32) -> bool,
) -> Vec<String> {
    let left = |job: &&mut Job| is_pending(job) && job.start.is_none();
    let pending: Vec<&mut Job> = jobs.iter_mut().filter(left).collect();
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            for job in pending {
                // What the leader says of it is so for everybody.
                job.no_estimate.get_or_insert_with(|| match &told.unseen {
                    Some(unseen) => format!("{why}; and {unseen}"),
                    None => why.to_string(),
                });
            }
            return Vec::new();
        }
    };
    let asked: Vec<&str> = pending.iter().map(|job| job.id()).collect();
    let answers = estimate(seen, &asked, assumed, goes_on);
    let (answers, notes) = answers.unwrap_or_else(|why| (vec![Err(why); asked.len()], Vec::new()));
    for (job, answer) in pending.into_iter().zip(answers) {
        match answer {
            Ok(start) => (job.start, job.no_estimate) = (Some(start), None),
            Err(why) => job.no_estimate = Some(why.to_string()),
        }
    }
    let notes = notes.into_iter();
    notes
        .map(|note| format!("for the estimate of starts: {note}"))
        .collect()
}

/// The queues and jobs of the cluster.
async fn seen(client: &Client, bytes_max: usize, tell: &mut Tell<'_>) -> Result<Seen, NotRead> {
    let reading = export_with(client, JobKinds::ToKnowEnds, bytes_max, tell);
    let seen = timeout(READ_DEADLINE, reading).await;
    Ok(seen.map_err(|_| NotRead::Late)??)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::live::tests::waiting;

    fn refused(what: &str) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": format!("{what} is forbidden")})
    }

    /// What is said of jobs that wait, where visibility.sluice.dev says this of them and nothing else may be read.
    async fn told(said: Value, assumed: Assumed) -> Vec<Option<String>> {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = match request.uri().path() {
                path if path.ends_with("/estimate") => said.clone(),
                path => refused(path.rsplit('/').next().unwrap_or_default()),
            };
            let code = answer["code"].as_u64().unwrap_or(200);
            let response = Response::builder().status(u16::try_from(code).unwrap());
            let response = response.body(Body::from(answer.to_string().into_bytes()));
            async { Ok::<_, Infallible>(response.unwrap()) }
        });
        let client = Client::new(service, "default");
        let mut jobs = ["a", "b"].map(|name| waiting("Job", name, Some(name)));
        let told = estimate_starts(&client, &mut jobs, &assumed, &mut |_| Ok(())).await;
        told.unwrap();
        jobs.map(|job| job.no_estimate).to_vec()
    }

    #[tokio::test]
    async fn where_neither_can_tell_it_is_said_which_rights_are_lacking() {
        let both = told(refused("workloads/estimate"), Assumed::default()).await;
        let why = both[0].clone().unwrap();
        assert!(
            why.ends_with("; and workloads/estimate is forbidden"),
            "{why}"
        );
        assert_eq!(both[0], both[1]);
        let assumed = Assumed {
            duration: Some(Duration::from_mins(1)),
            ..Assumed::default()
        };
        let alone = told(refused("workloads/estimate"), assumed).await;
        let alone = alone[0].clone().unwrap();
        assert!(
            why.starts_with(&alone) && !alone.contains("; and"),
            "{alone}"
        );
        let unserved = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "the server could not find the requested resource"});
        let unserved = told(unserved, Assumed::default()).await;
        let why = unserved[0].clone().unwrap();
        assert!(
            why.ends_with("; and visibility.sluice.dev is not installed"),
            "{why}"
        );
        let unknown = json!({"reason": "NoFinishedJobs", "message": "no job has finished"});
        let unknown = told(unknown, Assumed::default()).await;
        assert_eq!(unknown, vec![Some("no job has finished".to_owned()); 2]);
    }
}
