//! Kinds whose pods are released one by one: each pod that the kind's controller would make waits behind
//! Sluice's gate, and runs when its queue opens.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{
    ADMISSION_ANNOTATION, MANAGED_LABEL, PROPAGATED_GATES_ANNOTATION, QUEUE_GATE, QUEUE_NAME_LABEL,
};

use super::{Objects, sample, stop};
use crate::support::Scene;
use crate::support::made_up::controlled_by;
use crate::support::objects::{GATED, name_of};

/// A kind, and where what its pods are made from is in the stored object.
struct Play {
    name: &'static str,
    /// Of each pod: its name, and the template, or the labels and annotations.
    pods: &'static [(&'static str, From)],
}

#[derive(Clone, Copy)]
enum From {
    /// A pod template.
    Template(&'static str),
    /// Labels and annotations alone.
    Metadata(&'static str),
}

const PLAYS: &[Play] = &[
    Play {
        name: "workflow",
        pods: &[("step", From::Metadata("/spec/podMetadata"))],
    },
    Play {
        name: "sparkapplication",
        pods: &[
            ("spark-driver", From::Metadata("/spec/driver")),
            ("spark-executor", From::Metadata("/spec/executor")),
        ],
    },
];

pub(super) async fn all(scene: &Scene<'_>) -> Result<()> {
    for kind in PLAYS {
        play(scene, kind, sample(kind.name)?)
            .await
            .context(kind.name)?;
        stop(scene, kind.name, "Hold").await?;
    }
    ray_cluster(scene)
        .await
        .context("a RayCluster by the pod")?;
    bare_workflow(scene).await.context("a bare Workflow")?;
    gated_workflow(scene).await.context("a gated Workflow")?;
    deleting_artifacts(scene)
        .await
        .context("a pod that deletes artifacts")?;
    stop(scene, "sparkapplication", "None").await?;
    for is_queued in [true, false] {
        let what = || format!("a gated SparkApplication, queued: {is_queued}");
        gated_spark(scene, is_queued).await.with_context(what)?;
    }
    let what = "a SparkApplication that lists the gate of another";
    listing_spark(scene).await.context(what)
}

/// What Ray's autoscaler needs: each pod is asked for, also of a kind that can be suspended.
async fn ray_cluster(scene: &Scene<'_>) -> Result<()> {
    let kind = Play {
        name: "raycluster",
        pods: &[
            ("ray-head", From::Template("/spec/headGroupSpec/template")),
            (
                "ray-worker",
                From::Template("/spec/workerGroupSpecs/0/template"),
            ),
        ],
    };
    let mut by_pod = sample("raycluster")?;
    by_pod["metadata"]["name"] = json!("by-pod");
    by_pod["metadata"]["annotations"] = json!({ADMISSION_ANNOTATION: "PerPod"});
    by_pod["spec"]["enableInTreeAutoscaling"] = json!(true);
    stop(scene, "raycluster", "Hold").await?;
    play(scene, &kind, by_pod).await
}

/// Most Workflows say nothing about the metadata of their pods.
async fn bare_workflow(scene: &Scene<'_>) -> Result<()> {
    let kind = PLAYS.iter().find(|kind| kind.name == "workflow");
    let mut bare = sample("workflow")?;
    bare["metadata"]["name"] = json!("bare");
    bare["spec"]
        .as_object_mut()
        .context("no spec")?
        .remove("podMetadata");
    play(scene, kind.context("no such kind")?, bare).await
}

/// A gate annotation holds it by its suspend field, and lifting the gate starts it; its pods queue then.
async fn gated_workflow(scene: &Scene<'_>) -> Result<()> {
    let mut gated = sample("workflow")?;
    gated["metadata"]["name"] = json!("gated");
    gated["metadata"]["annotations"] = json!({GATED: "acme.io/budget"});
    let objects = Objects::like(scene, &gated);
    let created = objects.create(&gated).await?;
    ensure!(created["spec"]["suspend"] == true, "{created}");
    let lifted = json!({"metadata": {"annotations": {GATED: null}}});
    objects.merge("gated", &lifted).await?;
    objects
        .see("gated", "released", |o| o["spec"]["suspend"] == false)
        .await?;
    Ok(())
}

/// Argo's pods that delete artifacts have metadata of their own, and an owner that no JobKind is for: a queue that is named
/// there has them wait.
async fn deleting_artifacts(scene: &Scene<'_>) -> Result<()> {
    let mut workflow = sample("workflow")?;
    workflow["metadata"]["name"] = json!("deleting");
    workflow["spec"]["artifactGC"] = json!({"strategy": "OnWorkflowCompletion",
        "podMetadata": {"labels": {(QUEUE_NAME_LABEL): "workflow"}}});
    let created = Objects::like(scene, &workflow).create(&workflow).await?;
    let metadata = From::Metadata("/spec/artifactGC/podMetadata");
    let mut deleting = pod(&created, "deleting-artgc", metadata)?;
    deleting["metadata"]["ownerReferences"][0]["kind"] = json!("WorkflowArtifactGCTask");
    let born = scene.create(&deleting).await?;
    ensure!(gates(&born) == [QUEUE_GATE], "{born}");
    scene.delete("Pod", "deleting-artgc").await?;
    scene.see_gone("Pod", "deleting-artgc").await
}

/// It has no suspend field, and only the metadata of its pods is in it: its gates hold these, also without a queue, and
/// one that is made again after the gates were lifted.
async fn gated_spark(scene: &Scene<'_>, is_queued: bool) -> Result<()> {
    let mut gated = sample("sparkapplication")?;
    gated["metadata"]["name"] = json!(format!("gated-{is_queued}"));
    gated["metadata"]["annotations"] = json!({GATED: "acme.io/budget"});
    if !is_queued {
        gated["metadata"]["labels"] = Value::Null;
    }
    let objects = Objects::like(scene, &gated);
    let created = objects.create(&gated).await?;
    let driver = pod(&created, "spark-driver", From::Metadata("/spec/driver"))?;
    let born = scene.create(&driver).await?;
    let mut expected = vec!["acme.io/budget"];
    if is_queued {
        expected.insert(0, QUEUE_GATE);
    }
    ensure!(gates(&born) == expected, "{born}");
    // What is asked for later is released before it.
    let other = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "other", "labels": {(QUEUE_NAME_LABEL): "sparkapplication"}},
        "spec": {"containers": driver["spec"]["containers"]}});
    scene.create(&other).await?;
    let is_free = |pod: &Value| gates(pod).is_empty();
    scene.see("Pod", "other", "released", is_free).await?;
    let held = scene.get("Pod", "spark-driver").await?;
    ensure!(gates(&held) == expected, "{held}");
    let lifted = json!({"metadata": {"annotations": {GATED: null}}});
    objects.merge(name_of(&created), &lifted).await?;
    scene
        .see("Pod", "spark-driver", "released", is_free)
        .await?;
    scene.delete("Pod", "spark-driver").await?;
    scene.see_gone("Pod", "spark-driver").await?;
    scene.create(&driver).await?;
    scene
        .see("Pod", "spark-driver", "released", is_free)
        .await?;
    for name in ["spark-driver", "other"] {
        scene.delete("Pod", name).await?;
        scene.see_gone("Pod", name).await?;
    }
    let left = objects.see(name_of(&created), "there", |_| true).await?;
    ensure!(left["spec"] == created["spec"], "{left}");
    Ok(())
}

/// Nobody judges one without queue and gate: what it lists for its pods is not lifted from them.
async fn listing_spark(scene: &Scene<'_>) -> Result<()> {
    let mut listing = sample("sparkapplication")?;
    listing["metadata"]["name"] = json!("listing");
    listing["metadata"]["labels"] = Value::Null;
    listing["spec"]["driver"]["annotations"] =
        json!({(PROPAGATED_GATES_ANNOTATION): "licence.example/free"});
    // Sluice looks only after pods with it.
    listing["spec"]["driver"]["labels"] = json!({(MANAGED_LABEL): "true"});
    let created = Objects::like(scene, &listing).create(&listing).await?;
    let mut driver = pod(&created, "spark-driver", From::Metadata("/spec/driver"))?;
    // As a webhook of somebody else adds it.
    driver["spec"]["schedulingGates"] = json!([{"name": "licence.example/free"}]);
    scene.create(&driver).await?;
    scene.see_event("spark-driver", "GatesLeft").await?;
    let held = scene.get("Pod", "spark-driver").await?;
    ensure!(gates(&held) == ["licence.example/free"], "{held}");
    scene.delete("Pod", "spark-driver").await?;
    scene.see_gone("Pod", "spark-driver").await
}

async fn play(scene: &Scene<'_>, kind: &Play, sample: Value) -> Result<()> {
    let objects = Objects::like(scene, &sample);
    let created = objects.create(&sample).await?;
    for (name, from) in kind.pods {
        let pod = pod(&created, name, *from)?;
        let born = scene.create(&pod).await?;
        ensure!(gates(&born) == [QUEUE_GATE], "{born}");
    }
    ensure!(
        scene.workload_of(&created).await?.is_none(),
        "it has a Workload"
    );

    stop(scene, kind.name, "None").await?;
    for (name, _) in kind.pods {
        let pod = scene
            .see("Pod", name, "released", |pod| gates(pod).is_empty())
            .await?;
        let spec = &pod["spec"];
        ensure!(spec["nodeSelector"]["kubernetes.io/os"] == "linux", "{pod}");
        ensure!(
            spec["tolerations"].to_string().contains("acme.io/spot"),
            "{pod}"
        );
        scene.delete("Pod", name).await?;
        // The next one may have its name.
        scene.see_gone("Pod", name).await?;
    }
    // Sluice wrote to the pods alone.
    let left = objects.see(name_of(&created), "there", |_| true).await?;
    ensure!(left["spec"] == created["spec"], "{left}");
    Ok(())
}

/// A pod as the controller of `owner` would make it.
fn pod(owner: &Value, name: &str, from: From) -> Result<Value> {
    let containers = json!([{"name": "main", "image": "example.com/none",
        "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]);
    let (metadata, spec) = match from {
        From::Template(at) => {
            let template = owner.pointer(at).with_context(|| at.to_owned())?;
            (&template["metadata"], template["spec"].clone())
        }
        From::Metadata(at) => {
            let metadata = owner.pointer(at).with_context(|| at.to_owned())?;
            (metadata, json!({ "containers": containers }))
        }
    };
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": metadata["labels"],
            "annotations": metadata["annotations"],
            "ownerReferences": controlled_by(owner),
        },
        "spec": spec,
    }))
}

pub(super) fn gates(pod: &Value) -> Vec<&str> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates
        .into_iter()
        .flatten()
        .filter_map(|gate| gate["name"].as_str())
        .collect()
}
