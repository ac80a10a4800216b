//! ClusterQueues that are deleted, or whose quota can't be counted any more, while jobs run in them: what the jobs use,
//! and have borrowed, is used until they have stopped, also after a restart.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, SluiceOptions};

use crate::support::objects::{self, Job, condition, is_admitted, name_of, quota, with};
use crate::support::{Scene, bed};

/// A ClusterQueue of 4 cpus in the cohort of this test.
async fn create_queue(scene: &Scene<'_>, queue: &str) -> Result<()> {
    let (name, cohort) = (scene.name(queue), scene.name("cohort"));
    let queue = objects::cluster_queue(&name, &scene.ns, &[quota("cpu", "4")]);
    let queue = with(queue, "/spec/cohortName", json!(cohort));
    scene.create(&queue).await.map(drop)
}

/// The queues `a` and `b` of one cohort, each with a LocalQueue.
async fn create_both(scene: &Scene<'_>) -> Result<()> {
    scene.create(&objects::flavor(&scene.ns)).await?;
    for queue in ["a", "b"] {
        create_queue(scene, queue).await?;
        let local_queue = objects::local_queue(queue, &scene.name(queue));
        scene.create(&local_queue).await?;
    }
    Ok(())
}

async fn see_still_waiting(scene: &Scene<'_>, job: &str) -> Result<()> {
    let workload = scene.find_workload(job).await?.unwrap_or_default();
    ensure!(
        !is_admitted(&workload),
        "it got quota that is used: {workload}"
    );
    Ok(())
}

/// What a job of 4 cpus in queue `b` waits for.
fn waits_for_quota(scene: &Scene<'_>) -> String {
    format!(
        "couldn't be admitted to ClusterQueue {:?}: insufficient unused quota for cpu in flavor {:?}: \
         requests 4 (nominal quota 4)",
        scene.name("b"),
        scene.ns
    )
}

#[tokio::test]
async fn what_a_deleted_queue_has_borrowed_is_used_until_its_jobs_have_stopped() -> Result<()> {
    let (sluice, options) = (SluiceOptions::new(bed::BINARY), Options::with_crds()?);
    bed::own("deleted-queues", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        create_both(scene).await?;
        let other = objects::cluster_queue(&scene.name("other"), &scene.ns, &[quota("cpu", "8")]);
        scene.create(&other).await?;
        let local_queue = objects::local_queue("other", &scene.name("other"));
        scene.create(&local_queue).await?;
        for job in ["one", "two"] {
            let job = Job::new(job).cpu("4").queue("a").runs_forever();
            scene.create(&job.json()).await?;
        }
        let workload = scene.see_admitted("one").await?;
        assert_eq!(
            workload["status"]["admission"]["cohortName"],
            json!(scene.name("cohort"))
        );
        scene.see_admitted("two").await?;

        scene.delete("ClusterQueue", &scene.name("a")).await?;
        scene.see_gone("ClusterQueue", &scene.name("a")).await?;
        let waiting = Job::new("waiting").cpu("4").queue("b").runs_forever();
        scene.create(&waiting.json()).await?;
        (scene.see_waiting("waiting", "WaitingForQuota", &waits_for_quota(scene))).await?;

        // The next leader knows the cohort from the Workloads.
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        let job = Job::new("elsewhere").cpu("4").queue("other").runs_forever();
        scene.create(&job.json()).await?;
        scene.see_admitted("elsewhere").await?;
        see_still_waiting(scene, "waiting").await?;

        // A queue that is created again has its usage: 8 of 8 are used.
        create_queue(scene, "a").await?;
        scene
            .see("ClusterQueue", &scene.name("a"), "used", |queue| {
                queue["status"]["admittedWorkloads"] == json!(2)
            })
            .await?;
        see_still_waiting(scene, "waiting").await?;
        scene.delete("ClusterQueue", &scene.name("a")).await?;

        // 4 are left of the cohort's quota, and one job of the deleted queue uses them.
        scene.delete("Job", "one").await?;
        scene.see_gone("Workload", name_of(&workload)).await?;
        let job = Job::new("later").cpu("4").queue("other").runs_forever();
        scene.create(&job.json()).await?;
        scene.see_admitted("later").await?;
        see_still_waiting(scene, "waiting").await?;
        scene.delete("Job", "two").await?;
        scene.see_admitted("waiting").await?;
        Ok(())
    })
    .await
}

/// Without the webhook, only the controller sees that.
#[tokio::test]
async fn what_a_queue_has_borrowed_is_used_while_its_quota_can_not_be_counted() -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    let options = Options::with_crds()?;
    bed::own("uncountable", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        create_both(scene).await?;
        let job = Job::new("borrows").cpu("8").queue("a").runs_forever();
        scene.create(&job.json()).await?;
        scene.see_admitted("borrows").await?;
        let queue = scene.get("ClusterQueue", &scene.name("a")).await?;
        let quota = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota";
        let uncountable = with(queue, quota, json!("1e40"));
        let patch = json!({"spec": uncountable["spec"]});
        scene.merge("ClusterQueue", &scene.name("a"), patch).await?;
        let is_told = |queue: &Value| {
            condition(queue, "Active").is_some_and(|(status, ..)| status == "False")
        };
        scene
            .see("ClusterQueue", &scene.name("a"), "not active", is_told)
            .await?;
        let waiting = Job::new("waiting").cpu("4").queue("b").runs_forever();
        scene.create(&waiting.json()).await?;
        (scene.see_waiting("waiting", "WaitingForQuota", &waits_for_quota(scene))).await?;
        scene.delete("Job", "borrows").await?;
        scene.see_admitted("waiting").await?;
        Ok(())
    })
    .await
}
