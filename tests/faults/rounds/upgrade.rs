//! An upgrade under load, and the downgrade: CRDs, manifests, then one replica after the other, while jobs run, wait
//! and are gated. The history is checked as in every round.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};
use sluice_faults::load::{Act, Load, named_job};
use sluice_testbed::{RUN_SECONDS, apply_crds, eventually};

use crate::bed::{Bed, Version};
use crate::client::User;
use crate::round::{self, has_ended, submit};

/// Always the same load.
const SEED: u64 = 7;
const REPLICAS: usize = 2;
/// What is drawn for each replica that is replaced.
const JOBS: usize = 12;
/// The queue of the three jobs of which one runs, one waits and one is gated while a replica is replaced.
const QUEUE: &str = "steady";
/// For so long that may take: the jobs of the replica before have to end.
const SEEN: Duration = Duration::from_mins(3);

/// The replicas that are replaced, one after the other: each on the way up, and on the way down.
const STEPS: usize = 2 * REPLICAS;

pub async fn play() -> Result<()> {
    let new = Version::present()?;
    let old = Version::earlier().unwrap_or_else(|| new.clone());
    let bed = Bed::start_as(&old, REPLICAS).await?;
    let story = async |user: &User, load: &Load| {
        let mut parts = load.acts.chunk_by(|before, _| !is_end_of_part(before));
        let mut next = || parts.next().unwrap_or_default();
        apply_crds(&bed.cp, &new.root).await?;
        apply_config(&bed, &new).await?;
        for index in 0..REPLICAS {
            replace_under_load(&bed, user, next(), index, &new).await?;
        }
        // CRDs stay as they are, so that no field of a stored object is lost.
        apply_config(&bed, &old).await?;
        for index in 0..REPLICAS {
            replace_under_load(&bed, user, next(), index, &old).await?;
        }
        ensure!(parts.next().is_none(), "a part of the load was not played");
        Ok(())
    };
    let figures = round::play_as(&bed, load, story).await?;
    let from = old.root.display();
    figures.print(&format!("upgrade from {from} and back"));
    Ok(())
}

/// Applies the manifests of a version; again if nobody answered the webhooks at that moment, as one of two replicas does
/// behind a Service.
async fn apply_config(bed: &Bed, version: &Version) -> Result<()> {
    eventually("the manifests to be applied", SEEN, async || {
        bed.sluices[0].apply_config(&bed.cp, &version.root).await
    })
    .await
}

/// A part of the load for each replica: the three jobs first; at its end the gate is lifted, and what runs is deleted.
fn load(namespace: &str) -> Load {
    let mut rng = Rng::with_seed(SEED);
    let mut load = Load::draw(&mut rng, namespace, 0);
    load.queues.extend(Load::one_queue(namespace, QUEUE, "1"));
    for step in 0..STEPS {
        let named = |what: &str| format!("{what}-{step}");
        let mut runs = named_job(&named("runs"), QUEUE, "1", 1, json!({}));
        runs["spec"]["template"]["metadata"]["annotations"][RUN_SECONDS] = json!("forever");
        let gate = json!({"kueue.x-k8s.io/scheduling-gated-by": "acme.io/budget"});
        load.acts.extend([
            Act::Create(runs),
            Act::Create(named_job(&named("waits"), QUEUE, "1", 1, json!({}))),
            Act::Create(named_job(&named("gated"), QUEUE, "1", 1, gate)),
        ]);
        let drawn = Load::draw(&mut rng, namespace, JOBS).acts;
        load.acts
            .extend(drawn.into_iter().map(|act| renamed(act, step)));
        load.acts
            .extend([Act::LiftGate(named("gated")), Act::Delete(named("runs"))]);
    }
    load
}

/// With the number of the step in its name: each draw numbers its jobs from 0 on.
fn renamed(act: Act, step: usize) -> Act {
    let name = |name: &str| format!("{name}-{step}");
    match act {
        Act::Create(mut job) => {
            job["metadata"]["name"] =
                json!(name(job["metadata"]["name"].as_str().unwrap_or_default()));
            Act::Create(job)
        }
        Act::LiftGate(job) => Act::LiftGate(name(&job)),
        Act::Delete(job) => Act::Delete(name(&job)),
    }
}

fn is_end_of_part(act: &Act) -> bool {
    matches!(act, Act::Delete(name) if name.starts_with("runs-"))
}

/// Replaces a replica while something runs, something waits and something is gated, and users go on.
async fn replace_under_load(
    bed: &Bed,
    user: &User,
    acts: &[Act],
    index: usize,
    version: &Version,
) -> Result<()> {
    let (steady, rest) = acts.split_at(3);
    let (drawn, end) = rest.split_at(rest.len() - 2);
    // One after the other: what is created in one second has no order.
    let (first, others) = steady.split_at(1);
    submit(user, first).await?;
    see(user, first, "to run", |job| job["status"]["active"] == 1).await?;
    submit(user, others).await?;
    let is_held = |job: &Value| job["spec"]["suspend"] == true && !has_ended(job);
    see(user, others, "to wait and to be gated", is_held).await?;
    tokio::try_join!(submit(user, drawn), bed.replace(index, version))?;
    submit(user, end).await
}

/// Waits until the jobs that were created so are so.
async fn see(
    user: &User,
    created: &[Act],
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<()> {
    eventually(&format!("jobs {what}"), SEEN, async || {
        let jobs = user.jobs().await?;
        for act in created {
            let Act::Create(job) = act else { continue };
            let name = &job["metadata"]["name"];
            let now = jobs.iter().find(|job| job["metadata"]["name"] == *name);
            ensure!(now.is_some_and(&is_so), "{name} is not: {now:?}");
        }
        Ok(())
    })
    .await
}
