//! `kubectl sluice uninstall` and gates: what nobody lifts any more leaves pods and pod templates, and gates of others stay.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION, QUEUE_GATE};
use sluice_testbed::{SluiceOptions, eventually};

use super::uninstall::uninstall;
use crate::support::admission::own_with_policies;
use crate::support::bed::{self, BINARY, Bed};
use crate::support::enforcement::{Fate, cron_job, enforce, is_required};
use crate::support::objects::{GATES, Job, is_suspended, name_of, quota, with};
use crate::support::plugin::run;
use crate::support::pods::{Pod, gates, has_queue_gate, is_running, queued, replicated};
use crate::support::{DEADLINE, Scene};

const LIFTED: &str = "lifted.uninstall.example.com/x";
const STAYS: &str = "stays.uninstall.example.com/x";

/// Plays with webhooks, and with policies.
macro_rules! on_its_own {
    ($($name:ident: $test:ident, $prefix:literal;)+) => {
        $(mod $name {
            #[tokio::test]
            async fn with_webhooks() -> anyhow::Result<()> {
                let sluice = super::SluiceOptions::new(super::BINARY);
                super::bed::own_unsupervised(concat!($prefix, "-w"), sluice, super::$test).await
            }

            #[tokio::test]
            async fn with_policies() -> anyhow::Result<()> {
                super::own_with_policies(concat!($prefix, "-p"), super::$test).await
            }
        })+
    };
}

on_its_own! {
    lifted_gates: gates_that_were_lifted_leave_templates, "away-lifted";
    fixed_templates: jobs_whose_template_is_fixed_are_told_of, "away-fixed";
    evicted_groups: pods_of_an_evicted_group_stay, "away-evicted";
    required_queues: what_needs_a_queue_is_released, "away-required";
}

fn gated(kind: &str, name: &str, gates: &str) -> Value {
    let object = replicated(kind, name, 1, Pod::new("").runs("forever"));
    with(object, "/metadata/annotations", json!({(GATES): gates}))
}

/// Waits until so many pods of the object run, and no others are there.
async fn see_running(scene: &Scene<'_>, name: &str, count: usize) -> Result<()> {
    let what = format!("{count} pods of {name} to run");
    eventually(&what, DEADLINE, async || {
        let mut pods = scene.list("Pod").await?;
        pods.retain(|pod| pod["metadata"]["labels"]["app"] == name);
        let running = pods.iter().filter(|pod| is_running(pod)).count();
        ensure!(running == count && pods.len() == count, "{pods:?}");
        Ok(())
    })
    .await
}

fn template_gates(object: &Value) -> Vec<&str> {
    gates(&object["spec"]["template"])
}

async fn gates_that_were_lifted_leave_templates(bed: &Bed, scene: &Scene<'_>) -> Result<()> {
    scene.queue(&[quota("cpu", "9")]).await?;
    let objects = [
        gated("Deployment", "service", LIFTED),
        queued(gated("Deployment", "queued", LIFTED)),
        queued(gated("StatefulSet", "set", LIFTED)),
    ];
    for object in &objects {
        let stored = scene.create(object).await?;
        ensure!(template_gates(&stored).contains(&LIFTED), "{stored}");
    }
    let both = format!("{LIFTED},{STAYS}");
    scene.create(&gated("Deployment", "held", &both)).await?;
    for object in &objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        let lifted = json!({"metadata": {"annotations": {(GATES): null}}});
        scene.merge(kind, name_of(object), lifted).await?;
        see_running(scene, name_of(object), 1).await?;
    }
    let lifted = json!({"metadata": {"annotations": {(GATES): STAYS}}});
    scene.merge("Deployment", "held", lifted).await?;

    let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    for (kind, name) in [
        ("deployment", "service"),
        ("deployment", "queued"),
        ("deployment", "held"),
        ("statefulset", "set"),
    ] {
        let ns = &scene.ns;
        let line = format!("{kind}.apps/{name} in {ns}: gate taken out of its pod template\n");
        ensure!(told.contains(&line), "no {line} in {told}");
    }
    // Pods that come later run too.
    for object in &objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        scene
            .merge(kind, name_of(object), json!({"spec": {"replicas": 2}}))
            .await?;
        see_running(scene, name_of(object), 2).await?;
    }
    let held = scene.get("Deployment", "held").await?;
    ensure!(template_gates(&held) == [STAYS], "{held}");
    eventually(
        "its pod to wait for that gate alone",
        DEADLINE,
        async || {
            let mut pods = scene.list("Pod").await?;
            pods.retain(|pod| pod["metadata"]["labels"]["app"] == "held");
            ensure!(
                !pods.is_empty() && pods.iter().all(|pod| gates(pod) == [STAYS]),
                "{pods:?}"
            );
            Ok(())
        },
    )
    .await
}

/// A StatefulSet that makes one group of pods, which waits and is taken out of its queue.
async fn pods_of_an_evicted_group_stay(bed: &Bed, scene: &Scene<'_>) -> Result<()> {
    scene.queue(&[quota("cpu", "1")]).await?;
    let pod = Pod::new("p")
        .label("acme.io/gang", "red")
        .annotation("acme.io/size", "2")
        .annotation(POD_GROUP_LABELS_ANNOTATION, "acme.io/gang")
        .annotation(POD_GROUP_TOTAL_FROM_ANNOTATION, "acme.io/size")
        .runs("forever");
    let set = queued(replicated("StatefulSet", "gang", 2, pod));
    scene
        .create(&with(set, "/spec/podManagementPolicy", json!("Parallel")))
        .await?;
    scene.see_so_many("waiting", 2, has_queue_gate).await?;
    scene
        .see("Workload", "red-pod-group", "there", |_| true)
        .await?;
    let ns = &scene.ns;
    let evict = format!("evict podgroup/red -n {ns}");
    let (code, told, left) = run(bed, &evict).await?;
    ensure!(code == 0, "{code}: {told} {left}");

    let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    let inactive = |name: &str| {
        format!(
            "left: pod/{name} in {ns} stays behind the gate {QUEUE_GATE}: it was taken out of its queue\n"
        )
    };
    for line in [
        format!(
            "left: statefulset.apps/gang in {ns}: Sluice's gate is in its pod template, so pods that are still to come wait: a group of its pods was taken out of its queue\n"
        ),
        inactive("gang-0"),
        inactive("gang-1"),
    ] {
        ensure!(left.contains(&line), "no {line} in {left}");
    }
    scene.see_so_many("waiting", 2, has_queue_gate).await?;
    // It is queued again, as far as anything is.
    let active = json!({"spec": {"active": true}});
    scene.merge("Workload", "red-pod-group", active).await?;
    let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    see_running(scene, "gang", 2).await
}

async fn what_needs_a_queue_is_released(bed: &Bed, scene: &Scene<'_>) -> Result<()> {
    enforce(scene, Some("Hold"), Fate::Held).await?;
    let job = Job::new("job").runs_forever();
    let deployment = replicated("Deployment", "service", 1, Pod::new("").runs("forever"));
    let set = replicated("StatefulSet", "set", 1, Pod::new("").runs("forever"));
    for object in [
        job.json(),
        deployment,
        set,
        Pod::new("bare").runs("forever").json(),
    ] {
        let stored = scene.create(&object).await?;
        ensure!(is_required(&stored), "{stored}");
    }
    let cron = cron_job("cron", json!({}), &Job::new("").runs_forever());
    scene.create(&cron).await?;
    let args = ["create", "job", "--from=cronjob/cron", "of-cron"];
    scene.kubectl(&args, None).await?.ok()?;
    let both = format!("{STAYS},sluice.dev/queue-required");
    scene.create(&Job::new("gated").gates(&both).json()).await?;

    let ns = &scene.ns;
    let (code, told, left) = uninstall(bed, &[]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    let line = format!(
        "left: job.batch/job in {ns} stays suspended: its namespace requires a queue, and it names none\n"
    );
    ensure!(left.contains(&line), "no {line} in {left}");
    let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    for line in [
        format!("job.batch/job in {ns} started\n"),
        format!("job.batch/of-cron in {ns} started\n"),
        format!("deployment.apps/service in {ns}: gate taken out of its pod template\n"),
        format!("statefulset.apps/set in {ns}: gate taken out of its pod template\n"),
        format!("pod/bare in {ns}: gate taken off\n"),
    ] {
        ensure!(told.contains(&line), "no {line} in {told}");
    }
    let line = format!("left: job.batch/gated in {ns} stays suspended: held by {STAYS}\n");
    ensure!(left == line, "not only {line}, but {left}");
    scene.see_pods("Running", 5).await?;
    for name in ["service", "set"] {
        see_running(scene, name, 1).await?;
    }
    let started = scene.get("Job", "job").await?;
    ensure!(
        !is_required(&started) && !is_suspended(&started),
        "{started}"
    );
    Ok(())
}

/// The template of a Job that is not suspended can't be changed.
async fn jobs_whose_template_is_fixed_are_told_of(bed: &Bed, scene: &Scene<'_>) -> Result<()> {
    scene.queue(&[quota("cpu", "1")]).await?;
    let each = Job::new("each")
        .queue("q")
        .annotation("sluice.dev/admission", "PerPod")
        .pods(2)
        .runs_forever()
        .with(&["spec", "backoffLimit"], json!(9));
    let external = Job::new("external").queue("q").runs_forever().with(
        &["spec", "template", "spec", "schedulingGates"],
        json!([{"name": STAYS}]),
    );
    scene.create(&each.json()).await?;
    scene.create(&external.json()).await?;
    scene.see_pods("Running", 1).await?;
    scene.see_pods("Pending", 2).await?;
    let fixed = |name: &str| {
        let ns = &scene.ns;
        format!(
            "left: job.batch/{name} in {ns}: Sluice's gate is in its pod template, so pods that are still to come wait; the template can't be changed: run this again when they are there, to take the gate off them\n"
        )
    };
    for flags in [&["--release-jobs", "--dry-run"][..], &["--release-jobs"]] {
        let (code, told, left) = uninstall(bed, flags).await?;
        ensure!(code == 0, "{code}: {told} {left}");
        for name in ["each", "external"] {
            ensure!(left.contains(&fixed(name)), "no {} in {left}", fixed(name));
        }
        ensure!(
            !left.contains("error") && !left.contains("Invalid value"),
            "{left}"
        );
    }
    scene.see_pods("Running", 2).await?;
    // A pod that comes later waits until the command is run again.
    let pods = scene.list("Pod").await?;
    let running = pods.iter().find(|pod| is_running(pod)).map(name_of);
    scene.delete("Pod", running.unwrap_or_default()).await?;
    eventually("another pod to come and run", DEADLINE, async || {
        let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
        ensure!(code == 0, "{code}: {told} {left}");
        ensure!(told.contains(": gate taken off\n"), "{told}");
        Ok(())
    })
    .await?;
    scene.see_pods("Running", 2).await.map(drop)
}
