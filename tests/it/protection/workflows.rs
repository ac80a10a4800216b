//! Argo Workflows, which say nothing of their pods but their metadata: nobody takes away what makes the pods wait, and
//! nothing that users write has Sluice start one whose pods would not wait. Argo itself does not run.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{HELD_ANNOTATION, QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_testbed::{Crds, KubectlOutput, Options, SluiceOptions, eventually};

use crate::support::admission::{Admission, apply_policies, both_ways};
use crate::support::bed::{self, BINARY, Bed};
use crate::support::enforcement::{Fate, enforce, is_required};
use crate::support::objects::{Job, quota};
use crate::support::{DEADLINE, Scene};

both_ways!(nobody_has_the_pods_of_a_workflow_run_without_a_queue);

const RESOURCE: &str = "workflows.v1alpha1.argoproj.io";
const LATE: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may only be set at creation";

fn workflow(name: &str, labels: Value, suspend: bool) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": name, "labels": labels},
        "spec": {"entrypoint": "a", "suspend": suspend},
    })
}

fn in_queue() -> Value {
    json!({(QUEUE_NAME_LABEL): "q"})
}

fn marked() -> Value {
    json!({"metadata": {"annotations": {(HELD_ANNOTATION): "true"}}})
}

fn is_suspended(workflow: &Value) -> bool {
    workflow["spec"]["suspend"] == true
}

async fn create(scene: &Scene<'_>, workflow: &Value, how: &[&str]) -> Result<Value> {
    let args = [&["create", "-f", "-", "-o", "json"], how].concat();
    let created = scene.kubectl(&args, Some(&workflow.to_string())).await?;
    Ok(serde_json::from_str(&created.ok()?)?)
}

async fn get(scene: &Scene<'_>, name: &str) -> Result<Value> {
    let args = ["get", RESOURCE, name, "-o", "json"];
    let found = scene.kubectl(&args, None).await?;
    Ok(serde_json::from_str(&found.ok()?)?)
}

async fn patch(scene: &Scene<'_>, name: &str, patch: &Value) -> Result<KubectlOutput> {
    let patch = patch.to_string();
    let args = ["patch", RESOURCE, name, "--type=merge", "-p", &patch];
    scene.kubectl(&args, None).await
}

async fn see(
    scene: &Scene<'_>,
    name: &str,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually(&format!("{name} to be {what}"), DEADLINE, async || {
        let found = get(scene, name).await?;
        ensure!(is_so(&found), "{found}");
        Ok::<_, anyhow::Error>(found)
    })
    .await
}

/// The patch is refused. The API server may hear of a policy a moment later than of another one.
async fn see_refused(scene: &Scene<'_>, name: &str, patch: &Value, rule: &str) -> Result<()> {
    let patch = patch.to_string();
    let args = [
        "patch",
        RESOURCE,
        name,
        "--type=merge",
        "--dry-run=server",
        "-p",
        &patch,
    ];
    eventually("a refusal", DEADLINE, async || {
        let told = scene.kubectl(&args, None).await?.err()?;
        ensure!(told.contains(rule), "{told}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .with_context(|| format!("{name}: {patch}"))
}

/// What was created before this job is as Sluice has it.
async fn see_later_job(scene: &Scene<'_>, name: &str) -> Result<()> {
    scene.create(&Job::new(name).queue("q").json()).await?;
    scene.see_complete(name).await?;
    Ok(())
}

async fn play(
    admission: Option<Admission>,
    prefix: &str,
    test: impl AsyncFn(&Scene<'_>) -> Result<()>,
) -> Result<()> {
    let mut sluice = SluiceOptions::new(BINARY);
    sluice.webhooks = admission == Some(Admission::Webhooks);
    let mut options = Options::with_crds()?;
    let crds = Crds::manifests(&[Crds::ArgoWorkflows])?;
    options.manifests.extend(crds);
    bed::own(
        prefix,
        sluice,
        options,
        async |bed: &Bed, scene: &Scene<'_>| {
            if admission == Some(Admission::Policies) {
                apply_policies(&bed.cp).await?;
            }
            bed.sluice.start().await?;
            bed::see_leading(scene).await?;
            scene
                .see_condition("JobKind", "workflow", "Ready", "True", "Watched")
                .await?;
            scene.queue(&[quota("cpu", "4")]).await?;
            test(scene).await
        },
    )
    .await
}

async fn nobody_has_the_pods_of_a_workflow_run_without_a_queue(admission: Admission) -> Result<()> {
    play(Some(admission), "flow-kept", async |scene| {
        let queued = workflow("kept", in_queue(), false);
        let asks = |it: &Value| it["spec"]["podMetadata"]["annotations"][QUEUE_GATE] == "true";
        eventually("its pods to ask for the gate", DEADLINE, async || {
            let created = create(scene, &queued, &["--dry-run=server"]).await?;
            ensure!(asks(&created), "{created}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        create(scene, &queued, &[]).await?;

        let unasked =
            json!({"annotations": {(QUEUE_GATE): null}, "labels": {(QUEUE_NAME_LABEL): null}});
        let must_ask =
            format!("spec.podMetadata.annotations[{QUEUE_GATE}]: Required value: must be \"true\"");
        let both = |suspend: bool| json!({"spec": {"suspend": suspend, "podMetadata": unasked}});
        see_refused(scene, "kept", &both(true), &must_ask).await?;
        let pause = json!({"spec": {"suspend": true}});
        patch(scene, "kept", &pause).await?.ok()?;
        for suspend in [true, false] {
            see_refused(scene, "kept", &both(suspend), &must_ask).await?;
        }
        // It is the user's to say so, as its pods wait.
        patch(scene, "kept", &marked()).await?.ok()?;
        let started = see(scene, "kept", "started", |it| !is_suspended(it)).await?;
        ensure!(asks(&started), "{started}");

        enforce(scene, Some("Hold"), Fate::Held).await?;
        let unqueued = workflow("held", json!({}), false);
        eventually("what names no queue to be held", DEADLINE, async || {
            let created = create(scene, &unqueued, &["--dry-run=server"]).await?;
            ensure!(is_required(&created) && is_suspended(&created), "{created}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        create(scene, &unqueued, &[]).await?;
        let label = json!({"metadata": {"labels": in_queue()}});
        see_refused(scene, "held", &label, LATE).await?;
        let told = patch(scene, "held", &label).await?.err()?;
        ensure!(told.contains(LATE), "{told}");
        see_later_job(scene, "later").await?;
        let held = get(scene, "held").await?;
        ensure!(is_required(&held) && is_suspended(&held), "{held}");
        Ok(())
    })
    .await
}

/// Nobody has judged them: Sluice suspends such a Workflow once, and starts it for no mark.
#[tokio::test]
async fn a_mark_starts_no_workflow_whose_pods_would_not_wait() -> Result<()> {
    play(None, "flow-marked", async |scene| {
        create(scene, &workflow("runs", in_queue(), false), &[]).await?;
        let stopped = see(scene, "runs", "suspended", is_suspended).await?;
        ensure!(
            stopped["metadata"]["annotations"][HELD_ANNOTATION] == "true",
            "{stopped}"
        );
        create(scene, &workflow("paused", in_queue(), true), &[]).await?;
        patch(scene, "paused", &marked()).await?.ok()?;
        let paused = get(scene, "paused").await?;
        for name in ["one", "two"] {
            see_later_job(scene, name).await?;
        }
        for (name, before) in [("runs", stopped), ("paused", paused)] {
            let now = get(scene, name).await?;
            let revision = |it: &Value| it["metadata"]["resourceVersion"].clone();
            ensure!(
                is_suspended(&now) && revision(&now) == revision(&before),
                "{name} was written to: {now}"
            );
            let told = scene.events(name).await?;
            ensure!(
                told.iter().all(|(reason, _)| reason != "Started"),
                "{told:?}"
            );
        }
        Ok(())
    })
    .await
}
