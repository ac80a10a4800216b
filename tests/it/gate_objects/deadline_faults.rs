//! Deadlines of gates where no replica runs, or the leader is killed: each is acted upon once. What a deadline does lies
//! in `gates_deadline.rs`; how soon it acts, in virtual time, in the tests of the controller.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sluice_testbed::{Sluice, SluiceOptions, eventually};

use crate::leaders::failover::{leader, see_another_leader};
use crate::support::objects::{GATED, Job, name_of, own, own_gate, quota};
use crate::support::{DEADLINE, Scene, bed};

const EXPIRED: &str = "sluice.dev/expired-gates";
const JOBS: usize = 20;

/// Makes jobs behind a Gate with a deadline of so many seconds. Returns when it passes for the last of them.
async fn hold(scene: &Scene<'_>, seconds: i32, on_expiry: &str) -> Result<Timestamp> {
    scene.queue(&[quota("cpu", "100")]).await?;
    let (name, object) = own_gate(&scene.ns, "budget");
    let spec = json!({
        "lifting": "Anyone",
        "deadline": {"seconds": seconds, "onExpiry": on_expiry},
    });
    scene.apply(&own("Gate", &object, spec)).await?;
    for index in 0..JOBS {
        let job = Job::new(&format!("j{index}")).queue("q").cpu("10m");
        scene.create(&job.gate(&name).json()).await?;
    }
    let last = scene.get("Job", &format!("j{}", JOBS - 1)).await?;
    let created = last["metadata"]["creationTimestamp"].as_str();
    let created: Timestamp = created.unwrap_or_default().parse()?;
    Ok(created + SignedDuration::from_secs(seconds.into()))
}

fn annotation<'a>(job: &'a Value, key: &str) -> &'a str {
    job["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

fn has_expired(job: &Value) -> bool {
    !annotation(job, EXPIRED).is_empty()
}

fn is_lifted(job: &Value) -> bool {
    annotation(job, GATED).is_empty()
}

async fn see_all(scene: &Scene<'_>, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<()> {
    eventually(&format!("all jobs {what}"), DEADLINE, async || {
        let all = scene.list("Job").await?;
        let count = all.iter().filter(|job| is_it(job)).count();
        ensure!(count == JOBS, "{count} of {JOBS}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// The number of times that something became so, by job.
async fn times(
    scene: &Scene<'_>,
    recorded: &crate::support::history::History,
    is_it: impl Fn(&Value) -> bool,
) -> Result<BTreeMap<String, usize>> {
    let mut times = BTreeMap::<String, (bool, usize)>::new();
    for revision in scene.history("Job", recorded).await? {
        let job = &revision.object;
        let (was_it, count) = times.entry(name_of(job).to_owned()).or_default();
        *count += usize::from(is_it(job) && !*was_it);
        *was_it = is_it(job);
    }
    let counts = times.into_iter().map(|(name, (_, count))| (name, count));
    Ok(counts.collect())
}

#[tokio::test]
async fn a_deadline_that_passes_while_nobody_runs_acts_at_the_next_start() -> Result<()> {
    let options = SluiceOptions::new(bed::BINARY);
    bed::own_unsupervised("dl-restart", options, async |bed, scene| {
        let passes = hold(scene, 5, "Notify").await?;
        bed.sluice.kill();
        let jobs = scene.record("Job").await?;
        eventually("the deadline to pass", DEADLINE, async || {
            (passes < Timestamp::now()).then_some(()).ok_or("not yet")
        })
        .await?;
        bed.sluice.start_again().await?;
        see_all(scene, "to be told", has_expired).await?;
        // Again: who starts now has nothing to tell.
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene.create(&Job::new("after").queue("q").json()).await?;
        scene.see_complete("after").await?;
        let told = times(scene, &jobs, has_expired).await?;
        let told = told.iter().filter(|(name, _)| *name != "after");
        ensure!(told.clone().all(|(_, count)| *count == 1), "{told:?}");
        for index in 0..JOBS {
            let events = scene.events(&format!("j{index}")).await?;
            let expired = events.iter().filter(|(reason, _)| reason == "GateExpired");
            ensure!(expired.count() <= 1, "{events:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_next_leader_acts_on_what_a_killed_one_has_left() -> Result<()> {
    let options = SluiceOptions::new(bed::BINARY);
    bed::own_unsupervised("dl-failover", options, async |bed, scene| {
        let second = SluiceOptions {
            webhooks: false,
            ..SluiceOptions::new(bed::BINARY)
        };
        let second = Sluice::install(&bed.cp, second).await?;
        second.start().await?;
        let jobs = scene.record("Job").await?;
        hold(scene, 5, "Lift").await?;
        let first = leader(scene).await?;
        eventually("the first to be lifted", DEADLINE, async || {
            let all = scene.list("Job").await?;
            ensure!(all.iter().any(is_lifted), "none");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        // In the middle of it, as far as that can be had.
        bed.sluice.kill();
        see_another_leader(scene, &first).await?;
        see_all(scene, "to be lifted", is_lifted).await?;
        let lifted = times(scene, &jobs, is_lifted).await?;
        ensure!(lifted.values().all(|count| *count == 1), "{lifted:?}");
        let expired = times(scene, &jobs, has_expired).await?;
        ensure!(expired.values().all(|count| *count <= 1), "{expired:?}");
        Ok(())
    })
    .await
}
