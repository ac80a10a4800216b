//! Whose a suspension is: what Sluice suspended it starts when nothing holds it any more, what a user
//! created suspended stays so; in a queue that is how one asks to be queued.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, GATES, Job, is_suspended, quota};
use crate::support::{DEADLINE, Scene, bed};

both_ways!(
    a_job_that_loses_its_queue_and_its_last_gate_is_started,
    a_waiting_job_that_loses_its_queue_is_started,
    what_its_user_created_suspended_stays_so_without_queue_and_gates,
    a_job_that_its_user_created_suspended_is_queued_by_its_label,
    a_gated_job_reports_which_gates_remain,
);

const QUEUE: &str = "sluice.dev/queue-name";
const HELD: &str = "sluice.dev/held";

/// Takes the queue label away, and these annotations.
fn without_queue(annotations: &[&str]) -> Value {
    let none = |keys: &[&str]| -> Value {
        let none = keys.iter().map(|key| ((*key).to_owned(), Value::Null));
        none.collect::<serde_json::Map<_, _>>().into()
    };
    json!({"metadata": {"labels": none(&[QUEUE]), "annotations": none(annotations)}})
}

/// Waits until a job has neither quota nor a place in a queue.
async fn see_no_workload(scene: &Scene<'_>, job: &str) -> Result<()> {
    let what = format!("the Workload of {job} to be gone");
    eventually(&what, DEADLINE, async || {
        match scene.find_workload(job).await {
            Ok(None) => Ok(()),
            Ok(Some(workload)) => Err(workload.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    })
    .await
}

async fn a_job_that_loses_its_queue_and_its_last_gate_is_started(
    admission: Admission,
) -> Result<()> {
    play(admission, "whose-both", async |scene| {
        scene.queue(&[quota("cpu", "8")]).await?;
        for name in ["at-once", "gate-first", "queue-first"] {
            let job = Job::new(name).queue("q").gate("acme.io/a");
            let stored = scene.create(&job.json()).await?;
            assert_eq!(stored["metadata"]["annotations"][HELD], "true", "{stored}");
            ensure!(is_suspended(&stored), "{stored}");
        }
        scene
            .merge("Job", "at-once", without_queue(&[GATED]))
            .await?;
        let no_gate = json!({"metadata": {"annotations": {GATED: null}}});
        let (one, other) = tokio::join!(
            async {
                scene.merge("Job", "gate-first", no_gate.clone()).await?;
                // It may be admitted in between: then its label stays.
                let _ = scene
                    .try_merge("Job", "gate-first", without_queue(&[]))
                    .await;
                anyhow::Ok(())
            },
            async {
                scene
                    .merge("Job", "queue-first", without_queue(&[]))
                    .await?;
                scene.merge("Job", "queue-first", no_gate.clone()).await
            },
        );
        one?;
        other?;
        for name in ["at-once", "gate-first", "queue-first"] {
            scene.see_complete(name).await?;
        }
        scene.see_event("at-once", "Started").await?;
        Ok(())
    })
    .await
}

async fn a_waiting_job_that_loses_its_queue_is_started(admission: Admission) -> Result<()> {
    play(admission, "whose-queue", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("wide").queue("q").cpu("2").json())
            .await?;
        scene.see_workload("wide", "there", |_| true).await?;
        scene.merge("Job", "wide", without_queue(&[])).await?;
        scene.see_complete("wide").await?;
        see_no_workload(scene, "wide").await?;
        scene.see_event("wide", "Started").await?;
        let job = scene.get("Job", "wide").await?;
        assert_eq!(job["metadata"]["annotations"][HELD], Value::Null, "{job}");
        // Nothing is left to be done for it: what its user does with it from now on is his.
        scene.create(&Job::new("next").queue("q").json()).await?;
        scene.see_complete("next").await?;
        Ok(())
    })
    .await
}

async fn what_its_user_created_suspended_stays_so_without_queue_and_gates(
    admission: Admission,
) -> Result<()> {
    play(admission, "whose-user", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let suspended = |job: Job| job.with(&["spec", "suspend"], json!(true)).json();
        let gated = suspended(Job::new("gated").gate("acme.io/a"));
        let stored = scene.create(&gated).await?;
        assert_eq!(
            stored["metadata"]["annotations"][HELD],
            Value::Null,
            "{stored}"
        );
        scene.see_event("gated", "Gated").await?;
        let waits = suspended(Job::new("waits").queue("q").cpu("2"));
        scene.create(&waits).await?;
        scene.see_workload("waits", "there", |_| true).await?;
        let both = suspended(Job::new("both").queue("q").gate("acme.io/a"));
        scene.create(&both).await?;
        scene.see_event("both", "Gated").await?;

        let no_gate = json!({"metadata": {"annotations": {GATED: null}}});
        scene.merge("Job", "gated", no_gate).await?;
        scene.merge("Job", "waits", without_queue(&[])).await?;
        scene.merge("Job", "both", without_queue(&[GATED])).await?;
        for name in ["gated", "waits", "both"] {
            let told = scene.see_event(name, "LeftSuspended").await?;
            ensure!(told.contains("set spec.suspend to false"), "{told}");
        }
        see_no_workload(scene, "waits").await?;
        // A job that comes later has come through by the time that these still wait.
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        for name in ["gated", "waits", "both"] {
            let job = scene.get("Job", name).await?;
            ensure!(is_suspended(&job), "{job}");
            // The way out that the event names.
            let start = json!({"spec": {"suspend": false}});
            scene.merge("Job", name, start).await?;
            scene.see_complete(name).await?;
        }
        Ok(())
    })
    .await
}

/// As with Kueue, whose manifests all say `suspend: true`.
async fn a_job_that_its_user_created_suspended_is_queued_by_its_label(
    admission: Admission,
) -> Result<()> {
    play(admission, "whose-label", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = Job::new("kueue").queue("q");
        let job = job.with(&["spec", "suspend"], json!(true));
        scene.create(&job.json()).await?;
        scene.see_complete("kueue").await?;
        let job = scene.get("Job", "kueue").await?;
        assert_eq!(job["metadata"]["annotations"][HELD], "false", "{job}");
        Ok(())
    })
    .await
}

async fn a_gated_job_reports_which_gates_remain(admission: Admission) -> Result<()> {
    play(admission, "whose-gates", async |scene| {
        let job = Job::new("two").gates("acme.io/a,acme.io/b");
        scene.create(&job.json()).await?;
        let told = scene.see_event("two", "Gated").await?;
        ensure!(told.contains("acme.io/a, acme.io/b"), "{told}");
        let one_left = json!({"metadata": {"annotations": {GATES: "acme.io/b"}}});
        scene.merge("Job", "two", one_left).await?;
        eventually("the gate that remains to be told", DEADLINE, async || {
            let events = scene.events("two").await.map_err(|e| format!("{e:#}"))?;
            let rest = |(reason, note): &(String, String)| {
                reason == "Gated" && note.ends_with("removed: acme.io/b")
            };
            if events.iter().any(rest) {
                Ok(())
            } else {
                Err(format!("{events:?}"))
            }
        })
        .await
    })
    .await
}

/// What happens while no controller runs is seen by the next one: the record is on the object.
#[tokio::test]
async fn what_sluice_suspended_is_started_by_the_next_controller() -> Result<()> {
    bed::own_running("whose-restart", async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for name in ["both", "queue"] {
            let job = Job::new(name).queue("q").cpu("2");
            let job = if name == "both" {
                job.gate("acme.io/a")
            } else {
                job
            };
            scene.create(&job.json()).await?;
        }
        scene.see_workload("queue", "there", |_| true).await?;
        scene.see_event("both", "Gated").await?;
        // The patches come through while the webhook still answers, and the controller dies at once.
        let patches = async {
            for name in ["both", "queue"] {
                scene.merge("Job", name, without_queue(&[GATED])).await?;
            }
            anyhow::Ok(())
        };
        patches.await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        for name in ["both", "queue"] {
            scene.see_complete(name).await?;
        }
        Ok(())
    })
    .await
}
