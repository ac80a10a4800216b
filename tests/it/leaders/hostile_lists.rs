//! Objects that their owner makes hard to parse: a new leader lists them with all others, and decides for everybody.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::objects::{GATED, Job, condition, quota};
use crate::support::pods::Pod;
use crate::support::{DEADLINE, Scene, bed};

/// Adds an entry to who wrote what of an object, as whoever may edit it can.
async fn forge(scene: &Scene<'_>, object: &str, entry: Value) -> Result<()> {
    let get = ["get", object, "--show-managed-fields", "-o", "json"];
    let found = scene.kubectl(&get, None).await?.ok()?;
    let found: Value = serde_json::from_str(&found)?;
    let mut fields = found["metadata"]["managedFields"].clone();
    let entries = fields.as_array_mut().context("no managedFields")?;
    let version = entries[0]["apiVersion"].clone();
    let mut forged = json!({"manager": "forged", "operation": "Update", "apiVersion": version,
        "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z"});
    for (field, value) in entry.as_object().context("no entry")? {
        forged[field] = value.clone();
    }
    entries.push(forged);
    let patch = json!({"metadata": {"managedFields": fields}}).to_string();
    let args = ["patch", object, "--type=merge", "-p", &patch];
    scene.kubectl(&args, None).await?.ok().map(drop)
}

/// The API server has stored what was forged, and no clock here can show it, or no parser follow it.
async fn see_forged(scene: &Scene<'_>, object: &str, what: &str) -> Result<()> {
    let get = ["get", object, "--show-managed-fields", "-o", "json"];
    let found = scene.kubectl(&get, None).await?.ok()?;
    ensure!(found.contains(what), "{found}");
    Ok(())
}

/// Fields in fields, deeper than JSON is parsed.
fn deep() -> Value {
    let mut fields = json!({});
    for _ in 0..100 {
        fields = json!({ "f:a": fields });
    }
    fields
}

#[tokio::test]
async fn no_object_makes_a_list_unreadable_for_others() -> Result<()> {
    bed::own_running("hostile-lists", async |bed, scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let far =
            json!({"time": "9999-12-31T23:59:59Z", "fieldsV1": {"f:spec": {"f:parallelism": {}}}});
        let deep = json!({"fieldsV1": {"f:metadata": deep()}});
        scene
            .create(&Job::new("far").queue("q").gate("acme.io/x").json())
            .await?;
        scene.create(&Job::new("deep").json()).await?;
        scene.create(&Pod::new("pod").queue("q").json()).await?;
        scene.see_pods("Running", 1).await?;
        forge(scene, "job/far", far.clone()).await?;
        forge(scene, "job/deep", deep).await?;
        forge(scene, "pod/pod", far).await?;
        see_forged(scene, "job/far", "9999-12-31T23:59:59Z").await?;
        see_forged(scene, "pod/pod", "9999-12-31T23:59:59Z").await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene
            .create(&Job::new("neighbour").queue("q").json())
            .await?;
        scene.see_complete("neighbour").await?;
        // The pod is known: the quota that it uses is nobody else's.
        scene
            .create(&Job::new("large").queue("q").pods(2).json())
            .await?;
        let waits = |w: &Value| {
            condition(w, "QuotaReserved")
                .is_some_and(|(status, reason, _)| (status, reason) == ("False", "WaitingForQuota"))
        };
        scene
            .see_workload("large", "waiting for the pod's quota", waits)
            .await?;
        scene.delete("Job", "large").await?;
        let lifted = format!("{GATED}-");
        scene
            .kubectl(&["annotate", "job/far", &lifted], None)
            .await?
            .ok()?;
        eventually("the forged job to be complete", DEADLINE, async || {
            let get = ["get", "job/far", "-o", "jsonpath={.status.succeeded}"];
            let succeeded = scene.kubectl(&get, None).await?.ok()?;
            ensure!(succeeded == "1", "{succeeded}");
            Ok(())
        })
        .await
    })
    .await
}
