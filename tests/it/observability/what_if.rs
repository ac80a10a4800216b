//! What `kubectl sluice what-if` says of a job, and what then becomes of it; and when `explain` says that it will start.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::queues::preemption::{job_of, queue_by_priority};
use crate::support::Scene;
use crate::support::bed::{self, Bed};
use crate::support::objects::condition;
use crate::support::plugin::run;

/// What is said of a job that is not there yet, and with which exit code.
async fn what_if(bed: &Bed, scene: &Scene<'_>, job: &Value) -> Result<(i32, Value)> {
    let file = file(scene, job)?;
    let path = file.to_string_lossy();
    let (code, stdout, stderr) =
        run(bed, &format!("what-if -f {path} --duration 1h -o json")).await?;
    std::fs::remove_file(&file)?;
    let said = serde_json::from_str(&stdout);
    let said: Value = said.with_context(|| format!("{code}: {stdout}{stderr}"))?;
    let name = job["metadata"]["name"].as_str().context("no name")?;
    ensure!(
        scene.find("Job", name).await?.is_none(),
        "{name} was created"
    );
    Ok((code, said))
}

/// A file with the job, in the namespace of the test.
fn file(scene: &Scene<'_>, job: &Value) -> Result<PathBuf> {
    let mut job = job.clone();
    job["metadata"]["namespace"] = json!(scene.ns);
    let name = format!("what-if-{}-{}.json", std::process::id(), scene.ns);
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, job.to_string())?;
    Ok(path)
}

/// The message of the Workload of a job that waits for this reason.
async fn waits_for(scene: &Scene<'_>, job: &str, reason: &str) -> Result<String> {
    let workload = scene
        .see_workload(job, reason, |workload| {
            condition(workload, "QuotaReserved").is_some_and(|(_, why, _)| why == reason)
        })
        .await?;
    let (_, _, message) = condition(&workload, "QuotaReserved").context("no condition")?;
    Ok(message.to_owned())
}

#[tokio::test]
async fn what_is_said_of_a_new_job_is_what_becomes_of_it() -> Result<()> {
    bed::own_running("what-if", async |bed, scene| {
        queue_by_priority(scene, "4").await?;
        let limits = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]},
        });
        scene.create(&limits).await?;

        // It requests nothing itself.
        let mut first = job_of(scene, "mid", "first").runs_forever().json();
        first["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        let (code, said) = what_if(bed, scene, &first).await?;
        ensure!(code == 0 && said["outcome"] == "AdmittedNow", "{said}");
        ensure!(said["requests"] == json!({"cpu": "3"}), "{said}");
        ensure!(said["start"]["latestSeconds"] == 0, "{said}");
        scene.create(&first).await?;
        let admitted = scene.see_admitted("first").await?;
        let assignment = &admitted["status"]["admission"]["podSetAssignments"][0];
        ensure!(
            said["flavors"][0]["flavors"] == assignment["flavors"],
            "{said}"
        );
        ensure!(assignment["resourceUsage"]["cpu"] == "3", "{admitted}");

        let second = job_of(scene, "mid", "second")
            .cpu("2")
            .runs_forever()
            .json();
        let (code, said) = what_if(bed, scene, &second).await?;
        ensure!(code == 0 && said["outcome"] == "Waits", "{said}");
        let ends = format!("{}/first", scene.ns);
        ensure!(
            said["outlook"]["fitsAfter"]["names"] == json!([ends]),
            "{said}"
        );
        ensure!(
            said["start"]["medianSeconds"]
                .as_f64()
                .is_some_and(|s| 3000.0 < s && s <= 3600.0),
            "{said}"
        );
        scene.create(&second).await?;
        let message = waits_for(scene, "second", "WaitingForQuota").await?;
        ensure!(said["message"] == message.as_str(), "{message}: {said}");

        let huge = job_of(scene, "low", "huge").cpu("5").json();
        let (code, said) = what_if(bed, scene, &huge).await?;
        ensure!(code == 1 && said["outcome"] == "Inadmissible", "{said}");
        scene.create(&huge).await?;
        let message = waits_for(scene, "huge", "ExceedsMaxQuota").await?;
        ensure!(said["message"] == message.as_str(), "{message}: {said}");

        starts(bed, scene).await?;

        let urgent = job_of(scene, "high", "urgent")
            .cpu("3")
            .runs_forever()
            .json();
        let (code, said) = what_if(bed, scene, &urgent).await?;
        ensure!(
            code == 0 && said["outcome"] == "AdmittedAfterPreemption",
            "{said}"
        );
        ensure!(
            said["preempts"] == json!([{"job": ends, "reason": "InClusterQueue"}]),
            "{said}"
        );
        scene.create(&urgent).await?;
        scene.see_admitted("urgent").await?;
        let first = scene.find_workload("first").await?.context("no Workload")?;
        let preempted = condition(&first, "Preempted");
        ensure!(
            preempted.is_some_and(|(_, reason, _)| reason == "InClusterQueue"),
            "{first}"
        );
        Ok(())
    })
    .await
}

/// When `explain` says that the jobs start which wait.
async fn starts(bed: &Bed, scene: &Scene<'_>) -> Result<()> {
    let explain = async |arguments: &str| {
        let arguments = format!("explain {arguments} -n {} -o json", scene.ns);
        let (code, stdout, stderr) = run(bed, &arguments).await?;
        let said = serde_json::from_str(&stdout);
        said.with_context(|| format!("{code}: {stdout}{stderr}"))
    };
    let said: Value = explain("job/second --duration 1h").await?;
    let half = said["start"]["medianSeconds"].as_f64();
    ensure!(
        half.is_some_and(|half| 3000.0 < half && half <= 3600.0),
        "{said}"
    );
    let said: Value = explain("job/second").await?;
    let why = said["noEstimate"].as_str().unwrap_or_default();
    ensure!(why.contains("no job has finished in the cluster"), "{said}");
    let said: Value = explain("job/huge --duration 1h").await?;
    let why = said["noEstimate"].as_str().unwrap_or_default();
    ensure!(
        why.starts_with("can never be admitted to ClusterQueue"),
        "{said}"
    );
    Ok(())
}
