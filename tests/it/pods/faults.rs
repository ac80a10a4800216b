//! Pods behind gates when things go wrong or change under them: leaders that sleep, an API server that
//! goes, queues that stop, vanish or have several flavors, labels that get lost.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{MANAGED_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::{Options, Sluice, SluiceOptions, eventually};

use crate::leaders::failover::{
    keep_running, leader, see_another_leader, wake_the_leader_of_before,
};
use crate::support::objects::{self, name_of, own, quota};
use crate::support::pods::{
    Pod, account, check_gates, check_usage, gates, has_queue_gate, is_released, is_running,
    is_scheduling_gated, queued, replicated,
};
use crate::support::queues::nanos;
use crate::support::{DEADLINE, Scene, audit, bed};

/// Makes pods of 1 cpu that run for half a second.
async fn create_short(scene: &Scene<'_>, count: usize) -> Result<()> {
    for index in 0..count {
        let pod = Pod::new(&format!("pod-{index}")).queue("q").runs("0.5");
        scene.create(&pod.json()).await?;
    }
    Ok(())
}

fn has_succeeded(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded"
}

/// Waits until at least so many pods have succeeded.
async fn see_succeeded(scene: &Scene<'_>, count: usize) -> Result<()> {
    let what = format!("{count} pods to have succeeded");
    eventually(&what, 2 * DEADLINE, async || {
        let pods = scene.list("Pod").await.map_err(|e| format!("{e:#}"))?;
        let done = pods.iter().filter(|pod| has_succeeded(pod)).count();
        if count <= done {
            Ok(())
        } else {
            Err(format!("{done}"))
        }
    })
    .await
}

/// The leader sleeps past its lease, another one goes on, and what the first wakes up with is stale.
#[tokio::test]
async fn a_leader_that_sleeps_releases_nothing_twice() -> Result<()> {
    const PODS: usize = 40;
    bed::own_unsupervised(
        "pods-failover",
        SluiceOptions::new(bed::BINARY),
        async |bed, scene| {
            let second = SluiceOptions {
                webhooks: false,
                ..SluiceOptions::new(bed::BINARY)
            };
            let second = Sluice::install(&bed.cp, second).await?;
            second.start().await?;
            scene.queue(&[quota("cpu", "3")]).await?;
            let pods = scene.record("Pod").await?;
            create_short(scene, PODS).await?;
            see_succeeded(scene, 2).await?;
            let first = leader(scene).await?;
            bed.sluice.process().signal("STOP")?;
            see_another_leader(scene, &first).await?;
            see_succeeded(scene, 10).await?;
            wake_the_leader_of_before(bed).await?;
            see_succeeded(scene, PODS).await?;
            scene
                .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
                .await?;
            let history = scene.history("Pod", &pods).await?;
            check_usage(&history, "cpu", "3", |_| true)?;
            check_gates(&history, &BTreeSet::new())?;
            let mut written: BTreeMap<String, usize> = BTreeMap::new();
            for write in audit::writes(&bed.cp.audit_log())? {
                if write.resource == "pods" && write.has_succeeded() {
                    *written.entry(write.name).or_default() += 1;
                }
            }
            ensure!(written.values().all(|count| *count == 1), "{written:?}");
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn pods_outlast_an_api_server_that_goes_and_comes() -> Result<()> {
    const PODS: usize = 24;
    bed::own_unsupervised(
        "pods-outage",
        SluiceOptions::new(bed::BINARY),
        async |bed, scene| {
            scene.queue(&[quota("cpu", "3")]).await?;
            let pods = scene.record("Pod").await?;
            create_short(scene, PODS).await?;
            let outages = async {
                for done in [2, 8] {
                    see_succeeded(scene, done).await?;
                    bed.cp.kill_api_server()?;
                    bed.cp.restart_api_server().await?;
                }
                see_succeeded(scene, PODS).await?;
                scene
                    .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
                    .await?;
                anyhow::Ok(())
            };
            // It may end when it can't renew its lease in time.
            tokio::select! {
                done = outages => done?,
                broken = keep_running(&bed.sluice) => broken?,
            }
            let history = scene.history("Pod", &pods).await?;
            check_usage(&history, "cpu", "3", |_| true)?;
            check_gates(&history, &BTreeSet::new())
        },
    )
    .await
}

/// What was released keeps its usage in the queue that admitted it, whatever becomes of that.
#[tokio::test]
async fn a_queue_that_is_made_again_knows_its_pods() -> Result<()> {
    bed::shared("pods-again", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "1")]).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&Pod::new("first").queue("q").json()).await?;
        scene.see("Pod", "first", "running", is_running).await?;
        scene.create(&Pod::new("second").queue("q").json()).await?;
        scene.delete("ClusterQueue", ns).await?;
        scene.see_gone("ClusterQueue", ns).await?;
        scene.delete("LocalQueue", "q").await?;
        scene.see_gone("LocalQueue", "q").await?;
        let first = scene.get("Pod", "first").await?;
        ensure!(is_running(&first), "{first}");
        scene
            .create(&objects::cluster_queue(ns, ns, &[quota("cpu", "1")]))
            .await?;
        scene.create(&objects::local_queue("q", ns)).await?;
        scene.see_account("cpu", ("1", "1", "0"), 1).await?;
        scene.delete("Pod", "first").await?;
        scene.see("Pod", "second", "running", is_running).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true).map(drop)
    })
    .await
}

/// Told to drain, pods that somebody makes again are deleted; a bare one stays, and its quota with it,
/// where the queue keeps such.
#[tokio::test]
async fn a_queue_is_drained_of_pods_that_come_again() -> Result<()> {
    bed::shared("pods-drain", async |scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "3")]);
        let queue = objects::with(queue, "/spec/whenNotRestartable", json!("Keep"));
        scene.queue_like(queue).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&Pod::new("bare").queue("q").json()).await?;
        scene
            .create(&queued(replicated("Deployment", "web", 2, Pod::new(""))))
            .await?;
        let running = scene.see_so_many("running", 3, is_running).await?;
        scene.stop("HoldAndDrain").await?;
        let message = "The ClusterQueue is stopped (spec.stopPolicy is HoldAndDrain)";
        let web = running.iter().find(|pod| name_of(pod) != "bare").unwrap();
        assert_eq!(
            scene.see_event(name_of(web), "Evicted").await?,
            format!("{message}: deleted; its controller recreates it, and the new pod is queued")
        );
        assert_eq!(
            scene.see_event("bare", "NotEvicted").await?,
            format!(
                "{message}, but no controller would recreate this pod, and its ClusterQueue keeps such pods (whenNotRestartable: Keep): it stays and holds its quota; delete it to free the quota"
            )
        );
        scene.see_so_many("gated", 2, is_scheduling_gated).await?;
        scene.see_so_many("running", 1, is_running).await?;
        scene.stop("None").await?;
        scene.see_so_many("running", 3, is_running).await?;
        scene.see_account("cpu", ("3", "3", "0"), 0).await?;
        scene.create(&Pod::new("next").queue("q").json()).await?;
        scene.delete("Pod", "bare").await?;
        scene.see("Pod", "next", "running", is_running).await?;
        scene.see_account("cpu", ("3", "3", "0"), 0).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "3", |_| true)?;
        check_gates(&history, &BTreeSet::new())
    })
    .await
}

/// When one flavor is full, pods get the nodes of the next; the usage of each is in its own flavor.
#[tokio::test]
async fn pods_get_the_flavor_with_unused_quota() -> Result<()> {
    bed::shared("pods-flavors", async |scene| {
        let (near, far) = (scene.name("near"), scene.name("far"));
        for flavor in [&near, &far] {
            let spec = json!({
                "nodeLabels": { "tests/nodes": flavor },
                "tolerations": [{ "key": "tests/nodes", "operator": "Exists" }],
            });
            scene.create(&own("ResourceFlavor", flavor, spec)).await?;
        }
        let of = |flavor: &str, cpus: &str| {
            json!({ "name": flavor, "resources": [{ "name": "cpu", "nominalQuota": cpus }] })
        };
        let groups = json!([{ "coveredResources": ["cpu"], "flavors": [of(&near, "2"), of(&far, "1")] }]);
        let spec = json!({ "namespaceSelector": {}, "resourceGroups": groups });
        scene.create(&own("ClusterQueue", &scene.ns, spec)).await?;
        scene.create(&objects::local_queue("q", &scene.ns)).await?;
        for index in 0..4 {
            let pod = Pod::new(&format!("pod-{index}")).queue("q");
            let own = json!([{ "key": "own", "operator": "Exists" }]);
            scene
                .create(&pod.with(&["spec", "tolerations"], own).json())
                .await?;
        }
        let open = scene.see_so_many("released", 3, is_released).await?;
        let mut by_flavor: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in &open {
            let flavor = pod["spec"]["nodeSelector"]["tests/nodes"].as_str().unwrap();
            *by_flavor.entry(flavor).or_default() += 1;
            let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
            for key in ["own", "tests/nodes"] {
                ensure!(tolerations.iter().any(|t| t["key"] == key), "{pod}");
            }
        }
        assert_eq!(by_flavor, BTreeMap::from([(near.as_str(), 2), (far.as_str(), 1)]));
        let usage = |queue: &Value, flavor: &str| {
            let of_flavor = queue["status"]["flavorsUsage"].as_array().cloned();
            let found = of_flavor.into_iter().flatten().find(|f| f["name"] == flavor);
            found.map(|f| nanos(&f["resources"][0]["total"]))
        };
        let cpus = |count: i32| Some(nanos(&json!(count)));
        scene
            .see("ClusterQueue", &scene.ns, "usage by flavor", |queue| {
                usage(queue, &near) == cpus(2) && usage(queue, &far) == cpus(1)
            })
            .await?;
        let of_far = open
            .iter()
            .find(|pod| pod["spec"]["nodeSelector"]["tests/nodes"] == far.as_str());
        scene.delete("Pod", name_of(of_far.unwrap())).await?;
        let waited = scene.see_so_many("released", 3, is_released).await?;
        let next = waited.iter().find(|pod| !open.iter().any(|o| name_of(o) == name_of(pod)));
        assert_eq!(next.unwrap()["spec"]["nodeSelector"]["tests/nodes"], far.as_str());
        Ok(())
    })
    .await
}

/// Volcano's annotation and queue labels of others, where the configuration lists them.
#[tokio::test]
async fn configured_spellings_are_understood() -> Result<()> {
    const VOLCANO: &str = "scheduling.volcano.sh/queue-allocation-gate";
    let options = Options::with_crds()?;
    let sluice = SluiceOptions {
        config: Some(format!("queueGateAliases: [{VOLCANO}]\n")),
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own("pods-alias", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let pods = scene.record("Pod").await?;
        for name in ["first", "second"] {
            let pod = Pod::new(name).queue("q").annotation(VOLCANO, "true");
            // Its queue label alone would have it held; the annotation says by which gate.
            let stored = scene.create(&pod.json()).await?;
            assert_eq!(gates(&stored), [VOLCANO], "{stored}");
            ensure!(
                stored["metadata"]["labels"][MANAGED_LABEL] == "true",
                "{stored}"
            );
        }
        let running = scene.see_so_many("running", 1, is_running).await?;
        scene.see_account("cpu", ("1", "1", "0"), 1).await?;
        scene.delete("Pod", name_of(&running[0])).await?;
        scene
            .see_so_many("running", 1, |pod| {
                is_running(pod) && name_of(pod) != name_of(&running[0])
            })
            .await?;
        let history = scene.history("Pod", &pods).await?;
        let bound = history
            .iter()
            .filter(|r| r.object["spec"]["nodeName"].is_string());
        for revision in bound {
            ensure!(gates(&revision.object).is_empty(), "{}", revision.object);
        }
        Ok(())
    })
    .await
}

/// Nobody but a webhook keeps a user from taking the label away by which pods are watched. What is
/// in use gets it back, and nobody else gets its quota.
#[tokio::test]
async fn a_label_that_gets_lost_comes_back() -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own_unsupervised("pods-label", sluice, async |_, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let pods = scene.record("Pod").await?;
        let born = |name: &str| {
            let pod = Pod::new(name)
                .queue("q")
                .opted_in()
                .label(MANAGED_LABEL, "true");
            pod.scheduling_gate(sluice_crds::QUEUE_GATE).json()
        };
        scene.create(&born("first")).await?;
        scene.see("Pod", "first", "running", is_running).await?;
        scene.create(&born("second")).await?;
        scene.see_account("cpu", ("1", "1", "0"), 1).await?;
        let gone = json!({"metadata": {"labels": {(MANAGED_LABEL): null}}});
        scene.merge("Pod", "first", gone).await?;
        scene
            .see("Pod", "first", "labelled again", |pod| {
                pod["metadata"]["labels"][MANAGED_LABEL] == "true"
            })
            .await?;
        scene.see_account("cpu", ("1", "1", "0"), 1).await?;
        scene.delete("Pod", "first").await?;
        scene.see("Pod", "second", "running", is_running).await?;
        // One that names no queue any more keeps what it was admitted with, too.
        let unnamed = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): null}}});
        scene.merge("Pod", "second", unnamed).await?;
        scene.create(&born("third")).await?;
        scene.see_event("third", "Pending").await?;
        let third = scene.get("Pod", "third").await?;
        ensure!(has_queue_gate(&third), "{third}");
        scene
            .see("ClusterQueue", &scene.ns, "usage of the second", |queue| {
                account(queue, "cpu") == Some(("1", "1", "0"))
            })
            .await?;
        scene.delete("Pod", "second").await?;
        scene.see("Pod", "third", "running", is_running).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true).map(drop)
    })
    .await
}

/// Pods that are deleted at any moment, also while the write that releases them is under way.
#[tokio::test]
async fn pods_that_are_deleted_meanwhile_leave_nothing_behind() -> Result<()> {
    const PODS: usize = 60;
    bed::shared("pods-churn", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let pods = scene.record("Pod").await?;
        let last = Pod::new("last").queue("q");
        for index in 0..PODS {
            let name = format!("pod-{index}");
            scene.create(&Pod::new(&name).queue("q").json()).await?;
            // At once, a little later, much later.
            let gone = match index % 3 {
                0 => Some(index),
                1 => index.checked_sub(3),
                _ => index.checked_sub(12),
            };
            if let Some(gone) = gone {
                scene.delete("Pod", &format!("pod-{gone}")).await?;
            }
        }
        scene.create(&last.json()).await?;
        for pod in scene.list("Pod").await? {
            if name_of(&pod) != "last" {
                scene.delete("Pod", name_of(&pod)).await?;
            }
        }
        scene.see("Pod", "last", "running", is_running).await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await?;
        scene.delete("Pod", "last").await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        scene.create(&Pod::new("other").json()).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "3", |pod| name_of(pod) != "other")?;
        check_gates(&history, &BTreeSet::new())
    })
    .await
}
