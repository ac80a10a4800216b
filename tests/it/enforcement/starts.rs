//! Where objects need a queue, an edit is no way round: what is started, loses its controller or is no exception any more
//! is judged as if it were new.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{MANAGED_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::eventually;

use crate::enforcement::config::configured;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::enforcement::{Fate, enforce, fate_of};
use crate::support::made_up::controlled_by;
use crate::support::objects::{GATES, Job, is_suspended, name_of, quota, with};
use crate::support::pods::{Pod, replicated};
use crate::support::{DEADLINE, Scene, bed, refusal};

both_ways!(
    what_begins_to_run_by_an_edit_needs_a_queue,
    what_loses_its_last_gate_needs_a_queue,
    what_holds_the_pods_of_a_deployment_stays_in_its_replica_set,
);

/// What is refused for want of a queue.
fn required(scene: &Scene<'_>) -> String {
    format!(
        "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"{}\" requires a queue: must be the name of a LocalQueue of the namespace",
        scene.ns
    )
}

async fn see_refused(scene: &Scene<'_>, job: &str, patch: Value) -> Result<()> {
    let told = refusal(scene.try_merge("Job", job, patch).await)?;
    ensure!(told.contains(&required(scene)), "{job}: {told}");
    Ok(())
}

fn suspended(name: &str) -> Value {
    with(Job::new(name).json(), "/spec/suspend", json!(true))
}

async fn what_begins_to_run_by_an_edit_needs_a_queue(admission: Admission) -> Result<()> {
    play(admission, "enf-starts", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let owner = scene
            .create(
                &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "above"}}),
            )
            .await?;
        let part = with(
            suspended("part"),
            "/metadata/ownerReferences",
            controlled_by(&owner),
        );
        let before = Job::new("before").runs_forever();
        for job in [
            suspended("paused"),
            suspended("queued"),
            part,
            before.json(),
        ] {
            scene.create(&job).await?;
        }
        scene.see_pods("Running", 1).await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;

        let start = json!({"spec": {"suspend": false}});
        see_refused(scene, "paused", start.clone()).await?;
        see_refused(scene, "part", start).await?;
        // Sluice starts what it has suspended itself, once nothing holds it.
        let marked = json!({"metadata": {"annotations": {"sluice.dev/held": "true"}}});
        see_refused(scene, "paused", marked).await?;
        let alone = json!({"metadata": {"ownerReferences": null}});
        see_refused(scene, "part", alone).await?;

        // What runs already, or waits on, may be edited.
        scene
            .merge("Job", "before", json!({"spec": {"parallelism": 0}}))
            .await?;
        scene
            .merge("Job", "before", json!({"spec": {"suspend": true}}))
            .await?;
        scene
            .merge("Job", "paused", json!({"metadata": {"labels": {"a": "b"}}}))
            .await?;
        let queued = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}});
        scene.merge("Job", "queued", queued).await?;
        scene.see_complete("queued").await?;
        let paused = scene.get("Job", "paused").await?;
        ensure!(is_suspended(&paused), "{paused}");
        Ok(())
    })
    .await
}

async fn what_loses_its_last_gate_needs_a_queue(admission: Admission) -> Result<()> {
    play(admission, "enf-last-gate", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        for name in ["a", "b", "c", "d"] {
            let gates = if name == "c" {
                "acme.io/x,acme.io/y"
            } else {
                "acme.io/x"
            };
            scene.create(&Job::new(name).gates(gates).json()).await?;
        }
        scene
            .create(&Pod::new("p").annotation(GATES, "acme.io/x").json())
            .await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;

        // An administrator may lift the gate that requires a queue, and so this one.
        let gates = |gates: Option<&str>| json!({"metadata": {"annotations": {(GATES): gates}}});
        scene.merge("Job", "d", gates(None)).await?;
        scene.see_complete("d").await?;
        let admin = scene;
        let scene = &scene.acting_as(&scene.editor("tenant").await?)?;
        see_refused(scene, "a", gates(None)).await?;
        scene.merge("Job", "c", gates(Some("acme.io/y"))).await?;
        see_refused(scene, "c", gates(None)).await?;
        let told = refusal(scene.try_merge("Pod", "p", gates(None)).await)?;
        let expected = required(scene) + "; delete the pod and create it again with the label";
        ensure!(told.contains(&expected), "{told}");

        // With a queue it is lifted as elsewhere.
        let mut both = gates(None);
        both["metadata"]["labels"] = json!({(QUEUE_NAME_LABEL): "q"});
        scene.merge("Job", "a", both).await?;
        scene.see_complete("a").await?;
        enforce(admin, Some("Ignore"), Fate::Left).await?;
        scene.merge("Job", "b", gates(None)).await?;
        scene.see_complete("b").await?;
        Ok(())
    })
    .await
}

async fn what_holds_the_pods_of_a_deployment_stays_in_its_replica_set(
    admission: Admission,
) -> Result<()> {
    play(admission, "enf-template", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;
        scene
            .create(&replicated("Deployment", "d", 1, Pod::new("")))
            .await?;
        let made = eventually("its ReplicaSet", DEADLINE, async || {
            let made = scene.list("ReplicaSet").await.map_err(|e| e.to_string())?;
            made.into_iter().next().ok_or("none".to_owned())
        })
        .await?;
        let name = name_of(&made).to_owned();
        let ungated = json!({"spec": {"template": {"spec": {"schedulingGates": null}}}});
        let unmarked = json!({"spec": {"template": {
            "metadata": {"labels": {(MANAGED_LABEL): null}},
            "spec": {"schedulingGates": null},
        }}});
        for patch in [ungated, unmarked] {
            let told = eventually("the edit to be refused", DEADLINE, async || {
                let patched = scene.try_merge("ReplicaSet", &name, patch.clone()).await;
                refusal(patched).map_err(|e| e.to_string())
            })
            .await?;
            ensure!(
                told.contains("spec.template: Forbidden: what holds the pods of this template comes from the object that the ReplicaSet belongs to, and may not be changed here; edit that object"),
                "{told}"
            );
        }
        // Its controller goes on, and so does its user.
        scene.merge("ReplicaSet", &name, json!({"metadata": {"labels": {"a": "b"}}})).await?;
        let queued = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}});
        scene.merge("Deployment", "d", queued).await?;
        scene.see_pods("Running", 1).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_exception_ends_with_what_it_was_made_for() -> Result<()> {
    let config = "
managedNamespaces:
  selector: {matchLabels: {team: small}}
  unlabelled: Refuse
  exceptions:
  - when: \"pods == 1\"
";
    bed::own_running_with("enf-outgrown", configured(config), async |_, scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let labels = json!({"metadata": {"labels": {"team": "small"}}});
        scene.merge("Namespace", &scene.ns, labels).await?;
        let large = Job::new("large").pods(2).json();
        eventually("the namespace to need a queue", DEADLINE, async || {
            let made = scene.try_create(&large).await.map(drop);
            match made.map_err(|error| error.to_string()) {
                Err(told) if told.contains(&required(scene)) => Ok(()),
                Err(told) => Err(told),
                Ok(()) => {
                    scene
                        .delete("Job", "large")
                        .await
                        .map_err(|e| e.to_string())?;
                    Err("it was created".to_owned())
                }
            }
        })
        .await?;
        // One pod at a time, of three.
        let small = Job::new("small").pods(3).runs_forever();
        let small = small.with(&["spec", "parallelism"], json!(1)).json();
        let small = scene.create(&small).await?;
        ensure!(fate_of(&small) == Fate::Left, "{small}");
        see_refused(scene, "small", json!({"spec": {"parallelism": 2}})).await?;
        scene
            .merge("Job", "small", json!({"spec": {"suspend": true}}))
            .await?;
        Ok(())
    })
    .await
}
