//! When pending jobs will start, as far as the caller may see what that depends on.

use std::time::Duration;

use kube::Client;
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
    let mut pending = Vec::new();
    for job in jobs {
        match job.state {
            State::Pending => pending.push(job),
            State::Gated => {
                job.no_estimate = Some("gates hold it, and may do so for ever".to_owned());
            }
            State::Inactive => job.no_estimate = Some("its Workload is deactivated".to_owned()),
            State::Admitted | State::Evicted | State::Finished => {}
        }
    }
    if pending.is_empty() {
        return;
    }
    let seen = match seen(client, tell).await {
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
    let mut clock = Clock::new();
    let answers = estimate(seen, &asked, duration, |plays| clock.goes_on(plays, tell));
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
