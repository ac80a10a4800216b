//! Ways around a Gate that applies to what somebody makes (`spec.appliesTo`): owners that nobody else wrote, queues
//! that only a template names, and edits. With webhooks and with policies alike.

use anyhow::{Result, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::gate_objects::owners::{dry, owner, see_refused, tenant};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, GATES, Job, here, own, own_gate, with};
use crate::support::persist::{answered, persist};
use crate::support::pods::{Pod, replicated};
use crate::support::{DEADLINE, Scene, into_value, refusal};

both_ways!(
    a_pod_with_a_forged_controller_is_refused_whatever_it_names,
    an_edit_is_free_where_the_gate_holds_nobody,
);

/// A Gate of the scene: the gate, and the name of the Gate.
async fn gate(scene: &Scene<'_>, path: &str, spec: Value) -> Result<(String, String)> {
    let (gate, object) = own_gate(&scene.ns, path);
    scene.apply(&own("Gate", &object, spec)).await?;
    Ok((gate, object))
}

/// Tries to create an object.
async fn dry_create(scene: &Scene<'_>, object: &Value) -> kube::Result<Value> {
    let params = PostParams {
        dry_run: true,
        field_manager: None,
    };
    let kind = object["kind"].as_str().unwrap_or_default();
    let new = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    scene.api(kind).create(&params, &new).await.map(into_value)
}

/// Waits until an object gets this gate, or is refused for not naming it.
async fn see_born_with(scene: &Scene<'_>, object: &Value, gate: &str) -> Result<()> {
    eventually("the Gate to apply", DEADLINE, async || {
        match answered(async || dry_create(scene, object).await).await? {
            Ok(stored) => {
                let list = stored["metadata"]["annotations"][GATES].as_str();
                ensure!(list == Some(gate), "{stored}");
            }
            refused => {
                let told = refusal(refused)?;
                let expected = format!("must name the gate \"{gate}\"");
                ensure!(told.contains(&expected), "{told}");
            }
        }
        Ok(())
    })
    .await
}

async fn a_pod_with_a_forged_controller_is_refused_whatever_it_names(
    admission: Admission,
) -> Result<()> {
    play(admission, "apl-forged", async |scene| {
        let applies_to = json!({"namespaceSelector": here(&scene.ns), "kinds": [{"kind": "Pod"}]});
        let (gate, object) = gate(scene, "budget", json!({"appliesTo": applies_to})).await?;
        let (_, of_tenant) = tenant(scene).await?;
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "real"}});
        let owner = scene.create(&owner).await?;
        let uid = &owner["metadata"]["uid"];
        let expected = format!("metadata.ownerReferences: Forbidden: gate \"{gate}\" is set by Gate \"{object}\", and would not hold a pod with a controller, which only its controller may name; create the pod without the owner reference, or declare the kind of the owner in a JobKind");
        let others = format!("acme.io/data, {gate}");
        // The longest annotations that an API server takes.
        let long = ",".repeat(200 * 1024);
        let long = format!("{gate}{long}");
        let named: [&[(&str, &str)]; 6] = [
            &[],
            &[(GATED, &gate)],
            &[(GATES, &gate)],
            &[(GATES, &others)],
            &[(GATES, &long)],
            &[(GATED, &long), (GATES, &gate)],
        ];
        for annotations in named {
            for queue in [None, Some("q")] {
                let pod = annotations
                    .iter()
                    .fold(Pod::new("forged"), |pod, (key, value)| pod.annotation(key, value));
                let pod = match queue {
                    Some(queue) => pod.queue(queue),
                    None => pod,
                };
                let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "real", "uid": uid, "controller": true}]);
                let pod = with(pod.json(), "/metadata/ownerReferences", reference);
                see_refused("it has a controller", &expected, async || {
                    dry_create(&of_tenant, &pod).await
                })
                .await?;
            }
        }
        let named = Pod::new("named").annotation(GATES, &gate).json();
        persist(async || dry_create(&of_tenant, &named).await).await?;
        scene.delete("Gate", &object).await
    })
    .await
}

/// A move to another queue.
fn to(queue: &str) -> Value {
    json!({"metadata": {"labels": {"sluice.dev/queue-name": queue}}})
}

async fn an_edit_is_free_where_the_gate_holds_nobody(admission: Admission) -> Result<()> {
    play(admission, "apl-edits", async |scene| {
        let gold = |queue: &str, lifting: &str| json!({"lifting": lifting, "appliesTo": {"namespaceSelector": here(&scene.ns), "queues": [queue]}});
        let (of_anyone, anyone) = gate(scene, "anyone", gold("gold", "Anyone")).await?;
        let (owned, object) = gate(scene, "owned", gold("platinum", "Owners")).await?;
        let (_, of_tenant) = tenant(scene).await?;
        let (_, of_ann) = owner(scene, "ann", &object).await?;
        let silver = |name: &str| Job::new(name).queue("silver").gates(&owned);
        scene.create(&Job::new("plain").queue("silver").json()).await?;
        for name in ["held", "passed"] {
            scene.create(&silver(name).json()).await?;
        }
        // What has joined a queue stays there: it is in none yet.
        let deployment = replicated("Deployment", "d", 1, Pod::new("x"));
        scene.create(&deployment).await?;
        of_ann
            .merge("Job", "passed", json!({"metadata": {"annotations": {(GATES): null}}}))
            .await?;
        see_refused("it may not join", "", async || {
            dry(&of_tenant, "Job", "plain", to("platinum")).await
        })
        .await?;
        see_born_with(&of_tenant, &Job::new("new").queue("gold").json(), &of_anyone).await?;
        for (kind, name, queue) in [
            ("Job", "plain", "gold"),
            ("Deployment", "d", "gold"),
            ("Job", "held", "platinum"),
            ("Job", "passed", "platinum"),
        ] {
            let moved = persist(async || dry(&of_tenant, kind, name, to(queue)).await).await;
            ensure!(moved.is_ok(), "{kind} {name} to {queue}: {moved:?}");
        }
        let moved = persist(async || dry(&of_ann, "Job", "plain", to("platinum")).await).await;
        ensure!(moved.is_ok(), "who may lift it: {moved:?}");
        for object in [anyone, object] {
            scene.delete("Gate", &object).await?;
        }
        Ok(())
    })
    .await
}
