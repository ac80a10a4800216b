//! Removing Sluice strands nothing: no finalizer of ours, nothing that needs us to be deleted.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::objects::{GATED, Job, is_suspended, quota};
use sluice_testbed::eventually;

use crate::support::admission::own_with_policies;
use crate::support::{DEADLINE, Scene, bed};

/// Jobs in each state, in the namespace of the scene.
async fn settle_in(scene: &Scene<'_>) -> Result<()> {
    scene.queue(&[quota("cpu", "1")]).await?;
    scene
        .create(&Job::new("running").queue("q").runs_forever().json())
        .await?;
    scene.see_admitted("running").await?;
    scene.create(&Job::new("pending").queue("q").json()).await?;
    scene
        .create(&Job::new("gated").queue("q").gate("acme.io/x").json())
        .await?;
    scene
        .create(&Job::new("only").gate("acme.io/x").json())
        .await?;
    scene.see_workload("pending", "there", |_| true).await?;
    scene.see_pods("Running", 1).await?;
    Ok(())
}

/// No object that Sluice touches carries a finalizer of Sluice.
async fn see_no_finalizer(scene: &Scene<'_>) -> Result<()> {
    for kind in [
        "Job",
        "Pod",
        "Workload",
        "LocalQueue",
        "ClusterQueue",
        "ResourceFlavor",
        "JobKind",
    ] {
        for object in scene.list(kind).await? {
            let finalizers = object["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let ours = finalizers
                .iter()
                .filter_map(Value::as_str)
                .any(|f| f.contains("sluice"));
            ensure!(!ours, "a finalizer of ours: {object}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_is_left_without_sluice_can_be_deleted_and_run() -> Result<()> {
    bed::own_running("remove", async |bed, scene| {
        settle_in(scene).await?;
        see_no_finalizer(scene).await?;
        // A namespace that goes while Sluice runs.
        let other = Scene {
            cp: scene.cp,
            client: scene.client.clone(),
            ns: bed.cp.create_namespace("remove-first").await?,
        };
        settle_in(&other).await?;
        other.delete("Namespace", &other.ns).await?;
        other.see_gone("Namespace", &other.ns).await?;

        bed.sluice.stop().await?;
        let args = [
            "delete",
            "validatingwebhookconfiguration,mutatingwebhookconfiguration",
            "sluice",
        ];
        bed.cp.kubectl(args, None).await?.ok()?;
        // What was gated or waits can be released by hand.
        scene
            .merge(
                "Job",
                "gated",
                json!({"metadata": {"annotations": {(GATED): null}}}),
            )
            .await?;
        for name in ["gated", "pending"] {
            scene
                .merge("Job", name, json!({"spec": {"suspend": false}}))
                .await?;
            scene.see_complete(name).await?;
        }
        let only = scene.get("Job", "only").await?;
        ensure!(is_suspended(&only), "{only}");
        // And all of it can go: with its namespace, with the CRDs.
        let args = ["delete", "namespace", scene.ns.as_str(), "--timeout=180s"];
        bed.cp.kubectl(args, None).await?.ok()?;
        let args = [
            "delete",
            "-k",
            concat!(env!("CARGO_MANIFEST_DIR"), "/crds"),
            "--timeout=180s",
        ];
        bed.cp.kubectl(args, None).await?.ok()?;
        // The harness deletes the namespace of a test: give it one.
        let again =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.ns}});
        scene.create(&again).await.map(drop)
    })
    .await
}

/// What the documentation says takes everything away that the API server evaluates for Sluice, whichever
/// variant was applied: docs/without-webhook.md.
const TAKE_AWAY: [&str; 4] = [
    "delete",
    "validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,\
     mutatingadmissionpolicybindings,validatingwebhookconfigurations,mutatingwebhookconfigurations",
    "-l",
    "app.kubernetes.io/name=sluice",
];

/// Policies keep holding when nobody is left who releases: they must be deleted too.
#[tokio::test]
async fn without_its_policies_nothing_is_held_any_more() -> Result<()> {
    own_with_policies("remove-policies", async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("pending").queue("q").cpu("2").json())
            .await?;
        scene.see_workload("pending", "there", |_| true).await?;
        bed.sluice.stop().await?;
        let by_hand = async || {
            let patch = json!({"spec": {"suspend": false}});
            scene.try_merge("Job", "pending", patch).await
        };
        ensure!(by_hand().await.is_err(), "the policies judge no more");

        bed.cp.kubectl(TAKE_AWAY, None).await?.ok()?;
        // The API server forgets one policy after the other, within a second.
        eventually("the policies to be gone", DEADLINE, async || {
            by_hand().await.map_err(anyhow::Error::from)?;
            let probe = Job::new("probe").queue("q").manifest();
            let args = ["create", "-f", "-", "--dry-run=server", "-o", "json"];
            let probe = scene.kubectl(&args, Some(&probe)).await?.ok()?;
            ensure!(!is_suspended(&serde_json::from_str(&probe)?), "{probe}");
            Ok(())
        })
        .await?;
        let left = ["get", TAKE_AWAY[1], "-o", "name"];
        let left = bed.cp.kubectl(left, None).await?.ok()?;
        ensure!(!left.contains("sluice"), "{left}");
        scene.see_complete("pending").await.map(drop)
    })
    .await
}
