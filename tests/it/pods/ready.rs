//! PodsReady: a job whose kind can tell says in its Workload whether all its pods do their work.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::bed;
use crate::support::history::{Revision, check_conditions};
use crate::support::objects::{condition, is, is_admitted, quota, with};
use crate::support::widgets::Widgets;

/// Ready when its status says so.
const READY: &str = "has(object.status) && has(object.status.ready) && object.status.ready";
/// Seconds between two reports of a Workload, at least.
const REPORT_EVERY: u64 = 2;

fn told(workload: &Value) -> Option<(&str, &str)> {
    condition(workload, "PodsReady").map(|(status, reason, _)| (status, reason))
}

/// Whether a Workload says this of its pods.
fn tells(status: &str, reason: &str) -> impl Fn(&Value) -> bool {
    move |workload| told(workload) == Some((status, reason))
}

/// What PodsReady said, one after the other.
fn all_told(history: &[Revision]) -> Vec<(&str, &str)> {
    let mut all: Vec<_> = history.iter().filter_map(|r| told(&r.object)).collect();
    all.dedup();
    all
}

#[tokio::test]
async fn a_workload_tells_whether_its_pods_are_ready() -> Result<()> {
    bed::shared("ready-life", async |scene| {
        let widgets = Widgets::new(scene);
        scene.queue(&[quota("cpu", "2")]).await?;
        widgets.serve().await?;
        let kind = with(widgets.job_kind(), "/spec/ready", json!(READY));
        widgets.manage(&kind).await?;
        let workloads = scene.record("Workload").await?;
        scene.apply(&widgets.widget("w")).await?;
        widgets.see_released("w").await?;
        for (ready, status, reason) in [
            (true, "True", "Started"),
            (false, "False", "WaitForRecovery"),
            (true, "True", "Recovered"),
        ] {
            widgets.set_status("w", json!({ "ready": ready })).await?;
            let what = format!("{status}, {reason}");
            widgets
                .see_workload("w", &what, tells(status, reason))
                .await?;
        }
        // It is evicted and admitted again: its former readiness counts no more.
        scene.stop("HoldAndDrain").await?;
        widgets
            .see_workload("w", "queued again", |w| !is_admitted(w))
            .await?;
        widgets.set_status("w", json!({"ready": false})).await?;
        scene.stop("None").await?;
        widgets.see_released("w").await?;
        widgets.set_status("w", json!({"ready": true})).await?;
        let workload = widgets
            .see_workload("w", "started again", tells("True", "Started"))
            .await?;
        let told = condition(&workload, "PodsReady").unwrap().2;
        assert_eq!(told, "All of its pods are ready");
        widgets.set_status("w", json!({"done": true})).await?;
        widgets
            .see_workload("w", "finished", |w| is(w, "Finished"))
            .await?;
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(
            all_told(&history),
            [
                ("False", "WaitForStart"),
                ("True", "Started"),
                ("False", "WaitForRecovery"),
                ("True", "Recovered"),
                ("False", "WaitForStart"),
                ("True", "Started"),
            ]
        );
        check_conditions(&history)?;
        // What is known at the admission and at the eviction costs no write of its own.
        let first = history.iter().find(|r| is_admitted(&r.object)).unwrap();
        assert_eq!(self::told(&first.object), Some(("False", "WaitForStart")));
        let evicted = history.iter().find(|r| is(&r.object, "Evicted")).unwrap();
        assert_eq!(self::told(&evicted.object), Some(("False", "WaitForStart")));
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}

/// An object that can't make up its mind costs a write in some seconds, and is right in the end.
#[tokio::test]
async fn an_object_that_flaps_makes_few_writes() -> Result<()> {
    bed::shared("ready-flap", async |scene| {
        let widgets = Widgets::new(scene);
        scene.queue(&[quota("cpu", "2")]).await?;
        widgets.serve().await?;
        let kind = with(widgets.job_kind(), "/spec/ready", json!(READY));
        widgets.manage(&kind).await?;
        scene.apply(&widgets.widget("w")).await?;
        widgets.see_released("w").await?;
        let workloads = scene.record("Workload").await?;
        let begun = Instant::now();
        let mut changes = 0;
        // It flaps, or this would show nothing.
        while begun.elapsed().as_secs() < 6 * REPORT_EVERY || changes <= 20 {
            let ready = json!({"ready": changes % 2 == 0, "changes": changes});
            widgets.set_status("w", ready).await?;
            changes += 1;
        }
        widgets.set_status("w", json!({"ready": true})).await?;
        let is_ready = |w: &Value| is(w, "PodsReady");
        widgets.see_workload("w", "ready", is_ready).await?;
        let most = begun.elapsed().as_secs() / REPORT_EVERY + 1;
        let writes = workloads.so_far().len() as u64;
        ensure!(
            writes <= most,
            "{changes} changes: {writes} writes, not {most} at most"
        );
        // Nobody is blamed for it.
        let events = scene.events("w").await?;
        ensure!(
            events.iter().all(|(reason, _)| reason != "ChangedBack"),
            "{events:?}"
        );
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}

/// An expression that does not fit its object is told, and stands in nobody's way.
#[tokio::test]
async fn a_job_that_can_not_tell_runs_all_the_same() -> Result<()> {
    bed::shared("ready-misfit", async |scene| {
        let widgets = Widgets::new(scene);
        scene.queue(&[quota("cpu", "2")]).await?;
        widgets.serve().await?;
        let kind = with(
            widgets.job_kind(),
            "/spec/ready",
            json!("object.status.ready"),
        );
        widgets.manage(&kind).await?;
        scene.apply(&widgets.widget("w")).await?;
        widgets.see_released("w").await?;
        let note = scene.see_event("w", "Unreadable").await?;
        ensure!(
            note.starts_with("Can't tell whether its pods are ready: ")
                && note.contains("spec.ready"),
            "{note}"
        );
        widgets.set_status("w", json!({"ready": true})).await?;
        widgets
            .see_workload("w", "ready", tells("True", "Started"))
            .await?;
        widgets
            .set_status("w", json!({"ready": "perhaps", "done": true}))
            .await?;
        widgets
            .see_workload("w", "finished", |w| is(w, "Finished"))
            .await?;
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}

/// A kind that does not say when its pods are ready has no such condition.
#[tokio::test]
async fn a_kind_that_does_not_say_is_not_asked() -> Result<()> {
    bed::shared("ready-none", async |scene| {
        let widgets = Widgets::new(scene);
        scene.queue(&[quota("cpu", "2")]).await?;
        widgets.serve().await?;
        widgets.manage(&widgets.job_kind()).await?;
        let workloads = scene.record("Workload").await?;
        scene.apply(&widgets.widget("plain")).await?;
        widgets.see_released("plain").await?;
        widgets.set_status("plain", json!({"ready": true})).await?;
        widgets.set_status("plain", json!({"done": true})).await?;
        widgets
            .see_workload("plain", "finished", |w| is(w, "Finished"))
            .await?;
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(all_told(&history), []);
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}
