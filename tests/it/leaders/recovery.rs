//! Jobs that have had all their nodes and lose a pod: they wait for the one that replaces it.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_testbed::{NodeSpec, eventually};

use crate::support::nodes::{job_for_own_nodes, own_node};
use crate::support::objects::{self, Job, condition, is, name_of, quota, with};
use crate::support::pods::{is_running, is_unschedulable};
use crate::support::{DEADLINE, Scene, bed};

/// How long quota may be held without a node, in seconds: longer than a busy scheduler takes.
const TIMEOUT: i64 = 8;

/// A job of two pods that run on a node of its own, in a queue with these terms, and the names of its pods.
async fn see_running_on(scene: &Scene<'_>, terms: Value) -> Result<NodeSpec> {
    let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
    let queue = with(queue, "/spec/reservation", terms);
    let node = own_node(scene, "node");
    scene.cp.add_node(own_node(scene, "node")).await?;
    scene.queue_like(queue).await?;
    let job = job_for_own_nodes(scene, Job::new("train").queue("q").pods(2).runs_forever());
    let job = job.with(&["spec", "backoffLimit"], json!(6));
    scene.create(&job.json()).await?;
    scene.see_so_many("running", 2, is_running).await?;
    Ok(node)
}

/// From now on the node takes no pods, or it does again.
async fn cordon(scene: &Scene<'_>, is_cordoned: bool) -> Result<()> {
    let name = scene.name("node");
    let verb = if is_cordoned { "cordon" } else { "uncordon" };
    scene.kubectl(&[verb, &name], None).await?.ok().map(drop)
}

/// One of the pods goes, and the one that replaces it finds no node.
async fn lose_one(scene: &Scene<'_>) -> Result<Value> {
    cordon(scene, true).await?;
    let running = scene.see_so_many("running", 2, is_running).await?;
    scene.delete("Pod", name_of(&running[0])).await?;
    let waits = scene
        .see_so_many("unschedulable", 1, is_unschedulable)
        .await?;
    Ok(waits[0].clone())
}

/// As in Kueue there is no such timeout unless it is set.
#[tokio::test]
async fn a_job_that_has_had_its_nodes_waits_for_the_pod_that_replaces_one() -> Result<()> {
    bed::shared("recovery-waits", async |scene| {
        see_running_on(scene, json!({ "timeoutSeconds": TIMEOUT })).await?;
        let workloads = scene.record("Workload").await?;
        let pod = lose_one(scene).await?;
        let made: Timestamp = pod["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .parse()?;
        eventually(
            "the pod to wait for longer than the timeout",
            DEADLINE,
            async || {
                let waited = Timestamp::now().duration_since(made).as_secs();
                ensure!(TIMEOUT + 3 < waited, "{waited} s");
                anyhow::Ok(())
            },
        )
        .await?;
        cordon(scene, false).await?;
        scene.see_so_many("running", 2, is_running).await?;
        let history = scene.history("Workload", &workloads).await?;
        let evicted = history.iter().find(|r| is(&r.object, "Evicted"));
        ensure!(evicted.is_none(), "{evicted:?}");
        scene.cp.remove_node(&scene.name("node")).await
    })
    .await
}

#[tokio::test]
async fn a_job_whose_replaced_pod_finds_no_node_in_time_is_evicted() -> Result<()> {
    bed::shared("recovery-timeout", async |scene| {
        let terms = json!({ "timeoutSeconds": 600, "recoveryTimeoutSeconds": 2 });
        see_running_on(scene, terms).await?;
        lose_one(scene).await?;
        let workload = scene
            .see_workload("train", "evicted", |w| is(w, "Evicted"))
            .await?;
        let message = "Not all pods that replaced others were bound to nodes within spec.reservation.recoveryTimeoutSeconds of the ClusterQueue";
        let evicted = condition(&workload, "Evicted");
        assert_eq!(evicted, Some(("True", "ReservationTimeout", message)));
        scene.cp.remove_node(&scene.name("node")).await
    })
    .await
}
