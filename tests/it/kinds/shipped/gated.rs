//! A Gate for a queue that only the pod templates of an object name: wherever its kind has them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_testbed::eventually;

use super::{Objects, sample};
use crate::support::objects::{GATES, own, own_gate};
use crate::support::persist::persist;
use crate::support::{DEADLINE, Scene};

/// Where the samples have the metadata of pods, of those kinds whose CRDs keep labels there.
const METADATA: [(&str, &str); 6] = [
    ("jobset", "/spec/replicatedJobs/0/template/spec/template"),
    (
        "leaderworkerset",
        "/spec/leaderWorkerTemplate/workerTemplate",
    ),
    ("raycluster", "/spec/headGroupSpec/template"),
    ("raycluster", "/spec/workerGroupSpecs/0/template"),
    ("rayjob", "/spec/rayClusterSpec/headGroupSpec/template"),
    ("pytorchjob", "/spec/pytorchReplicaSpecs/Worker/template"),
];

pub(super) async fn all(scene: &Scene<'_>) -> Result<()> {
    let (gate, object) = own_gate(&scene.ns, "gold");
    let spec = json!({"appliesTo": {"queues": ["gold"]}});
    scene.apply(&own("Gate", &object, spec)).await?;
    scene
        .see_condition("Gate", &object, "Applied", "True", "InPlace")
        .await?;
    for (name, template) in METADATA {
        for (queue, expected) in [("gold", Some(gate.as_str())), ("silver", None)] {
            let new = of_template(name, template, queue)?;
            eventually("the object to be judged", DEADLINE, async || {
                let stored = dry_create(scene, &new).await?;
                let label = stored
                    .pointer(template)
                    .and_then(|template| template["metadata"]["labels"][QUEUE_NAME_LABEL].as_str());
                ensure!(label == Some(queue), "the CRD drops it: {stored}");
                let list = stored["metadata"]["annotations"][GATES].as_str();
                ensure!(list == expected, "{stored}");
                Ok(())
            })
            .await
            .with_context(|| format!("{name} {template} {queue}"))?;
        }
    }
    scene.delete("Gate", &object).await
}

/// The sample, which names this queue for the pods of one template alone.
fn of_template(name: &str, template: &str, queue: &str) -> Result<Value> {
    let mut object = sample(name)?;
    object["metadata"]["labels"] = json!({});
    let template = object.pointer_mut(template).context("no template")?;
    template["metadata"]["labels"] = json!({(QUEUE_NAME_LABEL): queue});
    Ok(object)
}

async fn dry_create(scene: &Scene<'_>, object: &Value) -> Result<Value> {
    let objects = Objects::like(scene, object);
    let stored = persist(async || objects.try_dry(object).await).await?;
    Ok(stored)
}
