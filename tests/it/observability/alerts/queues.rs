//! What queues, gates, kinds and jobs lack.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::jobs::stalls::{is_released, left_alone, now_is, set_status};
use crate::support::objects::{
    self, Job, cluster_queue, flavor, is_suspended, local_queue, name_of, own_gate, quota, with,
};
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene, see_a_second_pass};

use super::firing::Alerts;

/// A flavor that is not there, and a gate that nobody lifts.
pub async fn what_queues_and_gates_lack(scene: &Scene<'_>, alerts: &Alerts) -> Result<()> {
    let late = scene.name("late");
    let queue = cluster_queue(&late, &late, &[quota("cpu", "1")]);
    scene.create(&queue).await?;
    let (gate, object) = own_gate(&scene.ns, "forgotten");
    let spec = json!({"description": "Nobody lifts it", "backlog": {"held": 0}});
    scene.create(&objects::own("Gate", &object, spec)).await?;
    let held = Job::new("held").queue("q").gates(&gate);
    scene.create(&held.json()).await?;
    alerts.see_firing("SluiceQueueInactive").await?;
    alerts.see_firing("SluiceGateBacklogged").await?;
    scene.create(&flavor(&late)).await?;
    scene.delete("Job", "held").await?;
    alerts.see_over("SluiceQueueInactive").await?;
    alerts.see_over("SluiceGateBacklogged").await
}

/// The role of a kind is gone.
pub async fn a_kind_that_may_not_be_read(scene: &Scene<'_>, alerts: &Alerts) -> Result<()> {
    let widgets = Widgets::new(scene);
    widgets.serve().await?;
    widgets.manage(&widgets.job_kind()).await?;
    let [_, role] = widgets.crd();
    scene.delete("ClusterRole", name_of(&role)).await?;
    alerts.see_firing("SluiceJobKindNotReady").await?;
    scene.apply(&role).await?;
    alerts.see_over("SluiceJobKindNotReady").await
}

/// The CRD is that of a version whose priorities may have names, and somebody makes use of that.
pub async fn an_object_of_another_version(scene: &Scene<'_>, alerts: &Alerts) -> Result<()> {
    const CRD: &str = "workloadpriorityclasses.sluice.dev";
    let shipped = scene.kubectl(&["get", "crd", CRD, "-o", "json"], None);
    let shipped: Value = serde_json::from_str(&shipped.await?.ok()?)?;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/value";
    let value = shipped.pointer(path).context("no value in the CRD")?;
    let replace = async |value: &Value| {
        let patch = json!([{"op": "replace", "path": path, "value": value}]).to_string();
        let args = ["patch", "crd", CRD, "--type=json", "-p", &patch];
        scene.kubectl(&args, None).await?.ok().map(drop)
    };
    replace(&json!({"x-kubernetes-int-or-string": true})).await?;
    let name = scene.name("urgent");
    let class = with(
        objects::priority_class(&name, 1),
        "/value",
        json!("highest"),
    );
    // The API server takes a moment to follow its CRD.
    eventually("the class to be created", DEADLINE, async || {
        scene.create_once(&class).await
    })
    .await?;
    alerts.see_firing("SluiceObjectUnreadable").await?;
    let correct = json!({"value": 1});
    scene.merge("WorkloadPriorityClass", &name, correct).await?;
    replace(value).await?;
    alerts.see_over("SluiceObjectUnreadable").await
}

/// In a StrictFIFO queue a job that would fit waits behind one that does not.
pub async fn a_head_that_does_not_fit(scene: &Scene<'_>, alerts: &Alerts) -> Result<()> {
    let strict = scene.name("strict");
    let queue = with(
        cluster_queue(&strict, &strict, &[quota("cpu", "2")]),
        "/spec/queueingStrategy",
        json!("StrictFIFO"),
    );
    let made = [flavor(&strict), queue, local_queue("strict", &strict)];
    scene.create_all(&made).await?;
    let job = |name: &str, cpu: &str| Job::new(name).queue("strict").cpu(cpu);
    scene
        .create(&job("runs", "1").runs_forever().json())
        .await?;
    scene.see_admitted("runs").await?;
    let head = scene.create(&job("head", "2").json()).await?;
    see_a_second_pass(&head["metadata"]["creationTimestamp"]).await?;
    scene.create(&job("next", "1").json()).await?;
    alerts.see_firing("SluiceNothingAdmitted").await?;
    alerts.see_firing("SluicePendingTooLong").await?;
    scene.delete("Job", "head").await?;
    scene.see_complete("next").await?;
    alerts.see_over("SluiceNothingAdmitted").await?;
    alerts.see_over("SluicePendingTooLong").await
}

/// An evicted job whose controller does nothing. It has a minute to stop, which can't be made shorter.
pub async fn a_job_that_does_not_stop(scene: &Scene<'_>, alerts: &Alerts) -> Result<()> {
    let job = left_alone(Job::new("stays").queue("q"));
    scene.create(&job.json()).await?;
    scene.see("Job", "stays", "released", is_released).await?;
    set_status(scene, "stays", json!({"active": 1})).await?;
    let workload = scene.see_admitted("stays").await?;
    let deactivated = json!({"spec": {"active": false}});
    scene
        .merge("Workload", name_of(&workload), deactivated)
        .await?;
    scene.see("Job", "stays", "suspended", is_suspended).await?;
    alerts.see_firing("SluiceWorkloadsStalled").await?;
    let stopped = json!({"active": 0, "conditions": now_is(&[("Suspended", "True")])});
    set_status(scene, "stays", stopped).await?;
    alerts.see_over("SluiceWorkloadsStalled").await
}
