//! Edits at the worst moment: between admission and release, on queues in use.

use anyhow::{Result, ensure};
use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use sluice_testbed::{NAMESPACE, eventually};

use crate::queues::quota::{is_idle, see_all_complete};
use crate::support::objects::{
    Job, cluster_queue, is_admitted, is_suspended, local_queue, name_of, quota, with,
};
use crate::support::persist::{answered, persist};
use crate::support::pods::{Pod, check_usage, has_queue_gate, is_running, queued, replicated};
use crate::support::queues::{nanos, usage};
use crate::support::{DEADLINE, Scene, bed};

const JOBS: usize = 8;

/// More edits than there is time for before the job is released.
const EDITS: u32 = 30;

/// Edits a job until it is released: then the API server or the webhook refuses.
async fn edit_until_refused(scene: &Scene<'_>, name: &str) -> Result<u32> {
    for edit in 1..=EDITS {
        let container = json!({"name": "main", "image": "example.com/none", "resources": {
            "requests": {"cpu": format!("{}m", 100 + edit)},
        }});
        let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        match answered(async || scene.try_merge("Job", name, patch.clone()).await).await? {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 422 || status.code == 403 => {
                return Ok(edit - 1);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(EDITS)
}

/// Whatever a job requests at the moment of its release is its usage.
#[tokio::test]
async fn a_job_has_the_usage_that_it_requests_when_it_is_released() -> Result<()> {
    bed::shared("race-edit", async |scene| {
        scene.queue(&[quota("cpu", "100")]).await?;
        let (workloads, jobs) = (scene.record("Workload").await?, scene.record("Job").await?);
        let mut edits = 0;
        for index in 0..JOBS {
            let name = format!("job-{index}");
            scene
                .create(&Job::new(&name).queue("q").cpu("100m").runs("0.5").json())
                .await?;
            edits += edit_until_refused(scene, &name).await?;
        }
        ensure!(0 < edits, "not one edit came in time");
        see_all_complete(scene, JOBS).await?;
        let workloads = scene.history("Workload", &workloads).await?;
        let jobs = scene.history("Job", &jobs).await?;
        for index in 0..JOBS {
            let name = format!("job-{index}");
            let of_job = || jobs.iter().filter(|r| name_of(&r.object) == name);
            let mut was_released = false;
            for revision in of_job() {
                let is_released = !is_suspended(&revision.object);
                if is_released && !was_released {
                    let template = &revision.object["spec"]["template"]["spec"]["containers"][0];
                    let asked = nanos(&template["resources"]["requests"]["cpu"]);
                    let used = workloads
                        .iter()
                        .rfind(|w| {
                            let owner = &w.object["metadata"]["ownerReferences"][0]["name"];
                            w.number < revision.number && *owner == name.as_str()
                        })
                        .map_or(0, |w| usage(&w.object, "cpu"));
                    ensure!(
                        asked == used,
                        "{name} was released with {asked}, and uses {used}"
                    );
                }
                was_released = is_released;
            }
            ensure!(was_released, "{name} was never released");
        }
        scene.see("LocalQueue", "q", "idle", is_idle).await?;
        Ok(())
    })
    .await
}

fn uses_one(queue: &Value) -> bool {
    let status = &queue["status"];
    status["admittedWorkloads"] == 1 && status["flavorsUsage"][0]["resources"][0]["total"] == "1"
}

/// A queue that is deleted and created again knows its usage.
#[tokio::test]
async fn a_queue_that_is_made_again_remembers_its_usage() -> Result<()> {
    bed::shared("race-queue", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&Job::new("first").queue("q").runs_forever().json()).await?;
        scene.see_admitted("first").await?;
        scene.see("Job", "first", "released", |job| !is_suspended(job)).await?;
        scene.delete("ClusterQueue", ns).await?;
        scene.see_gone("ClusterQueue", ns).await?;
        scene.create(&Job::new("second").queue("q").json()).await?;
        let message = format!("ClusterQueue \"{ns}\" of LocalQueue \"{ns}/q\" doesn't exist");
        scene.see_waiting("second", "Misconfigured", &message).await?;
        scene.delete("LocalQueue", "q").await?;
        let message = format!("LocalQueue \"{ns}/q\" doesn't exist");
        scene.see_waiting("second", "Misconfigured", &message).await?;
        let first = scene.get("Job", "first").await?;
        ensure!(!is_suspended(&first), "a deleted queue took a job back: {first}");

        scene.create(&cluster_queue(ns, ns, &[quota("cpu", "1")])).await?;
        scene.create(&local_queue("q", ns)).await?;
        let message = format!(
            "couldn't be admitted to ClusterQueue \"{ns}\": insufficient unused quota for cpu in flavor \"{ns}\": requests 1 (nominal quota 1)"
        );
        scene.see_waiting("second", "WaitingForQuota", &message).await?;
        scene.see("ClusterQueue", ns, "usage of the first", uses_one).await?;
        scene.see("LocalQueue", "q", "usage of the first", uses_one).await?;
        scene.delete("Job", "first").await?;
        scene.see_complete("second").await?;
        Ok(())
    })
    .await
}

/// A Workload that somebody deletes: a waiting one comes again, and what a running one holds is not
/// handed out while its pods run.
#[tokio::test]
async fn a_deleted_workload_frees_nothing_that_runs() -> Result<()> {
    bed::shared("race-workload", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (workloads, pods) = (scene.record("Workload").await?, scene.record("Pod").await?);
        scene
            .create(&Job::new("running").queue("q").runs_forever().json())
            .await?;
        let workload = scene.see_admitted("running").await?;
        scene.see_pods("Running", 1).await?;
        scene.create(&Job::new("waiting").queue("q").json()).await?;
        let waiting = scene.see_workload("waiting", "there", |_| true).await?;
        scene.delete("Workload", name_of(&waiting)).await?;
        let is_new = |w: &Value| w["metadata"]["uid"] != waiting["metadata"]["uid"];
        scene.see_workload("waiting", "made again", is_new).await?;

        scene.delete("Workload", name_of(&workload)).await?;
        // One of the two is admitted next, and not before the first has stopped.
        let is_new = |w: &Value| w["metadata"]["uid"] != workload["metadata"]["uid"];
        scene.see_workload("running", "made again", is_new).await?;
        eventually("one of them to be admitted", DEADLINE, async || {
            let all = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            if all.iter().any(is_admitted) {
                Ok(())
            } else {
                Err(format!("{all:?}"))
            }
        })
        .await?;
        scene.delete("Job", "running").await?;
        scene.see_complete("waiting").await?;
        // At no revision was a second admission there while a pod of the first ran.
        let gone = scene.history("Workload", &workloads).await?;
        let gone_at = gone
            .iter()
            .find(|r| r.is_deleted && r.object["metadata"]["uid"] == workload["metadata"]["uid"]);
        let gone_at = gone_at.map(|r| r.number).unwrap();
        let next = gone
            .iter()
            .find(|r| gone_at < r.number && !r.is_deleted && is_admitted(&r.object));
        let next = next.map(|r| r.number).unwrap();
        let pods = scene.history("Pod", &pods).await?;
        let first_pod = pods.first().unwrap().object["metadata"]["uid"].clone();
        let ended = pods.into_iter().find(|r| {
            let phase = &r.object["status"]["phase"];
            r.object["metadata"]["uid"] == first_pod
                && (r.is_deleted || phase == "Succeeded" || phase == "Failed")
        });
        let ended = ended.map_or(u128::MAX, |r| r.number);
        ensure!(
            ended < next,
            "admitted at {next}, while a pod ran until {ended}"
        );
        Ok(())
    })
    .await
}

/// The same of pods that nothing but their deletion stops: those of a Deployment, and of a group.
#[tokio::test]
async fn pods_that_lose_their_workload_are_deleted_and_those_made_again_are_queued() -> Result<()> {
    bed::shared("race-workload-pods", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        let web = queued(replicated("Deployment", "web", 2, Pod::new("p")));
        let whole = json!({"sluice.dev/admission": "Whole"});
        scene
            .create(&with(web, "/metadata/annotations", whole))
            .await?;
        scene.see_so_many("running", 2, is_running).await?;
        let lost = see_only_workload(scene, "admitted", is_admitted).await?;
        scene.delete("Workload", name_of(&lost)).await?;
        let told = scene.see_event("web", "Stopped").await?;
        ensure!(told.starts_with("Its Workload was deleted"), "{told}");
        let is_again =
            |w: &Value| w["metadata"]["uid"] != lost["metadata"]["uid"] && is_admitted(w);
        see_only_workload(scene, "admitted again", is_again).await?;
        scene.see_so_many("running again", 2, is_running).await?;
        scene.delete("Deployment", "web").await?;
        scene.see_so_many("running", 0, is_running).await?;

        for name in ["a", "b"] {
            let pod = Pod::new(name).queue("q").group("gang", 2);
            scene.create(&pod.json()).await?;
        }
        scene.see_so_many("running", 2, is_running).await?;
        scene.delete("Workload", "gang-pod-group").await?;
        for name in ["a", "b"] {
            scene.see_gone("Pod", name).await?;
            let pod = Pod::new(&format!("{name}-again"))
                .queue("q")
                .group("gang", 2);
            scene.create(&pod.json()).await?;
        }
        scene.see_so_many("running again", 2, is_running).await?;
        scene.see_so_many("gated", 0, has_queue_gate).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true).map(drop)
    })
    .await
}

/// Waits until there is one Workload in the namespace, and it is so.
async fn see_only_workload(
    scene: &Scene<'_>,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually(
        &format!("the only Workload to be {what}"),
        DEADLINE,
        async || {
            let workloads = scene.list("Workload").await;
            match workloads.map_err(|error| format!("{error:#}"))?.as_slice() {
                [workload] if is_so(workload) => Ok(workload.clone()),
                others => Err(format!("{others:?}")),
            }
        },
    )
    .await
}

/// Somebody who writes a job back to what it was each time that it is released: Sluice says so, tries less
/// and less often, and goes on when it is over. Who only suspends it pauses it.
#[tokio::test]
async fn a_struggle_about_a_job_is_told_and_slowed_down() -> Result<()> {
    bed::shared("race-struggle", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let jobs = scene.record("Job").await?;
        scene
            .create(&Job::new("torn").queue("q").runs("10").json())
            .await?;
        let torn = format!("/apis/batch/v1/namespaces/{}/jobs/torn", scene.ns);
        let user = format!("system:serviceaccount:{NAMESPACE}:sluice");
        loop {
            scene
                .see("Job", "torn", "released", |job| !is_suspended(job))
                .await?;
            let as_it_was = json!({
                "metadata": {"annotations": {"sluice.dev/held": "true"}},
                "spec": {"suspend": true},
            });
            // By an account that no rule holds: what a user suspends is marked as his. Not by kubectl,
            // whose start may take longer than the job.
            let patch = async || -> kube::Result<Value> {
                let request = Request::patch(torn.as_str())
                    .header(CONTENT_TYPE, "application/merge-patch+json")
                    .header("Impersonate-User", user.as_str())
                    .body(as_it_was.to_string().into_bytes());
                let request = request.map_err(kube::Error::HttpError)?;
                scene.client.request(request).await
            };
            persist(patch).await?;
            let told = scene.events("torn").await?;
            if told.iter().any(|(reason, _)| reason == "ChangedBack") {
                break;
            }
            let times = jobs
                .so_far()
                .iter()
                .filter(|r| !is_suspended(&r.object))
                .count();
            ensure!(times < 200, "released over and over, and nobody is told");
        }
        scene.see_complete("torn").await?;
        Ok(())
    })
    .await
}
