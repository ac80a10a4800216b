//! What is being deleted runs for as long as it wants: its grace period, or a finalizer of its owner's. Nothing
//! that somebody writes to it meanwhile lets it run without usage.

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::Scene;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{Job, is_admitted, name_of, quota};
use crate::support::pods::{Pod, has_queue_gate, is_running, is_terminating};

both_ways!(
    a_pod_that_takes_its_time_is_counted_whatever_its_labels_say,
    a_pod_of_a_group_is_counted_whatever_its_labels_say,
    a_job_with_a_finalizer_is_counted_whatever_its_labels_say,
    pods_of_a_job_that_take_their_time_are_counted_beside_others_in_their_place,
);

const FINALIZER: &str = "acme.io/keep";
/// A pod with it uses all of its grace period.
const ENDS_LATE: &str = "testbed.sluice.dev/ends-late";

/// Its maker takes a finalizer for what a long grace period is on a real node.
fn lasting(pod: Pod) -> Value {
    let pod = pod.with(&["spec", "terminationGracePeriodSeconds"], json!(86400));
    pod.with(&["metadata", "finalizers"], json!([FINALIZER]))
        .json()
}

/// The Job controller makes another pod as soon as one is deleted: both use quota until the first is gone.
async fn pods_of_a_job_that_take_their_time_are_counted_beside_others_in_their_place(
    admission: Admission,
) -> Result<()> {
    play(admission, "deleted-replaced", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let job = Job::new("j").queue("q").runs_forever();
        let job = job.with(&["spec", "backoffLimit"], json!(9));
        let pod = ["spec", "template", "spec", "terminationGracePeriodSeconds"];
        let job = job.with(&pod, json!(86400));
        let pod = ["spec", "template", "metadata", "annotations", ENDS_LATE];
        let job = job.with(&pod, json!("true"));
        scene.create(&job.json()).await?;
        let first = scene.see_so_many("running", 1, is_running).await?;
        let first = name_of(&first[0]).to_owned();
        scene
            .kubectl(&["delete", "pod", &first, "--wait=false"], None)
            .await?
            .ok()?;
        let runs = |pod: &Value| is_running(pod) && !is_terminating(pod);
        scene.see_so_many("in its place", 1, runs).await?;
        assert_eq!(
            scene.see_event(&first, "Replaced").await?,
            format!(
                "The pod is terminating and its replacement already runs: both count in ClusterQueue {:?} until it is gone",
                scene.ns
            )
        );
        scene.see_account("cpu", ("2", "2", "0"), 0).await?;
        scene.create(&Pod::new("next").queue("q").json()).await?;
        scene.see_event("next", "Pending").await?;
        let ends = json!({"metadata": {"annotations": {ENDS_LATE: null}}});
        scene.merge("Pod", &first, ends).await?;
        scene.see("Pod", "next", "running", is_running).await?;
        scene.see_account("cpu", ("2", "2", "0"), 0).await
    })
    .await
}

/// Takes off all that says whose it is.
fn stripped(object: &Value) -> Value {
    let nulls = |map: &str| -> Value {
        let keys = object["metadata"][map].as_object().into_iter().flatten();
        keys.map(|(key, _)| (key.clone(), Value::Null)).collect()
    };
    json!({"metadata": {
        "labels": nulls("labels"),
        "annotations": nulls("annotations"),
        "ownerReferences": null,
    }})
}

/// That nobody else gets the quota of `runs`, a cpu, whatever is taken off it.
async fn stays_in_use(scene: &Scene<'_>, kind: &str, runs: &str) -> Result<()> {
    let object = scene.get(kind, runs).await?;
    // It may be refused, and one after the other be tried.
    let all = stripped(&object);
    let mut patches = vec![all.clone()];
    for map in ["labels", "annotations"] {
        for (key, _) in all["metadata"][map].as_object().into_iter().flatten() {
            patches.push(json!({"metadata": {map: {(key): null}}}));
        }
    }
    for patch in patches {
        if let Err(error) = scene.try_merge(kind, runs, patch).await {
            eprintln!("refused: {error}");
        }
    }
    scene.create(&Pod::new("next").queue("q").json()).await?;
    scene.see_event("next", "Pending").await?;
    // Another turn of the controller: what it has not seen yet, it has then.
    scene.create(&Pod::new("last").queue("q").json()).await?;
    scene.see_event("last", "Pending").await?;
    for name in ["next", "last"] {
        let pod = scene.get("Pod", name).await?;
        anyhow::ensure!(has_queue_gate(&pod), "{pod}");
    }
    let free = json!({"metadata": {"finalizers": null}});
    scene.merge(kind, runs, free).await.map(drop)
}

async fn a_pod_that_takes_its_time_is_counted_whatever_its_labels_say(
    admission: Admission,
) -> Result<()> {
    terminates(admission, Pod::new("a").queue("q")).await
}

async fn a_pod_of_a_group_is_counted_whatever_its_labels_say(admission: Admission) -> Result<()> {
    terminates(admission, Pod::new("a").queue("q").group("g", 1)).await
}

/// The pod `a` keeps its usage while it terminates.
async fn terminates(admission: Admission, pod: Pod) -> Result<()> {
    play(admission, "deleted-pod", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&lasting(pod.clone())).await?;
        scene.see("Pod", "a", "running", is_running).await?;
        scene
            .kubectl(&["delete", "pod", "a", "--wait=false"], None)
            .await?
            .ok()?;
        scene.see("Pod", "a", "terminating", is_terminating).await?;
        stays_in_use(scene, "Pod", "a").await
    })
    .await
}

async fn a_job_with_a_finalizer_is_counted_whatever_its_labels_say(
    admission: Admission,
) -> Result<()> {
    play(admission, "deleted-job", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let mut job = Job::new("j").queue("q").runs_forever().json();
        job["metadata"]["finalizers"] = json!([FINALIZER]);
        scene.create(&job).await?;
        scene.see_pods("Running", 1).await?;
        scene.see_workload("j", "admitted", is_admitted).await?;
        scene.delete("Job", "j").await?;
        let is_deleted = |job: &Value| job["metadata"]["deletionTimestamp"].is_string();
        scene.see("Job", "j", "being deleted", is_deleted).await?;
        stays_in_use(scene, "Job", "j").await
    })
    .await
}
