//! Ways around a gate that has owners, by whoever may edit the namespace: a job that is being deleted but stays, pods
//! that lose their controller, and records that name somebody else.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{
    ADMISSION_ANNOTATION, EXPIRED_GATES_ANNOTATION, MANAGED_LABEL, PROPAGATED_GATES_ANNOTATION,
    QUEUE_GATE, RELEASED_ANNOTATION,
};
use sluice_testbed::eventually;

use crate::gate_objects::owners::{dry, see_refused, tenant};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::made_up::controlled_by;
use crate::support::objects::{GATES, Job, name_of, own, own_gate, quota, with};
use crate::support::persist::answered;
use crate::support::pods::{Pod, gates, queued, replicated};
use crate::support::{DEADLINE, Scene, refusal, see_a_second_pass};

both_ways!(
    an_object_that_is_being_deleted_keeps_its_gates,
    orphaned_pods_keep_their_gates,
    a_pod_that_leaves_its_controller_keeps_its_gates,
    nobody_brings_a_record_of_his_own,
    the_gates_of_others_stay_on_pods_whose_template_lists_them,
);

/// A Gate of the scene that has owners: the gate.
async fn owned_gate(scene: &Scene<'_>) -> Result<String> {
    let (gate, object) = own_gate(&scene.ns, "budget");
    scene.apply(&own("Gate", &object, json!({}))).await?;
    Ok(gate)
}

/// A gated Deployment of one pod, and a user who may edit it and not lift its gate.
async fn gated_deployment<'a>(scene: &Scene<'a>, gate: &str) -> Result<Scene<'a>> {
    let (_, of_tenant) = tenant(scene).await?;
    let deployment = queued(replicated("Deployment", "d", 1, Pod::new("x")));
    let deployment = with(deployment, "/metadata/annotations", json!({(GATES): gate}));
    scene.create(&deployment).await?;
    let expected = "in namespace \"".to_owned() + &scene.ns + "\"";
    see_refused("the gate to hold", &expected, async || {
        dry(&of_tenant, "Deployment", "d", without_gate()).await
    })
    .await?;
    see_gated(scene, gate).await?;
    Ok(of_tenant)
}

fn without_gate() -> Value {
    json!({"metadata": {"annotations": {(GATES): null}}})
}

/// Waits until there is one pod, behind the gate.
async fn see_gated(scene: &Scene<'_>, gate: &str) -> Result<()> {
    let is_gated = |pod: &Value| gates(pod).contains(&gate);
    scene
        .see_so_many("behind the gate", 1, is_gated)
        .await
        .map(drop)
}

/// What nobody wants must have had its time to happen: until then, other pods come and are released.
async fn others_are_released(scene: &Scene<'_>) -> Result<()> {
    for name in ["other-1", "other-2"] {
        scene.create(&Job::new(name).queue("q").json()).await?;
        scene.see_complete(name).await?;
    }
    Ok(())
}

async fn an_object_that_is_being_deleted_keeps_its_gates(admission: Admission) -> Result<()> {
    play(admission, "esc-deleted", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let gate = owned_gate(scene).await?;
        let of_tenant = gated_deployment(scene, &gate).await?;
        let keep = json!({"metadata": {"finalizers": ["acme.io/keep"]}});
        of_tenant.merge("Deployment", "d", keep).await?;
        let delete = [
            "delete",
            "deployment",
            "d",
            "--wait=false",
            "--cascade=background",
        ];
        scene.kubectl(&delete, None).await?.ok()?;
        let lifted = answered(async || dry(&of_tenant, "Deployment", "d", without_gate()).await);
        let refused = refusal(lifted.await?)?;
        ensure!(
            refused.contains("only its owners may lift the gate"),
            "{refused}"
        );
        // Even whoever may lift the gate does not have the pods of what is being deleted run.
        scene.merge("Deployment", "d", without_gate()).await?;
        others_are_released(scene).await?;
        see_gated(scene, &gate).await?;
        let done = json!({"metadata": {"finalizers": null}});
        of_tenant.merge("Deployment", "d", done).await?;
        scene.see_gone("Deployment", "d").await
    })
    .await
}

async fn orphaned_pods_keep_their_gates(admission: Admission) -> Result<()> {
    play(admission, "esc-orphaned", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let gate = owned_gate(scene).await?;
        let job = Job::new("j").queue("q").gates(&gate);
        let job = job.annotation(ADMISSION_ANNOTATION, "PerPod");
        scene.create(&job.json()).await?;
        see_gated(scene, &gate).await?;
        scene
            .kubectl(&["delete", "job", "j", "--cascade=orphan"], None)
            .await?
            .ok()?;
        scene.see_gone("Job", "j").await?;
        others_are_released(scene).await?;
        see_gated(scene, &gate).await?;
        let pods = scene.list("Pod").await?;
        let held = pods.iter().find(|pod| gates(pod).contains(&gate.as_str()));
        let name = held.and_then(|pod| pod["metadata"]["name"].as_str());
        let told = scene
            .see_event(name.unwrap_or_default(), "GatesLeft")
            .await?;
        let expected = "The pod keeps gates of an object that it does not belong to any more (";
        ensure!(told.starts_with(expected) && told.contains(&gate), "{told}");
        Ok(())
    })
    .await
}

async fn a_pod_that_leaves_its_controller_keeps_its_gates(admission: Admission) -> Result<()> {
    play(admission, "esc-leaves", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let gate = owned_gate(scene).await?;
        let of_tenant = gated_deployment(scene, &gate).await?;
        let pods = scene.list("Pod").await?;
        let name = pods[0]["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let alone = json!({"metadata": {
            "ownerReferences": null,
            "labels": {"pod-template-hash": null, "app": null},
        }});
        of_tenant.merge("Pod", &name, alone).await?;
        others_are_released(scene).await?;
        let pod = scene.get("Pod", &name).await?;
        ensure!(gates(&pod).contains(&gate.as_str()), "{pod}");
        let ungated = json!({"spec": {"schedulingGates": [{"name": QUEUE_GATE}]}});
        let answer =
            answered(async || dry(&of_tenant, "Pod", &name, ungated.clone()).await).await?;
        let refused = refusal(answer)?;
        ensure!(
            refused.contains("stands for a gate annotation on the object that the pod belongs to"),
            "{refused}"
        );
        Ok(())
    })
    .await
}

async fn nobody_brings_a_record_of_his_own(admission: Admission) -> Result<()> {
    play(admission, "esc-record", async |scene| {
        let gate = owned_gate(scene).await?;
        let (user, _) = tenant(scene).await?;
        // Of a kind whose controller makes Jobs: what it is does not matter.
        let owner = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "s", "uid": "00000000-0000-4000-8000-000000000000"},
        });
        let forged = Job::new("j")
            .gates(&gate)
            .annotation(RELEASED_ANNOTATION, "true");
        let forged = with(
            forged.json(),
            "/metadata/ownerReferences",
            controlled_by(&owner),
        );
        eventually("the forged record to be refused", DEADLINE, async || {
            let told = scene.try_as(&user, &forged).await?.err()?;
            ensure!(told.contains("is set by Sluice alone"), "{told}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        // A deadline that has passed, as its author says. It may be that of an earlier object of the same manifest.
        let expired = Job::new("k")
            .gates(&gate)
            .annotation(EXPIRED_GATES_ANNOTATION, &gate);
        let created = scene.create(&expired.json()).await?;
        let annotations = &created["metadata"]["annotations"];
        ensure!(annotations[EXPIRED_GATES_ANNOTATION].is_null(), "{created}");
        ensure!(annotations[GATES] == json!(gate), "{created}");
        Ok(())
    })
    .await
}

/// Nobody judges a template of an object without queue and gate.
async fn the_gates_of_others_stay_on_pods_whose_template_lists_them(
    admission: Admission,
) -> Result<()> {
    play(admission, "esc-listed", async |scene| {
        let (_, of_tenant) = tenant(scene).await?;
        let forged = Pod::new("x")
            .label(MANAGED_LABEL, "true")
            .annotation(PROPAGATED_GATES_ANNOTATION, "licence.example/free")
            // As a webhook of somebody else would add it.
            .scheduling_gate("licence.example/free");
        of_tenant
            .create(&replicated("Deployment", "d", 1, forged))
            .await?;
        let pods = scene
            .see_so_many("behind the gate", 1, |pod| !gates(pod).is_empty())
            .await?;
        let name = name_of(&pods[0]);
        let told = scene.see_event(name, "GatesLeft").await?;
        ensure!(
            told == "The pod lists gates that its object never had (licence.example/free), and Sluice does not lift them: remove the annotation sluice.dev/propagated-gates from the pod template",
            "{told}"
        );
        see_a_second_pass(&pods[0]["metadata"]["creationTimestamp"]).await?;
        let pod = scene.get("Pod", name).await?;
        ensure!(gates(&pod) == ["licence.example/free"], "{pod}");
        Ok(())
    })
    .await
}
