//! Quota for pods that are admitted by themselves: counted in what each requests, kept at every level of
//! the tree, handed on when one has ended, in order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{ADMISSION_ANNOTATION, QUEUE_GATE};

use crate::support::bed;
use crate::support::objects::{self, Job, name_of, quota, with};
use crate::support::pods::{
    Pod, check_gates, check_usage, has_queue_gate, is_live, is_released, is_running,
    is_terminating, names, order_of_going, request_of,
};
use crate::support::queues::nanos;

/// A full dimension is no matter to a pod that requests nothing of it.
#[tokio::test]
async fn a_pod_is_checked_only_in_what_it_requests() -> Result<()> {
    bed::shared("pods-dimensions", async |scene| {
        let ns = &scene.ns;
        scene
            .queue(&[
                quota("cpu", "2"),
                quota("memory", "1Gi"),
                quota("example.com/gpu", "1"),
            ])
            .await?;
        let pods = scene.record("Pod").await?;
        let create = async |name: &str, requests: Value| {
            let pod = Pod::new(name).queue("q").requests(requests);
            scene.create(&pod.json()).await
        };
        create("cpu-all", json!({"cpu": "2"})).await?;
        scene.see("Pod", "cpu-all", "released", is_released).await?;
        create("cpu-more", json!({"cpu": "100m"})).await?;
        create("memory-all", json!({"memory": "1Gi"})).await?;
        scene.see("Pod", "memory-all", "released", is_released).await?;
        create("memory-more", json!({"memory": "1Mi"})).await?;
        create("gpu-all", json!({"example.com/gpu": "1"})).await?;
        scene.see("Pod", "gpu-all", "released", is_released).await?;
        create("gpu-more", json!({"example.com/gpu": "1"})).await?;
        create("nothing", json!({})).await?;
        scene.see("Pod", "nothing", "released", is_released).await?;

        let needs = [
            ("cpu-more", "cpu", "100m", "2"),
            ("memory-more", "memory", "1Mi", "1Gi"),
            ("gpu-more", "example.com/gpu", "1", "1"),
        ];
        for (name, resource, need, nominal) in needs {
            let told = scene.see_event(name, "Pending").await?;
            let expected = format!(
                "couldn't be admitted to ClusterQueue \"{ns}\": insufficient unused quota for {resource} in \
                 flavor \"{ns}\": requests {need} (nominal quota {nominal})"
            );
            assert_eq!(told, expected);
        }
        create("gpu-never", json!({"example.com/gpu": "2"})).await?;
        let told = scene.see_event("gpu-never", "Inadmissible").await?;
        let expected = format!(
            "can never be admitted to ClusterQueue \"{ns}\": insufficient quota for example.com/gpu in flavor \"{ns}\": requests 2, more than the maximum capacity (nominal quota 1)"
        );
        assert_eq!(told, expected);

        // Each is released by what it waits for, and by nothing else.
        scene.delete("Pod", "gpu-all").await?;
        scene.see("Pod", "gpu-more", "released", is_released).await?;
        scene.delete("Pod", "cpu-all").await?;
        scene.see("Pod", "cpu-more", "released", is_released).await?;
        let waiting = scene.see_so_many("waiting", 2, has_queue_gate).await?;
        assert_eq!(names(&waiting), ["gpu-never", "memory-more"]);
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true)?;
        check_usage(&history, "memory", "1Gi", |_| true)?;
        check_usage(&history, "example.com/gpu", "1", |_| true)?;
        check_gates(&history, &BTreeSet::new())
    })
    .await
}

/// A pod that requests nothing counts as one of `pods`.
#[tokio::test]
async fn a_pod_that_requests_nothing_counts_as_a_pod() -> Result<()> {
    bed::shared("pods-count", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("pods", "2")]).await?;
        let pods = scene.record("Pod").await?;
        for name in ["first", "second"] {
            let pod = Pod::new(name).queue("q").requests(json!({}));
            scene.create(&pod.json()).await?;
            scene.see("Pod", name, "released", is_released).await?;
        }
        let third = Pod::new("third").queue("q").requests(json!({}));
        scene.create(&third.json()).await?;
        let told = scene.see_event("third", "Pending").await?;
        let expected = format!(
            "couldn't be admitted to ClusterQueue \"{ns}\": insufficient unused quota for pods in flavor \"{ns}\": requests 1 (nominal quota 2)"
        );
        assert_eq!(told, expected);
        scene.see_account("pods", ("2", "2", "0"), 1).await?;
        scene.delete("Pod", "second").await?;
        scene.see("Pod", "third", "released", is_released).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "pods", "2", |_| true).map(drop)
    })
    .await
}

/// Two queues may borrow of their cohort, which has 3 cpus and may itself borrow 1 of the 10 above it.
#[tokio::test]
async fn siblings_keep_within_their_parent() -> Result<()> {
    bed::shared("pods-tree", async |scene| {
        let (root, left) = (scene.name("root"), scene.name("left"));
        scene.create(&objects::flavor(&scene.ns)).await?;
        scene.create(&objects::cohort(&root, None)).await?;
        let groups = objects::groups(&scene.ns, &[quota("cpu", "3").borrow("1")]);
        let cohort = objects::cohort(&left, Some(&root));
        scene
            .create(&with(cohort, "/spec/resourceGroups", groups))
            .await?;
        for (queue, cohort, nominal) in [("a", &left, "0"), ("b", &left, "0"), ("c", &root, "10")] {
            let name = scene.name(queue);
            let cluster_queue = objects::cluster_queue(&name, &scene.ns, &[quota("cpu", nominal)]);
            scene
                .create(&with(cluster_queue, "/spec/cohortName", json!(cohort)))
                .await?;
            scene.create(&objects::local_queue(queue, &name)).await?;
        }
        let pods = scene.record("Pod").await?;
        for index in 0..5 {
            for queue in ["a", "b"] {
                let pod = Pod::new(&format!("{queue}-{index}")).queue(queue);
                scene.create(&pod.json()).await?;
            }
        }
        let running = scene.see_so_many("running", 4, is_running).await?;
        // What is above has plenty left, for its own queue.
        scene
            .create(&Pod::new("c-0").queue("c").cpu("6").json())
            .await?;
        scene.see("Pod", "c-0", "released", is_released).await?;
        scene.see_so_many("waiting", 6, has_queue_gate).await?;
        for pod in &running {
            scene.end(name_of(pod)).await?;
        }
        scene.see_so_many("waiting", 2, has_queue_gate).await?;
        let history = scene.history("Pod", &pods).await?;
        let is_below = |pod: &Value| !name_of(pod).starts_with('c');
        let most = check_usage(&history, "cpu", "4", is_below)?;
        assert_eq!(most, nanos(&json!(4)));
        check_gates(&history, &BTreeSet::new())
    })
    .await
}

/// Whatever ends a pod, the next has its quota; and not while it is still there.
#[tokio::test]
async fn quota_is_free_when_a_pod_has_ended() -> Result<()> {
    bed::shared("pods-end", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let pods = scene.record("Pod").await?;
        let next =
            async |pod: Pod| -> Result<()> { scene.create(&pod.queue("q").json()).await.map(drop) };
        let see_running = async |name: &str| scene.see("Pod", name, "running", is_running).await;
        next(Pod::new("deleted")).await?;
        see_running("deleted").await?;
        next(Pod::new("evicted")).await?;
        scene.delete("Pod", "deleted").await?;
        see_running("evicted").await?;
        next(Pod::new("slow").with(&["metadata", "finalizers"], json!(["tests/slow"]))).await?;
        let name = "evicted";
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name },
        });
        let path = format!("/api/v1/namespaces/{}/pods/{name}/eviction", scene.ns);
        let args = ["create", "--raw", path.as_str(), "-f", "-"];
        scene
            .kubectl(&args, Some(&eviction.to_string()))
            .await?
            .ok()?;
        see_running("slow").await?;
        next(Pod::new("succeeds")).await?;
        scene.delete("Pod", "slow").await?;
        // It is terminating and not gone: the next waits, and is told so.
        scene
            .see("Pod", "slow", "terminating", is_terminating)
            .await?;
        scene.see_event("succeeds", "Pending").await?;
        let gone = json!({"metadata": {"finalizers": null}});
        scene.merge("Pod", "slow", gone).await?;
        see_running("succeeds").await?;
        next(Pod::new("fails").runs("0").fails()).await?;
        scene.end("succeeds").await?;
        scene
            .see("Pod", "fails", "failed", |pod| {
                pod["status"]["phase"] == "Failed"
            })
            .await?;
        next(Pod::new("last")).await?;
        see_running("last").await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true)?;
        let order = order_of_going(&history);
        assert_eq!(
            order,
            ["deleted", "evicted", "slow", "succeeds", "fails", "last"]
        );
        Ok(())
    })
    .await
}

/// Those of higher priority first, then the older.
#[tokio::test]
async fn pods_are_ungated_by_priority() -> Result<()> {
    bed::shared("pods-order", async |scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        let (high, low) = (scene.name("high"), scene.name("low"));
        scene.create(&objects::priority_class(&high, 100)).await?;
        scene.create(&objects::priority_class(&low, -5)).await?;
        let pods = scene.record("Pod").await?;
        for (name, class) in [("low", Some(&low)), ("none", None), ("high", Some(&high))] {
            let pod = Pod::new(name).queue("q").runs("0.2");
            let pod = match class {
                Some(class) => pod.priority_class(class),
                None => pod,
            };
            scene.create(&pod.json()).await?;
        }
        let unknown = Pod::new("unknown").queue("q").priority_class("nope");
        scene.create(&unknown.json()).await?;
        let told = scene.see_event("unknown", "PriorityClassNotFound").await?;
        assert_eq!(
            told,
            "Can't be queued: there is no WorkloadPriorityClass \"nope\"; create it, or change the label \
             sluice.dev/priority-class"
        );
        scene.see("ClusterQueue", &scene.ns, "waited in by 3", |queue| {
            queue["status"]["pendingWorkloads"] == 3
        }).await?;
        scene.stop("None").await?;
        scene
            .see_so_many("succeeded", 3, |pod| pod["status"]["phase"] == "Succeeded")
            .await?;
        let history = scene.history("Pod", &pods).await?;
        assert_eq!(order_of_going(&history), ["high", "none", "low"]);
        let unknown = scene.get("Pod", "unknown").await?;
        ensure!(has_queue_gate(&unknown), "{unknown}");
        Ok(())
    })
    .await
}

/// Jobs that are admitted as a whole, pods of jobs, and bare pods, all from one quota.
#[tokio::test]
async fn jobs_and_pods_share_a_quota() -> Result<()> {
    bed::shared("pods-mixed", async |scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "5")]);
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        let (pods, workloads) = (scene.record("Pod").await?, scene.record("Workload").await?);
        for index in 0..10 {
            let bare = Pod::new(&format!("bare-{index}")).queue("q");
            scene.create(&bare.cpu("700m").runs("0.4").json()).await?;
            let job = Job::new(&format!("whole-{index}")).queue("q");
            let job = job.cpu(["500m", "1", "1500m"][index % 3]).pods(2);
            scene.create(&job.runs("0.5").json()).await?;
            if index % 3 == 0 {
                let each = Job::new(&format!("each-{index}")).queue("q").pods(4);
                let each = each.annotation(ADMISSION_ANNOTATION, "PerPod");
                scene.create(&each.runs("0.3").json()).await?;
            }
            // However slowly they are made, so many want more than there is.
            if index == 4 {
                scene.stop("None").await?;
            }
        }
        crate::queues::quota::see_all_complete(scene, 14).await?;
        let is_bare = |pod: &Value| name_of(pod).starts_with("bare");
        scene
            .see_so_many("succeeded", 10, |pod| {
                is_bare(pod) && pod["status"]["phase"] == "Succeeded"
            })
            .await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;

        // The API server counts the revisions of all kinds together.
        let mut history = scene.history("Pod", &pods).await?;
        history.extend(scene.history("Workload", &workloads).await?);
        history.sort_by_key(|revision| revision.number);
        let mut used: BTreeMap<String, i128> = BTreeMap::new();
        let mut most = 0;
        for revision in &history {
            let object = &revision.object;
            let amount = if object["kind"] == "Workload" {
                let has_usage = objects::holds_quota(object);
                has_usage.then(|| crate::support::queues::usage(object, "cpu"))
            } else if object["metadata"]["annotations"][QUEUE_GATE] == "true" {
                let has_usage = is_live(object) && !has_queue_gate(object);
                has_usage.then(|| request_of(object, "cpu"))
            } else {
                // Of a job that is admitted as a whole.
                continue;
            };
            let uid = object["metadata"]["uid"].to_string();
            match amount.filter(|_| !revision.is_deleted) {
                Some(amount) => used.insert(uid, amount),
                None => used.remove(&uid),
            };
            let total: i128 = used.values().sum();
            ensure!(
                total <= nanos(&json!(5)),
                "revision {}: {total} is in use: {used:?}",
                revision.number
            );
            most = most.max(total);
        }
        ensure!(
            nanos(&json!(4)) < most,
            "the quota was never the limit: {most}"
        );
        Ok(())
    })
    .await
}
