//! Jobs whose pods are admitted by themselves, and gates that go from the object to its pods.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{ADMISSION_ANNOTATION, QUEUE_GATE};
use sluice_testbed::{Options, Sluice, SluiceOptions};

use crate::support::history::Revision;
use crate::support::objects::{
    self, GATED, GATES, Job, is, is_complete, is_suspended, name_of, quota, revision_of,
};
use crate::support::pods::{
    Pod, check_gates, check_usage, gates, is_running, is_scheduling_gated, released_at,
};
use crate::support::queues::nanos;
use crate::support::{Scene, audit, bed};

/// A Job whose pods are admitted by themselves.
fn each_pod(name: &str) -> Job {
    Job::new(name).annotation(ADMISSION_ANNOTATION, "PerPod")
}

async fn lift(scene: &Scene<'_>, job: &str, annotation: &str) -> Result<Value> {
    let patch = json!({"metadata": {"annotations": {(annotation): null}}});
    scene.merge("Job", job, patch).await
}

/// Ten pods behind two gates each, and quota for four.
#[tokio::test]
async fn a_per_pod_job_runs_as_far_as_quota_goes() -> Result<()> {
    const PODS: u32 = 10;
    let shared = Sluice::shared(bed::BINARY);
    bed::shared("perpod-job", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let pods = scene.record("Pod").await?;
        let (jobs, workloads) = (scene.record("Job").await?, scene.record("Workload").await?);
        let job = each_pod("train").queue("q").gate("example.com/budget");
        scene.create(&job.pods(PODS).runs("1").json()).await?;
        let both = BTreeSet::from(["example.com/budget", QUEUE_GATE]);
        scene
            .see_so_many("gated twice", PODS as usize, |pod| {
                gates(pod).into_iter().collect::<BTreeSet<_>>() == both && is_scheduling_gated(pod)
            })
            .await?;
        let told = scene.see_event("train", "Gated").await?;
        assert_eq!(
            told,
            "Held until these gates are removed: example.com/budget"
        );
        scene
            .see("LocalQueue", "q", "told of what is gated", |queue| {
                queue["status"]["gatedWorkloads"] == PODS
                    && queue["status"]["pendingWorkloads"] == 0
            })
            .await?;

        let lifted = revision_of(&lift(scene, "train", GATED).await?);
        scene.see_complete("train").await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        let history = scene.history("Pod", &pods).await?;
        let most = check_usage(&history, "cpu", "4", |_| true)?;
        assert_eq!(
            most,
            nanos(&json!(4)),
            "it was never the quota that they waited for"
        );
        check_gates(&history, &BTreeSet::new())?;
        let ways = ways(&history);
        ensure!(ways.len() == PODS as usize, "{ways:?}");
        for (pod, way) in &ways {
            ensure!(
                *way == [
                    vec!["example.com/budget", QUEUE_GATE],
                    vec![QUEUE_GATE],
                    vec![]
                ],
                "{pod} went {way:?}"
            );
            ensure!(
                Some(lifted) < released_at(&history, pod),
                "{pod} went early"
            );
        }
        for revision in jobs.so_far() {
            ensure!(!is_suspended(&revision.object), "{}", revision.object);
        }
        ensure!(workloads.so_far().is_empty(), "{:?}", workloads.so_far());
        let mut writes = audit::writes(&shared.control_plane.audit_log())?;
        writes.retain(|r| r.namespace == scene.ns && r.resource != "localqueues");
        ensure!(
            writes.iter().all(|r| r.what() == "patch pods"),
            "{writes:#?}"
        );
        assert_eq!(writes.len(), 2 * PODS as usize, "{writes:#?}");
        Ok(())
    })
    .await
}

/// The gates that each pod had, one after the other; each list sorted.
fn ways(history: &[Revision]) -> BTreeMap<&str, Vec<Vec<&str>>> {
    let mut ways: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
    for Revision { object: pod, .. } in history {
        let mut now = gates(pod);
        now.sort_unstable();
        let way = ways.entry(name_of(pod)).or_default();
        if way.last() != Some(&now) {
            way.push(now);
        }
    }
    ways
}

/// The Job controller counts a pod that is deleted as failed: it makes no other one beyond `backoffLimit`.
#[tokio::test]
async fn an_evicted_pod_of_a_per_pod_job_says_that_it_counts_as_failed() -> Result<()> {
    bed::shared("perpod-failed", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = each_pod("train").queue("q").runs_forever().json();
        let job = objects::with(job, "/spec/backoffLimit", json!(0));
        scene.create(&job).await?;
        let pods = scene.see_so_many("running", 1, is_running).await?;
        scene.stop("HoldAndDrain").await?;
        assert_eq!(
            scene.see_event(name_of(&pods[0]), "Evicted").await?,
            "The ClusterQueue is stopped (spec.stopPolicy is HoldAndDrain): deleted; its Job counts that as a failure, and recreates the pod only if it is configured to retry"
        );
        scene
            .see("Job", "train", "failed", |job| is(job, "Failed"))
            .await
            .map(drop)
    })
    .await
}

/// A gate that is lifted from the Job goes from the pods that are there and from those that come.
#[tokio::test]
async fn lifted_gates_go_from_present_and_future_pods() -> Result<()> {
    bed::shared("perpod-future", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let pods = scene.record("Pod").await?;
        let job = each_pod("steps")
            .queue("q")
            .gates("example.com/a,example.com/b/c");
        let job = job.runs("0.2").with(&["spec", "completions"], json!(3));
        scene.create(&job.json()).await?;
        let first = scene.see_so_many("there", 1, is_scheduling_gated).await?;
        // No scheduling gate may be called so: another name stands for it.
        let stands_for = gates(&first[0])
            .into_iter()
            .find(|gate| gate.starts_with("sluice.dev/gate-"))
            .map(str::to_owned);
        let stands_for = stands_for.unwrap_or_else(|| panic!("{:?}", gates(&first[0])));
        let digits = stands_for.trim_start_matches("sluice.dev/gate-");
        ensure!(
            digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()),
            "{digits}"
        );
        ensure!(gates(&first[0]).len() == 3, "{:?}", gates(&first[0]));

        let one_left = json!({"metadata": {"annotations": {(GATES): "example.com/b/c"}}});
        scene.merge("Job", "steps", one_left).await?;
        scene
            .see("Pod", name_of(&first[0]), "rid of the gate", |pod| {
                !gates(pod).contains(&"example.com/a") && gates(pod).len() == 2
            })
            .await?;
        // It holds nothing.
        scene.create(&Pod::new("other").queue("q").json()).await?;
        scene.see("Pod", "other", "running", is_running).await?;
        lift(scene, "steps", GATES).await?;
        scene
            .see("Pod", name_of(&first[0]), "waiting for quota", |pod| {
                gates(pod) == [QUEUE_GATE]
            })
            .await?;
        scene.delete("Pod", "other").await?;
        scene.see_complete("steps").await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "1", |_| true)?;
        check_gates(&history, &BTreeSet::new())?;
        // Each was born with all the gates of its template, and lost them.
        let ways = ways(&history);
        let of_job = ways.iter().filter(|(name, _)| name.starts_with("steps-"));
        let of_job: Vec<_> = of_job.collect();
        ensure!(of_job.len() == 3, "{ways:?}");
        for (pod, way) in of_job {
            ensure!(
                way[0].len() == 3 && way.last() == Some(&vec![]),
                "{pod} went {way:?}"
            );
        }
        Ok(())
    })
    .await
}

/// Without a queue, the gates alone hold the pods, and no quota is needed.
#[tokio::test]
async fn gates_alone_hold_pods_too() -> Result<()> {
    bed::shared("perpod-gates", async |scene| {
        let pods = scene.record("Pod").await?;
        let job = each_pod("only").gate("example.com/a").pods(2);
        scene.create(&job.json()).await?;
        scene
            .see_so_many("gated once", 2, |pod| {
                gates(pod) == ["example.com/a"] && is_scheduling_gated(pod)
            })
            .await?;
        let lifted = revision_of(&lift(scene, "only", GATED).await?);
        scene.see_complete("only").await?;
        let history = scene.history("Pod", &pods).await?;
        check_gates(&history, &BTreeSet::new())?;
        for revision in &history {
            ensure!(
                lifted < revision.number || gates(&revision.object) == ["example.com/a"],
                "released early: {}",
                revision.object
            );
        }
        Ok(())
    })
    .await
}

/// A bare pod with a gate annotation of its own, in a queue and in none.
#[tokio::test]
async fn a_bare_pod_has_gates_of_its_own() -> Result<()> {
    bed::shared("perpod-bare", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let pods = scene.record("Pod").await?;
        let queued = Pod::new("queued")
            .queue("q")
            .annotation(GATED, "example.com/a");
        scene.create(&queued.json()).await?;
        // The last gate is somebody else's, and none of the annotation's business.
        let only = Pod::new("only").scheduling_gate("example.com/other");
        let only = only.annotation(GATES, "example.com/a, example.com/b");
        scene.create(&only.json()).await?;
        let queued = scene
            .see("Pod", "queued", "gated", is_scheduling_gated)
            .await?;
        assert_eq!(gates(&queued).len(), 2, "{queued}");
        let only = scene
            .see("Pod", "only", "gated", is_scheduling_gated)
            .await?;
        let expected = ["example.com/other", "example.com/a", "example.com/b"];
        assert_eq!(gates(&only), expected);
        let lift = async |pod: &str, annotations: Value| {
            scene
                .merge(
                    "Pod",
                    pod,
                    json!({"metadata": {"annotations": annotations}}),
                )
                .await
        };
        lift("only", json!({(GATES): "example.com/b"})).await?;
        scene
            .see("Pod", "only", "rid of one", |pod| {
                gates(pod) == ["example.com/other", "example.com/b"]
            })
            .await?;
        lift("queued", json!({(GATED): null})).await?;
        scene.see("Pod", "queued", "running", is_running).await?;
        // Quota is taken, and it needs none.
        lift("only", json!({(GATES): null})).await?;
        scene
            .see("Pod", "only", "left to others", |pod| {
                gates(pod) == ["example.com/other"]
            })
            .await?;
        let opened = scene.open_gate("only", "example.com/other").await?;
        scene.see("Pod", "only", "running", is_running).await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await?;
        let history = scene.history("Pod", &pods).await?;
        check_gates(&history, &BTreeSet::from([opened]))
    })
    .await
}

/// Its user stops it: the pods go, and what they held.
#[tokio::test]
async fn a_suspended_per_pod_job_holds_nothing() -> Result<()> {
    bed::shared("perpod-pause", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        let job = each_pod("pausing").queue("q").pods(3).runs_forever();
        scene.create(&job.json()).await?;
        scene.see_so_many("running", 2, is_running).await?;
        let suspend = |value: bool| json!({"spec": {"suspend": value}});
        scene.merge("Job", "pausing", suspend(true)).await?;
        scene.see_so_many("left", 0, |_| true).await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        scene.merge("Job", "pausing", suspend(false)).await?;
        scene.see_so_many("running", 2, is_running).await?;
        scene.see_account("cpu", ("2", "2", "0"), 1).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true)?;
        check_gates(&history, &BTreeSet::new())
    })
    .await
}

/// Nobody put gates into its template: it waits as a whole, which is safe, and says so.
#[tokio::test]
async fn without_a_webhook_a_per_pod_job_waits_as_a_whole() -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    let options = Options::with_crds()?;
    bed::own("perpod-bare", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        scene.queue(&[quota("cpu", "2")]).await?;
        // Nothing holds it at its creation: it must not be complete before it is seen.
        let late = each_pod("late").queue("q").pods(3).runs("10");
        scene.create(&late.json()).await?;
        let told = scene.see_event("late", "AdmittedAsAWhole").await?;
        assert_eq!(
            told,
            "Waits as a whole in LocalQueue \"q\": its pods can't be admitted by themselves, as no webhook put \
             Sluice's gate into its pod template when it was created"
        );
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        let late = scene.get("Job", "late").await?;
        ensure!(is_suspended(&late), "{late}");
        scene.set_cpu("3").await?;
        scene.see("Job", "late", "complete", is_complete).await.map(drop)
    })
    .await
}
