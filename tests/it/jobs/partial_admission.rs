//! Jobs that will do with fewer pods than they have: they run with as many as there is quota for, and
//! are what their users wrote when they are held again.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::leaders::writes::{see_leading_again, see_nothing_written, see_quiet};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::audit;
use crate::support::history::{Revision, check_conditions};
use crate::support::objects::{Job, cluster_queue, is_admitted, is_suspended, quota, with};
use crate::support::persist::answered;
use crate::support::{Scene, bed, by_jobs_webhook, refusal, see_a_second_pass};

both_ways!(
    a_job_runs_with_as_many_pods_as_there_is_quota_for,
    a_number_that_cannot_be_read_holds_a_waiting_job,
);

const MIN: &str = "sluice.dev/min-parallelism";

/// A job of 4 pods of which so many will do.
fn flexible(name: &str, min: &str) -> Job {
    let job = Job::new(name).queue("q").pods(4).annotation(MIN, min);
    job.runs_forever()
}

/// Whether a job may run with so many pods at the same time, of the 4 that it is about.
fn runs_with(job: &Value, pods: u32) -> bool {
    !is_suspended(job) && job["spec"]["parallelism"] == pods && job["spec"]["completions"] == 4
}

/// Whether a job is held as its user wrote it.
fn is_held_as_written(job: &Value) -> bool {
    is_suspended(job) && job["spec"]["parallelism"] == 4 && job["spec"]["completions"] == 4
}

/// The counts of the only pod set of a Workload: asked for, the least, and admitted.
fn counts(workload: &Value) -> [Value; 3] {
    let asked = &workload["spec"]["podSets"][0];
    let given = &workload["status"]["admission"]["podSetAssignments"][0];
    [
        asked["count"].clone(),
        asked["minCount"].clone(),
        given["count"].clone(),
    ]
}

async fn see_running_with(scene: &Scene<'_>, job: &str, pods: u32) -> Result<Value> {
    let what = format!("running with {pods} pods");
    scene
        .see("Job", job, &what, |job| runs_with(job, pods))
        .await
}

/// Checks that at no revision a job was released with all of its pods.
fn check_never_whole(jobs: &[Revision]) -> Result<()> {
    for revision in jobs {
        let job = &revision.object;
        let is_whole = !is_suspended(job) && job["spec"]["parallelism"] == 4;
        ensure!(!is_whole, "released with all of its pods: {revision:?}");
    }
    Ok(())
}

async fn a_job_runs_with_as_many_pods_as_there_is_quota_for(admission: Admission) -> Result<()> {
    play(admission, "partial-fewer", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let (jobs, workloads) = (scene.record("Job").await?, scene.record("Workload").await?);
        let first = scene.create(&flexible("first", "2").json()).await?;
        see_running_with(scene, "first", 3).await?;
        let workload = scene.see_admitted("first").await?;
        assert_eq!(counts(&workload), [json!(4), json!(2), json!(3)]);
        scene.see_pods("Running", 3).await?;
        scene.see_account("cpu", ("3", "3", "0"), 0).await?;
        let told = scene.see_event("first", "Admitted").await?;
        ensure!(told.ends_with(", 3 of 4 pods of set \"main\""), "{told}");

        // Not even the fewest pods that suffice fit. The first comes before it, also later.
        see_a_second_pass(&first["metadata"]["creationTimestamp"]).await?;
        scene.create(&flexible("second", "2").json()).await?;
        scene.see_account("cpu", ("3", "3", "0"), 1).await?;
        ensure!(is_held_as_written(&scene.get("Job", "second").await?));

        // What it has not got it can't take.
        let more = json!({"spec": {"parallelism": 4}});
        let attempt = async || scene.try_merge("Job", "first", more.clone()).await;
        let told = refusal(answered(attempt).await?)?;
        let expected = "pod set \"main\": Forbidden: may not grow from 3 to 4 pods while the job is admitted; suspend the job in the same update, and it is queued with the new value";
        assert_eq!(told, admission.of_job(expected));

        scene.stop("HoldAndDrain").await?;
        scene.see("Job", "first", "held as it was written", is_held_as_written).await?;
        scene.see_workload("first", "queued again", |w| !is_admitted(w)).await?;
        let workload = scene.see_workload("first", "there", |_| true).await?;
        assert_eq!(counts(&workload), [json!(4), json!(2), Value::Null]);
        scene.stop("None").await?;
        see_running_with(scene, "first", 3).await?;
        scene.see_pods("Running", 3).await?;
        ensure!(is_held_as_written(&scene.get("Job", "second").await?));
        scene.delete("Job", "first").await?;
        see_running_with(scene, "second", 3).await?;
        check_never_whole(&scene.history("Job", &jobs).await?)?;
        check_conditions(&scene.history("Workload", &workloads).await?)
    })
    .await
}

async fn a_number_that_cannot_be_read_holds_a_waiting_job(admission: Admission) -> Result<()> {
    play(admission, "partial-stored", async |scene| {
        let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "3")]);
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        scene.create(&flexible("edited", "2").json()).await?;
        scene
            .see_workload("edited", "waiting", |w| !is_admitted(w))
            .await?;
        let min = |value: &str| json!({"metadata": {"annotations": {MIN: value}}});
        scene.merge("Job", "edited", min("many")).await?;
        let told = scene.see_event("edited", "InvalidPodSets").await?;
        let expected = "Can't be queued: metadata.annotations[sluice.dev/min-parallelism]: Invalid \
                        value: \"many\": must be an integer between 1 and 4, the number of pods";
        assert_eq!(told, expected);
        scene.stop("None").await?;
        // Who comes later goes first: the other is no candidate.
        scene
            .create(&Job::new("later").queue("q").pods(3).json())
            .await?;
        scene.see_complete("later").await?;
        ensure!(is_held_as_written(&scene.get("Job", "edited").await?));
        scene.merge("Job", "edited", min("3")).await?;
        see_running_with(scene, "edited", 3).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_number_that_cannot_be_meant_is_refused() -> Result<()> {
    bed::shared("partial-bad", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let at = "metadata.annotations[sluice.dev/min-parallelism]: Invalid value";
        for value in ["0", "-1", "5", "2.5", "two", ""] {
            let bad = flexible("bad", value).json();
            let told = refusal(answered(async || scene.try_create(&bad).await).await?)?;
            let rule = "must be an integer between 1 and 4, the number of pods";
            let expected = format!("{at}: {value:?}: {rule}");
            assert_eq!(told, by_jobs_webhook(&expected));
        }
        let idle = flexible("bad", "2").with(&["spec", "parallelism"], json!(9));
        let idle = idle.json();
        let told = refusal(answered(async || scene.try_create(&idle).await).await?)?;
        let rule = "requires spec.parallelism to be 4, the number of pods: the number of admitted pods is written there";
        assert_eq!(told, by_jobs_webhook(&format!("{at}: \"2\": {rule}")));
        // All of them will do.
        scene.create(&flexible("whole", "4").json()).await?;
        let workload = scene.see_workload("whole", "waiting", |w| !is_admitted(w)).await?;
        assert_eq!(counts(&workload), [json!(4), Value::Null, Value::Null]);
        Ok(())
    })
    .await
}

/// Whoever comes after a crash knows how many pods the job had, and writes nothing.
#[tokio::test]
async fn a_restart_forgets_nothing() -> Result<()> {
    bed::own_running("partial-restart", async |bed, scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        scene.create(&flexible("first", "2").json()).await?;
        see_running_with(scene, "first", 3).await?;
        scene.see_pods("Running", 3).await?;
        scene.see_account("cpu", ("3", "3", "0"), 0).await?;
        let log = bed.cp.audit_log();
        see_quiet(&log).await?;
        let before = audit::writes(&log)?.len();
        bed.sluice.kill();
        let requests = audit::of_sluice(&log)?.len();
        bed.sluice.start_again().await?;
        see_leading_again(&log, requests).await?;
        see_nothing_written(&log, before).await?;
        // It is taken back while nobody looks.
        bed.sluice.kill();
        // A LocalQueue has no webhook, which nobody would answer.
        let drained = json!({"spec": {"stopPolicy": "HoldAndDrain"}});
        scene.merge("LocalQueue", "q", drained).await?;
        bed.sluice.start_again().await?;
        scene
            .see("Job", "first", "held as it was written", is_held_as_written)
            .await?;
        Ok(())
    })
    .await
}
