//! A job that could not use its quota backs off: until then it is not looked at, it says so, and then
//! it is queued again though nothing happens.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_testbed::wait_for;

use crate::queues::preemption::job_name;
use crate::support::history::{Revision, check_conditions};
use crate::support::nodes::{job_for_own_nodes, own_node};
use crate::support::objects::{self, Job, condition, is_admitted, quota, with};
use crate::support::{DEADLINE, Scene, bed};

/// How long the job backs off, in seconds.
const BACKOFF: i32 = 5;

/// A queue that takes quota back after a second, and a job that has no node.
async fn homeless(scene: &Scene<'_>) -> Result<()> {
    let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
    let terms = json!({ "timeoutSeconds": 1, "backoff": { "baseSeconds": BACKOFF } });
    scene
        .queue_like(with(queue, "/spec/reservation", terms))
        .await?;
    let job = Job::new("homeless").queue("q").runs("0.5");
    let job = job_for_own_nodes(scene, job);
    scene.create(&job.json()).await.map(drop)
}

fn requeue_at(workload: &Value) -> Option<Timestamp> {
    let at = workload["status"]["requeueState"]["requeueAt"].as_str()?;
    Some(at.parse().unwrap())
}

/// Until when the job backs off, once it does.
async fn see_backing_off(scene: &Scene<'_>) -> Result<Timestamp> {
    let workload = scene
        .see_workload("homeless", "backing off", |w| {
            !is_admitted(w) && requeue_at(w).is_some()
        })
        .await?;
    let until = requeue_at(&workload).unwrap();
    let message = format!(
        "Backs off until {until}, because it could not use its quota; then it is queued again"
    );
    assert_eq!(
        condition(&workload, "QuotaReserved"),
        Some(("False", "BackingOff", message.as_str()))
    );
    Ok(until)
}

/// When the job was admitted after it was said to back off until then.
fn admitted_after(history: &[Revision], until: Timestamp) -> Option<Timestamp> {
    let of_job = history.iter().map(|r| &r.object);
    let of_job = of_job.filter(|w| job_name(w) == "homeless");
    let mut since = of_job.skip_while(|w| requeue_at(w) != Some(until));
    let admitted = since.find(|w| is_admitted(w))?;
    let conditions = admitted["status"]["conditions"].as_array().unwrap();
    let reserved = conditions.iter().find(|c| c["type"] == "QuotaReserved");
    let at = reserved.unwrap()["lastTransitionTime"].as_str().unwrap();
    Some(at.parse().unwrap())
}

/// The job backs off, and is admitted as soon as it may be and not before. There is quota all the
/// while, and what happens `meanwhile` is no reason.
async fn backs_off(scene: &Scene<'_>, meanwhile: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let workloads = scene.record("Workload").await?;
    homeless(scene).await?;
    let until = see_backing_off(scene).await?;
    meanwhile().await?;
    // For the next time.
    scene.cp.add_node(own_node(scene, "node")).await?;
    let admitted = wait_for("the next admission", DEADLINE, async || {
        admitted_after(&workloads.so_far(), until)
    })
    .await?;
    ensure!(until <= admitted, "{admitted} is before {until}");
    scene.see_complete("homeless").await?;
    let history = scene.history("Workload", &workloads).await?;
    check_conditions(&history)?;
    let of_job = history.iter().filter(|r| job_name(&r.object) == "homeless");
    let told = of_job.filter(|r| {
        let told = condition(&r.object, "QuotaReserved");
        told.is_some_and(|(_, reason, _)| reason == "BackingOff")
            && requeue_at(&r.object) == Some(until)
    });
    assert_eq!(told.count(), 1, "it is said once that it backs off");
    scene.cp.remove_node(&scene.name("node")).await
}

#[tokio::test]
async fn a_job_backs_off_and_is_queued_again_by_itself() -> Result<()> {
    bed::shared("requeue-wait", async |scene| {
        backs_off(scene, async || {
            scene.create(&Job::new("next").queue("q").json()).await?;
            scene.see_complete("next").await.map(drop)
        })
        .await
    })
    .await
}

#[tokio::test]
async fn after_a_kill_a_job_backs_off_until_the_same_moment() -> Result<()> {
    bed::own_running("requeue-kill", async |bed, scene| {
        backs_off(scene, async || {
            bed.sluice.kill();
            bed.sluice.start_again().await
        })
        .await
    })
    .await
}
