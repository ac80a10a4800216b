//! Manifests of Kueue and Volcano, as their users have them: with one line in the configuration they do here what
//! they did there. And queues as large as Kueue takes them.

use anyhow::{Result, ensure};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use sluice_testbed::{SluiceOptions, eventually};

use crate::support::bed;
use crate::support::objects::{self, Job, is_suspended, priority_class, quota};
use crate::support::pods::{Pod, has_queue_gate, is_running};
use crate::support::{DEADLINE, Scene, into_value};

const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";

fn options(webhooks: bool) -> SluiceOptions {
    SluiceOptions {
        config: Some("aliasPresets: [Kueue, Volcano]\n".to_owned()),
        webhooks,
        ..SluiceOptions::new(bed::BINARY)
    }
}

/// A job as a user of Kueue writes it.
fn kueue_job(name: &str) -> Job {
    Job::new(name).label("kueue.x-k8s.io/queue-name", "q")
}

/// A pod of a group as a user of Kueue writes it.
fn kueue_member(name: &str) -> Pod {
    Pod::new(name)
        .label("kueue.x-k8s.io/queue-name", "q")
        .label("kueue.x-k8s.io/pod-group-name", "gang")
        .annotation("kueue.x-k8s.io/pod-group-total-count", "2")
}

/// Waits until the API server asks about jobs with this one's keys: it hears of the configured keys a moment after the
/// start.
async fn see_asked(scene: &Scene<'_>, job: &Job) -> Result<()> {
    let probe: DynamicObject = serde_json::from_value(job.json())?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api = scene.api("Job");
    eventually("jobs to be held", DEADLINE, async || {
        let born = into_value(api.create(&dry_run, &probe).await?);
        ensure!(is_suspended(&born), "{born}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn manifests_of_kueue_and_volcano_do_what_they_did_there() -> Result<()> {
    bed::own_running_with("alias", options(true), async |_, scene| {
        let class = scene.name("high");
        scene.create(&priority_class(&class, 1000)).await?;
        scene.queue(&[quota("cpu", "2")]).await?;
        see_asked(scene, &kueue_job("probe")).await?;
        let args = ["create", "--dry-run=server", "-f", "-"];
        let probe = kueue_job("probe").json().to_string();
        let told = scene.kubectl(&args, Some(&probe)).await?.stderr;
        ensure!(!told.contains("has no effect"), "{told}");

        // As many pods as there is quota for, at the priority of its class.
        let job = kueue_job("part")
            .label("kueue.x-k8s.io/priority-class", &class)
            .annotation("kueue.x-k8s.io/job-min-parallelism", "1")
            .pods(4)
            .runs_forever();
        let stored = scene.create(&job.json()).await?;
        ensure!(is_suspended(&stored), "{stored}");
        ensure!(
            stored["metadata"]["labels"]["sluice.dev/priority-class"] == class.as_str(),
            "{stored}"
        );
        let workload = scene.see_admitted("part").await?;
        let given = &workload["status"]["admission"]["podSetAssignments"][0]["count"];
        assert_eq!(given, 2, "{workload}");
        assert_eq!(workload["spec"]["priority"], 1000, "{workload}");
        scene.delete("Job", "part").await?;

        // Volcano names the queue by an annotation.
        let job = Job::new("volcano").annotation(VOLCANO_QUEUE, "q");
        let stored = scene.create(&job.json()).await?;
        ensure!(is_suspended(&stored), "{stored}");
        assert_eq!(stored["metadata"]["labels"]["sluice.dev/queue-name"], "q");
        scene.see_complete("volcano").await?;

        // An edit of the other key is one of Sluice's own.
        let job = kueue_job("moved").cpu("9");
        scene.create(&job.json()).await?;
        scene.see_workload("moved", "pending", |_| true).await?;
        let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": class}}});
        let edited = scene.merge("Job", "moved", label).await?;
        assert_eq!(
            edited["metadata"]["labels"]["sluice.dev/priority-class"],
            class.as_str()
        );
        let is_raised = |workload: &Value| workload["spec"]["priority"] == 1000;
        scene
            .see_workload("moved", "of the class", is_raised)
            .await?;
        scene.delete("Job", "moved").await?;

        // A group waits until it is complete.
        let first = scene.create(&kueue_member("a").json()).await?;
        ensure!(has_queue_gate(&first), "{first}");
        let told = scene.see_event("a", "GroupIncomplete").await?;
        ensure!(told.contains("2 pods of this group"), "{told}");
        scene.create(&kueue_member("b").json()).await?;
        scene.see_so_many("running", 2, is_running).await?;
        Ok(())
    })
    .await
}

/// What no webhook has seen is read all the same.
#[tokio::test]
async fn without_a_webhook_jobs_are_still_read_so() -> Result<()> {
    bed::own_running_with("alias-bare", options(false), async |_, scene| {
        let class = scene.name("high");
        scene.create(&priority_class(&class, 1000)).await?;
        scene.queue(&[quota("cpu", "2")]).await?;
        let job = Job::new("volcano")
            .annotation(VOLCANO_QUEUE, "q")
            .label("kueue.x-k8s.io/priority-class", &class)
            .runs_forever();
        scene.create(&job.json()).await?;
        let workload = scene.see_admitted("volcano").await?;
        assert_eq!(workload["spec"]["priority"], 1000, "{workload}");
        Ok(())
    })
    .await
}

/// Kueue's limits: 64 flavors in a group, and 64 resources.
#[tokio::test]
async fn the_largest_queue_of_kueue_is_taken() -> Result<()> {
    bed::shared("largest", async |scene| {
        let resources: Vec<String> = (0..64).map(|n| format!("example.com/r{n}")).collect();
        let quotas: Vec<_> = resources
            .iter()
            .map(|name| json!({"name": name, "nominalQuota": "1"}))
            .collect();
        let flavors: Vec<_> = (0..64)
            .map(|n| json!({"name": scene.name(&format!("f{n}")), "resources": quotas}))
            .collect();
        let groups =
            |flavors: &[Value]| json!([{"coveredResources": resources, "flavors": flavors}]);
        let mut queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
        queue["spec"]["resourceGroups"] = groups(&flavors);
        let stored = scene.create(&queue).await?;
        let stored = &stored["spec"]["resourceGroups"][0]["flavors"];
        assert_eq!(stored.as_array().map(Vec::len), Some(64));
        let more = [flavors.clone(), vec![flavors[0].clone()]].concat();
        queue["metadata"]["name"] = json!(scene.name("more"));
        queue["spec"]["resourceGroups"] = groups(&more);
        let refused = scene.try_create(&queue).await;
        ensure!(refused.is_err(), "it was taken");
        Ok(())
    })
    .await
}
