//! What a namespace and a RuntimeClass add to pods while jobs wait: they ask for what their pods will ask for, and wait for
//! a class that doesn't exist.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::Scene;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{Job, cluster_queue, is_suspended, quota, with};

both_ways!(a_job_that_waits_asks_for_what_is_added_later,);

async fn a_job_that_waits_asks_for_what_is_added_later(admission: Admission) -> Result<()> {
    play(admission, "life-additions", async |scene| {
        let quotas = [quota("cpu", "8"), quota("memory", "8Gi")];
        let queue = cluster_queue(&scene.ns, &scene.ns, &quotas);
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        scene.create(&class(scene, "100m")).await?;
        let at_class = ["spec", "template", "spec", "runtimeClassName"];
        let job = Job::new("waits").queue("q").cpu("1");
        scene
            .create(&job.with(&at_class, json!(scene.ns)).json())
            .await?;
        see_requests(scene, json!({"cpu": "1100m"})).await?;

        scene.apply(&limit_range("64Mi")).await?;
        see_requests(scene, json!({"cpu": "1100m", "memory": "64Mi"})).await?;
        scene.apply(&limit_range("32Mi")).await?;
        see_requests(scene, json!({"cpu": "1100m", "memory": "32Mi"})).await?;
        scene.delete("LimitRange", "defaults").await?;
        see_requests(scene, json!({"cpu": "1100m"})).await?;
        // What a class adds can't be edited. Without it the API server would refuse the pods.
        scene.delete("RuntimeClass", &scene.ns).await?;
        let class_name = &scene.ns;
        let told = format!(
            "Can't be queued: spec.template.spec.runtimeClassName: Invalid value: {class_name:?}: there is no RuntimeClass {class_name:?}: create it, and the job is queued"
        );
        assert_eq!(scene.see_event("waits", "InvalidPodSets").await?, told);
        scene.stop("None").await?;
        let other = Job::new("other").queue("q").cpu("1");
        scene.create(&other.json()).await?;
        scene.see_admitted("other").await?;
        ensure!(is_suspended(&scene.get("Job", "waits").await?));
        scene.create(&class(scene, "250m")).await?;
        see_requests(scene, json!({"cpu": "1250m"})).await?;
        scene.see_admitted("waits").await?;
        scene.see_complete("waits").await?;
        scene.delete("RuntimeClass", &scene.ns).await
    })
    .await
}

async fn see_requests(scene: &Scene<'_>, requests: Value) -> Result<()> {
    let is_right = |w: &Value| w["spec"]["podSets"][0]["requests"] == requests;
    let what = format!("asking for {requests}");
    scene.see_workload("waits", &what, is_right).await?;
    Ok(())
}

fn limit_range(memory: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": memory}}]},
    })
}

fn class(scene: &Scene<'_>, cpu: &str) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": scene.ns},
        "handler": "runc",
        "overhead": {"podFixed": {"cpu": cpu}},
    })
}
