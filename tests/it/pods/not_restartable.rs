//! Bare pods, which no controller would make again: what they borrow can be taken back by their deletion;
//! or their queue keeps them, and then they may not borrow.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::objects::{self, Job, is_admitted, quota, with};
use crate::support::pods::{Pod, check_usage, has_queue_gate, is_running};
use crate::support::{Scene, bed};

/// Two queues of one cohort with 2 cpus each, LocalQueues `mine` and `theirs`; `theirs` may take its
/// nominal quota back.
async fn two_queues(scene: &Scene<'_>, when_not_restartable: &str) -> Result<()> {
    scene.create(&objects::flavor(&scene.ns)).await?;
    for queue in ["mine", "theirs"] {
        let name = scene.name(queue);
        let object = objects::cluster_queue(&name, &scene.ns, &[quota("cpu", "2")]);
        let object = with(object, "/spec/cohortName", json!(scene.name("cohort")));
        let object = with(
            object,
            "/spec/preemption",
            json!({ "reclaimWithinCohort": "Any" }),
        );
        let policy = json!(when_not_restartable);
        scene
            .create(&with(object, "/spec/whenNotRestartable", policy))
            .await?;
        scene.create(&objects::local_queue(queue, &name)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn bare_pods_give_back_what_they_borrow() -> Result<()> {
    bed::shared("bare-reclaim", async |scene| {
        two_queues(scene, "Delete").await?;
        let pods = scene.record("Pod").await?;
        for index in 0..4 {
            let pod = Pod::new(&format!("bare-{index}")).queue("mine");
            scene.create(&pod.json()).await?;
        }
        scene.see_so_many("running", 4, is_running).await?;
        scene
            .create(&Job::new("owed").queue("theirs").cpu("2").json())
            .await?;
        scene.see_complete("owed").await?;
        let left = scene.list("Pod").await?;
        let left = left.iter().filter(|pod| is_running(pod)).count();
        assert_eq!(left, 2, "no more is taken back than is owed");
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "4", |_| true).map(drop)
    })
    .await
}

#[tokio::test]
async fn a_group_of_bare_pods_gives_back_what_it_borrows() -> Result<()> {
    bed::shared("bare-group", async |scene| {
        two_queues(scene, "Delete").await?;
        for name in ["a", "b", "c"] {
            let pod = Pod::new(name).queue("mine").group("gang", 3);
            scene.create(&pod.json()).await?;
        }
        scene.see_so_many("running", 3, is_running).await?;
        scene
            .create(&Job::new("owed").queue("theirs").cpu("2").json())
            .await?;
        scene.see_complete("owed").await?;
        let mut told = Vec::new();
        for name in ["a", "b", "c"] {
            scene.see_gone("Pod", name).await?;
            told.extend(scene.events(name).await?);
        }
        scene.see_gone("Workload", "gang-pod-group").await?;
        // Nothing else is left that could tell of it.
        let said = format!(
            "Preempted by Job \"owed\" (priority 0, ClusterQueue {:?}) due to reclamation within the cohort: its pods are deleted; no controller recreates them",
            scene.name("theirs")
        );
        let is_told = told.contains(&("Preempted".to_owned(), said));
        ensure!(is_told, "{told:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn bare_pods_that_are_kept_do_not_borrow() -> Result<()> {
    bed::shared("bare-kept", async |scene| {
        two_queues(scene, "Keep").await?;
        for name in ["one", "two"] {
            scene.create(&Pod::new(name).queue("mine").json()).await?;
            scene.see("Pod", name, "running", is_running).await?;
        }
        scene.create(&Pod::new("three").queue("mine").json()).await?;
        let told = scene.see_event("three", "Pending").await?;
        let (queue, flavor) = (scene.name("mine"), &scene.ns);
        assert_eq!(
            told,
            format!(
                "couldn't be admitted to ClusterQueue {queue:?}: insufficient unused quota for cpu in flavor {flavor:?}: requests 1 (nominal quota 2, may not borrow)"
            )
        );
        // A job can be stopped and started again: it borrows.
        scene.create(&Job::new("borrows").queue("mine").runs_forever().json()).await?;
        scene.see_admitted("borrows").await?;
        // Of those who may not borrow, what is too large for the nominal quota is never admitted.
        scene.create(&Pod::new("large").queue("mine").cpu("3").json()).await?;
        let told = scene.see_event("large", "Inadmissible").await?;
        ensure!(told.ends_with("more than the maximum capacity (nominal quota 2, may not borrow)"), "{told}");

        scene.create(&Job::new("owed").queue("theirs").cpu("2").json()).await?;
        scene.see_complete("owed").await?;
        scene
            .see_workload("borrows", "evicted or admitted again", |workload| {
                is_admitted(workload) || !workload["status"]["requeueState"].is_null()
            })
            .await?;
        for name in ["one", "two"] {
            ensure!(is_running(&scene.get("Pod", name).await?), "{name} was kept");
        }
        ensure!(has_queue_gate(&scene.get("Pod", "three").await?));

        let delete = json!({ "spec": { "whenNotRestartable": "Delete" } });
        scene.merge("ClusterQueue", &queue, delete).await?;
        scene.see("Pod", "three", "running", is_running).await.map(drop)
    })
    .await
}
