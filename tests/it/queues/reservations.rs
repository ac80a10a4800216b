//! Quota that is held and can't be used goes to the next: no node in time, or nobody may release it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_crds::{ADMITTED_ANNOTATION, QUEUE_GATE};
use sluice_testbed::{Sluice, eventually, wait_for};

use crate::support::history::Revision;
use crate::support::nodes::{job_for_own_nodes, own_node, pod_for_own_nodes};
use crate::support::objects::{
    self, Job, condition, here, is, is_admitted, is_suspended, name_of, quota, with,
};
use crate::support::pods::{
    Pod, check_gates, check_usage, gates, has_queue_gate, is_running, is_unschedulable,
    released_at, replicated,
};
use crate::support::{DEADLINE, Scene, bed};

/// How long quota may be held without a node, in seconds: longer than a busy scheduler takes for a pod that has one, or
/// that one is evicted too.
const TIMEOUT: i64 = 6;

/// A queue of 1 cpu that takes it back from who has no node in time.
async fn impatient_queue(scene: &Scene<'_>, backoff: Value) -> Result<()> {
    let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
    let terms = json!({ "timeoutSeconds": TIMEOUT, "backoff": backoff });
    scene
        .queue_like(with(queue, "/spec/reservation", terms))
        .await
}

/// A job for nodes of the test, of which there are none at first.
fn homeless_job(scene: &Scene<'_>, name: &str) -> Job {
    job_for_own_nodes(scene, Job::new(name).queue("q"))
}

/// How often something of this queue was evicted for a reason, by Sluice's metrics.
async fn evictions(sluice: &Sluice, queue: &str, reason: &str) -> Result<u64> {
    let text = sluice.metrics().await?;
    let mut lines = text.lines().filter(|line| {
        line.starts_with("sluice_evicted_workloads_total")
            && line.contains(&format!("\"{queue}\""))
            && line.contains(&format!("\"{reason}\""))
    });
    let count = lines.next().and_then(|line| line.rsplit(' ').next());
    Ok(count.map_or(0, |count| count.parse().unwrap()))
}

/// A pod that no node takes goes, so that others can; the one that its controller makes in its place
/// backs off, twice as long each time.
#[tokio::test]
async fn a_pod_without_a_node_gives_its_quota_back() -> Result<()> {
    let shared = Sluice::shared(bed::BINARY);
    bed::shared("reserve-pod", async |scene| {
        impatient_queue(scene, json!({ "baseSeconds": 1, "maxSeconds": 60 })).await?;
        let pods = scene.record("Pod").await?;
        let pod = pod_for_own_nodes(scene, Pod::new("").queue("q"));
        scene
            .create(&replicated("ReplicaSet", "homeless", 1, pod))
            .await?;
        let first = scene
            .see_so_many("unschedulable", 1, is_unschedulable)
            .await?;
        scene.create(&Pod::new("next").queue("q").json()).await?;
        let told = scene.see_event(name_of(&first[0]), "Evicted").await?;
        assert_eq!(
            told,
            "The pod was not bound to a node within spec.reservation.timeoutSeconds of the ClusterQueue: deleted; its controller recreates it, and the new pod is queued"
        );
        scene.see("Pod", "next", "running", is_running).await?;
        scene.delete("Pod", "next").await?;
        let of_set = |pod: &Value| pod["metadata"]["labels"]["app"] == "homeless";
        let admissions = eventually("four admissions of the homeless", DEADLINE, async || {
            let all = admissions(&pods.so_far(), of_set);
            if 4 <= all.len() { Ok(all) } else { Err(format!("{all:?}")) }
        })
        .await?;
        for (index, wait) in [1, 2, 4].into_iter().enumerate() {
            let gap = admissions[index + 1].duration_since(admissions[index]);
            // Times are told in whole seconds.
            ensure!(
                TIMEOUT + wait - 1 <= gap.as_secs(),
                "after {} it backed off for {gap:?} only: {admissions:?}",
                index + 1
            );
        }
        // With a node, it stays.
        scene.cp.add_node(own_node(scene, "node")).await?;
        scene
            .see_so_many("running", 1, |pod| of_set(pod) && is_running(pod))
            .await?;
        // A pod that found the node at the last moment may be terminating all the same.
        eventually("as many deletions as evictions", DEADLINE, async || {
            let history = pods.so_far();
            let deleted = history.iter().filter(|r| r.is_deleted && of_set(&r.object));
            let deleted = deleted.count() as u64;
            let counted = evictions(&shared.sluice, &scene.ns, "ReservationTimeout").await?;
            ensure!(counted == deleted, "{counted} of {deleted} are counted");
            ensure!(3 <= counted, "{counted}");
            anyhow::Ok(())
        })
        .await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true)?;
        check_gates(&history, &BTreeSet::new())?;
        scene.cp.remove_node(&scene.name("node")).await
    })
    .await
}

/// When pods were admitted, by their own record.
fn admissions(history: &[Revision], of: impl Fn(&Value) -> bool) -> Vec<Timestamp> {
    let mut seen = BTreeSet::new();
    let mut times = Vec::new();
    for Revision { object: pod, .. } in history.iter().filter(|r| of(&r.object)) {
        let record = pod["metadata"]["annotations"][ADMITTED_ANNOTATION].as_str();
        let record: Option<Value> = record.map(|text| serde_json::from_str(text).unwrap());
        if let Some(record) = record
            && seen.insert(pod["metadata"]["uid"].to_string())
        {
            times.push(record["at"].as_str().unwrap().parse().unwrap());
        }
    }
    times
}

/// A queue may keep bare pods, as nobody would make them again: one stays, keeps its quota and says so.
#[tokio::test]
async fn a_bare_pod_without_a_node_stays_where_the_queue_keeps_it() -> Result<()> {
    bed::shared("reserve-bare", async |scene| {
        impatient_queue(scene, json!({ "baseSeconds": 1 })).await?;
        let keep = json!({ "spec": { "whenNotRestartable": "Keep" } });
        scene.merge("ClusterQueue", &scene.ns, keep).await?;
        let pods = scene.record("Pod").await?;
        let pod = pod_for_own_nodes(scene, Pod::new("homeless").queue("q"));
        scene.create(&pod.json()).await?;
        scene.see("Pod", "homeless", "unschedulable", is_unschedulable).await?;
        scene.create(&Pod::new("next").queue("q").json()).await?;
        let told = scene.see_event("homeless", "NotEvicted").await?;
        assert_eq!(
            told,
            "The pod was not bound to a node within spec.reservation.timeoutSeconds of the ClusterQueue, but no controller would recreate this pod, and its ClusterQueue keeps such pods (whenNotRestartable: Keep): it stays and holds its quota; delete it to free the quota"
        );
        scene.see_account("cpu", ("1", "0", "1"), 1).await?;
        let next = scene.get("Pod", "next").await?;
        ensure!(has_queue_gate(&next), "{next}");
        scene.delete("Pod", "homeless").await?;
        scene.see("Pod", "next", "running", is_running).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true).map(drop)
    })
    .await
}

/// Elsewhere it is deleted, and the next one has its quota.
#[tokio::test]
async fn a_bare_pod_without_a_node_is_deleted() -> Result<()> {
    bed::shared("reserve-bare-gone", async |scene| {
        impatient_queue(scene, json!({ "baseSeconds": 1 })).await?;
        let pods = scene.record("Pod").await?;
        let pod = pod_for_own_nodes(scene, Pod::new("homeless").queue("q"));
        scene.create(&pod.json()).await?;
        // Of two that are made in one second either may be the first. It is there for a moment only.
        wait_for("homeless to be released", DEADLINE, async || {
            released_at(&pods.so_far(), "homeless")
        })
        .await?;
        scene.create(&Pod::new("next").queue("q").json()).await?;
        scene.see("Pod", "next", "running", is_running).await?;
        scene.see_gone("Pod", "homeless").await?;
        assert_eq!(
            scene.see_event("homeless", "Evicted").await?,
            "The pod was not bound to a node within spec.reservation.timeoutSeconds of the ClusterQueue: deleted; no controller recreates it"
        );
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true).map(drop)
    })
    .await
}

/// How often a job's Workload has given its quota back.
fn count(workload: &Value) -> i64 {
    workload["status"]["requeueState"]["count"]
        .as_i64()
        .unwrap_or_default()
}

/// A Whole job is suspended again, the next one runs, and the first is admitted again when there is quota.
#[tokio::test]
async fn a_job_without_nodes_gives_its_quota_back_and_comes_again() -> Result<()> {
    let shared = Sluice::shared(bed::BINARY);
    bed::shared("reserve-job", async |scene| {
        impatient_queue(scene, json!({ "baseSeconds": 1, "maxSeconds": 2 })).await?;
        let (pods, workloads) = (scene.record("Pod").await?, scene.record("Workload").await?);
        scene
            .create(&homeless_job(scene, "homeless").runs("0.5").json())
            .await?;
        workloads.see("an admission", is_admitted).await?;
        scene.create(&Job::new("next").queue("q").json()).await?;
        // It is admitted again a second later.
        let workload = workloads.see("an eviction", |w| is(w, "Evicted")).await?;
        let message = "Not all pods were bound to nodes within spec.reservation.timeoutSeconds of the ClusterQueue";
        let evicted = condition(&workload, "Evicted");
        assert_eq!(evicted, Some(("True", "ReservationTimeout", message)));
        assert_eq!(scene.see_event("homeless", "Evicted").await?, message);
        scene.see_complete("next").await?;
        scene
            .see_workload("homeless", "evicted twice", |w| 2 <= count(w))
            .await?;
        scene.cp.add_node(own_node(scene, "node")).await?;
        scene.see_complete("homeless").await?;
        let workload = scene
            .see_workload("homeless", "finished", |w| is(w, "Finished"))
            .await?;
        ensure!(!is(&workload, "Evicted"), "{workload}");
        let counted = evictions(&shared.sluice, &scene.ns, "ReservationTimeout").await?;
        assert_eq!(i64::try_from(counted)?, count(&workload), "{workload}");
        let history = scene.history("Pod", &pods).await?;
        // It was never counted twice: its pods were gone before the next one's came.
        check_usage(&history, "cpu", "1", |_| true)?;
        scene.cp.remove_node(&scene.name("node")).await
    })
    .await
}

/// As often as the queue allows, and no more.
#[tokio::test]
async fn a_job_without_nodes_is_deactivated_at_last() -> Result<()> {
    let shared = Sluice::shared(bed::BINARY);
    bed::shared("reserve-limit", async |scene| {
        impatient_queue(scene, json!({ "baseSeconds": 1, "limitCount": 1 })).await?;
        scene.create(&homeless_job(scene, "homeless").json()).await?;
        let told = scene.see_event("homeless", "Deactivated").await?;
        assert_eq!(
            told,
            "Deactivated after spec.reservation.backoff.limitCount backoffs, as its ClusterQueue says; set spec.active of its Workload to true to queue it again"
        );
        let workload = scene
            .see_workload("homeless", "deactivated", |w| {
                w["spec"]["active"] == false
                    && condition(w, "QuotaReserved").is_some_and(|(_, reason, _)| reason == "Deactivated")
            })
            .await?;
        let message = "The Workload is deactivated: set spec.active to true to queue it again";
        let told = condition(&workload, "QuotaReserved");
        assert_eq!(told, Some(("False", "Deactivated", message)));
        // Queued again once, as it may, and not a second time.
        let counted = evictions(&shared.sluice, &scene.ns, "ReservationTimeout").await?;
        assert_eq!(counted, 2);
        let job = scene.get("Job", "homeless").await?;
        ensure!(is_suspended(&job), "{job}");
        scene.create(&Job::new("next").queue("q").json()).await?;
        scene.see_complete("next").await?;
        let workload = scene.find_workload("homeless").await?.context("it is gone")?;
        ensure!(!is_admitted(&workload), "{workload}");
        // As it says, so it is. It would not be queued a third time if the scheduler took too long.
        let patient = json!({"spec": {"reservation": {"timeoutSeconds": 600}}});
        scene.merge("ClusterQueue", &scene.ns, patient).await?;
        scene.cp.add_node(own_node(scene, "node")).await?;
        let active = json!({"spec": {"active": true}});
        scene.merge("Workload", name_of(&workload), active).await?;
        scene.see_complete("homeless").await?;
        scene.cp.remove_node(&scene.name("node")).await
    })
    .await
}

/// What the policy of [`deny_release`] says.
const DENIED: &str = "tests deny that its gates are removed";

/// From here on nobody may remove a gate from a pod of the namespace with the label `blocked`.
async fn deny_release(scene: &Scene<'_>) -> Result<()> {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": scene.ns },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": here(&scene.ns),
                "objectSelector": { "matchLabels": { "blocked": "true" } },
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"],
                }],
            },
            "validations": [{
                "expression": "!has(oldObject.spec.schedulingGates) || (has(object.spec.schedulingGates) && \
                               size(object.spec.schedulingGates) == size(oldObject.spec.schedulingGates))",
                "message": DENIED,
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": scene.ns },
        "spec": { "policyName": scene.ns, "validationActions": ["Deny"] },
    });
    let probe = Pod::new("probe")
        .label("blocked", "true")
        .scheduling_gate("example.com/probe");
    scene.create_all(&[policy, binding, probe.json()]).await?;
    eventually("the policy to be in force", DEADLINE, async || {
        let patch = json!({"spec": {"schedulingGates": []}});
        let params = kube::api::PatchParams {
            dry_run: true,
            ..kube::api::PatchParams::default()
        };
        let patch = kube::api::Patch::Merge(patch);
        match scene.api("Pod").patch("probe", &params, &patch).await {
            Err(kube::Error::Api(status)) if status.message.contains(DENIED) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

async fn allow_release(scene: &Scene<'_>) -> Result<()> {
    scene
        .delete("ValidatingAdmissionPolicyBinding", &scene.ns)
        .await?;
    scene.delete("ValidatingAdmissionPolicy", &scene.ns).await
}

/// A pod that nobody may release does not keep the others from their quota, and says why it waits.
#[tokio::test]
async fn a_pod_whose_release_is_refused_holds_no_quota() -> Result<()> {
    bed::shared("reserve-denied", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        deny_release(scene).await?;
        let pods = scene.record("Pod").await?;
        let pod = Pod::new("denied").queue("q").label("blocked", "true");
        scene.create(&pod.json()).await?;
        let told = scene.see_event("denied", "WriteRefused").await?;
        ensure!(told.contains(DENIED), "{told}");
        for name in ["next-1", "next-2"] {
            let pod = Pod::new(name).queue("q").runs("0.2");
            scene.create(&pod.json()).await?;
        }
        scene
            .see_so_many("succeeded", 2, |pod| pod["status"]["phase"] == "Succeeded")
            .await?;
        let denied = scene.get("Pod", "denied").await?;
        assert_eq!(gates(&denied), [QUEUE_GATE]);
        allow_release(scene).await?;
        scene.see("Pod", "denied", "running", is_running).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |pod| name_of(pod) != "probe").map(drop)
    })
    .await
}

/// The same for the pods of a Whole job: one Workload that says so, and backs off.
#[tokio::test]
async fn a_job_whose_release_is_refused_frees_its_quota() -> Result<()> {
    bed::shared("reserve-blocked", async |scene| {
        impatient_queue(scene, json!({ "baseSeconds": 1, "maxSeconds": 2 })).await?;
        deny_release(scene).await?;
        // Its template brings a gate, so its pods wait as pods.
        let job = Job::new("denied")
            .queue("q")
            .runs("0.2")
            .with(
                &["spec", "template", "metadata", "labels"],
                json!({ "blocked": "true" }),
            )
            .with(
                &["spec", "template", "spec", "schedulingGates"],
                json!([{ "name": QUEUE_GATE }]),
            );
        let workloads = scene.record("Workload").await?;
        scene.create(&job.json()).await?;
        workloads.see("an admission", is_admitted).await?;
        scene.create(&Job::new("next").queue("q").json()).await?;
        // While its pod is not made in time, it is evicted for that; it is admitted again a second later.
        let is_blocked = |w: &Value| {
            condition(w, "Evicted").is_some_and(|(s, r, _)| (s, r) == ("True", "ReleaseBlocked"))
        };
        let workload = workloads
            .see("an eviction as it can't be released", is_blocked)
            .await?;
        let (.., message) = condition(&workload, "Evicted").unwrap();
        ensure!(
            message.starts_with("The job can't be released: ") && message.contains(DENIED),
            "{message}"
        );
        eventually("its pod to be told why", DEADLINE, async || {
            let events = scene.list("Event").await?;
            let is_told = |event: &Value| {
                let (pod, note) = (&event["regarding"]["name"], &event["note"]);
                event["reason"] == "WriteRefused"
                    && pod.as_str().is_some_and(|pod| pod.starts_with("denied-"))
                    && note.as_str().is_some_and(|note| note.contains(DENIED))
            };
            ensure!(events.iter().any(is_told), "{events:?}");
            anyhow::Ok(())
        })
        .await?;
        scene.see_complete("next").await?;
        allow_release(scene).await?;
        scene.see_complete("denied").await?;
        let workload = scene
            .see_workload("denied", "finished", |w| is(w, "Finished"))
            .await?;
        ensure!(1 <= count(&workload), "{workload}");
        Ok(())
    })
    .await
}
