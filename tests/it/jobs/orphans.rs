//! `kubectl delete --cascade=orphan`: the job goes, its pods run on. Their quota is free when they are
//! gone, and nothing stays behind, whoever looks.

use anyhow::{Result, ensure};
use serde_json::Value;
use sluice_testbed::eventually;

use crate::support::objects::{Job, is_admitted, name_of, quota};
use crate::support::pods::is_running;
use crate::support::{DEADLINE, Scene, bed};

async fn orphan(scene: &Scene<'_>, job: &str) -> Result<()> {
    let args = ["delete", "job", job, "--cascade=orphan", "--timeout=180s"];
    scene.kubectl(&args, None).await?.ok().map(drop)
}

/// The name of the Workload of a job that is there.
async fn workload_of(scene: &Scene<'_>, job: &str) -> Result<String> {
    let workload = scene.see_workload(job, "there", |_| true).await?;
    Ok(name_of(&workload).to_owned())
}

async fn see_next_waiting(scene: &Scene<'_>) -> Result<()> {
    let waits = |w: &Value| !is_admitted(w);
    scene.see_workload("next", "waiting", waits).await.map(drop)
}

/// Deletes the pods of the orphaned job, and sees what follows.
async fn end_orphans(scene: &Scene<'_>, pods: &[Value], workload: &str) -> Result<()> {
    let (one, last) = (&pods[0], &pods[1]);
    scene.delete("Pod", name_of(one)).await?;
    scene.see_gone("Pod", name_of(one)).await?;
    see_next_waiting(scene).await?;
    ensure!(
        scene.find("Workload", workload).await?.is_some(),
        "{workload} is gone too early"
    );
    scene.delete("Pod", name_of(last)).await?;
    scene.see_gone("Workload", workload).await?;
    scene.see_admitted("next").await.map(drop)
}

#[tokio::test]
async fn pods_that_run_on_keep_their_quota() -> Result<()> {
    bed::shared("orphan-runs", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene
            .create(&Job::new("first").queue("q").pods(2).runs_forever().json())
            .await?;
        let pods = scene.see_pods("Running", 2).await?;
        let first = workload_of(scene, "first").await?;
        scene
            .create(&Job::new("next").queue("q").runs_forever().json())
            .await?;
        see_next_waiting(scene).await?;
        orphan(scene, "first").await?;
        // It may be told of one before the other is seen to be an orphan.
        let both = "The job was deleted, and 2 of its pods still run";
        eventually("an event about both pods", DEADLINE, async || {
            let events = scene.events(&first).await?;
            let mut told = events.iter();
            let is_told = told.any(|(r, note)| r == "Orphaned" && note.starts_with(both));
            ensure!(is_told, "{events:?}");
            anyhow::Ok(())
        })
        .await?;
        scene.see_account("cpu", ("2", "2", "0"), 1).await?;
        see_next_waiting(scene).await?;
        end_orphans(scene, &pods, &first).await
    })
    .await
}

#[tokio::test]
async fn the_workload_of_one_that_waits_goes() -> Result<()> {
    bed::shared("orphan-waits", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("large").queue("q").cpu("2").json())
            .await?;
        let large = workload_of(scene, "large").await?;
        orphan(scene, "large").await?;
        scene.see_gone("Workload", &large).await?;
        // Nothing is left that says what pods ask for: the next one by its name is a new job.
        scene.create(&Job::new("large").queue("q").json()).await?;
        scene.see_complete("large").await.map(drop)
    })
    .await
}

/// No controller sees it happen.
#[tokio::test]
async fn whoever_comes_later_knows_the_pods() -> Result<()> {
    bed::own_running("orphan-down", async |bed, scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene
            .create(&Job::new("first").queue("q").pods(2).runs_forever().json())
            .await?;
        let pods = scene.see_pods("Running", 2).await?;
        let first = workload_of(scene, "first").await?;
        for name in ["next", "large"] {
            scene
                .create(&Job::new(name).queue("q").runs_forever().json())
                .await?;
        }
        see_next_waiting(scene).await?;
        let large = workload_of(scene, "large").await?;
        bed.sluice.kill();
        orphan(scene, "first").await?;
        orphan(scene, "large").await?;
        bed.sluice.start_again().await?;
        scene.see_gone("Workload", &large).await?;
        scene.see_event(&first, "Orphaned").await?;
        see_next_waiting(scene).await?;
        // And whoever comes after that one too.
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        end_orphans(scene, &pods, &first).await?;
        scene.see_so_many("running", 1, is_running).await.map(drop)
    })
    .await
}
