//! One round: a namespace with queues, users who submit jobs, something that goes wrong meanwhile; then
//! all is healed, and within the deadline everything has ended, Sluice writes no more, and the history
//! is without a violation.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use sluice_faults::history::Revision;
use sluice_faults::load::{Act, Load};
use sluice_testbed::eventually;

use crate::bed::{Bed, judge};
use crate::client::User;

/// Between what a user does and what the next one does.
const PAUSE: Duration = Duration::from_millis(120);
/// For so long after the last fault jobs may take to end. They run for some seconds one after the other;
/// a lease takes 15 s to expire; a watch that fell silent is noticed within a minute and a half. The rest is
/// for a loaded machine.
const END: Duration = Duration::from_mins(5);
/// After so long jobs are not waited for that were released: they take two seconds.
const CLUSTER: Duration = Duration::from_mins(1);
/// For so long Sluice may write after that. On a loaded machine statuses come late.
const REST: Duration = Duration::from_mins(2);
/// This long without a write is quiet.
const QUIET: Duration = Duration::from_secs(5);

/// What a round came to.
pub struct Figures {
    /// What checks look at, in the namespace of the round.
    pub history: Vec<Revision>,
    /// Revisions of every kind.
    pub revisions: usize,
    pub writes: usize,
    pub took: Duration,
}

impl Figures {
    pub fn print(&self, what: &str) {
        let Self {
            revisions,
            writes,
            took,
            ..
        } = self;
        println!(
            "{what}: {revisions} revisions, {writes} writes by Sluice, {:.1} s, no violation",
            took.as_secs_f32()
        );
    }
}

/// Plays a load. `trouble` goes on beside it; when it is done everything is healed.
pub async fn play(
    bed: &Bed,
    draw: impl FnOnce(&str) -> Load,
    trouble: impl AsyncFnOnce() -> Result<()>,
) -> Result<Figures> {
    play_as(bed, draw, async |user: &User, load: &Load| {
        tokio::try_join!(submit(user, &load.acts), trouble())?;
        Ok(())
    })
    .await
}

/// As [`play`], where `story` says when users do what.
pub async fn play_as(
    bed: &Bed,
    draw: impl FnOnce(&str) -> Load,
    story: impl AsyncFnOnce(&User, &Load) -> Result<()>,
) -> Result<Figures> {
    let began = Instant::now();
    let namespace = bed.cp.create_namespace("round").await?;
    let load = draw(&namespace);
    let user = User::new(bed.cp.client()?, &namespace);
    let (writes_before, _) = bed.writes().await?;
    let end = async {
        for queue in &load.queues {
            user.create(queue).await?;
        }
        story(&user, &load).await?;
        let ended = all_ended(&user, &load).await;
        let quiet = if ended.is_ok() {
            quiet(bed).await
        } else {
            Ok(())
        };
        anyhow::Ok(ended.and(quiet))
    };
    let ended = tokio::select! {
        ended = end => ended?,
        stopped = bed.keep_running() => stopped,
    };
    let checked = bed.check(&namespace).await?;
    // What did not hold says more than that something did not end.
    judge(&checked.violations)
        .and(ended)
        .with_context(|| bed.logs())?;
    let mut history = checked.revisions;
    history.retain(|revision| revision.key.namespace == namespace);
    Ok(Figures {
        history,
        revisions: checked.read,
        writes: bed.writes().await?.0 - writes_before,
        took: began.elapsed(),
    })
}

/// What users do, one thing after the other.
pub async fn submit(user: &User, acts: &[Act]) -> Result<()> {
    for act in acts {
        user.act(act).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Until each job that stays has ended, those that were deleted are gone, and Sluice has written that their
/// quota is free: a Sluice that was killed at the last moment starts, and leads, only some time later. A job
/// that was released with all its pods has nothing to wait for from Sluice: that its pods run is the cluster's
/// business, which was hit as well.
async fn all_ended(user: &User, load: &Load) -> Result<()> {
    let stays = load.stays();
    let began = Instant::now();
    eventually("all jobs to end", END, async || {
        let jobs = user.jobs().await.map_err(|error| format!("{error:#}"))?;
        let pods = user.pods().await.map_err(|error| format!("{error:#}"))?;
        let workloads = user.workloads().await;
        let workloads = workloads.map_err(|error| format!("{error:#}"))?;
        let left: Vec<_> = jobs.iter().filter(|job| !has_ended(job)).collect();
        let told: Vec<_> = left.iter().map(|job| told(job, &pods)).collect();
        let is_of_left = |workload: &Value| left.iter().any(|job| is_of(workload, job));
        let used: Vec<_> = workloads
            .iter()
            .filter(|workload| holds_quota(workload) && !is_of_left(workload))
            .map(|workload| workload["metadata"]["name"].as_str().unwrap_or_default())
            .collect();
        let all_there = jobs.len() == stays.len() && used.is_empty();
        if left.is_empty() && all_there {
            return Ok(());
        }
        let are_released = left.iter().all(|job| is_released(job, &pods));
        if are_released && all_there && CLUSTER < began.elapsed() {
            println!(
                "released, and not ended by the cluster: {}",
                told.join("; ")
            );
            return Ok(());
        }
        let (there, count) = (jobs.len(), stays.len());
        Err(format!(
            "{there} jobs of {count}, not ended: {}; usage of what has ended: {used:?}",
            told.join("; ")
        ))
    })
    .await
}

/// Until Sluice has written nothing for a while.
async fn quiet(bed: &Bed) -> Result<()> {
    let mut count = 0;
    let mut since = Instant::now();
    eventually("Sluice to write no more", REST, async || {
        let (writes, last) = bed.writes().await.map_err(|error| format!("{error:#}"))?;
        if writes != count {
            count = writes;
            since = Instant::now();
        }
        if QUIET <= since.elapsed() {
            return Ok(());
        }
        Err(format!("the last: {last:?}"))
    })
    .await
}

pub fn has_ended(job: &Value) -> bool {
    let mut conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|c| (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True")
}

/// Whether a job is released and none of its pods waits at a gate.
fn is_released(job: &Value, pods: &[Value]) -> bool {
    let mut own = pods.iter().filter(|pod| is_of(pod, job));
    let is_free = |pod: &Value| pod["spec"]["schedulingGates"].is_null();
    job["spec"]["suspend"] != true && 0 < own.clone().count() && own.all(is_free)
}

/// Whether a pod, or a Workload, is that of a job.
fn is_of(dependent: &Value, job: &Value) -> bool {
    dependent["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
}

fn holds_quota(workload: &Value) -> bool {
    let status = &workload["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let has_finished = conditions.any(|c| c["type"] == "Finished" && c["status"] == "True");
    status["admission"].is_object() && !has_finished
}

fn told(job: &Value, pods: &[Value]) -> String {
    let (metadata, spec) = (&job["metadata"], &job["spec"]);
    let own = pods.iter().filter(|pod| is_of(pod, job));
    let pods: Vec<_> = own
        .map(|pod| {
            let (spec, phase) = (&pod["spec"], &pod["status"]["phase"]);
            format!(
                "{phase} on {} gates {}",
                spec["nodeName"], spec["schedulingGates"]
            )
        })
        .collect();
    format!(
        "{} labels {} annotations {} suspend {} status {} pods {pods:?}",
        metadata["name"],
        metadata["labels"],
        metadata["annotations"],
        spec["suspend"],
        job["status"]
    )
}
