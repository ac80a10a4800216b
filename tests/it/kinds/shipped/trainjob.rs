//! TrainJob: its pods are those of the JobSet that Trainer makes for it, which the test does here.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::QUEUE_NAME_LABEL;

use super::{Objects, sample, stop};
use crate::support::Scene;
use crate::support::made_up::controlled_by;
use crate::support::objects::{condition, is, is_admitted, name_of};

const NAME: &str = "trainjob";
const TEMPLATE: &str = "/spec/replicatedJobs/0/template/spec/template";

fn now_are(names: &[(&str, &str)]) -> Value {
    let all: Vec<_> = names
        .iter()
        .map(|(name, message)| {
            json!({"type": name, "status": "True", "reason": name, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    json!({ "conditions": all })
}

/// What Trainer makes of the runtime torch-distributed and the sample.
fn job_set(train_job: &Value) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name_of(train_job),
            "ownerReferences": controlled_by(train_job),
        },
        "spec": {
            "suspend": train_job["spec"]["suspend"],
            "replicatedJobs": [{
                "name": "node",
                "replicas": 1,
                "template": {"spec": {
                    "parallelism": 2,
                    "completions": 2,
                    "template": {"spec": {"containers": [{
                        "name": "node",
                        "image": "example.com/none",
                        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
                    }]}},
                }},
            }],
        },
    })
}

pub(super) async fn play(scene: &Scene<'_>) -> Result<()> {
    let sample = sample(NAME)?;
    let train_jobs = Objects::like(scene, &sample);
    let name = name_of(&sample);
    train_jobs.create(&sample).await?;
    let held = train_jobs
        .see(name, "held", |o| o["spec"]["suspend"] == true)
        .await?;
    let job_set = job_set(&held);
    let job_sets = Objects::like(scene, &job_set);
    let made = job_sets.create(&job_set).await?;
    ensure!(
        made["metadata"]["labels"][QUEUE_NAME_LABEL].is_null(),
        "{made}"
    );

    let workload = scene
        .see_workload_of(&held, "made", |w| !w["spec"]["podSets"].is_null())
        .await?;
    let set = &workload["spec"]["podSets"][0];
    ensure!(
        (&set["name"], &set["count"]) == (&json!("node"), &json!(2)),
        "{workload}"
    );
    ensure!(
        scene.workload_of(&made).await?.is_none(),
        "the JobSet is queued by itself"
    );

    stop(scene, NAME, "None").await?;
    let released = |o: &Value| o["spec"]["suspend"] == false;
    train_jobs.see(name, "released", released).await?;
    let placed = job_sets.see(name, "placed", is_placed).await?;
    // Trainer lets its JobSet go.
    let unsuspend = json!({"spec": {"suspend": false}});
    job_sets.merge(name, &unsuspend).await?;
    ensure!(is_placed(&placed), "{placed}");

    stop(scene, NAME, "HoldAndDrain").await?;
    train_jobs
        .see(name, "suspended again", |o| o["spec"]["suspend"] == true)
        .await?;
    train_jobs
        .set_status(name, &now_are(&[("Suspended", "TrainJob is suspended")]))
        .await?;
    let workload = scene
        .see_workload_of(&held, "evicted", |w| is(w, "Evicted"))
        .await?;
    ensure!(is_admitted(&workload), "the JobSet runs still: {workload}");
    job_sets
        .merge(name, &json!({"spec": {"suspend": true}}))
        .await?;
    let drained = now_are(&[("Suspended", "jobset is suspended")]);
    job_sets.set_status(name, &drained).await?;
    scene
        .see_workload_of(&held, "without quota", |w| !is_admitted(w))
        .await?;

    stop(scene, NAME, "None").await?;
    train_jobs.see(name, "released again", released).await?;
    job_sets.merge(name, &unsuspend).await?;
    train_jobs
        .set_status(
            name,
            &now_are(&[("Complete", "jobset completed successfully")]),
        )
        .await?;
    let workload = scene
        .see_workload_of(&held, "finished", |w| is(w, "Finished"))
        .await?;
    let (_, _, told) = condition(&workload, "Finished").context("no condition")?;
    ensure!(told == "jobset completed successfully", "{workload}");
    Ok(())
}

fn is_placed(job_set: &Value) -> bool {
    let template = job_set.pointer(TEMPLATE);
    template.is_some_and(|t| t["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux")
}
