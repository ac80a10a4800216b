//! Ray's objects that KubeRay would never run: refused where they would wait, and their quota given back
//! where they are there all the same.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::ADMISSION_ANNOTATION;

use super::{Objects, sample, stop};
use crate::support::objects::{condition, is, is_admitted, name_of, with};
use crate::support::persist::answered;
use crate::support::{Scene, refusal};

pub(super) async fn all(scene: &Scene<'_>) -> Result<()> {
    refused(scene).await.context("at creation")?;
    marked(scene).await.context("marked by KubeRay")
}

fn named(kind: &str, name: &str) -> Result<Value> {
    let mut object = sample(kind)?;
    object["metadata"]["name"] = json!(name);
    Ok(object)
}

async fn refused(scene: &Scene<'_>) -> Result<()> {
    let keeps = "/spec/shutdownAfterJobFinishes";
    let job = with(named("rayjob", "keeps")?, keeps, json!(false));
    let groups = "/spec/workerGroupSpecs/0/minReplicas";
    let cluster = with(named("raycluster", "narrow")?, groups, json!(5));
    for (object, problem) in [
        (
            &job,
            "spec.shutdownAfterJobFinishes: Forbidden: must be true: KubeRay doesn't suspend",
        ),
        (
            &cluster,
            "spec.workerGroupSpecs: Forbidden: minReplicas must be less than or equal to maxReplicas",
        ),
    ] {
        let objects = Objects::like(scene, object);
        let told = refusal(answered(async || objects.try_create(object).await).await?)?;
        ensure!(told.contains(problem), "{told}");
        // Sluice has no say in what is in no queue.
        let mut free = object.clone();
        free["metadata"]["labels"] = json!({});
        objects.create(&free).await?;
        objects.delete(name_of(&free)).await?;
    }
    // Its pods wait behind gates: nobody suspends it.
    let by_pod = json!({(ADMISSION_ANNOTATION): "PerPod"});
    let by_pod = with(job, "/metadata/annotations", by_pod);
    let objects = Objects::like(scene, &by_pod);
    let created = objects.create(&by_pod).await?;
    ensure!(created["spec"]["suspend"] != true, "{created}");
    objects.delete(name_of(&created)).await
}

/// What KubeRay alone knows to be wrong.
async fn marked(scene: &Scene<'_>) -> Result<()> {
    stop(scene, "rayjob", "None").await?;
    let job = named("rayjob", "marked")?;
    let objects = Objects::like(scene, &job);
    let created = objects.create(&job).await?;
    scene
        .see_workload_of(&created, "admitted", is_admitted)
        .await?;
    let status = json!({
        "jobDeploymentStatus": "ValidationFailed",
        "reason": "ValidationFailed",
        "message": "The RayJob spec is invalid: whatever",
    });
    objects.set_status("marked", &status).await?;
    let workload = scene
        .see_workload_of(&created, "finished", |w| is(w, "Finished"))
        .await?;
    let (_, reason, told) = condition(&workload, "Finished").context("no condition")?;
    ensure!(
        (reason, told) == ("Failed", "The RayJob spec is invalid: whatever"),
        "{workload}"
    );
    Ok(())
}
