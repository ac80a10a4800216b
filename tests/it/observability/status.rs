//! What queues say of themselves: how many are gated, pending and admitted, and their usage.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::queues::quota::{is_idle, see_all_complete, two_queues};
use crate::support::objects::{GATED, Job, name_of, quota};
use crate::support::pods::is_running;
use crate::support::queues::nanos;
use crate::support::{Scene, bed};

/// Waits until a queue counts so: gated (LocalQueue only), pending, admitted, and usage of cpu.
async fn see_counts(
    scene: &Scene<'_>,
    kind: &str,
    name: &str,
    (gated, pending, admitted): (i32, i32, i32),
    cpu: &str,
) -> Result<Value> {
    let what = format!("counting {gated}, {pending}, {admitted} and cpu {cpu}");
    scene
        .see(kind, name, &what, |queue| {
            let status = &queue["status"];
            let gated = kind != "LocalQueue" || status["gatedWorkloads"] == gated;
            let total = &status["flavorsUsage"][0]["resources"][0]["total"];
            gated
                && status["pendingWorkloads"] == pending
                && status["admittedWorkloads"] == admitted
                && status["reservingWorkloads"] == admitted
                && nanos(total) == nanos(&json!(cpu))
        })
        .await
}

#[tokio::test]
async fn queues_count_what_they_have() -> Result<()> {
    bed::shared("status-count", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        see_counts(scene, "LocalQueue", "q", (0, 0, 0), "0").await?;
        scene
            .create(
                &Job::new("gated")
                    .queue("q")
                    .gate("acme.io/x")
                    .cpu("2")
                    .runs_forever()
                    .json(),
            )
            .await?;
        scene
            .create(&Job::new("gated-too").queue("q").gate("acme.io/x").json())
            .await?;
        see_counts(scene, "LocalQueue", "q", (2, 0, 0), "0").await?;
        scene
            .create(
                &Job::new("a")
                    .queue("q")
                    .cpu("500m")
                    .pods(3)
                    .runs_forever()
                    .json(),
            )
            .await?;
        scene
            .create(&Job::new("b").queue("q").cpu("1").runs_forever().json())
            .await?;
        // Of those that are made in one second any may be the first.
        for name in ["a", "b"] {
            scene.see_admitted(name).await?;
        }
        scene
            .create(&Job::new("c").queue("q").cpu("2").runs_forever().json())
            .await?;
        see_counts(scene, "LocalQueue", "q", (2, 1, 2), "2500m").await?;
        let queue = see_counts(scene, "ClusterQueue", &scene.ns, (0, 1, 2), "2500m").await?;
        let usage = &queue["status"]["flavorsUsage"][0];
        assert_eq!(usage["name"], scene.ns.as_str());
        let usage = &usage["resources"][0];
        assert_eq!([&usage["name"], &usage["borrowed"]], ["cpu", "0"]);
        // Their pods get nodes: what was reserved is allocated.
        let queue = scene.see("ClusterQueue", &scene.ns, "all allocated", |queue| {
            let usage = &queue["status"]["flavorsUsage"][0]["resources"][0];
            usage["allocated"] == "2500m" && usage["reserved"] == "0"
        });
        queue.await?;

        let gone = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "gated", gone.clone()).await?;
        see_counts(scene, "LocalQueue", "q", (1, 2, 2), "2500m").await?;
        scene.delete("Job", "a").await?;
        scene.delete("Job", "gated-too").await?;
        // Either c or what was gated: 1 and 2 make 3.
        see_counts(scene, "LocalQueue", "q", (0, 1, 2), "3").await?;
        scene.delete("Job", "c").await?;
        let is_so =
            |pod: &Value| is_running(pod) && pod["metadata"]["labels"]["job-name"] == "gated";
        let pods = scene.see_so_many("of gated and running", 1, is_so).await?;
        scene.end(name_of(&pods[0])).await?;
        scene.see_complete("gated").await?;
        scene.delete("Job", "b").await?;
        for (kind, name) in [("LocalQueue", "q"), ("ClusterQueue", scene.ns.as_str())] {
            see_counts(scene, kind, name, (0, 0, 0), "0").await?;
        }
        // As kubectl shows it.
        let shown = scene
            .kubectl(&["get", "localqueue", "q"], None)
            .await?
            .ok()?;
        let header = shown.lines().next().unwrap_or_default();
        for column in ["CLUSTERQUEUE", "ACTIVE", "GATED", "PENDING", "ADMITTED"] {
            ensure!(header.contains(column), "{shown}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_is_borrowed_is_told() -> Result<()> {
    bed::shared("status-borrow", async |scene| {
        two_queues(scene).await?;
        scene
            .create(&Job::new("large").queue("b").cpu("4").runs_forever().json())
            .await?;
        let queue = see_counts(scene, "ClusterQueue", &scene.name("b"), (0, 0, 1), "4").await?;
        let usage = &queue["status"]["flavorsUsage"][0]["resources"][0];
        assert_eq!([&usage["name"], &usage["borrowed"]], ["cpu", "2"]);
        // 4 of 6 are taken: the lender's own 4 are not all there until they are given back.
        scene
            .create(&Job::new("own").queue("a").cpu("4").json())
            .await?;
        see_counts(scene, "ClusterQueue", &scene.name("a"), (0, 1, 0), "0").await?;
        scene.delete("Job", "large").await?;
        see_all_complete(scene, 1).await?;
        for queue in ["a", "b"] {
            scene
                .see("ClusterQueue", &scene.name(queue), "idle", is_idle)
                .await?;
        }
        Ok(())
    })
    .await
}

/// Lists of kubectl by the names that users know.
#[tokio::test]
async fn kubectl_knows_the_short_names() -> Result<()> {
    bed::shared("status-kubectl", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("shown").queue("q").runs_forever().json())
            .await?;
        scene.see_admitted("shown").await?;
        for (resource, column) in [
            ("wl", "RESERVED IN"),
            ("lq", "CLUSTERQUEUE"),
            ("queue", "CLUSTERQUEUE"),
            ("cq", "COHORT"),
            ("rf", "NODE LABELS"),
            ("flavor", "NODE LABELS"),
            ("jk", "READY"),
        ] {
            let shown = scene.kubectl(&["get", resource], None).await?.ok()?;
            ensure!(
                shown
                    .lines()
                    .next()
                    .is_some_and(|header| header.contains(column)),
                "{shown}"
            );
        }
        let wide = ["get", "wl", "-o", "wide"];
        let shown = scene.kubectl(&wide, None).await?.ok()?;
        for column in ["PODS READY", "EVICTED", "STALLED"] {
            let header = shown.lines().next().unwrap_or_default();
            ensure!(header.contains(column), "{shown}");
        }
        let shown = scene
            .kubectl(&["get", "sluice", "--all-namespaces"], None)
            .await?
            .ok()?;
        ensure!(shown.contains("workload.sluice.dev/shown-"), "{shown}");
        Ok(())
    })
    .await
}
