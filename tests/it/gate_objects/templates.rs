//! Gates that apply to a queue which only a pod template names: the pods would take quota there, and nobody would have
//! asked for it. With webhooks and with policies alike.

use anyhow::{Result, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::gate_objects::owners::{dry, owner, see_refused, tenant};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATES, Job, here, own, own_gate, with};
use crate::support::persist::{answered, persist};
use crate::support::pods::{Pod, replicated};
use crate::support::{DEADLINE, Scene, into_value, refusal};

both_ways!(
    an_object_is_in_the_queue_of_its_template,
    what_makes_pods_and_is_not_managed_needs_the_right_to_lift,
    a_gate_for_another_queue_stops_nobody,
);

const QUEUE: &str = "sluice.dev/queue-name";

/// A Gate for the queue `gold` of the namespace of the scene: the gate, and the name of the Gate.
async fn gold(scene: &Scene<'_>) -> Result<(String, String)> {
    let (gate, object) = own_gate(&scene.ns, "gold");
    let applies_to = json!({"namespaceSelector": here(&scene.ns), "queues": ["gold"]});
    let spec = json!({"contact": "gold@acme.io", "appliesTo": applies_to});
    scene.apply(&own("Gate", &object, spec)).await?;
    Ok((gate, object))
}

/// `object`, whose pods name this queue, and which names none itself.
fn for_pods(object: Value, queue: &str) -> Value {
    let mut object = object;
    object["spec"]["template"]["metadata"]["labels"][QUEUE] = json!(queue);
    object
}

fn pod() -> Pod {
    Pod::new("x").cpu("1")
}

/// Objects of managed kinds whose pods name this queue.
fn managed(queue: &str) -> [Value; 3] {
    [
        // Kubernetes gives a Job without labels those of its template.
        for_pods(Job::new("job").label("team", "blue").json(), queue),
        for_pods(replicated("Deployment", "deployment", 1, pod()), queue),
        for_pods(replicated("StatefulSet", "stateful-set", 1, pod()), queue),
    ]
}

/// Objects that make pods and are not managed, whose pods name this queue.
fn makers(queue: &str) -> [Value; 3] {
    let of = |kind: &str, version: &str, name: &str| {
        let object = with(
            replicated("ReplicaSet", name, 1, pod()),
            "/kind",
            json!(kind),
        );
        for_pods(with(object, "/apiVersion", json!(version)), queue)
    };
    let mut controller = of("ReplicationController", "v1", "controller");
    controller["spec"]["selector"] = controller["spec"]["selector"]["matchLabels"].take();
    let mut daemons = of("DaemonSet", "apps/v1", "daemons");
    if let Some(spec) = daemons["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    [of("ReplicaSet", "apps/v1", "replicas"), controller, daemons]
}

async fn dry_create(scene: &Scene<'_>, object: &Value) -> kube::Result<Value> {
    let params = PostParams {
        dry_run: true,
        field_manager: None,
    };
    let kind = object["kind"].as_str().unwrap_or_default();
    let new = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    scene.api(kind).create(&params, &new).await.map(into_value)
}

async fn an_object_is_in_the_queue_of_its_template(admission: Admission) -> Result<()> {
    play(admission, "tpl-managed", async |scene| {
        let (gate, object) = gold(scene).await?;
        let (_, of_tenant) = tenant(scene).await?;
        // Its own label does not matter: its pods would be queued by theirs.
        let besides = with(
            managed("gold")[1].clone(),
            "/metadata/name",
            json!("besides"),
        );
        let besides = with(besides, "/metadata/labels", json!({(QUEUE): "silver"}));
        for new in managed("gold").into_iter().chain([besides]) {
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            let kind = new["kind"].as_str().unwrap_or_default();
            eventually("the Gate to apply", DEADLINE, async || {
                match answered(async || dry_create(&of_tenant, &new).await).await? {
                    Ok(stored) => {
                        let list = stored["metadata"]["annotations"][GATES].as_str();
                        ensure!(list == Some(&gate), "{stored}");
                    }
                    refused => {
                        let told = refusal(refused)?;
                        let expected = format!("must name the gate \"{gate}\"");
                        ensure!(told.contains(&expected), "{told}");
                    }
                }
                Ok(())
            })
            .await?;
            // Named, it is taken, and holds the pods.
            let named = with(new.clone(), "/metadata/annotations", json!({(GATES): gate}));
            of_tenant.create(&named).await?;
            let message = scene.see_event(name, "Gated").await?;
            ensure!(message.contains(&gate), "{kind} {name}: {message}");
            // A template that comes to name the queue later.
            let plain = with(
                new.clone(),
                "/metadata/name",
                json!(format!("plain-{name}")),
            );
            let plain = for_pods(plain, "silver");
            of_tenant.create(&plain).await?;
            if kind == "Job" {
                // Its template is immutable.
                continue;
            }
            let joins = json!({"spec": {"template": {"metadata": {"labels": {(QUEUE): "gold"}}}}});
            see_refused("its pods may not join", "; ask gold@acme.io", async || {
                dry(&of_tenant, kind, &format!("plain-{name}"), joins.clone()).await
            })
            .await?;
        }
        scene.delete("Gate", &object).await
    })
    .await
}

async fn what_makes_pods_and_is_not_managed_needs_the_right_to_lift(
    admission: Admission,
) -> Result<()> {
    play(admission, "tpl-makers", async |scene| {
        let (gate, object) = gold(scene).await?;
        let (user, of_tenant) = tenant(scene).await?;
        let (ann, of_ann) = owner(scene, "ann", &object).await?;
        scene.let_edit(&ann).await?;
        for new in makers("gold") {
            let kind = new["kind"].as_str().unwrap_or_default();
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            let expected = format!(
                "spec.template.metadata.labels[{QUEUE}]: Forbidden: names a queue for pods of a {kind}, to which Gate \"{object}\" applies: the gate \"{gate}\" can't hold these pods, and user \"{user}\" cannot lift gates.sluice.dev \"{object}\" in namespace \"{}\"; create the pods with an object of a kind that Sluice manages, such as a Deployment; ask gold@acme.io",
                scene.ns
            );
            see_refused("its pods may not join", &expected, async || {
                dry_create(&of_tenant, &new).await
            })
            .await?;
            let made = persist(async || dry_create(&of_ann, &new).await).await;
            ensure!(made.is_ok(), "who may lift the gate: {kind}: {made:?}");
            // A template that comes to name the queue later.
            of_tenant.create(&for_pods(new.clone(), "silver")).await?;
            let joins = json!({"spec": {"template": {"metadata": {"labels": {(QUEUE): "gold"}}}}});
            see_refused("its pods may not join later", &expected, async || {
                dry(&of_tenant, kind, name, joins.clone()).await
            })
            .await?;
            let annotated = json!({"metadata": {"annotations": {"a": "b"}}});
            let edited = persist(async || dry(&of_tenant, kind, name, annotated.clone()).await);
            ensure!(edited.await.is_ok(), "{kind}");
        }
        scene.delete("Gate", &object).await
    })
    .await
}

async fn a_gate_for_another_queue_stops_nobody(admission: Admission) -> Result<()> {
    play(admission, "tpl-others", async |scene| {
        let (_, object) = gold(scene).await?;
        let (_, of_tenant) = tenant(scene).await?;
        // Once it applies.
        let [replicas, ..] = makers("gold");
        see_refused("its pods may not join", "; ask gold@acme.io", async || {
            dry_create(&of_tenant, &replicas).await
        })
        .await?;
        for new in managed("silver").into_iter().chain(makers("silver")) {
            let stored = persist(async || dry_create(&of_tenant, &new).await).await?;
            let list = &stored["metadata"]["annotations"][GATES];
            ensure!(list.is_null(), "{stored}");
        }
        // A controller of Kubernetes makes the ReplicaSet of what has passed the gate.
        let [_, deployment, _] = managed("silver");
        of_tenant.create(&deployment).await?;
        scene.see_so_many("there", 1, |_| true).await?;
        scene.delete("Gate", &object).await
    })
    .await
}
