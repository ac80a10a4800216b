//! A job is its user's: who suspends it after it was admitted pauses it. It gives its quota back, and
//! waits until its user resumes it, which queues it again. So does who takes it out by `spec.active`.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::PODS_MADE_BY_ANNOTATION;
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{
    GATES, Job, cluster_queue, condition, is_admitted, is_suspended, name_of, quota, with,
};
use crate::support::plugin::run_on;
use crate::support::{DEADLINE, Scene, bed};

both_ways!(
    a_paused_job_gives_its_quota_back_until_it_is_resumed,
    a_waiting_job_can_be_held_by_its_user,
    the_plugin_holds_a_job_that_waits_until_it_is_resumed,
);

fn suspend(is_suspended: bool) -> Value {
    json!({"spec": {"suspend": is_suspended}})
}

/// Waits until a job is told to be paused, and holds nothing.
async fn see_paused(scene: &Scene<'_>, job: &str) -> Result<Value> {
    scene
        .see_workload(job, "paused", |workload| {
            let quota = condition(workload, "QuotaReserved");
            quota.is_some_and(|(status, reason, _)| (status, reason) == ("False", "OnHold"))
                && workload["status"]["admission"].is_null()
        })
        .await
}

async fn a_paused_job_gives_its_quota_back_until_it_is_resumed(admission: Admission) -> Result<()> {
    play(admission, "pause", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("first").queue("q").runs_forever().json())
            .await?;
        scene.see_pods("Running", 1).await?;
        let jobs = scene.record("Job").await?;
        scene
            .create(&Job::new("next").queue("q").runs_forever().json())
            .await?;
        scene
            .see_workload("next", "waiting", |w| !is_admitted(w))
            .await?;
        scene.merge("Job", "first", suspend(true)).await?;
        let workload = see_paused(scene, "first").await?;
        let (_, _, message) = condition(&workload, "QuotaReserved").unwrap();
        ensure!(message.contains("set spec.suspend to false"), "{message}");
        scene.see_admitted("next").await?;
        scene.see_event("first", "Suspended").await?;
        // There is quota again, and it stays as it is: a later job is admitted first.
        scene.delete("Job", "next").await?;
        scene.create(&Job::new("later").queue("q").json()).await?;
        scene.see_complete("later").await?;
        ensure!(is_suspended(&scene.get("Job", "first").await?));
        for revision in scene.history("Job", &jobs).await? {
            let is_first = name_of(&revision.object) == "first";
            ensure!(
                !is_first
                    || is_suspended(&revision.object)
                    || revision.object["status"]["active"] == 1,
                "it was started again: {}",
                revision.object
            );
        }
        // Resumed, it is queued: nobody releases it but Sluice.
        scene
            .create(&Job::new("other").queue("q").runs_forever().json())
            .await?;
        scene.see_admitted("other").await?;
        scene.merge("Job", "first", suspend(false)).await?;
        let waits = |w: &Value| {
            condition(w, "QuotaReserved")
                .is_some_and(|(status, reason, _)| (status, reason) == ("False", "WaitingForQuota"))
        };
        scene
            .see_workload("first", "waiting for quota", waits)
            .await?;
        scene.see("Job", "first", "suspended", is_suspended).await?;
        scene.delete("Job", "other").await?;
        scene
            .see("Job", "first", "running again", |job| {
                job["status"]["active"] == 1
            })
            .await
            .map(drop)
    })
    .await
}

/// The mark says whose the suspension is: taken off, it is the user's.
async fn a_waiting_job_can_be_held_by_its_user(admission: Admission) -> Result<()> {
    play(admission, "pause-waiting", async |scene| {
        let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        scene.create(&Job::new("own").queue("q").json()).await?;
        scene
            .see_workload("own", "waiting", |w| !is_admitted(w))
            .await?;
        let own = json!({"metadata": {"annotations": {"sluice.dev/held": "false"}}});
        scene.merge("Job", "own", own).await?;
        see_paused(scene, "own").await?;
        scene.stop("None").await?;
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        ensure!(is_suspended(&scene.get("Job", "own").await?));
        scene.merge("Job", "own", suspend(false)).await?;
        scene.see_complete("own").await.map(drop)
    })
    .await
}

/// The one that its queue holds back, and the one that a gate does.
async fn the_plugin_holds_a_job_that_waits_until_it_is_resumed(admission: Admission) -> Result<()> {
    play(admission, "plugin-hold", async |scene| {
        let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        let gated = Job::new("gated").queue("q").gates("plugin-hold.io/a");
        scene.create(&gated.json()).await?;
        scene.create(&Job::new("own").queue("q").json()).await?;
        scene
            .see_workload("own", "waiting", |w| !is_admitted(w))
            .await?;
        let steer = async |verb: &str, job: &str| {
            let command = format!("{verb} job/{job} -n {}", scene.ns);
            let (code, stdout, stderr) = run_on(scene.cp, &command).await?;
            let done = if verb == "hold" { "held" } else { "resumed" };
            ensure!(
                (code, stdout) == (0, format!("job.batch/{job} {done}\n")),
                "{stderr}"
            );
            Ok::<_, anyhow::Error>(())
        };
        steer("hold", "own").await?;
        see_paused(scene, "own").await?;
        steer("hold", "gated").await?;
        let open = json!({"metadata": {"annotations": {GATES: null}}});
        scene.merge("Job", "gated", open).await?;
        scene.stop("None").await?;
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        for job in ["own", "gated"] {
            ensure!(is_suspended(&scene.get("Job", job).await?), "{job}");
            steer("resume", job).await?;
            scene.see_complete(job).await?;
        }
        Ok(())
    })
    .await
}

/// Paused and resumed while nobody looks; and paused, edited, and seen later: it is still a pause.
#[tokio::test]
async fn what_the_user_did_is_known_after_a_restart() -> Result<()> {
    bed::own_running("pause-restart", async |bed, scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene
            .create(&Job::new("first").queue("q").runs_forever().json())
            .await?;
        scene.see_pods("Running", 1).await?;
        scene.merge("Job", "first", suspend(true)).await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        see_paused(scene, "first").await?;
        // In its queue again, and who comes then knows that it is Sluice's turn.
        scene.stop("Hold").await?;
        scene.merge("Job", "first", suspend(false)).await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene
            .see_workload("first", "waiting", |w| {
                condition(w, "QuotaReserved").is_some_and(|(_, reason, _)| reason != "OnHold")
            })
            .await?;
        scene.stop("None").await?;
        scene.see_pods("Running", 1).await.map(drop)
    })
    .await
}

/// Who may submit jobs may take one out of the queue, and write nothing else of its Workload.
#[tokio::test]
async fn a_submitter_takes_a_job_out_of_the_queue_and_back() -> Result<()> {
    bed::shared("pause-active", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let args = [
            "create",
            "rolebinding",
            "ann",
            "--clusterrole=edit",
            "--user=ann",
        ];
        scene.kubectl(&args, None).await?.ok()?;
        scene
            .create(&Job::new("first").queue("q").runs_forever().json())
            .await?;
        let workload = scene.see_admitted("first").await?;
        let name = name_of(&workload);
        let patch = async |patch: Value| {
            let patch = patch.to_string();
            let args = [
                "--as=ann",
                "patch",
                "workload",
                name,
                "--type=merge",
                "-p",
                &patch,
            ];
            scene.kubectl(&args, None).await
        };
        let refused = [
            json!({"spec": {"priority": 1000}}),
            json!({"spec": {"queueName": "other"}}),
            json!({"spec": {"podSets": []}}),
            json!({"spec": {"jobCreationTimestamp": "2000-01-01T00:00:00Z"}}),
            json!({"metadata": {"ownerReferences": []}}),
            json!({"metadata": {"finalizers": ["example.com/stay"]}}),
            json!({"metadata": {"labels": {"sluice.dev/job-uid": "x"}}}),
            json!({"metadata": {"annotations": {(PODS_MADE_BY_ANNOTATION): "Deployment/x"}}}),
        ];
        eventually("ann to have her role", DEADLINE, async || {
            patch(json!({"metadata": {"annotations": {"a": "b"}}}))
                .await
                .and_then(sluice_testbed::KubectlOutput::ok)
        })
        .await?;
        for change in refused {
            let told = patch(change.clone()).await?.err()?;
            ensure!(told.contains("written by Sluice alone"), "{change}: {told}");
        }
        let args = [
            "--as=ann",
            "patch",
            "workload",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{}}"#,
        ];
        ensure!(
            scene
                .kubectl(&args, None)
                .await?
                .err()?
                .contains("forbidden")
        );
        patch(json!({"spec": {"active": false}})).await?.ok()?;
        scene
            .see_workload("first", "out of the queue", |w| {
                !is_admitted(w)
                    && condition(w, "QuotaReserved")
                        .is_some_and(|(_, reason, _)| reason == "Deactivated")
            })
            .await?;
        scene.create(&Job::new("next").queue("q").json()).await?;
        scene.see_complete("next").await?;
        patch(json!({"spec": {"active": true}})).await?.ok()?;
        scene.see_admitted("first").await.map(drop)
    })
    .await
}

/// As manifests for Kueue have it. The policies can't read what was applied before.
#[tokio::test]
async fn a_manifest_that_is_applied_again_pauses_nothing() -> Result<()> {
    bed::shared("apply-again", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let manifest = Job::new("j").queue("q").runs_forever();
        let mut manifest = manifest.json();
        manifest["spec"]["suspend"] = json!(true);
        let apply = async |manifest: &Value| {
            let manifest = manifest.to_string();
            scene.kubectl(&["apply", "-f", "-"], Some(&manifest)).await
        };
        apply(&manifest).await?.ok()?;
        scene.see_pods("Running", 1).await?;
        for label in [Value::Null, json!("changed")] {
            manifest["metadata"]["labels"]["tests/label"] = label;
            let applied = apply(&manifest).await?;
            let rule = "spec.suspend: true from the manifest is ignored: the job was started after the manifest was first applied; to pause it, use kubectl patch";
            ensure!(applied.code == 0 && applied.stderr.contains(rule), "{applied:?}");
            let job = scene.get("Job", "j").await?;
            ensure!(!is_suspended(&job), "{job}");
        }
        let job = scene.get("Job", "j").await?;
        ensure!(job["metadata"]["labels"]["tests/label"] == "changed", "{job}");
        scene.see_pods("Running", 1).await?;
        // Who says so in another way pauses it.
        let patch = suspend(true).to_string();
        let args = ["patch", "job", "j", "--type=merge", "-p", &patch];
        scene.kubectl(&args, None).await?.ok()?;
        see_paused(scene, "j").await.map(drop)
    })
    .await
}
