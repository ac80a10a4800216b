//! Objects that are admitted as a whole and wait as gated pods: kinds that can't be suspended, and jobs
//! whose templates bring gates of their own.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::QUEUE_GATE;
use sluice_testbed::{Options, SluiceOptions, eventually};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::history::Revision;
use crate::support::objects::{
    GATED, Job, condition, is_admitted, is_complete, name_of, own, quota, revision_of,
};
use crate::support::pods::{
    Pod, check_gates, check_usage, gates, has_queue_gate, is_released, is_running,
    is_scheduling_gated, queued, released_at, replicated,
};
use crate::support::{DEADLINE, Scene, bed};

both_ways!(gates_of_the_template_come_first,);

pub const GATE: &str = "example.com/node";

/// A job of pods that have a gate of somebody else's from their template.
pub fn gated_job(name: &str, pods: u32) -> Job {
    let gates = ["spec", "template", "spec", "schedulingGates"];
    Job::new(name)
        .queue("q")
        .pods(pods)
        .with(&gates, json!([{ "name": GATE }]))
}

fn is_held(pod: &Value) -> bool {
    gates(pod).contains(&GATE)
}

/// No quota while one of them is held; then all start together.
async fn gates_of_the_template_come_first(admission: Admission) -> Result<()> {
    play(admission, "whole-gates", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let (pods, workloads) = (scene.record("Pod").await?, scene.record("Workload").await?);
        scene
            .create(&gated_job("train", 3).runs("0.5").json())
            .await?;
        let held = scene
            .see_so_many("gated twice", 3, |pod| {
                is_held(pod) && has_queue_gate(pod) && is_scheduling_gated(pod)
            })
            .await?;
        let mut opened = BTreeSet::new();
        for pod in &held[..2] {
            opened.insert(scene.open_gate(name_of(pod), GATE).await?);
        }
        // The quota is somebody else's as long as one is held.
        scene
            .create(&Pod::new("other").queue("q").cpu("3").json())
            .await?;
        scene.see("Pod", "other", "running", is_running).await?;
        let last = scene.open_gate(name_of(&held[2]), GATE).await?;
        opened.insert(last);
        scene
            .see_workload("train", "told what it waits for", |workload| {
                condition(workload, "QuotaReserved").is_some_and(|(status, reason, _)| {
                    (status, reason) == ("False", "WaitingForQuota")
                })
            })
            .await?;
        scene.see_so_many("waiting", 3, has_queue_gate).await?;
        scene.delete("Pod", "other").await?;
        scene.see_complete("train").await?;

        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "3", |_| true)?;
        check_gates(&history, &opened)?;
        let admitted = first_admission(&scene.history("Workload", &workloads).await?)?;
        ensure!(
            last < admitted,
            "admitted at {admitted}, and held until {last}"
        );
        for pod in &held {
            let at = released_at(&history, name_of(pod));
            ensure!(Some(admitted) < at, "released at {at:?}, before {admitted}");
        }
        Ok(())
    })
    .await
}

fn first_admission(workloads: &[Revision]) -> Result<u128> {
    let admitted = workloads.iter().find(|r| is_admitted(&r.object));
    admitted
        .map(|r| r.number)
        .ok_or_else(|| anyhow::anyhow!("nothing was ever admitted"))
}

/// More pods than run at a time: each that comes is released on sight, as its place is paid for.
#[tokio::test]
async fn later_pods_take_the_places_of_those_that_ended() -> Result<()> {
    bed::shared("whole-later", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let (pods, workloads) = (scene.record("Pod").await?, scene.record("Workload").await?);
        let job = gated_job("steps", 2).with(&["spec", "completions"], json!(5));
        scene.create(&job.runs("0.2").json()).await?;
        let mut opened = BTreeSet::new();
        eventually("the job to be complete", 2 * DEADLINE, async || {
            for pod in scene.list("Pod").await.map_err(|e| format!("{e:#}"))? {
                if is_held(&pod) {
                    let open = scene.open_gate(name_of(&pod), GATE).await;
                    opened.insert(open.map_err(|e| format!("{e:#}"))?);
                }
            }
            let job = scene
                .get("Job", "steps")
                .await
                .map_err(|e| format!("{e:#}"))?;
            if is_complete(&job) {
                Ok(())
            } else {
                Err(job["status"].to_string())
            }
        })
        .await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true)?;
        check_gates(&history, &opened)?;
        let names: BTreeSet<&str> = history.iter().map(|r| name_of(&r.object)).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        let workloads = scene.history("Workload", &workloads).await?;
        let uids: BTreeSet<String> = workloads
            .iter()
            .map(|r| r.object["metadata"]["uid"].to_string())
            .collect();
        assert_eq!(uids.len(), 1, "{uids:?}");
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await
            .map(drop)
    })
    .await
}

/// A control plane where ReplicaSets are admitted as a whole: a JobKind, the right to read them, and
/// the webhooks asked about them, as an administrator sets it up.
async fn with_replica_sets(
    prefix: &str,
    test: impl AsyncFn(&Scene<'_>) -> Result<()>,
) -> Result<()> {
    let sluice = SluiceOptions::new(bed::BINARY);
    let options = Options::with_crds()?;
    bed::own(prefix, sluice, options, async |bed, scene| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": "sluice-jobkind-replicaset",
                "labels": { "sluice.dev/aggregate-to-controller": "true" },
            },
            "rules": [{
                "apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch"],
            }],
        });
        let kind = own(
            "JobKind",
            "replicaset",
            json!({
                "group": "apps",
                "version": "v1",
                "kind": "ReplicaSet",
                "admission": "Whole",
                "podSets": [{
                    "name": "main",
                    "template": ".spec.template",
                    "count": "has(object.spec.replicas) ? object.spec.replicas : 1",
                }],
            }),
        );
        bed.sluice.start().await?;
        scene.create_all(&[role, kind]).await?;
        for configuration in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let rule = json!([{"op": "add", "path": "/webhooks/0/rules/-", "value": {
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["replicasets"], "scope": "Namespaced",
            }}]);
            let patch = rule.to_string();
            let args = ["patch", configuration, "sluice", "--type=json", "-p", &patch];
            scene.kubectl(&args, None).await?.ok()?;
        }
        scene
            .see_condition("JobKind", "replicaset", "Ready", "True", "Watched")
            .await?;
        // The API server has heard of the rule when a ReplicaSet comes back with a gate.
        let probe = queued(replicated("ReplicaSet", "probe", 0, Pod::new("")));
        eventually("ReplicaSets to be held", DEADLINE, async || {
            let params = kube::api::PostParams { dry_run: true, field_manager: None };
            let probe = serde_json::from_value(probe.clone()).unwrap();
            let shown = scene.api("ReplicaSet").create(&params, &probe).await;
            let shown = crate::support::into_value(shown.map_err(|e| e.to_string())?);
            if gates(&shown["spec"]["template"]) == [QUEUE_GATE] {
                Ok(())
            } else {
                Err(shown.to_string())
            }
        })
        .await?;
        test(scene).await
    })
    .await
}

async fn scale(scene: &Scene<'_>, name: &str, replicas: u32) -> Result<Value> {
    let patch = json!({"spec": {"replicas": replicas}});
    scene.merge("ReplicaSet", name, patch).await
}

/// The only Workload.
async fn see_the_workload(
    scene: &Scene<'_>,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually(
        &format!("the Workload to be {what}"),
        DEADLINE,
        async || {
            let all = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            match all.as_slice() {
                [workload] if is_so(workload) => Ok(workload.clone()),
                others => Err(format!("{others:?}")),
            }
        },
    )
    .await
}

/// Pods that can't be made can't lose their gates either: the Workload says what it waits for.
#[tokio::test]
async fn pods_that_are_yet_to_be_made_are_waited_for() -> Result<()> {
    bed::shared("whole-missing", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let account = ["spec", "template", "spec", "serviceAccountName"];
        let job = gated_job("train", 1).with(&account, json!("missing"));
        scene.create(&job.json()).await?;
        let expected = "Not queued: its pod template has scheduling gates of others, and not all of its pods exist; it is queued when these gates are gone and all pods exist, or none comes for a minute";
        scene
            .see_workload("train", "told what it waits for", |workload| {
                condition(workload, "QuotaReserved")
                    == Some(("False", "SchedulingGated", expected))
            })
            .await
            .map(drop)
    })
    .await
}

/// In place of pods that have succeeded none comes any more: who is queued again waits for those that are left.
#[tokio::test]
async fn pods_that_have_succeeded_are_not_waited_for() -> Result<()> {
    bed::shared("whole-left", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let job = gated_job("train", 2).runs_forever();
        scene.create(&job.json()).await?;
        for pod in scene.see_so_many("gated twice", 2, is_held).await? {
            scene.open_gate(name_of(&pod), GATE).await?;
        }
        let running = scene.see_so_many("running", 2, is_running).await?;
        scene.end(name_of(&running[0])).await?;
        let has_succeeded = |job: &Value| job["status"]["succeeded"] == 1;
        scene
            .see("Job", "train", "done by half", has_succeeded)
            .await?;
        let workload = scene.see_admitted("train").await?;
        let active = |is_active: bool| json!({"spec": {"active": is_active}});
        let name = name_of(&workload);
        scene.merge("Workload", name, active(false)).await?;
        scene
            .see_workload("train", "without quota", |w| {
                w["status"]["admission"].is_null()
            })
            .await?;
        scene.merge("Workload", name, active(true)).await?;
        let left = scene.see_so_many("gated again", 1, is_held).await?;
        scene.open_gate(name_of(&left[0]), GATE).await?;
        scene.see_so_many("running again", 1, is_running).await?;
        let workload = scene.see_admitted("train").await?;
        ensure!(
            condition(&workload, "Requeued")
                .is_some_and(|(status, reason, _)| (status, reason) == ("False", "Admitted")),
            "{workload}"
        );
        scene.end(name_of(&left[0])).await?;
        scene.see_complete("train").await.map(drop)
    })
    .await
}

/// Gates, then quota for all, then all; later ones in their places, and none above the count. Told to
/// drain, they go, and those that come instead wait.
#[tokio::test]
async fn what_can_not_be_suspended_waits_as_pods() -> Result<()> {
    with_replica_sets("whole-set", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "2")]).await?;
        let (pods, workloads) = (scene.record("Pod").await?, scene.record("Workload").await?);
        let mut set = queued(replicated("ReplicaSet", "set", 3, Pod::new("")));
        set["metadata"]["annotations"][GATED] = json!("example.com/budget");
        scene.create(&set).await?;
        scene
            .see_so_many("gated twice", 3, |pod| gates(pod).len() == 2 && is_scheduling_gated(pod))
            .await?;
        let told = scene.see_event("set", "Gated").await?;
        assert_eq!(told, "Held until these gates are removed: example.com/budget");
        // Held, it holds nothing.
        scene.create(&Pod::new("other").queue("q").json()).await?;
        scene.see("Pod", "other", "running", is_running).await?;
        ensure!(workloads.so_far().is_empty(), "{:?}", workloads.so_far());
        let gone = json!({"metadata": {"annotations": {(GATED): null}}});
        let lifted = scene.merge("ReplicaSet", "set", gone).await?;
        scene
            .see_so_many("waiting for quota", 3, |pod| gates(pod) == [QUEUE_GATE])
            .await?;
        let message = format!(
            "can never be admitted to ClusterQueue \"{ns}\": insufficient quota for cpu in flavor \"{ns}\": requests 3, more than the maximum capacity (nominal quota 2)"
        );
        see_the_workload(scene, "told that it never fits", |workload| {
            condition(workload, "QuotaReserved") == Some(("False", "ExceedsMaxQuota", message.as_str()))
        })
        .await?;
        scene.set_cpu("3").await?;
        // There is quota for two of them, and none starts; when all fit, all do.
        let message = format!(
            "couldn't be admitted to ClusterQueue \"{ns}\": insufficient unused quota for cpu in flavor \"{ns}\": requests 3 (nominal quota 3)"
        );
        see_the_workload(scene, "told that it doesn't fit now", |workload| {
            condition(workload, "QuotaReserved") == Some(("False", "WaitingForQuota", message.as_str()))
        })
        .await?;
        scene.see_so_many("waiting for quota", 3, has_queue_gate).await?;
        scene.delete("Pod", "other").await?;
        let running = scene.see_so_many("running", 3, is_running).await?;
        scene.see_account("cpu", ("3", "3", "0"), 0).await?;

        // In the place of one that is gone another one runs, at once.
        scene.delete("Pod", name_of(&running[0])).await?;
        scene
            .see_so_many("running, another one among them", 3, |pod| {
                is_running(pod) && name_of(pod) != name_of(&running[0])
            })
            .await?;
        // One above the count waits, though there is quota.
        scene.set_cpu("5").await?;
        scale(scene, "set", 4).await?;
        let fourth = scene.see_so_many("gated", 1, is_scheduling_gated).await?;
        scene.create(&Pod::new("marker").queue("q").json()).await?;
        scene.see("Pod", "marker", "running", is_running).await?;
        let fourth = scene.get("Pod", name_of(&fourth[0])).await?;
        ensure!(has_queue_gate(&fourth), "{fourth}");
        scale(scene, "set", 3).await?;
        scene.see_so_many("left", 4, |_| true).await?;

        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "5", |_| true)?;
        check_gates(&history, &BTreeSet::new())?;
        let of_set = |pod: &Value| pod["metadata"]["labels"]["app"] == "set";
        check_usage(&history, "pods", "3", of_set)?;
        let admitted = first_admission(&scene.history("Workload", &workloads).await?)?;
        let lifted = revision_of(&lifted);
        ensure!(lifted < admitted, "admitted at {admitted}, and held until {lifted}");
        for revision in history.iter().filter(|r| of_set(&r.object)) {
            ensure!(
                admitted < revision.number || !is_released(&revision.object),
                "released before {admitted}: {}",
                revision.object
            );
        }

        scene.delete("Pod", "marker").await?;
        scene.stop("HoldAndDrain").await?;
        scene.see_so_many("gated", 3, is_scheduling_gated).await?;
        scene.see_so_many("running", 0, is_running).await?;
        see_the_workload(scene, "without admission", |w| !is_admitted(w)).await?;
        scene
            .see("LocalQueue", "q", "with a pending job and no usage", |queue| {
                let status = &queue["status"];
                status["pendingWorkloads"] == 1 && status["reservingWorkloads"] == 0
            })
            .await?;
        scene.stop("None").await?;
        scene.see_so_many("running", 3, is_running).await?;
        scene.see_account("cpu", ("3", "3", "0"), 0).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "5", |_| true)?;
        check_gates(&history, &BTreeSet::new())?;
        // Deleted, it holds nothing.
        scene.delete("ReplicaSet", "set").await?;
        scene.see("LocalQueue", "q", "idle", crate::queues::quota::is_idle).await.map(drop)
    })
    .await
}
