//! Manifests that are applied again while what they describe waits: what they say of the fields that hold it, or say no
//! more, releases nothing, and is no reason to refuse them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::gates::kubectl::kubectl_answered;
use crate::support::enforcement::{Fate, enforce, is_required};
use crate::support::objects::{GATED, GATES, Job, here, is_suspended, own, own_gate, quota};
use crate::support::pods::{Pod, has_queue_gate};
use crate::support::{Scene, bed};

const CLIENT: &[&str] = &["apply", "-f", "-"];
const SERVER: &[&str] = &["apply", "-f", "-", "--server-side", "--force-conflicts"];
const REPLACE: &[&str] = &["replace", "-f", "-"];
const ARGO: &[&str] = &["apply", "-f", "-", "--server-side", "--field-manager=argo"];

/// Applies `object`; gives what kubectl warns of.
async fn apply(scene: &Scene<'_>, args: &[&str], object: &Value) -> Result<String> {
    let manifest = object.to_string();
    let output = kubectl_answered(async || scene.kubectl(args, Some(&manifest)).await).await?;
    let told = output.stderr.clone();
    output.ok()?;
    Ok(told)
}

/// `manifest` as it takes the place of the Job of this name: with what the API server has set.
async fn replacement(scene: &Scene<'_>, name: &str, manifest: &Value) -> Result<Value> {
    let stored = scene.get("Job", name).await?;
    let mut manifest = manifest.clone();
    manifest["spec"]["selector"] = stored["spec"]["selector"].clone();
    manifest["spec"]["template"]["metadata"] = stored["spec"]["template"]["metadata"].clone();
    Ok(manifest)
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
                    told.contains("spec.suspend: false from the manifest is ignored"),
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
            ensure!(
                told.contains("Sluice starts the job once it is admitted through LocalQueue"),
                "{told}"
            );
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

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_lifts_no_gate_that_it_never_named() -> Result<()> {
    bed::shared("applied-gates", async |scene| {
        let (gate, object) = own_gate(&scene.ns, "budget");
        let spec = json!({"appliesTo": {"namespaceSelector": here(&scene.ns)}});
        scene.apply(&own("Gate", &object, spec)).await?;
        scene
            .see_condition("Gate", &object, "Applied", "True", "InPlace")
            .await?;
        let gates = |stored: &Value| stored["metadata"]["annotations"][GATES].clone();
        for (name, args) in [("client", CLIENT), ("server", SERVER), ("argo", ARGO)] {
            let job = Job::new(name).gates("acme.io/a").json();
            apply(scene, args, &job).await?;
            let both = json!(format!("acme.io/a,{gate}"));
            let born = scene.get("Job", name).await?;
            ensure!(gates(&born) == both, "{born}");
            // Whoever applies it may lift the gate.
            for _ in 0..2 {
                let told = apply(scene, args, &job).await?;
                ensure!(
                    told.contains(&format!("held by gate {gate}")),
                    "{name}: {told}"
                );
                let stored = scene.get("Job", name).await?;
                ensure!(gates(&stored) == both, "{name}: {stored}");
                ensure!(is_suspended(&stored), "{stored}");
            }
            // On purpose it is lifted.
            let lifted = json!({"metadata": {"annotations": {(GATES): "acme.io/a"}}});
            let stored = scene.merge("Job", name, lifted).await?;
            ensure!(gates(&stored) == json!("acme.io/a"), "{stored}");
        }
        scene.delete("Gate", &object).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_queue_stays_held_beside_other_gates() -> Result<()> {
    bed::shared("applied-required", async |scene| {
        enforce(scene, Some("Hold"), Fate::Held).await?;
        for (name, args) in [
            ("client", CLIENT),
            ("server", SERVER),
            ("replaced", REPLACE),
        ] {
            let job = Job::new(name).gates("acme.io/a").json();
            let is_replaced = args == REPLACE;
            apply(scene, if is_replaced { CLIENT } else { args }, &job).await?;
            let manifest = if is_replaced {
                replacement(scene, name, &job).await?
            } else {
                job
            };
            let born = scene.get("Job", name).await?;
            ensure!(is_required(&born), "{born}");
            for _ in 0..2 {
                let told = apply(scene, args, &manifest).await?;
                ensure!(told.contains("requires a queue"), "{name}: {told}");
                let stored = scene.get("Job", name).await?;
                ensure!(is_required(&stored), "{name}: {stored}");
                ensure!(is_suspended(&stored), "{stored}");
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_does_not_suspend_replaces_a_job_that_waits() -> Result<()> {
    bed::shared("replaced-false", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = waiting("j").with(&["spec", "suspend"], json!(false)).json();
        apply(scene, CLIENT, &job).await?;
        scene.see_workload("j", "there", |_| true).await?;
        let told = apply(scene, REPLACE, &replacement(scene, "j", &job).await?).await?;
        ensure!(
            told.contains("spec.suspend: false from the manifest is ignored"),
            "{told}"
        );
        let stored = scene.get("Job", "j").await?;
        ensure!(is_suspended(&stored), "{stored}");
        assert_eq!(stored["metadata"]["annotations"]["sluice.dev/held"], "true");
        Ok(())
    })
    .await
}
