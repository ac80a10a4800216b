//! Edits of what objects tell of themselves where a queue is required, by the object and by its status: webhooks and
//! admission policies give the same verdicts, in the same words, by either road.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_crds::{HELD_ANNOTATION, QUEUE_NAME_LABEL, QUEUE_REQUIRED_GATE};
use sluice_testbed::eventually;

use crate::protection::roads_compared::verdict;
use crate::support::admission::{Admission, play};
use crate::support::enforcement::{Fate, enforce};
use crate::support::made_up::controlled_by;
use crate::support::objects::{GATES, Job, quota, with};
use crate::support::persist::answered;
use crate::support::pods::Pod;
use crate::support::{DEADLINE, Scene, into_value};

const LEFT: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may not be removed, as namespace \"NS\" requires a queue; name another LocalQueue";
const LIFTED: &str = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: only its owners may lift the gate \"sluice.dev/queue-required\": user \"system:serviceaccount:NS:tenant\" cannot lift gates.sluice.dev \"queue-required.sluice.dev\" in namespace \"NS\"; set metadata.labels[sluice.dev/queue-name], and Sluice lifts it, or create the object anew with that label";
const NEEDED: &str = "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"NS\" requires a queue: must be the name of a LocalQueue of the namespace";
const NEEDED_ANEW: &str = "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"NS\" requires a queue: must be the name of a LocalQueue of the namespace; delete the pod and create it again with the label";
const TAKEN: &str = "taken";

/// What is edited, and the verdict.
struct Row {
    kind: &'static str,
    name: &'static str,
    patch: Value,
    expected: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |kind, name, patch, expected| Row {
        kind,
        name,
        patch: json!({ "metadata": patch }),
        expected,
    };
    let left = json!({"labels": {(QUEUE_NAME_LABEL): null}});
    let labelled = json!({"labels": {"tests/seen": "yes"}});
    let ungated = json!({"annotations": {(GATES): null}});
    // Sluice would start it, as neither a queue nor a gate holds it.
    let marked = json!({"annotations": {(HELD_ANNOTATION): "true"}});
    let alone = json!({"ownerReferences": null});
    vec![
        row("Job", "queued", labelled, TAKEN),
        row("Job", "queued", left.clone(), LEFT),
        row("Job", "held", ungated.clone(), LIFTED),
        row("Job", "gated", ungated.clone(), NEEDED),
        row("Job", "paused", marked, NEEDED),
        row("Job", "part", alone, NEEDED),
        row("Pod", "waits", left, LEFT),
        row("Pod", "gated", ungated.clone(), NEEDED_ANEW),
        row("Pod", "born-held", ungated, LIFTED),
    ]
}

/// What is there before the namespace requires a queue.
async fn before(scene: &Scene<'_>) -> Result<Vec<Value>> {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "above"}});
    let owner = scene.create(&owner).await?;
    let suspended = |name: &str| with(Job::new(name).json(), "/spec/suspend", json!(true));
    Ok(vec![
        Job::new("queued").queue("q").cpu("9").json(),
        Job::new("gated").gates("acme.io/x").json(),
        suspended("paused"),
        with(
            suspended("part"),
            "/metadata/ownerReferences",
            controlled_by(&owner),
        ),
        Pod::new("waits").queue("q").cpu("9").json(),
        Pod::new("gated").annotation(GATES, "acme.io/x").json(),
    ])
}

/// The verdict on one edit, which is only tried.
async fn told(scene: &Scene<'_>, row: &Row, is_of_status: bool) -> Result<String> {
    let (api, patch) = (scene.api(row.kind), Patch::Merge(row.patch.clone()));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let before = scene.get(row.kind, row.name).await?;
    let answer = answered(async || {
        if is_of_status {
            api.patch_status(row.name, &params, &patch).await
        } else {
            api.patch(row.name, &params, &patch).await
        }
    })
    .await?;
    Ok(verdict(answer.map(into_value), &before).replace(&scene.ns, "NS"))
}

/// Somebody who may edit the namespace, and statuses too.
async fn tenant<'a>(scene: &Scene<'a>) -> Result<Scene<'a>> {
    let user = scene.editor("tenant").await?;
    let role = [
        "create",
        "role",
        "statuses",
        "--verb=get,patch",
        "--resource=jobs.batch/status,pods/status",
    ];
    scene.kubectl(&role, None).await?.ok()?;
    let subject = format!("--user={user}");
    let binding = [
        "create",
        "rolebinding",
        "statuses",
        "--role=statuses",
        &subject,
    ];
    scene.kubectl(&binding, None).await?.ok()?;
    let user_flag = format!("--as={user}");
    let asked = [
        "auth",
        "can-i",
        "patch",
        "jobs.batch",
        "--subresource=status",
        &user_flag,
    ];
    eventually("the right to be known", DEADLINE, async || {
        let answer = scene.kubectl(&asked, None).await?.ok()?;
        ensure!(answer.trim() == "yes", "{answer}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    scene.acting_as(&user)
}

#[tokio::test]
async fn webhooks_and_policies_judge_jobs_by_their_status_the_same() -> Result<()> {
    for admission in [Admission::Webhooks, Admission::Policies] {
        play(admission, "roads-of-jobs", async |scene| {
            scene.queue(&[quota("cpu", "1")]).await?;
            scene.create_all(&before(scene).await?).await?;
            enforce(scene, Some("Hold"), Fate::Held).await?;
            let held = scene.create(&Job::new("held").json()).await?;
            ensure!(
                held["metadata"]["annotations"][GATES] == QUEUE_REQUIRED_GATE,
                "{held}"
            );
            scene.create(&Pod::new("born-held").json()).await?;
            let tenant = tenant(scene).await?;
            for row in rows() {
                for is_of_status in [false, true] {
                    let told = told(&tenant, &row, is_of_status).await?;
                    ensure!(
                        told == row.expected,
                        "{admission:?}, {} {}, by its status: {is_of_status}: {}\n{told}",
                        row.kind,
                        row.name,
                        row.patch
                    );
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}
