//! stopPolicy: Hold admits no more, HoldAndDrain takes back what runs; taken back, all goes on.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::history::check_conditions;
use crate::support::objects::{
    Job, cluster_queue, condition, holds_quota, is, is_admitted, is_suspended, local_queue, own,
    quota,
};
use crate::support::{Scene, bed};

async fn stop_local(scene: &Scene<'_>, policy: &str) -> Result<()> {
    scene
        .merge("LocalQueue", "q", json!({"spec": {"stopPolicy": policy}}))
        .await
        .map(drop)
}

#[tokio::test]
async fn hold_admits_no_more() -> Result<()> {
    bed::shared("stop-hold", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "4")]).await?;
        scene
            .create(&Job::new("running").queue("q").runs_forever().json())
            .await?;
        scene
            .see("Job", "running", "released", |job| !is_suspended(job))
            .await?;
        scene.stop("Hold").await?;
        let told = scene
            .see_condition("ClusterQueue", ns, "Active", "False", "Stopped")
            .await?;
        assert_eq!(
            told,
            "Can't admit: it is stopped; set spec.stopPolicy to None to admit jobs again"
        );
        scene.create(&Job::new("waiting").queue("q").json()).await?;
        let message = format!("ClusterQueue \"{ns}\" is inactive: it is stopped");
        scene.see_waiting("waiting", "Suspended", &message).await?;
        let running = scene.get("Job", "running").await?;
        ensure!(!is_suspended(&running), "{running}");
        scene.stop("None").await?;
        scene.see_complete("waiting").await?;
        scene
            .see_condition("ClusterQueue", ns, "Active", "True", "Ready")
            .await?;

        stop_local(scene, "Hold").await?;
        let told = scene
            .see_condition("LocalQueue", "q", "Active", "False", "Stopped")
            .await?;
        assert_eq!(
            told,
            "Can't admit: it is stopped; set spec.stopPolicy to None to admit jobs again"
        );
        // Another LocalQueue of the same ClusterQueue is not stopped.
        scene.create(&local_queue("open", ns)).await?;
        scene.create(&Job::new("closed").queue("q").json()).await?;
        scene.create(&Job::new("open").queue("open").json()).await?;
        scene.see_complete("open").await?;
        let message = format!("LocalQueue \"{ns}/q\" is stopped");
        scene.see_waiting("closed", "Suspended", &message).await?;
        let running = scene.get("Job", "running").await?;
        ensure!(!is_suspended(&running), "{running}");
        stop_local(scene, "None").await?;
        scene.see_complete("closed").await?;
        Ok(())
    })
    .await
}

/// A queue whose flavor puts something into the template.
async fn queue_that_places(scene: &Scene<'_>) -> Result<()> {
    let spec = json!({
        "nodeLabels": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "acme.io/spot", "operator": "Exists"}],
    });
    scene
        .create(&own("ResourceFlavor", &scene.ns, spec))
        .await?;
    scene
        .create(&cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "3")]))
        .await?;
    scene.create(&local_queue("q", &scene.ns)).await?;
    Ok(())
}

/// Stops with HoldAndDrain and opens again: the job is evicted, gets back its template, and runs.
async fn drains(
    scene: &Scene<'_>,
    stop: impl AsyncFn(&str) -> Result<()>,
    reason: &str,
    words: &str,
) -> Result<()> {
    queue_that_places(scene).await?;
    let own = json!([{"key": "mine", "operator": "Exists"}]);
    let job = Job::new("drained").queue("q").pods(2).runs_forever();
    let job = job.with(&["spec", "template", "spec", "tolerations"], own);
    let created = scene.create(&job.json()).await?;
    let (workloads, pods) = (scene.record("Workload").await?, scene.record("Pod").await?);
    scene.see_pods("Running", 2).await?;
    let placed = scene.get("Job", "drained").await?;
    ensure!(
        placed["spec"]["template"] != created["spec"]["template"],
        "{placed}"
    );

    stop("HoldAndDrain").await?;
    let is_out = |w: &Value| !is_admitted(w) && is(w, "Evicted") && is(w, "Requeued");
    let workload = scene
        .see_workload("drained", "evicted and queued again", is_out)
        .await?;
    assert_eq!(
        condition(&workload, "Evicted"),
        Some(("True", reason, words))
    );
    let evicted = scene
        .see("Job", "drained", "suspended", is_suspended)
        .await?;
    let (left, own) = (&evicted["spec"]["template"], &created["spec"]["template"]);
    assert_eq!(left["spec"], own["spec"]);
    // By these its pods are known: they stay.
    let mut marked = own["metadata"].clone();
    marked["labels"]["sluice.dev/managed"] = json!("true");
    marked["annotations"]["sluice.dev/pod-set"] = json!("main");
    assert_eq!(left["metadata"], marked);
    ensure!(scene.list("Pod").await?.is_empty(), "it has pods left");
    for reason in ["Evicted", "Requeued"] {
        scene.see_event("drained", reason).await?;
    }
    // Something that comes later waits too.
    scene.create(&Job::new("later").queue("q").json()).await?;
    scene
        .see_workload("later", "told why", |w| {
            condition(w, "QuotaReserved").is_some()
        })
        .await?;

    stop("None").await?;
    scene.see_complete("later").await?;
    let workload = scene.see_admitted("drained").await?;
    ensure!(!is(&workload, "Evicted"), "{workload}");
    scene.see_pods("Running", 2).await?;
    let again = scene.get("Job", "drained").await?;
    assert_eq!(again["spec"]["template"], placed["spec"]["template"]);

    // Quota is freed only when no pod of it is left: all kinds share one order of revisions.
    let workloads = scene.history("Workload", &workloads).await?;
    check_conditions(&workloads)?;
    let pods = scene.history("Pod", &pods).await?;
    let mut held = false;
    for revision in workloads.iter().filter(|r| {
        r.object["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("drained-")
    }) {
        let holds = holds_quota(&revision.object);
        if held && !holds {
            let mut alive: BTreeMap<&str, bool> = BTreeMap::new();
            for pod in pods.iter().filter(|p| p.number < revision.number) {
                alive.insert(
                    pod.object["metadata"]["name"].as_str().unwrap(),
                    !pod.is_deleted,
                );
            }
            ensure!(
                !alive.values().any(|alive| *alive),
                "quota was freed while pods ran: {alive:?}"
            );
        }
        held = holds;
    }
    Ok(())
}

#[tokio::test]
async fn hold_and_drain_of_a_cluster_queue_takes_back_what_runs() -> Result<()> {
    bed::shared("stop-drain", async |scene| {
        let words = "The ClusterQueue is stopped (spec.stopPolicy is HoldAndDrain)";
        drains(
            scene,
            async |policy| scene.stop(policy).await,
            "ClusterQueueStopped",
            words,
        )
        .await
    })
    .await
}

#[tokio::test]
async fn hold_and_drain_of_a_local_queue_takes_back_what_runs() -> Result<()> {
    bed::shared("stop-local", async |scene| {
        let words = "The LocalQueue is stopped (spec.stopPolicy is HoldAndDrain)";
        drains(
            scene,
            async |policy| stop_local(scene, policy).await,
            "LocalQueueStopped",
            words,
        )
        .await
    })
    .await
}

/// Pods that take their time to end hold the quota of an evicted job until the last of them is gone.
#[tokio::test]
async fn quota_of_an_evicted_job_is_held_until_its_pods_are_gone() -> Result<()> {
    bed::shared("stop-slow", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&local_queue("open", &scene.ns)).await?;
        let slow = Job::new("slow").queue("q").runs_forever();
        let finalizers = ["spec", "template", "metadata", "finalizers"];
        let slow = slow.with(&finalizers, json!(["tests.sluice.dev/slow"]));
        scene.create(&slow.json()).await?;
        let running = scene.see_pods("Running", 1).await?;
        let (workloads, pods) = (scene.record("Workload").await?, scene.record("Pod").await?);
        scene.create(&Job::new("next").queue("open").json()).await?;
        scene.see_workload("next", "there", |_| true).await?;
        stop_local(scene, "HoldAndDrain").await?;
        let is_ending = |job: &Value| is_suspended(job) && job["status"]["terminating"] == 1;
        scene
            .see("Job", "slow", "suspended, its pod still there", is_ending)
            .await?;
        // Told so, it has had the time to be admitted, were there quota.
        scene.create(&Job::new("last").queue("open").json()).await?;
        scene
            .see_workload("last", "told why it waits", |w| {
                condition(w, "QuotaReserved").is_some()
            })
            .await?;
        let next = scene.find_workload("next").await?.unwrap();
        ensure!(!is_admitted(&next), "its quota was handed on: {next}");
        let pod = running[0]["metadata"]["name"].as_str().unwrap();
        let gone = json!({"metadata": {"finalizers": null}});
        scene.merge("Pod", pod, gone).await?;
        scene.see_complete("next").await?;
        scene.see_complete("last").await?;

        let pods = scene.history("Pod", &pods).await?;
        let ended = pods
            .iter()
            .find(|r| r.is_deleted && r.object["metadata"]["name"] == pod);
        let ended = ended.map_or(u128::MAX, |r| r.number);
        let history = scene.history("Workload", &workloads).await?;
        let admitted = history.iter().find(|r| {
            let owner = &r.object["metadata"]["ownerReferences"][0]["name"];
            *owner == "next" && is_admitted(&r.object)
        });
        let admitted = admitted.map_or(0, |r| r.number);
        ensure!(
            ended < admitted,
            "the pod was gone at {ended}, the quota handed on at {admitted}"
        );
        Ok(())
    })
    .await
}

/// Drained and opened over and over: nothing is lost and no usage is left.
#[tokio::test]
async fn a_queue_can_be_stopped_again_and_again() -> Result<()> {
    bed::shared("stop-often", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        for name in ["a", "b", "c"] {
            scene
                .create(&Job::new(name).queue("q").runs("1").json())
                .await?;
        }
        for round in 0..6 {
            scene.stop("HoldAndDrain").await?;
            if round % 2 == 0 {
                scene
                    .see_condition("ClusterQueue", &scene.ns, "Active", "False", "Stopped")
                    .await?;
            }
            scene.stop("None").await?;
        }
        crate::queues::quota::see_all_complete(scene, 3).await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        scene
            .see(
                "ClusterQueue",
                &scene.ns,
                "idle",
                crate::queues::quota::is_idle,
            )
            .await?;
        Ok(())
    })
    .await
}
