//! Pods that leave the job that they were admitted with, or come to another one: nobody but their job's Workload
//! knew of them, and they run on. Each has usage all the same, and once.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{Job, is_admitted, name_of, quota, with};
use crate::support::pods::{Pod, account, has_queue_gate, is_running, queued, replicated};
use crate::support::{DEADLINE, Scene, bed};

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
        let args = [
            "delete",
            "job",
            "first",
            "--cascade=orphan",
            "--timeout=180s",
        ];
        scene.kubectl(&args, None).await?.ok()?;
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
