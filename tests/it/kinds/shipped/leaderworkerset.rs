//! LeaderWorkerSet as v0.10 makes it: the StatefulSets of the workers belong to the leader's *pod*, and carry
//! the labels and annotations of the LeaderWorkerSet. The test makes the StatefulSets, with the labels and
//! annotations that tell the groups apart; their pods are made by Kubernetes.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{ADMISSION_ANNOTATION, POD_GROUP_LABELS_ANNOTATION, QUEUE_GATE};

use super::per_pod::gates;
use super::{Objects, sample, stop};
use crate::support::Scene;
use crate::support::made_up::controlled_by;
use crate::support::objects::{GATED, is_admitted, name_of};

const GATE: &str = "acme.io/budget";

pub(super) async fn all(scene: &Scene<'_>) -> Result<()> {
    for mode in ["PerPod", "Whole"] {
        play(scene, mode).await.context(mode)?;
    }
    later_workers(scene).await.context("later workers")
}

/// A gated one: its leader and its workers start when the gate is lifted and the queue opens, and are
/// counted once.
async fn play(scene: &Scene<'_>, mode: &str) -> Result<()> {
    stop(scene, "leaderworkerset", "Hold").await?;
    scene
        .see_condition(
            "LocalQueue",
            "leaderworkerset",
            "Active",
            "False",
            "Stopped",
        )
        .await?;
    let mut set = sample("leaderworkerset")?;
    let name = format!("gang-{}", mode.to_lowercase());
    set["metadata"]["name"] = json!(name);
    set["metadata"]["annotations"] = json!({(GATED): GATE, (ADMISSION_ANNOTATION): mode});
    set["spec"]["replicas"] = json!(1);
    set["spec"]["leaderWorkerTemplate"]["size"] = json!(2);
    let objects = Objects::like(scene, &set);
    let created = objects.create(&set).await?;

    let leaders = stateful_set(&created, &created, &name, "leaderTemplate");
    scene.create(&leaders).await?;
    let leader = format!("{name}-0");
    let pod = scene.see("Pod", &leader, "there", |_| true).await?;
    let workers = stateful_set(&created, &pod, &leader, "workerTemplate");
    let sent = workers["spec"]["template"]["metadata"]["annotations"].clone();
    let workers = scene.create(&workers).await?;
    // Nothing of it is changed: not the set that its pods say they are of.
    ensure!(
        workers["spec"]["template"]["metadata"]["annotations"] == sent,
        "{workers}"
    );
    let pods = [leader.clone(), format!("{leader}-0")];
    for pod in &pods {
        let born = scene.see("Pod", pod, "there", |_| true).await?;
        ensure!(gates(&born) == [QUEUE_GATE, GATE], "{born}");
    }

    // The copies of the annotation stay.
    let lifted = json!({"metadata": {"annotations": {(GATED): null}}});
    objects.merge(&name, &lifted).await?;
    for pod in &pods {
        scene
            .see("Pod", pod, "without the gate", |pod| {
                gates(pod) == [QUEUE_GATE]
            })
            .await?;
    }
    stop(scene, "leaderworkerset", "None").await?;
    for pod in &pods {
        scene
            .see("Pod", pod, "released", |pod| gates(pod).is_empty())
            .await?;
    }
    let workload = scene.workload_of(&created).await?;
    ensure!(workload.as_ref().is_some_and(is_admitted) == (mode == "Whole"));
    let group = format!("{name}-0-pod-group");
    if mode == "PerPod" {
        scene
            .see("Workload", &group, "admitted", is_admitted)
            .await?;
    } else {
        ensure!(
            scene.find("Workload", &group).await?.is_none(),
            "counted twice"
        );
    }
    ensure!(
        scene.workload_of(&workers).await?.is_none(),
        "counted twice"
    );
    // The workers first: with the leader's pod the garbage collector takes them away.
    scene.delete("StatefulSet", &leader).await?;
    scene.delete("StatefulSet", &name).await?;
    for pod in &pods {
        scene.see_gone("Pod", pod).await?;
    }
    objects.delete(name_of(&created)).await
}

/// Whose workers are made once the leader runs, or has a node: a group would never be complete, so that each
/// pod is admitted by itself.
async fn later_workers(scene: &Scene<'_>) -> Result<()> {
    let marks = |set: &Value| {
        let templates = &set["spec"]["leaderWorkerTemplate"];
        ["leaderTemplate", "workerTemplate"].map(|template| {
            let annotations = &templates[template]["metadata"]["annotations"];
            annotations[POD_GROUP_LABELS_ANNOTATION]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
    };
    let mut set = sample("leaderworkerset")?;
    let objects = Objects::like(scene, &set);
    set["metadata"]["name"] = json!("later");
    set["metadata"]["annotations"] =
        json!({"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"});
    let created = objects.create(&set).await?;
    ensure!(marks(&created) == ["", ""], "{created}");
    objects.delete("later").await?;

    set["metadata"]["name"] = json!("ready");
    set["metadata"]["annotations"] = json!({});
    let created = objects.create(&set).await?;
    let by = "leaderworkerset.sigs.k8s.io/name,leaderworkerset.sigs.k8s.io/group-index";
    ensure!(marks(&created) == [by, by], "{created}");
    let later = json!({"spec": {"startupPolicy": "LeaderReady"}});
    objects.merge("ready", &later).await?;
    let what = "without groups";
    objects
        .see("ready", what, |set| marks(set) == ["", ""])
        .await?;
    objects.delete("ready").await
}

/// A StatefulSet of one pod that `owner` controls, with the labels and annotations of `set`.
fn stateful_set(set: &Value, owner: &Value, name: &str, template: &str) -> Value {
    let mut template = set["spec"]["leaderWorkerTemplate"][template].clone();
    let group = [
        ("name", set["metadata"]["name"].clone()),
        ("group-index", json!("0")),
    ];
    let labels = &mut template["metadata"]["labels"];
    labels["app"] = json!(name);
    for (key, value) in group {
        labels[format!("leaderworkerset.sigs.k8s.io/{key}")] = value;
    }
    let size = set["spec"]["leaderWorkerTemplate"]["size"].to_string();
    template["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/size"] = json!(size);
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "labels": set["metadata"]["labels"],
            "annotations": set["metadata"]["annotations"],
            "ownerReferences": controlled_by(owner),
        },
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    })
}
