//! Who goes first: the older job, however late its Workload was made. Its age is that of the job, or of
//! the oldest pod of a group.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::SluiceOptions;

use crate::support::history::Revision;
use crate::support::objects::{GATED, Job, cluster_queue, is_admitted, name_of, quota, with};
use crate::support::pods::{Pod, is_running};
use crate::support::{Scene, bed, see_a_second_pass};

/// A queue `q` of so many cpus that admits nothing yet.
async fn closed_queue(scene: &Scene<'_>, cpu: &str) -> Result<()> {
    let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", cpu)]);
    scene
        .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
        .await
}

async fn see_pending(scene: &Scene<'_>, job: &str) -> Result<()> {
    let waits = |w: &Value| !is_admitted(w);
    scene.see_workload(job, "waiting", waits).await.map(drop)
}

/// What the Workloads' names begin with, in the order in which they were admitted.
fn order_of(history: &[Revision]) -> Vec<&str> {
    let mut admitted: Vec<&str> = Vec::new();
    for revision in history.iter().filter(|r| is_admitted(&r.object)) {
        let name = name_of(&revision.object)
            .split('-')
            .next()
            .unwrap_or_default();
        if !admitted.contains(&name) {
            admitted.push(name);
        }
    }
    admitted
}

/// Lifting a gate costs nobody his place.
#[tokio::test]
async fn a_lifted_gate_costs_no_place() -> Result<()> {
    bed::shared("place-gate", async |scene| {
        closed_queue(scene, "1").await?;
        let workloads = scene.record("Workload").await?;
        let early = scene
            .create(&Job::new("early").queue("q").gate("acme.io/budget").json())
            .await?;
        see_a_second_pass(&early["metadata"]["creationTimestamp"]).await?;
        let late = scene.create(&Job::new("late").queue("q").json()).await?;
        see_pending(scene, "late").await?;
        see_a_second_pass(&late["metadata"]["creationTimestamp"]).await?;
        let gone = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "early", gone).await?;
        let workload = scene.see_workload("early", "queued", |_| true).await?;
        assert_eq!(
            workload["spec"]["jobCreationTimestamp"],
            early["metadata"]["creationTimestamp"]
        );
        scene.stop("None").await?;
        scene.see_complete("early").await?;
        scene.see_complete("late").await?;
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(order_of(&history), ["early", "late"]);
        Ok(())
    })
    .await
}

/// Jobs that came while no controller ran are queued all at once, each in its place; so is one whose
/// Workload somebody deletes.
#[tokio::test]
async fn an_outage_costs_no_place() -> Result<()> {
    // What its webhooks do is done by hand here, as they would be down with it.
    let options = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    let held = |name: &str| {
        let job = Job::new(name)
            .queue("q")
            .annotation("sluice.dev/held", "true");
        job.with(&["spec", "suspend"], json!(true)).json()
    };
    bed::own_running_with("place-outage", options, async |bed, scene| {
        closed_queue(scene, "1").await?;
        let workloads = scene.record("Workload").await?;
        let early = scene.create(&held("early")).await?;
        see_pending(scene, "early").await?;
        bed.sluice.kill();
        let names = ["f", "e", "d", "c", "b"];
        let mut last = early;
        for name in names {
            see_a_second_pass(&last["metadata"]["creationTimestamp"]).await?;
            last = scene.create(&held(name)).await?;
        }
        let workload = scene.find_workload("early").await?.unwrap();
        scene
            .delete("Workload", workload["metadata"]["name"].as_str().unwrap())
            .await?;
        bed.sluice.start_again().await?;
        for name in names {
            see_pending(scene, name).await?;
        }
        see_pending(scene, "early").await?;
        scene.stop("None").await?;
        scene.see_complete("b").await?;
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(order_of(&history), ["early", "f", "e", "d", "c", "b"]);
        Ok(())
    })
    .await
}

/// A group has the place of its oldest pod, also when that one was replaced.
#[tokio::test]
async fn a_group_has_the_place_of_its_oldest_pod() -> Result<()> {
    bed::shared("place-group", async |scene| {
        closed_queue(scene, "2").await?;
        let workloads = scene.record("Workload").await?;
        let member = |name: &str| Pod::new(name).queue("q").group("gang", 2).json();
        let first = scene.create(&member("one")).await?;
        see_a_second_pass(&first["metadata"]["creationTimestamp"]).await?;
        let job = scene
            .create(&Job::new("job").queue("q").cpu("2").runs_forever().json())
            .await?;
        see_pending(scene, "job").await?;
        see_a_second_pass(&job["metadata"]["creationTimestamp"]).await?;
        scene.create(&member("two")).await?;
        let is_old =
            |w: &Value| w["spec"]["jobCreationTimestamp"] == first["metadata"]["creationTimestamp"];
        scene
            .see(
                "Workload",
                "gang-pod-group",
                "as old as its first pod",
                is_old,
            )
            .await?;
        // What Sluice knows: while the group is incomplete, only the job waits.
        let see_pending = async |count: u32| {
            let is_so = |queue: &Value| queue["status"]["pendingWorkloads"] == count;
            let what = format!("of {count} pending");
            scene.see("LocalQueue", "q", &what, is_so).await.map(drop)
        };
        see_pending(2).await?;
        scene.delete("Pod", "one").await?;
        scene.see_gone("Pod", "one").await?;
        see_pending(1).await?;
        scene.create(&member("three")).await?;
        see_pending(2).await?;
        scene.stop("None").await?;
        for name in ["two", "three"] {
            scene.see("Pod", name, "running", is_running).await?;
        }
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(order_of(&history), ["gang"]);
        let workload = scene.get("Workload", "gang-pod-group").await?;
        ensure!(is_old(&workload), "{workload}");
        Ok(())
    })
    .await
}
