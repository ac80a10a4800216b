//! Which priority classes a ClusterQueue allows, and which one jobs have that name none (`spec.priorityClasses`): nothing
//! is queued with the priority of a class that is not allowed, by whatever road the class is named.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::PRIORITY_CLASS_LABEL;
use sluice_testbed::eventually;

use crate::queues::preemption::{classes, job_of};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{
    self, Job, condition, is_admitted, local_queue, name_of, priority_class, quota, with,
};
use crate::support::pods::{Pod, has_queue_gate, is_running, replicated};
use crate::support::{DEADLINE, Scene, refusal, see_a_second_pass};

both_ways!(
    a_class_that_is_not_allowed_is_not_queued_by_any_road,
    a_class_is_allowed_or_not_from_now_on,
    what_names_no_class_has_the_default,
    a_tenant_widens_nothing,
);

const REASON: &str = "PriorityClassNotAllowed";

/// A class for pods, and what names it.
fn pod_class(scene: &Scene<'_>, name: &str, value: i32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": scene.name(name)}, "value": value})
}

const OF_TEMPLATE: [&str; 4] = ["spec", "template", "spec", "priorityClassName"];

/// The queue `q`, of a ClusterQueue that allows these classes of the test.
async fn queue_with(scene: &Scene<'_>, cpu: &str, classes: Value) -> Result<()> {
    let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", cpu)]);
    scene
        .queue_like(with(queue, "/spec/priorityClasses", classes))
        .await
}

fn of_class(class: Option<&str>) -> Value {
    json!({"metadata": {"labels": {(PRIORITY_CLASS_LABEL): class}}})
}

async fn see_priority(scene: &Scene<'_>, job: &str, priority: i32) -> Result<()> {
    let what = format!("of priority {priority}");
    let see = scene.see_workload(job, &what, |w| w["spec"]["priority"] == priority);
    see.await.map(drop)
}

/// Waits until the Workload of a job says that its class is not allowed; it has no priority then.
async fn see_not_allowed(scene: &Scene<'_>, job: &str) -> Result<String> {
    let workload = scene
        .see_workload(job, "not allowed", |w| {
            condition(w, "QuotaReserved")
                .is_some_and(|(status, reason, _)| status == "False" && reason == REASON)
        })
        .await?;
    let (_, _, message) = condition(&workload, "QuotaReserved").unwrap_or_default();
    Ok(message.to_owned())
}

async fn a_class_that_is_not_allowed_is_not_queued_by_any_road(admission: Admission) -> Result<()> {
    play(admission, "classes-roads", async |scene| {
        classes(scene).await?;
        for (name, value) in [("gold", 1_000_000), ("silver", 3)] {
            scene.create(&pod_class(scene, name, value)).await?;
        }
        let [low, gold, silver] = ["low", "gold", "silver"].map(|name| scene.name(name));
        queue_with(scene, "20", json!({"allowed": [low, silver]})).await?;

        // By the label, by the template, and by an edit while it waits.
        scene.create(&job_of(scene, "high", "label").json()).await?;
        let told = see_not_allowed(scene, "label").await?;
        let high = scene.name("high");
        let (first, second) = if low < silver { (&low, &silver) } else { (&silver, &low) };
        let expected = format!(
            "Can't be queued: ClusterQueue {:?} does not allow this priority class: metadata.labels[{PRIORITY_CLASS_LABEL}]: Unsupported value: {high:?}: supported values: {first:?}, {second:?}",
            scene.ns
        );
        ensure!(told == expected, "{told}");
        ensure!(scene.see_event("label", REASON).await? == expected);
        let workload = scene.find_workload("label").await?.unwrap();
        ensure!(workload["spec"]["priority"] == 0, "{workload}");
        ensure!(workload["spec"]["priorityClassRef"].is_null(), "{workload}");
        scene
            .create(&Job::new("template").queue("q").with(&OF_TEMPLATE, json!(gold)).json())
            .await?;
        let told = see_not_allowed(scene, "template").await?;
        ensure!(told.contains("spec.priorityClassName of its pods: Unsupported value"), "{told}");
        let allowed = Job::new("silver").queue("q").with(&OF_TEMPLATE, json!(silver));
        scene.create(&allowed.json()).await?;
        scene.see_admitted("silver").await?;
        see_priority(scene, "silver", 3).await?;

        // By a pod, and by the pods of a Deployment, which takes the label down.
        let pod = Pod::new("pod").queue("q").priority_class(&high);
        let gated = [
            pod.json(),
            Pod::new("of-gold").queue("q").with(&["spec", "priorityClassName"], json!(gold)).json(),
        ];
        for pod in &gated {
            scene.create(pod).await?;
            scene.see_event(name_of(pod), REASON).await?;
        }
        let mut deployment = replicated("Deployment", "d", 1, Pod::new("").queue("q"));
        deployment["metadata"]["labels"] = json!({(PRIORITY_CLASS_LABEL): high, (sluice_crds::QUEUE_NAME_LABEL): "q"});
        scene.create(&deployment).await?;
        let made = scene
            .see_so_many("of the Deployment", 1, |pod| pod["metadata"]["labels"]["app"] == "d")
            .await?;
        scene.see_event(name_of(&made[0]), REASON).await?;
        // A group has the class of its oldest pod.
        let crew = |name: &str| {
            let member = Pod::new(name).queue("q").group("crew", 2);
            member.priority_class(&high).json()
        };
        let oldest = scene.create(&crew("g1")).await?;
        see_a_second_pass(&oldest["metadata"]["creationTimestamp"]).await?;
        scene.create(&crew("g2")).await?;
        scene.see_event("g1", REASON).await?;

        // A job that ran before is queued behind it all the same: nothing of these was admitted meanwhile.
        let last = job_of(scene, "low", "last");
        let created = scene.create(&last.json()).await?;
        scene.see_complete("last").await?;
        see_a_second_pass(&created["metadata"]["creationTimestamp"]).await?;
        for job in ["label", "template"] {
            let workload = scene.find_workload(job).await?.unwrap();
            ensure!(!is_admitted(&workload), "{workload}");
        }
        for pod in ["pod", "of-gold", "g1", "g2", name_of(&made[0])] {
            let pod = scene.get("Pod", pod).await?;
            ensure!(has_queue_gate(&pod), "{pod}");
        }
        // Each goes on once it names another class.
        scene.merge("Job", "label", of_class(Some(&low))).await?;
        scene.see_complete("label").await?;
        scene.merge("Pod", "pod", of_class(Some(&low))).await?;
        scene.see("Pod", "pod", "running", is_running).await?;
        Ok(())
    })
    .await
}

async fn a_class_is_allowed_or_not_from_now_on(admission: Admission) -> Result<()> {
    play(admission, "classes-later", async |scene| {
        classes(scene).await?;
        let [low, mid, high] = ["low", "mid", "high"].map(|name| scene.name(name));
        queue_with(scene, "1", json!({"allowed": [low, mid, high]})).await?;
        let runs = job_of(scene, "high", "runs").runs_forever();
        scene.create(&runs.json()).await?;
        scene.see_pods("Running", 1).await?;
        scene.create(&job_of(scene, "mid", "waits").json()).await?;
        see_priority(scene, "waits", 50).await?;

        // What waits is told, what runs runs on.
        let only_low = json!({"spec": {"priorityClasses": {"allowed": [low]}}});
        scene.merge("ClusterQueue", &scene.ns, only_low).await?;
        see_not_allowed(scene, "waits").await?;
        let running = scene.find_workload("runs").await?.unwrap();
        ensure!(
            is_admitted(&running) && running["spec"]["priority"] == 100,
            "{running}"
        );
        // An edit brings it no other class that is not allowed.
        scene.merge("Job", "runs", of_class(Some(&mid))).await?;
        scene.create(&job_of(scene, "low", "second").json()).await?;
        see_priority(scene, "second", 1).await?;
        let running = scene.find_workload("runs").await?.unwrap();
        ensure!(
            running["spec"]["priority"] == 100,
            "it keeps what it had: {running}"
        );

        // The one that waits keeps its place, and takes it once it may.
        let low_and_mid = json!({"spec": {"priorityClasses": {"allowed": [low, mid]}}});
        scene.merge("ClusterQueue", &scene.ns, low_and_mid).await?;
        see_priority(scene, "runs", 50).await?;
        scene.delete("Job", "runs").await?;
        scene.see_complete("waits").await?;
        scene.see_complete("second").await?;
        Ok(())
    })
    .await
}

async fn what_names_no_class_has_the_default(admission: Admission) -> Result<()> {
    play(admission, "classes-default", async |scene| {
        classes(scene).await?;
        scene.create(&pod_class(scene, "pods", 7)).await?;
        let [mid, low, pods] = ["mid", "low", "pods"].map(|name| scene.name(name));
        queue_with(scene, "20", json!({"allowed": [mid, low, pods], "default": mid})).await?;
        let job = |name: &str| Job::new(name).queue("q").runs_forever();
        let cases = [
            (job("none"), 50, Some(&mid)),
            (job("named").priority_class(&low), 1, Some(&low)),
            (job("of-pods").with(&OF_TEMPLATE, json!(pods)), 7, Some(&pods)),
        ];
        for (job, priority, class) in cases {
            let job = job.json();
            scene.create(&job).await?;
            let workload = scene.see_admitted(name_of(&job)).await?;
            ensure!(workload["spec"]["priority"] == priority, "{workload}");
            let named = workload["spec"]["priorityClassRef"]["name"].as_str();
            ensure!(named == class.map(String::as_str), "{workload}");
        }
        scene.create(&Pod::new("pod").queue("q").json()).await?;
        let pod = scene.see("Pod", "pod", "running", is_running).await?;
        let record = pod["metadata"]["annotations"]["sluice.dev/admitted"].as_str();
        ensure!(record.is_some_and(|record| record.contains("\"priority\":50")), "{pod}");

        // A default that is not there is told.
        let missing = scene.name("missing");
        let renamed = json!({"spec": {"priorityClasses": {"allowed": [mid, missing], "default": missing}}});
        scene.merge("ClusterQueue", &scene.ns, renamed).await?;
        scene.create(&job("late").json()).await?;
        let told = scene.see_event("late", "PriorityClassNotFound").await?;
        ensure!(
            told == format!(
                "Can't be queued: there is no WorkloadPriorityClass {missing:?}, the default of ClusterQueue {:?}; create it, or name another class in the label {PRIORITY_CLASS_LABEL}",
                scene.ns
            ),
            "{told}"
        );
        scene.create(&priority_class(&missing, 9)).await?;
        see_priority(scene, "late", 9).await
    })
    .await
}

/// A tenant with `edit` and rights to LocalQueues.
async fn a_tenant_widens_nothing(admission: Admission) -> Result<()> {
    play(admission, "classes-tenant", async |scene| {
        classes(scene).await?;
        let [low, high] = ["low", "high"].map(|name| scene.name(name));
        queue_with(scene, "1", json!({"allowed": [low]})).await?;
        let user = scene.editor("tenant").await?;
        let tenant = scene.acting_as(&user)?;
        tenant.create(&local_queue("mine", &scene.ns)).await?;
        let job = Job::new("mine").queue("mine").priority_class(&high);
        tenant.create(&job.json()).await?;
        see_not_allowed(scene, "mine").await?;
        // What he writes into the LocalQueue is no field of it; into the Workload he may not write.
        let spec = json!({"spec": {"priorityClasses": {"allowed": [high]}}});
        tenant.try_merge("LocalQueue", "mine", spec.clone()).await?;
        let queue = scene.get("LocalQueue", "mine").await?;
        ensure!(queue["spec"].get("priorityClasses").is_none(), "{queue}");
        let told = refusal(tenant.try_merge("ClusterQueue", &scene.ns, spec).await)?;
        ensure!(told.contains("forbidden"), "{told}");
        let workload = scene.find_workload("mine").await?.unwrap();
        let raised = json!({"spec": {"priority": 1000}});
        let told = refusal(
            tenant
                .try_merge("Workload", name_of(&workload), raised)
                .await,
        )?;
        ensure!(
            told.contains("is written by Sluice alone") || told.contains("forbidden"),
            "{told}"
        );
        // Without the label it is queued, as what names no class.
        let created = tenant.merge("Job", "mine", of_class(None)).await?;
        scene.see_complete("mine").await?;
        ensure!(name_of(&created) == "mine");
        eventually("the event to be told once", DEADLINE, async || {
            let told = scene.events("mine").await?;
            let told = told.iter().filter(|(reason, _)| reason == REASON).count();
            ensure!(told == 1, "{told} times");
            Ok::<_, anyhow::Error>(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn the_author_is_told_of_a_class_that_is_not_allowed() -> Result<()> {
    play(Admission::Webhooks, "classes-told", async |scene| {
        classes(scene).await?;
        let low = scene.name("low");
        queue_with(scene, "1", json!({"allowed": [low]})).await?;
        let warning = format!(
            "Warning: ClusterQueue {:?} does not allow this priority class: metadata.labels[{PRIORITY_CLASS_LABEL}]: Unsupported value: {:?}: supported values: {low:?}; the object can't be queued",
            scene.ns,
            scene.name("high")
        );
        // Each replica knows the queue a moment later.
        eventually("the warning", DEADLINE, async || {
            let job = job_of(scene, "high", "j").manifest();
            let args = ["create", "--dry-run=server", "-f", "-"];
            let output = scene.kubectl(&args, Some(&job)).await?;
            ensure!(output.stderr.contains(&warning), "{}", output.stderr);
            Ok::<_, anyhow::Error>(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn the_default_is_one_of_the_allowed() -> Result<()> {
    play(Admission::Webhooks, "classes-bad", async |scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
        let classes = json!({"allowed": ["low"], "default": "high"});
        let bad = with(queue, "/spec/priorityClasses", classes);
        let told = refusal(scene.try_create(&bad).await)?;
        ensure!(
            told.contains("spec.priorityClasses: Invalid value: default must be one of allowed"),
            "{told}"
        );
        Ok(())
    })
    .await
}
