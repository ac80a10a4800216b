//! What a kind's controller makes with the labels and annotations of its object, as KubeRay does: it goes
//! with its owner, and is not queued a second time.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Objects, sample, stop};
use crate::support::Scene;
use crate::support::made_up::controlled_by;
use crate::support::objects::{Job, name_of};

/// A RayJob makes a RayCluster from its own metadata and a Job that submits; a RayCluster of nobody is
/// queued by itself.
pub(super) async fn play(scene: &Scene<'_>) -> Result<()> {
    let mut owner = sample("rayjob")?;
    owner["metadata"]["name"] = json!("owner");
    let ray_jobs = Objects::like(scene, &owner);
    ray_jobs.create(&owner).await?;
    stop(scene, "rayjob", "None").await?;
    let owner = ray_jobs
        .see("owner", "released", |o| o["spec"]["suspend"] == false)
        .await?;

    let cluster = json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": "of-owner",
            "labels": owner["metadata"]["labels"],
            "annotations": owner["metadata"]["annotations"],
            "ownerReferences": controlled_by(&owner),
        },
        "spec": owner["spec"]["rayClusterSpec"],
    });
    let ray_clusters = Objects::like(scene, &cluster);
    let cluster = ray_clusters.create(&cluster).await?;
    let mut submitter = Job::new("submitter").queue("rayjob").json();
    submitter["metadata"]["ownerReferences"] = controlled_by(&owner);
    let submitter = scene.create(&submitter).await?;

    let mut stranger = sample("raycluster")?;
    stranger["metadata"]["name"] = json!("of-nobody");
    let stranger = ray_clusters.create(&stranger).await?;
    ensure!(is_held(&stranger), "{stranger}");
    // What came before has been looked at when this has a Workload.
    scene
        .see_workload_of(&stranger, "made", |w| w["spec"]["podSets"].is_array())
        .await?;
    for child in [&cluster, &submitter] {
        ensure!(!is_held(child), "{child}");
        let workload = scene.workload_of(child).await?;
        ensure!(workload.is_none(), "it is queued by itself: {workload:?}");
    }
    let left = ray_clusters
        .see(name_of(&cluster), "there", |_| true)
        .await?;
    ensure!(left["spec"] == cluster["spec"], "{left}");
    scene.see_complete("submitter").await?;
    Ok(())
}

fn is_held(object: &Value) -> bool {
    object["spec"]["suspend"] == true
}
