//! Objects that are created again from what was stored of them, as a backup is restored.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::Scene;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATES, Job, name_of, quota};
use crate::support::pods::{Pod, has_queue_gate, queued, replicated};

both_ways!(what_was_stored_is_restored);

const KEPT: [&str; 4] = [
    "sluice.dev/lifted-gates",
    "sluice.dev/expired-gates",
    "sluice.dev/released",
    "sluice.dev/admitted",
];

/// What a backup keeps of an object.
fn kept(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| matches!(&**key, "name" | "labels" | "annotations"));
    object.as_object_mut().unwrap().remove("status");
    let is_job = object["kind"] == "Job";
    let spec = object["spec"].as_object_mut().unwrap();
    spec.remove("nodeName");
    // A Job gets another one.
    if is_job {
        spec.remove("selector");
        let labels = spec["template"]["metadata"]["labels"].as_object_mut();
        labels
            .unwrap()
            .retain(|key, _| key.starts_with("sluice.dev/"));
    }
    object
}

async fn what_was_stored_is_restored(admission: Admission) -> Result<()> {
    play(admission, "restored", async |scene| {
        scene.queue(&[quota("cpu", "9")]).await?;
        let job = Job::new("job").queue("q").runs_forever().json();
        let web = queued(replicated("Deployment", "web", 1, Pod::new("")));
        for mut object in [job, web] {
            object["metadata"]["annotations"][GATES] = json!("acme.io/a");
            let kind = object["kind"].as_str().unwrap().to_owned();
            let name = name_of(&object).to_owned();
            scene.create(&object).await?;
            let lift = json!({"metadata": {"annotations": {(GATES): null}}});
            let lifted = scene.merge(&kind, &name, lift).await?;
            ensure!(
                !lifted["metadata"]["annotations"][KEPT[0]].is_null(),
                "{lifted}"
            );
            see_restored(scene, &kind, &name).await?;
        }
        scene
            .create(&Pod::new("pod").queue("q").runs("forever").json())
            .await?;
        scene
            .see("Pod", "pod", "admitted", |pod| !has_queue_gate(pod))
            .await?;
        see_restored(scene, "Pod", "pod").await?;
        scene
            .see("Pod", "pod", "admitted again", |pod| !has_queue_gate(pod))
            .await?;
        Ok(())
    })
    .await
}

/// Deletes the object, and creates it again.
async fn see_restored(scene: &Scene<'_>, kind: &str, name: &str) -> Result<()> {
    let backup = kept(scene.get(kind, name).await?);
    scene.delete(kind, name).await?;
    scene.see_gone(kind, name).await?;
    let restored = scene.create(&backup).await?;
    let annotations = &restored["metadata"]["annotations"];
    ensure!(
        KEPT.iter().all(|key| annotations[key].is_null()),
        "{restored}"
    );
    Ok(())
}
