//! Jobs that do not stop when they are evicted: by a fault of their controller, because it does nothing,
//! or because they are being deleted and do not go. None of them keeps others waiting for ever.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_testbed::{Sluice, eventually};

use crate::queues::preemption::{job_of, queue_by_priority};
use crate::support::objects::{Job, condition, is, is_admitted, is_suspended, name_of, quota};
use crate::support::persist::persist;
use crate::support::pods::{Pod, is_terminating};
use crate::support::{DEADLINE, Scene, bed, see_a_second_pass};

/// A job whose status is written by the test alone, which counts as running while that says so.
pub fn left_alone(job: Job) -> Job {
    job.with(&["spec", "managedBy"], json!("tests.sluice.dev/nobody"))
}

/// A job that stays when it is deleted, until it is freed.
fn keep(job: Job) -> Job {
    let finalizers = json!(["tests.sluice.dev/keep"]);
    job.with(&["metadata", "finalizers"], finalizers)
}

async fn free(scene: &Scene<'_>, job: &str) -> Result<()> {
    let free = json!({"metadata": {"finalizers": null}});
    scene.merge("Job", job, free).await?;
    scene.see_gone("Job", job).await
}

pub async fn set_status(scene: &Scene<'_>, job: &str, status: Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "status": status }));
    let (api, params) = (scene.api("Job"), PatchParams::default());
    persist(async || api.patch_status(job, &params, &patch).await)
        .await
        .with_context(|| format!("set the status of {job} to {status}"))?;
    Ok(())
}

pub fn now_is(conditions: &[(&str, &str)]) -> Value {
    let conditions = conditions.iter().map(|(kind, status)| {
        json!({"type": kind, "status": status, "reason": "Test", "message": "",
            "lastProbeTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    conditions.collect::<Vec<_>>().into()
}

pub fn is_released(job: &Value) -> bool {
    job["spec"]["suspend"] == false
}

/// The value of a metric of this ClusterQueue, for a reason if it has one.
async fn metric(name: &str, queue: &str, reason: &str) -> Result<u64> {
    let text = Sluice::shared(bed::BINARY).sluice.metrics().await?;
    let mut lines = text.lines().filter(|line| {
        line.starts_with(name) && line.contains(&format!("\"{queue}\"")) && line.contains(reason)
    });
    let value = lines.next().and_then(|line| line.rsplit(' ').next());
    Ok(value.map_or(0, |value| value.parse().unwrap()))
}

/// A Job that is suspended before it has a startTime, and whose pods succeed, never says that it is
/// suspended, nor that it has ended: the Job controller can write neither (Kubernetes 1.36.3).
#[tokio::test]
async fn a_job_whose_end_can_not_be_written_gives_its_quota_back_and_ends() -> Result<()> {
    for criterion in ["SuccessCriteriaMet", "FailureTarget"] {
        bed::shared("stall-criteria", async |scene| {
            queue_by_priority(scene, "1").await?;
            let job = left_alone(job_of(scene, "low", "stuck"));
            scene.create(&job.json()).await?;
            scene.see("Job", "stuck", "released", is_released).await?;
            let job = job_of(scene, "high", "urgent").runs_forever();
            scene.create(&job.json()).await?;
            scene.see("Job", "stuck", "suspended", is_suspended).await?;
            let counted = json!({"active": 0, "ready": 0, "terminating": 0,
                "conditions": now_is(&[(criterion, "True")])});
            set_status(scene, "stuck", counted).await?;
            scene.see_admitted("urgent").await?;
            scene.see_pods("Running", 1).await?;
            // It needs no quota to be released and end.
            scene.see("Job", "stuck", "released", is_released).await?;
            let workload = scene.see_admitted("stuck").await?;
            assert_eq!(workload["spec"]["podSets"][0]["count"], 0, "{workload}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// As above, but one of its pods has yet to terminate.
#[tokio::test]
async fn a_job_keeps_its_quota_while_a_pod_of_it_terminates() -> Result<()> {
    bed::shared("stall-pods", async |scene| {
        queue_by_priority(scene, "1").await?;
        let job = left_alone(job_of(scene, "low", "stuck"));
        scene.create(&job.json()).await?;
        scene.see("Job", "stuck", "released", is_released).await?;
        set_status(scene, "stuck", json!({"active": 1})).await?;
        let job = job_of(scene, "high", "urgent").runs_forever();
        scene.create(&job.json()).await?;
        scene.see("Job", "stuck", "suspended", is_suspended).await?;
        let met = now_is(&[("SuccessCriteriaMet", "True")]);
        let counted = json!({"active": 0, "ready": 0, "terminating": 1, "conditions": met});
        set_status(scene, "stuck", counted).await?;
        // A change that comes later has come through by the time that it still holds its quota.
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene
            .see_workload("other", "waiting", |w| {
                condition(w, "QuotaReserved").is_some()
            })
            .await?;
        let workload = scene.see_workload("stuck", "there", |_| true).await?;
        ensure!(is(&workload, "Evicted"), "{workload}");
        ensure!(workload["status"]["admission"].is_object(), "{workload}");
        set_status(scene, "stuck", json!({"terminating": 0})).await?;
        scene.see_admitted("urgent").await?;
        Ok(())
    })
    .await
}

/// Nobody works on a Job that says so: it is not waited for, as it has no pods.
#[tokio::test]
async fn a_job_that_nobody_manages_gives_its_quota_back_at_once() -> Result<()> {
    bed::shared("stall-nobody", async |scene| {
        queue_by_priority(scene, "1").await?;
        let job = left_alone(job_of(scene, "low", "idle"));
        scene.create(&job.json()).await?;
        scene.see("Job", "idle", "released", is_released).await?;
        let job = job_of(scene, "high", "urgent").runs_forever();
        scene.create(&job.json()).await?;
        scene.see_admitted("urgent").await?;
        scene.see("Job", "idle", "suspended", is_suspended).await?;
        Ok(())
    })
    .await
}

/// The controller of a job does nothing: it is told that it has not stopped, its quota stays in use, and
/// who waited for it looks for somebody else.
#[tokio::test]
async fn nobody_waits_for_ever_for_a_job_that_does_not_stop() -> Result<()> {
    bed::shared("stall-silent", async |scene| {
        queue_by_priority(scene, "2").await?;
        let job = job_of(scene, "low", "other").runs_forever();
        scene.create(&job.json()).await?;
        scene.see_pods("Running", 1).await?;
        let pod = scene.list("Pod").await?.remove(0);
        see_a_second_pass(&pod["metadata"]["creationTimestamp"]).await?;
        let job = left_alone(job_of(scene, "low", "silent"));
        scene.create(&job.json()).await?;
        scene.see("Job", "silent", "released", is_released).await?;
        set_status(scene, "silent", json!({"active": 1})).await?;
        let job = job_of(scene, "high", "urgent").runs_forever();
        scene.create(&job.json()).await?;
        // The job that was admitted last is preempted, and does not stop.
        scene
            .see("Job", "silent", "suspended", is_suspended)
            .await?;
        let is_stalled = |w: &Value| {
            condition(w, "Stalled").is_some_and(|(s, r, _)| (s, r) == ("True", "EvictionOverdue"))
        };
        let workload = scene.see_workload("silent", "stalled", is_stalled).await?;
        ensure!(workload["status"]["admission"].is_object(), "{workload}");
        let told = scene.see_event("silent", "EvictionOverdue").await?;
        ensure!(told.contains("stays in use"), "{told}");
        scene.see_admitted("urgent").await?;
        scene.see("Job", "other", "suspended", is_suspended).await?;
        eventually("the metric to tell of it", DEADLINE, async || match metric(
            "sluice_stalled_workloads",
            &scene.ns,
            "",
        )
        .await
        {
            Ok(1) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await?;
        // It stops after all: its quota is free, and goes to who waits.
        let stopped = json!({"active": 0, "conditions": now_is(&[("Suspended", "True")])});
        set_status(scene, "silent", stopped).await?;
        let has_ended = |w: &Value| {
            condition(w, "Stalled").is_some_and(|(s, r, _)| (s, r) == ("False", "EvictionEnded"))
        };
        scene
            .see_workload("silent", "stalled no more", has_ended)
            .await?;
        Ok(())
    })
    .await
}

/// What is being deleted and does not go keeps its quota, and another one is preempted in its place. A
/// finalizer stands for a pod that does not end.
#[tokio::test]
async fn nobody_waits_for_ever_for_a_pod_that_does_not_go() -> Result<()> {
    let finalizers = json!(["tests.sluice.dev/keep"]);
    let pod = ["metadata", "finalizers"];
    let of_job = ["spec", "template", "metadata", "finalizers"];
    for (name, cascade) in [("pod", "background"), ("job", "foreground")] {
        bed::shared(&format!("stall-{name}"), async |scene| {
            queue_by_priority(scene, "2").await?;
            scene
                .create(&job_of(scene, "low", "other").runs_forever().json())
                .await?;
            scene.see_pods("Running", 1).await?;
            let first = scene.list("Pod").await?.remove(0);
            see_a_second_pass(&first["metadata"]["creationTimestamp"]).await?;
            let stays = if name == "pod" {
                let pod = Pod::new("stays").queue("q").with(&pod, finalizers.clone());
                pod.priority_class(&scene.name("low")).json()
            } else {
                let job = job_of(scene, "low", "stays").runs_forever();
                job.with(&of_job, finalizers.clone()).json()
            };
            scene.create(&stays).await?;
            scene.see_pods("Running", 2).await?;
            let cascade = format!("--cascade={cascade}");
            let args = ["delete", name, "stays", &cascade, "--wait=false"];
            scene.kubectl(&args, None).await?.ok()?;
            scene.see_so_many("terminating", 1, is_terminating).await?;
            let urgent = job_of(scene, "high", "urgent").runs_forever();
            scene.create(&urgent.json()).await?;
            let told = scene.see_event("stays", "DeletionOverdue").await?;
            ensure!(told.contains("stays in use"), "{told}");
            scene.see_admitted("urgent").await?;
            scene.see("Job", "other", "suspended", is_suspended).await?;
            let left = scene.see_so_many("terminating", 1, is_terminating).await?;
            let free = json!({"metadata": {"finalizers": null}});
            scene.merge("Pod", name_of(&left[0]), free).await?;
            scene.see_admitted("other").await.map(drop)
        })
        .await?;
    }
    Ok(())
}

/// A job with a finalizer that is deleted and does not go is evicted like any other: its controller
/// does nothing more for it, so its pods are deleted.
#[tokio::test]
async fn a_job_that_stays_after_its_deletion_is_preempted() -> Result<()> {
    bed::shared("stall-deleted", async |scene| {
        queue_by_priority(scene, "2").await?;
        let kept = job_of(scene, "high", "kept").runs_forever();
        scene.create(&keep(kept).json()).await?;
        let stays = job_of(scene, "low", "stays").runs_forever();
        scene.create(&stays.json()).await?;
        scene.see_pods("Running", 2).await?;
        scene.delete("Job", "kept").await?;
        scene
            .see("Job", "kept", "being deleted", |job| {
                job["metadata"]["deletionTimestamp"].is_string()
            })
            .await?;
        let urgent = job_of(scene, "mid", "urgent").runs_forever();
        scene.create(&urgent.json()).await?;
        // Its user has given it up: it is preempted before one of lower priority.
        scene.see("Job", "kept", "suspended", is_suspended).await?;
        scene.see_admitted("urgent").await?;
        scene.see_pods("Running", 2).await?;
        let stays = scene.get("Job", "stays").await?;
        ensure!(is_released(&stays), "{stays}");
        let kept = scene.see_workload("kept", "there", |_| true).await?;
        ensure!(!is_admitted(&kept), "{kept}");
        free(scene, "kept").await
    })
    .await
}

/// One whose pods end while it is being deleted gives its quota back though it stays, and though its
/// controller says nothing any more.
#[tokio::test]
async fn a_deleted_job_that_has_ended_holds_no_quota() -> Result<()> {
    bed::shared("stall-ended", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let kept = Job::new("kept").queue("q").runs_forever();
        scene.create(&keep(kept).json()).await?;
        let running = scene.see_pods("Running", 1).await?;
        scene.delete("Job", "kept").await?;
        scene.end(name_of(&running[0])).await?;
        scene.create(&Job::new("next").queue("q").json()).await?;
        scene.see_complete("next").await?;
        free(scene, "kept").await
    })
    .await
}

#[tokio::test]
async fn an_eviction_by_deactivation_is_counted() -> Result<()> {
    bed::shared("stall-count", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("off").queue("q").runs_forever().json())
            .await?;
        let workload = scene.see_admitted("off").await?;
        let name = workload["metadata"]["name"].as_str().unwrap();
        let off = json!({"spec": {"active": false}});
        scene.merge("Workload", name, off).await?;
        let name = "sluice_evicted_workloads_total";
        eventually(
            "the eviction to be counted",
            DEADLINE,
            async || match metric(name, &scene.ns, "Deactivated").await {
                Ok(1) => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )
        .await
    })
    .await
}
