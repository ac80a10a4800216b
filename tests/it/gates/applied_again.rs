//! Manifests that are applied again while what they describe waits: what they say of the fields that hold it, or say no
//! more, releases nothing, and is no reason to refuse them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::gates::kubectl::kubectl_answered;
use crate::support::objects::{GATED, Job, is_suspended, quota};
use crate::support::pods::{Pod, has_queue_gate};
use crate::support::{Scene, bed};

const CLIENT: &[&str] = &["apply", "-f", "-"];
const SERVER: &[&str] = &["apply", "-f", "-", "--server-side", "--force-conflicts"];
const ARGO: &[&str] = &["apply", "-f", "-", "--server-side", "--field-manager=argo"];

/// Applies `object`; gives what kubectl warns of.
async fn apply(scene: &Scene<'_>, args: &[&str], object: &Value) -> Result<String> {
    let manifest = object.to_string();
    let output = kubectl_answered(async || scene.kubectl(args, Some(&manifest)).await).await?;
    let told = output.stderr.clone();
    output.ok()?;
    Ok(told)
}

/// A Job that waits, as its queue has too little quota for it.
fn waiting(name: &str) -> Job {
    Job::new(name).queue("q").cpu("2")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_does_not_suspend_is_applied_again_while_its_job_waits() -> Result<()> {
    bed::shared("applied-false", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for (name, args) in [("client", CLIENT), ("server", SERVER), ("argo", ARGO)] {
            let job = waiting(name)
                .with(&["spec", "suspend"], json!(false))
                .json();
            apply(scene, args, &job).await?;
            scene.see_workload(name, "there", |_| true).await?;
            for _ in 0..2 {
                let told = apply(scene, args, &job).await?;
                ensure!(
                    told.contains("spec.suspend: false is ignored"),
                    "{name}: {told}"
                );
                let stored = scene.get("Job", name).await?;
                ensure!(is_suspended(&stored), "{stored}");
                assert_eq!(stored["metadata"]["annotations"]["sluice.dev/held"], "true");
            }
            // On purpose it is refused.
            let released = scene
                .try_merge("Job", name, json!({"spec": {"suspend": false}}))
                .await;
            let told = format!("{released:?}");
            ensure!(told.contains("the job starts once LocalQueue"), "{told}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_taken_over_by_server_side_apply() -> Result<()> {
    bed::shared("applied-moved", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = waiting("moved").json();
        apply(scene, CLIENT, &job).await?;
        scene.see_workload("moved", "there", |_| true).await?;
        for _ in 0..3 {
            apply(scene, ARGO, &job).await?;
            let stored = scene.get("Job", "moved").await?;
            ensure!(is_suspended(&stored), "{stored}");
            assert_eq!(stored["metadata"]["annotations"]["sluice.dev/held"], "true");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_waits_is_taken_over_too_and_keeps_its_gate() -> Result<()> {
    bed::shared("applied-pod", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for (name, pod) in [
            ("queued", Pod::new("queued").queue("q").cpu("2")),
            ("asks", Pod::new("asks").queue("q").cpu("2").opted_in()),
        ] {
            let pod = pod.json();
            apply(scene, CLIENT, &pod).await?;
            let born = scene.get("Pod", name).await?;
            for _ in 0..3 {
                apply(scene, ARGO, &pod).await?;
                let stored = scene.get("Pod", name).await?;
                ensure!(has_queue_gate(&stored), "{stored}");
                let managed = |pod: &Value| pod["metadata"]["labels"]["sluice.dev/managed"].clone();
                assert_eq!(managed(&stored), managed(&born));
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_replaces_an_object_by_its_manifest_without_the_gate_is_kept() -> Result<()> {
    bed::shared("replaced-lifts", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&waiting("j").gate("acme.io/a").json()).await?;
        let mut manifest = scene.get("Job", "j").await?;
        let metadata = manifest["metadata"].as_object_mut();
        let metadata = metadata.context("no metadata")?;
        metadata.remove("uid");
        metadata.remove("resourceVersion");
        metadata["annotations"]
            .as_object_mut()
            .context("no annotations")?
            .remove(GATED);
        let manifest = manifest.to_string();
        let args = ["replace", "-f", "-"];
        kubectl_answered(async || scene.kubectl(&args, Some(&manifest)).await)
            .await?
            .ok()?;
        let told = scene.see_event("j", "GateLifted").await?;
        ensure!(
            told.contains("The gate \"acme.io/a\" was lifted by"),
            "{told}"
        );
        let job = scene.get("Job", "j").await?;
        let record = job["metadata"]["annotations"]["sluice.dev/lifted-gates"].as_str();
        let uid = job["metadata"]["uid"].as_str().context("no UID")?;
        ensure!(record.is_some_and(|record| record.contains(uid)), "{job}");
        Ok(())
    })
    .await
}
