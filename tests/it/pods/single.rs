//! Pods that are admitted by themselves: bare ones in a queue. Each is its own record, and autoscalers
//! see only those that may run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::ADMITTED_ANNOTATION;
use sluice_testbed::Sluice;

use crate::leaders::writes::{see_leading_again, see_nothing_written, see_quiet};
use crate::support::history::Revision;
use crate::support::nodes::own_node;
use crate::support::objects::{self, name_of, quota};
use crate::support::pods::{
    Pod, check_gates, check_usage, gates, has_queue_gate, is_released, is_running,
    is_scheduling_gated, is_unschedulable, released_at,
};
use crate::support::queues::nanos;
use crate::support::{Scene, audit, bed};

/// A flavor of nodes that nobody else uses, by the name of the namespace.
fn flavor_of_own_nodes(scene: &Scene<'_>) -> Value {
    objects::own(
        "ResourceFlavor",
        &scene.ns,
        json!({
            "nodeLabels": { "tests/nodes": scene.ns },
            "nodeTaints": [{ "key": "tests/nodes", "value": scene.ns, "effect": "NoSchedule" }],
            "tolerations": [{ "key": "tests/nodes", "value": scene.ns, "effect": "NoSchedule" }],
        }),
    )
}

/// Six pods, quota for four, nodes for two.
#[tokio::test]
async fn quota_decides_which_pods_are_ungated_and_nodes_which_run() -> Result<()> {
    bed::shared("pods-nodes", async |scene| {
        let ns = &scene.ns;
        let small = own_node(scene, "small").resource("cpu", "2");
        scene.cp.add_node(small).await?;
        let queue = objects::cluster_queue(ns, ns, &[quota("cpu", "4")]);
        scene
            .create_all(&[
                flavor_of_own_nodes(scene),
                queue,
                objects::local_queue("q", ns),
            ])
            .await?;
        let pods = scene.record("Pod").await?;
        for index in 0..6 {
            let pod = Pod::new(&format!("pod-{index}")).queue("q").opted_in();
            scene.create(&pod.json()).await?;
        }
        scene.see_so_many("running", 2, is_running).await?;
        scene
            .see_so_many("unschedulable", 2, is_unschedulable)
            .await?;
        scene.see_so_many("gated", 2, is_scheduling_gated).await?;
        scene.see_account("cpu", ("4", "2", "2"), 2).await?;
        let requests = json!({"cpu": "2", "pods": "2"});
        scene
            .see("ClusterQueue", ns, "four admitted, two pending", |queue| {
                let status = &queue["status"];
                status["admittedWorkloads"] == 4 && status["pendingRequests"] == requests
            })
            .await?;

        let large = own_node(scene, "large").resource("cpu", "8");
        scene.cp.add_node(large).await?;
        let running = scene.see_so_many("running", 4, is_running).await?;
        for pod in &running {
            let node = &pod["spec"]["nodeSelector"]["tests/nodes"];
            ensure!(
                node == ns.as_str(),
                "the flavor's placement is missing: {pod}"
            );
            let record: Value = serde_json::from_str(
                pod["metadata"]["annotations"][ADMITTED_ANNOTATION]
                    .as_str()
                    .unwrap(),
            )?;
            assert_eq!(record["clusterQueue"], ns.as_str(), "{pod}");
            assert_eq!(record["flavors"], json!({"cpu": ns}), "{pod}");
        }
        scene.see_account("cpu", ("4", "4", "0"), 2).await?;
        let waiting = scene.see_so_many("gated", 2, is_scheduling_gated).await?;

        scene.end(name_of(&running[0])).await?;
        scene.see_so_many("gated", 1, is_scheduling_gated).await?;
        scene.see_so_many("running", 4, is_running).await?;
        scene.see_account("cpu", ("4", "4", "0"), 1).await?;
        // The scheduler, too, has seen what is still gated all this time.
        for pod in &waiting {
            ensure!(has_queue_gate(pod), "{pod}");
        }
        let history = scene.history("Pod", &pods).await?;
        let most = check_usage(&history, "cpu", "4", |_| true)?;
        assert_eq!(most, nanos(&json!(4)));
        check_gates(&history, &BTreeSet::new())?;
        check_untold(&history)?;
        for node in ["small", "large"] {
            scene.cp.remove_node(&scene.name(node)).await?;
        }
        Ok(())
    })
    .await
}

/// While a pod has a gate, nobody has called it unschedulable: autoscalers look at nothing else.
pub fn check_untold(history: &[Revision]) -> Result<()> {
    for Revision { object: pod, .. } in history {
        ensure!(
            gates(pod).is_empty() || !is_unschedulable(pod),
            "an autoscaler would make a node for {pod}"
        );
    }
    Ok(())
}

/// It waits for ever, and says why.
#[tokio::test]
async fn a_pod_that_names_no_queue_is_reported() -> Result<()> {
    bed::shared("pods-nowhere", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&Pod::new("lost").opted_in().json()).await?;
        let told = scene.see_event("lost", "NoQueue").await?;
        assert_eq!(
            told,
            "This pod waits for queue capacity and names no queue: add the label sluice.dev/queue-name"
        );
        let unknown = Pod::new("astray").queue("nope").opted_in();
        scene.create(&unknown.json()).await?;
        let told = scene.see_event("astray", "Inadmissible").await?;
        assert_eq!(told, format!("LocalQueue \"{}/nope\" doesn't exist", scene.ns));
        // As it is told, so it can do.
        let label = json!({"metadata": {"labels": {(sluice_crds::QUEUE_NAME_LABEL): "q"}}});
        scene.merge("Pod", "lost", label).await?;
        scene.see("Pod", "lost", "released", is_released).await?;
        let astray = scene.get("Pod", "astray").await?;
        ensure!(has_queue_gate(&astray), "{astray}");
        Ok(())
    })
    .await
}

/// A foreign gate: not a candidate, nothing held. It is one as soon as that goes.
#[tokio::test]
async fn a_pod_with_a_foreign_gate_holds_nothing() -> Result<()> {
    bed::shared("pods-foreign", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let pods = scene.record("Pod").await?;
        let held = Pod::new("held")
            .queue("q")
            .scheduling_gate("example.com/data");
        scene.create(&held.json()).await?;
        scene
            .see("LocalQueue", "q", "told of one that is gated", |queue| {
                queue["status"]["gatedWorkloads"] == 1 && queue["status"]["pendingWorkloads"] == 0
            })
            .await?;
        // Younger, and first.
        scene.create(&Pod::new("free").queue("q").json()).await?;
        scene.see("Pod", "free", "released", is_released).await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await?;
        let opened = scene.open_gate("held", "example.com/data").await?;
        scene.see_account("cpu", ("1", "1", "0"), 1).await?;
        scene
            .see("LocalQueue", "q", "told of none that is gated", |queue| {
                queue["status"]["gatedWorkloads"] == 0
            })
            .await?;
        scene.delete("Pod", "free").await?;
        scene.see("Pod", "held", "released", is_released).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true)?;
        check_gates(&history, &BTreeSet::from([opened]))?;
        ensure!(
            released_at(&history, "held") > released_at(&history, "free"),
            "{history:?}"
        );
        Ok(())
    })
    .await
}

/// With quota for all, each pod costs one write, and nothing but gates, placement and record is in it;
/// the scheduler's condition is never written.
#[tokio::test]
async fn a_pod_costs_one_write() -> Result<()> {
    const PODS: usize = 10;
    let shared = Sluice::shared(bed::BINARY);
    bed::shared("pods-writes", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        for index in 0..PODS {
            let pod = Pod::new(&format!("pod-{index}")).queue("q").runs("0.5");
            scene.create(&pod.json()).await?;
        }
        scene
            .see_so_many("succeeded", PODS, |pod| {
                pod["status"]["phase"] == "Succeeded"
            })
            .await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        let mut writes = audit::writes(&shared.control_plane.audit_log())?;
        writes.retain(|r| r.namespace == scene.ns && r.resource != "localqueues");
        let mut by_pod: BTreeMap<&str, usize> = BTreeMap::new();
        for write in &writes {
            assert_eq!(write.what(), "patch pods", "{write:?}");
            *by_pod.entry(&write.name).or_default() += 1;
        }
        ensure!(
            by_pod.len() == PODS && by_pod.values().all(|count| *count == 1),
            "{by_pod:?}"
        );
        Ok(())
    })
    .await
}

/// The pods are the record: after a restart the usage is the same and nothing is written.
#[tokio::test]
async fn a_restart_finds_the_account_in_the_pods() -> Result<()> {
    bed::own_running("pods-restart", async |bed, scene| {
        scene
            .queue(&[quota("cpu", "3"), quota("memory", "4Gi")])
            .await?;
        let create = async |name: &str, cpu: &str, selector: Value| {
            let pod = Pod::new(name).queue("q").cpu(cpu);
            let pod = pod.with(&["spec", "nodeSelector"], selector);
            scene.create(&pod.json()).await
        };
        // One after the other: of those of the same second any may be the first.
        create("running", "1", json!({})).await?;
        scene.see("Pod", "running", "released", is_released).await?;
        create("reserved", "1500m", json!({"tests/nodes": "none"})).await?;
        scene
            .see("Pod", "reserved", "released", is_released)
            .await?;
        create("waiting", "1", json!({})).await?;
        let held = Pod::new("held")
            .queue("q")
            .scheduling_gate("example.com/data");
        scene.create(&held.json()).await?;
        scene.see_account("cpu", ("2500m", "1", "1500m"), 1).await?;
        scene.see_event("waiting", "Pending").await?;
        see_quiet(&bed.cp.audit_log()).await?;
        let statuses = async || -> Result<[Value; 2]> {
            let of_queue = scene.get("ClusterQueue", &scene.ns).await?;
            let of_local = scene.get("LocalQueue", "q").await?;
            Ok([of_queue, of_local].map(|queue| queue["status"].clone()))
        };
        let before = statuses().await?;
        let written = audit::writes(&bed.cp.audit_log())?.len();
        for _ in 0..2 {
            bed.sluice.kill();
            let requests = audit::of_sluice(&bed.cp.audit_log())?.len();
            bed.sluice.start_again().await?;
            see_leading_again(&bed.cp.audit_log(), requests).await?;
        }
        see_nothing_written(&bed.cp.audit_log(), written).await?;
        assert_eq!(statuses().await?, before);
        // The account is not only told, it holds: half a cpu is free.
        create("half", "500m", json!({})).await?;
        scene.see("Pod", "half", "released", is_released).await?;
        scene.see_account("cpu", ("3", "1500m", "1500m"), 1).await?;
        let waiting = scene.get("Pod", "waiting").await?;
        ensure!(has_queue_gate(&waiting), "{waiting}");
        let writes = audit::of_sluice(&bed.cp.audit_log())?;
        let to_status = writes.iter().find(|r| r.what().ends_with(" pods/status"));
        ensure!(to_status.is_none(), "a pod's status: {to_status:?}");
        Ok(())
    })
    .await
}
