//! Bare pods that are admitted together: one Workload for the group, and all or none.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{condition, is, is_admitted, name_of, quota};
use crate::support::pods::{
    Pod, check_gates, check_usage, has_queue_gate, is_released, is_running, names, released_at,
};
use crate::support::{DEADLINE, Scene};

both_ways!(
    a_group_starts_as_a_whole,
    a_failed_pod_is_replaced,
    a_group_that_is_not_to_be_retried_ends,
    a_succeeded_pod_that_is_deleted_has_done_its_part,
    a_foreign_gate_on_one_holds_the_group,
    a_group_that_has_lost_a_pod_says_so,
    pods_of_a_group_may_differ,
);

/// A pod of a group of this size.
fn member(name: &str, total: u32) -> Pod {
    Pod::new(name).queue("q").group("gang", total)
}

/// The Workload of the group.
async fn see_group(scene: &Scene<'_>, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    scene.see("Workload", "gang-pod-group", what, is_so).await
}

/// Waits until the group was told this. The oldest of its pods stands for it; of those that were made
/// in the same second, any may.
async fn see_told(scene: &Scene<'_>, reason: &str) -> Result<String> {
    let what = format!("an event {reason} about the group");
    eventually(&what, DEADLINE, async || {
        let mut told = Vec::new();
        for pod in ["a", "b", "c"] {
            told.extend(scene.events(pod).await.map_err(|e| format!("{e:#}"))?);
        }
        let found = told.iter().find(|(r, _)| r == reason);
        found
            .map(|(_, note)| note.clone())
            .ok_or_else(|| format!("{told:?}"))
    })
    .await
}

/// Nobody starts before all are there and all fit; then all do, and one too many waits.
async fn a_group_starts_as_a_whole(admission: Admission) -> Result<()> {
    play(admission, "group-whole", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "3")]).await?;
        let (pods, workloads) = (scene.record("Pod").await?, scene.record("Workload").await?);
        for name in ["a", "b"] {
            scene.create(&member(name, 3).json()).await?;
        }
        let told = see_told(scene, "GroupIncomplete").await?;
        assert_eq!(told, "Not all 3 pods of this group exist");
        // It holds nothing meanwhile: somebody else takes the quota.
        scene.create(&Pod::new("other").queue("q").json()).await?;
        scene.see("Pod", "other", "running", is_running).await?;
        ensure!(workloads.so_far().is_empty(), "{:?}", workloads.so_far());
        let gated = scene.see_so_many("waiting", 2, has_queue_gate).await?;
        assert_eq!(names(&gated), ["a", "b"]);

        scene.create(&member("c", 3).json()).await?;
        let told = see_told(scene, "Queued").await?;
        assert_eq!(
            told,
            "All 3 pods exist: waits for quota in LocalQueue \"q\""
        );
        let message =
            format!("insufficient unused quota for cpu in flavor \"{ns}\": requests 3 (nominal quota 3)");
        see_group(scene, "told what it waits for", |workload| {
            condition(workload, "QuotaReserved").is_some_and(|(status, reason, m)| {
                (status, reason) == ("False", "WaitingForQuota") && m.ends_with(&message)
            })
        })
        .await?;
        scene.create(&member("excess", 3).json()).await?;
        scene.delete("Pod", "other").await?;
        for name in ["a", "b", "c"] {
            scene.see("Pod", name, "running", is_running).await?;
        }
        let workload = see_group(scene, "admitted", is_admitted).await?;
        assert_eq!(workload["spec"]["podSets"][0]["count"], 3, "{workload}");
        let admission = &workload["status"]["admission"];
        assert_eq!(admission["clusterQueue"], ns.as_str(), "{workload}");
        // Quota for one more, which the excess pod must not get: it belongs to no admission.
        scene.set_cpu("5").await?;
        scene.create(&Pod::new("marker").queue("q").json()).await?;
        scene.see("Pod", "marker", "released", is_released).await?;
        let excess = scene.get("Pod", "excess").await?;
        ensure!(has_queue_gate(&excess), "{excess}");
        assert_eq!(
            see_told(scene, "PodsWaiting").await?,
            "1 pod waits: as many pods run as were admitted; a waiting pod is ungated when a running one has failed or was deleted"
        );

        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "5", |_| true)?;
        check_gates(&history, &BTreeSet::new())?;
        let workloads = scene.history("Workload", &workloads).await?;
        let uids: BTreeSet<_> = workloads
            .iter()
            .map(|r| r.object["metadata"]["uid"].to_string())
            .collect();
        assert_eq!(uids.len(), 1, "one Workload for one group");
        let admitted = workloads.iter().find(|r| is_admitted(&r.object));
        let admitted = admitted.map(|r| r.number).unwrap();
        for name in ["a", "b", "c"] {
            let at = released_at(&history, name);
            ensure!(
                Some(admitted) < at,
                "{name} was released at {at:?}, before {admitted}"
            );
        }
        Ok(())
    })
    .await
}

/// One that has failed is replaced: by the excess pod that waits, or one that comes.
async fn a_failed_pod_is_replaced(admission: Admission) -> Result<()> {
    play(admission, "group-replace", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&member("a", 2).json()).await?;
        scene
            .create(&member("b", 2).fails().runs("0").json())
            .await?;
        scene.see("Pod", "a", "running", is_running).await?;
        scene
            .see("Pod", "b", "failed", |pod| {
                pod["status"]["phase"] == "Failed"
            })
            .await?;
        scene.create(&member("c", 2).json()).await?;
        scene.see("Pod", "c", "running", is_running).await?;
        for name in ["a", "c"] {
            scene.end(name).await?;
        }
        let workload = see_group(scene, "finished", |w| is(w, "Finished")).await?;
        let finished = condition(&workload, "Finished");
        let expected = ("True", "Succeeded", "All 2 pods of the group succeeded");
        assert_eq!(finished, Some(expected));
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true).map(drop)
    })
    .await
}

/// With one that is not to be retried, a failure is the end, as soon as nothing runs.
async fn a_group_that_is_not_to_be_retried_ends(admission: Admission) -> Result<()> {
    play(admission, "group-final", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&member("a", 2).not_retriable().json()).await?;
        scene
            .create(&member("b", 2).fails().runs("forever").json())
            .await?;
        // One that failed before the other was released would end the group then.
        scene.see("Pod", "a", "running", is_running).await?;
        scene.end("b").await?;
        scene
            .see("Pod", "b", "failed", |pod| {
                pod["status"]["phase"] == "Failed"
            })
            .await?;
        scene.end("a").await?;
        let workload = see_group(scene, "finished", |w| is(w, "Finished")).await?;
        let finished = condition(&workload, "Finished");
        let message = "1 of 2 pods of the group failed, and one of them forbids retries (sluice.dev/retriable-in-group: \"false\")";
        assert_eq!(finished, Some(("True", "Failed", message)));
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        // All that is gone, its Workload goes.
        for name in ["a", "b"] {
            scene.delete("Pod", name).await?;
        }
        scene.see_gone("Workload", name_of(&workload)).await
    })
    .await
}

/// A pod that has succeeded and is deleted has done its part: the group ends with the others.
async fn a_succeeded_pod_that_is_deleted_has_done_its_part(admission: Admission) -> Result<()> {
    play(admission, "group-deleted", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        for name in ["a", "b"] {
            scene.create(&member(name, 2).json()).await?;
        }
        scene.see_so_many("running", 2, is_running).await?;
        scene.end("a").await?;
        scene
            .see("Pod", "a", "succeeded", |pod| {
                pod["status"]["phase"] == "Succeeded"
            })
            .await?;
        scene.delete("Pod", "a").await?;
        see_group(scene, "with one pod that has ended", |w| {
            w["status"]["reclaimablePods"][0]["count"] == 1
        })
        .await?;
        // Its quota is free.
        scene.create(&Pod::new("next").queue("q").json()).await?;
        scene.see("Pod", "next", "running", is_running).await?;
        scene.end("b").await?;
        let workload = see_group(scene, "finished", |w| is(w, "Finished")).await?;
        let finished = condition(&workload, "Finished");
        let expected = ("True", "Succeeded", "All 2 pods of the group succeeded");
        assert_eq!(finished, Some(expected));
        Ok(())
    })
    .await
}

/// It waits for its pod then, and not for quota.
async fn a_group_that_has_lost_a_pod_says_so(admission: Admission) -> Result<()> {
    play(admission, "group-lost", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for name in ["a", "b"] {
            scene.create(&member(name, 2).json()).await?;
        }
        let says = |workload: &Value, reason: &str| {
            condition(workload, "QuotaReserved").is_some_and(|(_, r, _)| r == reason)
        };
        see_group(scene, "waiting", |w| says(w, "ExceedsMaxQuota")).await?;
        scene.delete("Pod", "b").await?;
        let workload = see_group(scene, "incomplete", |w| says(w, "GroupIncomplete")).await?;
        let message = "Not queued: 1 of 2 pods of this group exist; it is queued when all do";
        let expected = Some(("False", "GroupIncomplete", message));
        assert_eq!(condition(&workload, "QuotaReserved"), expected);
        scene.set_cpu("2").await?;
        scene.create(&member("c", 2).json()).await?;
        scene.see_so_many("running", 2, is_running).await.map(drop)
    })
    .await
}

/// A foreign gate on one of them holds all, and their quota is somebody else's meanwhile.
async fn a_foreign_gate_on_one_holds_the_group(admission: Admission) -> Result<()> {
    play(admission, "group-gate", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&member("a", 2).json()).await?;
        let held = member("b", 2).scheduling_gate("example.com/data");
        scene.create(&held.json()).await?;
        see_told(scene, "Queued").await?;
        let is_gated = |w: &Value| {
            condition(w, "QuotaReserved").is_some_and(|(_, reason, _)| reason == "SchedulingGated")
        };
        let workload = see_group(scene, "told what holds it", is_gated).await?;
        let (status, _, told) = condition(&workload, "QuotaReserved").unwrap();
        let expected = "Not queued: its pods wait behind the scheduling gates example.com/data; it is queued when the last of them is gone";
        ensure!((status, told) == ("False", expected), "{workload}");
        let other = Pod::new("other").queue("q").cpu("2");
        scene.create(&other.json()).await?;
        scene.see("Pod", "other", "running", is_running).await?;
        let opened = scene.open_gate("b", "example.com/data").await?;
        scene.delete("Pod", "other").await?;
        for name in ["a", "b"] {
            scene.see("Pod", name, "running", is_running).await?;
        }
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true)?;
        check_gates(&history, &BTreeSet::from([opened]))
    })
    .await
}

/// Pods that ask for different things are different sets of one Workload.
async fn pods_of_a_group_may_differ(admission: Admission) -> Result<()> {
    play(admission, "group-roles", async |scene| {
        scene
            .queue(&[quota("cpu", "4"), quota("memory", "1Gi")])
            .await?;
        let driver = member("driver", 3).requests(json!({"cpu": "2", "memory": "1Gi"}));
        scene.create(&driver.json()).await?;
        for name in ["worker-1", "worker-2"] {
            scene.create(&member(name, 3).json()).await?;
        }
        scene.see_so_many("running", 3, is_running).await?;
        scene.see_account("cpu", ("4", "4", "0"), 0).await?;
        scene.see_account("memory", ("1Gi", "1Gi", "0"), 0).await?;
        let workload = see_group(scene, "admitted", is_admitted).await?;
        let sets = workload["spec"]["podSets"].as_array().unwrap();
        let mut counts: Vec<_> = sets.iter().map(|set| set["count"].to_string()).collect();
        counts.sort_unstable();
        assert_eq!(counts, ["1", "2"], "{workload}");
        scene
            .see(
                "ClusterQueue",
                &scene.ns,
                "usage of one Workload",
                |queue| queue["status"]["admittedWorkloads"] == 1,
            )
            .await?;
        // Only a pod that requests the same takes the place of one that is gone.
        scene.delete("Pod", "worker-1").await?;
        scene.see_gone("Pod", "worker-1").await?;
        let larger = member("larger", 3).requests(json!({"cpu": "2"}));
        scene.create(&larger.json()).await?;
        assert_eq!(
            scene.see_event("larger", "RequestsDiffer").await?,
            "This pod does not request the same as the pods that its group was admitted with: it waits until it is deleted; create one that requests the same as the pod that it replaces, or delete all pods of the group to have it queued with other requests"
        );
        let larger = scene.get("Pod", "larger").await?;
        ensure!(has_queue_gate(&larger), "{larger}");
        scene.create(&member("worker-3", 3).json()).await?;
        scene.see("Pod", "worker-3", "running", is_running).await.map(drop)
    })
    .await
}
