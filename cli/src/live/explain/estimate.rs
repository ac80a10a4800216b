//! When a pending job will start, as far as the caller may see what that depends on.

use std::time::Duration;

use kube::Client;
use tokio::time::timeout;

use super::super::clock::Clock;
use super::super::export::{Besides, export_with};
use super::super::jobs::{Job, State};
use crate::cluster::Tell;
use crate::simulate::{Estimate, estimate};

/// How long the queues and jobs of the cluster may take to be read: an explanation is not to wait for them for longer.
const READ_DEADLINE: Duration = Duration::from_secs(20);

/// When a job will start, or why that can't be estimated; none of a job that does not wait.
pub async fn start(
    client: &Client,
    job: &Job,
    duration: Option<Duration>,
    tell: &mut Tell<'_>,
) -> Option<Result<Estimate, String>> {
    match job.state {
        State::Pending => {}
        State::Gated => return Some(Err("gates hold it, and may do so for ever".to_owned())),
        State::Inactive => return Some(Err("its Workload is deactivated".to_owned())),
        State::Admitted | State::Evicted | State::Finished => return None,
    }
    let seen = match timeout(READ_DEADLINE, export_with(client, Besides::Nothing, tell)).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(why)) => return Some(Err(why.to_string())),
        Err(_) => {
            let limit = READ_DEADLINE.as_secs();
            let why = format!("the queues and jobs of the cluster can't be read within {limit} s");
            return Some(Err(why));
        }
    };
    let name = format!("{}/{}", job.namespace, job.name);
    let mut clock = Clock::new();
    let found = estimate(seen, (&job.kind, &name), duration, |plays| {
        clock.goes_on(plays, tell)
    });
    Some(found.map_err(|why| why.to_string()))
}
