//! Pods that leave the job that they were admitted with, or come to another one: nobody but their job's Workload
//! knew of them, and they run on. Each has usage all the same, and once.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{Job, is_admitted, name_of, quota, with};
use crate::support::persist::answered;
use crate::support::pods::{Pod, account, has_queue_gate, is_live, is_running, queued, replicated};
use crate::support::{DEADLINE, Scene, bed, refusal};

both_ways!(
    a_pod_that_is_taken_from_its_job_is_counted_by_itself,
    a_pod_that_is_taken_from_a_deployment_keeps_its_place,
);

/// Takes off a pod what says whose it is, as its user.
async fn detach(scene: &Scene<'_>, pod: &Value, labels: &[&str]) -> Result<()> {
    let user = format!("--as={}", scene.editor("ed").await?);
    let labels: Value = labels
        .iter()
        .map(|key| ((*key).to_owned(), Value::Null))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let patch = json!({"metadata": {"ownerReferences": null, "labels": labels}}).to_string();
    let name = name_of(pod);
    let args = ["patch", "pod", name, "--type=merge", "-p", &patch, &user];
    eventually("the edit to be taken", DEADLINE, async || {
        scene.kubectl(&args, None).await?.ok()
    })
    .await
    .map(drop)
}

/// Waits until so many cpus of the ClusterQueue are in use. The pod may name no LocalQueue.
async fn see_usage(scene: &Scene<'_>, cpus: &str) -> Result<()> {
    let what = format!("with {cpus} in use");
    let is_so = |queue: &Value| account(queue, "cpu").is_some_and(|(total, ..)| total == cpus);
    scene
        .see("ClusterQueue", &scene.ns, &what, is_so)
        .await
        .map(drop)
}

const OF_A_JOB: [&str; 4] = [
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
];

/// Its job makes another one, and has no more quota than for that.
async fn a_pod_that_is_taken_from_its_job_is_counted_by_itself(admission: Admission) -> Result<()> {
    play(admission, "detached", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        scene
            .create(&Job::new("first").queue("q").runs_forever().json())
            .await?;
        let pods = scene.see_pods("Running", 1).await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await?;
        detach(scene, &pods[0], &OF_A_JOB).await?;
        scene.see_pods("Running", 2).await?;
        scene.see_event(name_of(&pods[0]), "Detached").await?;
        see_usage(scene, "2").await?;
        let left = name_of(&pods[0]);
        let told = refusal(answered(async || scene.resize(left, "2").await).await?)?;
        let grown = "spec.containers[0].resources.requests[cpu]: Forbidden: may not grow from 1 to 2 while the pod is admitted";
        assert_eq!(told, admission.of_pod(grown));
        // Whatever becomes of the job.
        scene.delete("Job", "first").await?;
        see_usage(scene, "1").await?;
        scene.delete("Pod", name_of(&pods[0])).await?;
        see_usage(scene, "0").await
    })
    .await
}

/// Another one in its place would be one too many.
async fn a_pod_that_is_taken_from_a_deployment_keeps_its_place(admission: Admission) -> Result<()> {
    play(admission, "detached-whole", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let web = queued(replicated("Deployment", "web", 1, Pod::new("p")));
        let whole = json!({"sluice.dev/admission": "Whole"});
        scene
            .create(&with(web, "/metadata/annotations", whole))
            .await?;
        let pods = scene.see_pods("Running", 1).await?;
        detach(scene, &pods[0], &["app", "pod-template-hash"]).await?;
        scene.see_so_many("gated", 1, has_queue_gate).await?;
        scene.create(&Pod::new("next").queue("q").json()).await?;
        scene.see_event("next", "Pending").await?;
        scene.see_so_many("gated", 2, has_queue_gate).await?;
        scene.see_account("cpu", ("1", "1", "0"), 1).await?;
        scene.delete("Pod", name_of(&pods[0])).await?;
        scene.see_gone("Pod", name_of(&pods[0])).await?;
        let web = |pod: &Value| is_running(pod) && name_of(pod) != "next";
        scene.see_so_many("in its place", 1, web).await.map(drop)
    })
    .await
}

/// The pods of a job that was deleted from above them, which another job takes for its own, and for which that
/// one has no quota.
#[tokio::test]
async fn pods_that_another_job_adopts_are_counted() -> Result<()> {
    bed::shared("adopted", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let first = Job::new("first").queue("q").pods(2).runs_forever().json();
        let labels = json!({"tests/team": "a"});
        let first = with(first, "/spec/template/metadata/labels", labels.clone());
        scene.create(&first).await?;
        let pods = scene.see_pods("Running", 2).await?;
        let heir = Job::new("heir").queue("q").pods(2).runs_forever();
        let mut heir = heir.annotation("sluice.dev/admission", "PerPod").json();
        heir["spec"]["manualSelector"] = json!(true);
        heir["spec"]["selector"] = json!({ "matchLabels": labels.clone() });
        heir["spec"]["template"]["metadata"]["labels"] = labels;
        orphan_first(scene).await?;
        scene.create(&heir).await?;
        let heir = scene.see("Job", "heir", "there", |_| true).await?;
        for pod in &pods {
            let is_adopted = |pod: &Value| {
                pod["metadata"]["ownerReferences"][0]["uid"] == heir["metadata"]["uid"]
            };
            scene
                .see("Pod", name_of(pod), "adopted", is_adopted)
                .await?;
        }
        scene
            .create(&Job::new("next").queue("q").runs_forever().json())
            .await?;
        let waits = |w: &Value| !is_admitted(w);
        scene.see_workload("next", "waiting", waits).await?;
        see_usage(scene, "2").await?;
        let next = scene.see_workload("next", "there", |_| true).await?;
        ensure!(!is_admitted(&next), "{next}");
        scene.delete("Job", "heir").await?;
        scene.see_admitted("next").await.map(drop)
    })
    .await
}

/// The pods of `first` become those of whoever takes them: of a group of two, of a job that was admitted with two small
/// pods, of a small job that is going. None was admitted with such pods.
const LARGE: &str = "2";

/// Runs a job of two large pods with these labels and annotations, and returns its pods.
async fn run_first(scene: &Scene<'_>, more: &Value) -> Result<Vec<Value>> {
    let first = Job::new("first").queue("q").pods(2).cpu(LARGE);
    let mut first = first.runs_forever().json();
    let metadata = &mut first["spec"]["template"]["metadata"];
    for map in ["labels", "annotations"] {
        for (key, value) in more[map].as_object().into_iter().flatten() {
            metadata[map][key] = value.clone();
        }
    }
    scene.create(&first).await?;
    let is_large = |pod: &Value| is_running(pod) && name_of(pod).starts_with("first-");
    scene.see_so_many("running", 2, is_large).await
}

/// Deletes it from above its pods, and waits until nothing is left of it but these.
async fn orphan_first(scene: &Scene<'_>) -> Result<()> {
    let args = [
        "delete",
        "job",
        "first",
        "--cascade=orphan",
        "--timeout=180s",
    ];
    scene.kubectl(&args, None).await?.ok().map(drop)
}

/// Five of six cpus are in use: whoever asks for two has to wait.
async fn see_both_counted(scene: &Scene<'_>) -> Result<()> {
    scene
        .create(&Job::new("next").queue("q").cpu(LARGE).runs_forever().json())
        .await?;
    let waits = |workload: &Value| !is_admitted(workload);
    scene.see_workload("next", "waiting", waits).await?;
    see_usage(scene, "5").await?;
    let next = scene.see_workload("next", "there", |_| true).await?;
    ensure!(!is_admitted(&next), "{next}");
    Ok(())
}

#[tokio::test]
async fn pods_that_become_members_of_a_small_group_are_counted_beside_it() -> Result<()> {
    bed::shared("adopted-group", async |scene| {
        scene.queue(&[quota("cpu", "6")]).await?;
        scene
            .create(&Pod::new("b").queue("q").group("g", 1).cpu("1").json())
            .await?;
        scene.see_so_many("running", 1, is_running).await?;
        let more = json!({
            "labels": {"sluice.dev/pod-group-name": "g"},
            "annotations": {"sluice.dev/pod-group-total-count": "1"},
        });
        let pods = run_first(scene, &more).await?;
        orphan_first(scene).await?;
        for pod in &pods {
            scene.see_event(name_of(pod), "Detached").await?;
        }
        see_both_counted(scene).await?;
        scene.delete("Pod", name_of(&pods[0])).await?;
        scene.see_admitted("next").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn pods_that_a_smaller_job_adopts_are_counted_beside_it() -> Result<()> {
    bed::shared("adopted-small", async |scene| {
        scene.queue(&[quota("cpu", "6")]).await?;
        let labels = json!({"tests/team": "a"});
        let pods = run_first(scene, &json!({ "labels": labels })).await?;
        let mut heir = Job::new("heir")
            .queue("q")
            .pods(2)
            .cpu("500m")
            .runs_forever()
            .json();
        heir["spec"]["manualSelector"] = json!(true);
        heir["spec"]["selector"] = json!({ "matchLabels": labels.clone() });
        heir["spec"]["template"]["metadata"]["labels"] = labels;
        // The Job controller deletes the younger of those that are too many.
        let made = pods[1]["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap_or_default();
        let made: Timestamp = made.parse()?;
        eventually("a later second", DEADLINE, async || {
            ensure!(made.as_second() + 1 < Timestamp::now().as_second());
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        scene.create(&heir).await?;
        scene.see_so_many("running", 4, is_running).await?;
        orphan_first(scene).await?;
        scene.see_so_many("left", 2, is_live).await?;
        for pod in &pods {
            scene.see_event(name_of(pod), "Detached").await?;
        }
        see_both_counted(scene).await
    })
    .await
}

#[tokio::test]
async fn labels_that_name_another_job_that_is_going_change_nothing() -> Result<()> {
    bed::shared("adopted-going", async |scene| {
        scene.queue(&[quota("cpu", "6")]).await?;
        let small = Job::new("small").queue("q").cpu("1").runs_forever().json();
        scene
            .create(&with(
                small,
                "/metadata/finalizers",
                json!(["tests.sluice.dev/kept"]),
            ))
            .await?;
        scene.see_admitted("small").await?;
        let small = scene.see("Job", "small", "there", |_| true).await?;
        let pods = run_first(scene, &json!({})).await?;
        let args = ["delete", "job", "small", "--wait=false", "--cascade=orphan"];
        scene.kubectl(&args, None).await?.ok()?;
        orphan_first(scene).await?;
        let uid = &small["metadata"]["uid"];
        let labels = json!({"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid});
        for pod in &pods {
            scene
                .merge("Pod", name_of(pod), json!({"metadata": {"labels": labels}}))
                .await?;
        }
        see_both_counted(scene).await?;
        let freed = json!({"metadata": {"finalizers": null}});
        scene.merge("Job", "small", freed).await.map(drop)
    })
    .await
}
