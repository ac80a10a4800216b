//! A WorkloadPriorityClass gets another value, or is deleted: what waits follows its value, what runs keeps what it was
//! admitted with. A job that names another class has the priority of that, also while it runs.

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_crds::PRIORITY_CLASS_LABEL;

use crate::queues::preemption::{classes, job_of, preemptions, queue_by_priority, see_preemptions};
use crate::support::objects::{condition, is_admitted, quota};
use crate::support::pods::{Pod, is_running};
use crate::support::queues::admission_order;
use crate::support::{Scene, bed};

/// Gives a class of the test another value.
async fn revalue(scene: &Scene<'_>, class: &str, value: i32) -> Result<()> {
    scene
        .merge(
            "WorkloadPriorityClass",
            &scene.name(class),
            json!({ "value": value }),
        )
        .await
        .map(drop)
}

async fn see_priority(scene: &Scene<'_>, job: &str, priority: i32) -> Result<()> {
    scene
        .see_workload(job, &format!("of priority {priority}"), |w| {
            w["spec"]["priority"] == priority
        })
        .await
        .map(drop)
}

#[tokio::test]
async fn the_order_of_what_waits_follows_its_class() -> Result<()> {
    bed::shared("priority-order", async |scene| {
        classes(scene).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let workloads = scene.record("Workload").await?;
        let runs = job_of(scene, "low", "runs").runs_forever();
        scene.create(&runs.json()).await?;
        scene.see_pods("Running", 1).await?;
        for (class, name) in [("mid", "second"), ("low", "first")] {
            scene.create(&job_of(scene, class, name).json()).await?;
        }
        see_priority(scene, "second", 50).await?;
        see_priority(scene, "first", 1).await?;
        revalue(scene, "low", 70).await?;
        see_priority(scene, "first", 70).await?;
        see_priority(scene, "second", 50).await?;
        let running = scene.find_workload("runs").await?.unwrap();
        assert_eq!(running["spec"]["priority"], 1, "it keeps what it had");
        scene.delete("Job", "runs").await?;
        scene.see_complete("second").await?;
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(admission_order(&history), ["runs", "first", "second"]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_is_raised_while_it_waits_may_take_the_place_of_another() -> Result<()> {
    bed::shared("priority-raised", async |scene| {
        queue_by_priority(scene, "1").await?;
        let workloads = scene.record("Workload").await?;
        let runs = job_of(scene, "mid", "runs").runs_forever();
        scene.create(&runs.json()).await?;
        scene.see_pods("Running", 1).await?;
        let waits = job_of(scene, "low", "waits").runs_forever();
        scene.create(&waits.json()).await?;
        see_priority(scene, "waits", 1).await?;
        // What runs does not follow, so that it is lower from now on.
        revalue(scene, "mid", 90).await?;
        revalue(scene, "low", 80).await?;
        // It waits again, and with its class as it is now it is the one that goes first: the other is
        // admitted for a moment only.
        let told = see_preemptions(&workloads, 2).await?;
        let (name, _, text) = &told[0];
        ensure!(
            name == "runs" && text.contains("(priority 80, "),
            "{told:?}"
        );
        see_priority(scene, "runs", 90).await?;
        scene
            .see_workload("runs", "admitted again", is_admitted)
            .await?;
        let history = scene.history("Workload", &workloads).await?;
        let told = preemptions(&history);
        ensure!(told.len() == 2 && told[1].0 == "waits", "{told:?}");
        Ok(())
    })
    .await
}

/// Pods that are admitted by themselves have no Workload: their own record says what they had.
#[tokio::test]
async fn a_pod_keeps_the_priority_that_it_was_admitted_with() -> Result<()> {
    bed::shared("priority-pods", async |scene| {
        queue_by_priority(scene, "1").await?;
        let of_class =
            |class: &str, name: &str| Pod::new(name).queue("q").priority_class(&scene.name(class));
        // No controller makes another one, which would go before the taker, with the class as it is by then.
        scene.create(&of_class("low", "runs").json()).await?;
        scene.see("Pod", "runs", "running", is_running).await?;
        // With its present priority it would not be preempted for a job of class `mid`; with its former
        // one it is.
        revalue(scene, "low", 60).await?;
        scene.create(&of_class("mid", "taker").json()).await?;
        scene.see("Pod", "taker", "running", is_running).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_running_job_that_names_another_class_has_its_priority() -> Result<()> {
    bed::shared("priority-label", async |scene| {
        queue_by_priority(scene, "1").await?;
        let runs = job_of(scene, "low", "runs").runs_forever();
        scene.create(&runs.json()).await?;
        scene.see_pods("Running", 1).await?;
        let named = json!({"metadata": {"labels": {(PRIORITY_CLASS_LABEL): scene.name("high")}}});
        scene.merge("Job", "runs", named).await?;
        see_priority(scene, "runs", 100).await?;
        let waits = job_of(scene, "mid", "waits").runs_forever();
        scene.create(&waits.json()).await?;
        let waiting = scene
            .see_workload("waits", "waiting", |w| {
                condition(w, "QuotaReserved").is_some_and(|(status, ..)| status == "False")
            })
            .await?;
        ensure!(!is_admitted(&waiting), "{waiting}");
        // A class that is not there changes nothing.
        let unknown = json!({"metadata": {"labels": {(PRIORITY_CLASS_LABEL): "nope"}}});
        scene.merge("Job", "runs", unknown).await?;
        let low = json!({"metadata": {"labels": {(PRIORITY_CLASS_LABEL): scene.name("low")}}});
        ensure!(
            scene.find_workload("runs").await?.unwrap()["spec"]["priority"] == 100,
            "it keeps what it had"
        );
        scene.merge("Job", "runs", low).await?;
        scene.see_admitted("waits").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_waiting_job_that_names_a_missing_class_is_not_admitted() -> Result<()> {
    bed::shared("priority-missing", async |scene| {
        classes(scene).await?;
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.stop("Hold").await?;
        for job in ["renamed", "other"] {
            scene.create(&job_of(scene, "low", job).json()).await?;
            see_priority(scene, job, 1).await?;
        }
        let name = |class: &str| json!({"metadata": {"labels": {(PRIORITY_CLASS_LABEL): class}}});
        scene.merge("Job", "renamed", name("hgh")).await?;
        scene.see_event("renamed", "PriorityClassNotFound").await?;
        scene.stop("None").await?;
        scene.see_complete("other").await?;
        let waiting = scene.find_workload("renamed").await?.unwrap();
        ensure!(!is_admitted(&waiting), "{waiting}");
        let high = scene.name("high");
        scene.merge("Job", "renamed", name(&high)).await?;
        scene.see_complete("renamed").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn what_waits_keeps_what_a_deleted_class_said() -> Result<()> {
    bed::shared("priority-deleted", async |scene| {
        classes(scene).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.stop("Hold").await?;
        scene.create(&job_of(scene, "high", "waits").json()).await?;
        see_priority(scene, "waits", 100).await?;
        let high = scene.name("high");
        scene.delete("WorkloadPriorityClass", &high).await?;
        scene.see_gone("WorkloadPriorityClass", &high).await?;
        scene.create(&job_of(scene, "high", "late").json()).await?;
        scene.see_event("late", "PriorityClassNotFound").await?;
        scene.stop("None").await?;
        let workload = scene.see_admitted("waits").await?;
        assert_eq!(workload["spec"]["priority"], 100);
        Ok(())
    })
    .await
}
