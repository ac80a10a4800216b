//! Gates with a schedule, on a real clock: a time that the object names, windows, exceptions. What a schedule says of
//! daylight saving and of odd calendars is shown by the tests of `gates/`.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::Scene;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, Job, is_suspended, own, own_gate, quota};

both_ways!(
    a_job_starts_at_the_time_that_it_names,
    a_job_that_names_no_time_is_held_and_told,
    a_window_lets_jobs_through_and_an_exception_does_not,
);

const NOT_BEFORE: &str = "sluice.dev/not-before";

async fn gate(scene: &Scene<'_>, spec: Value) -> Result<String> {
    let (name, object) = own_gate(&scene.ns, "night");
    scene.apply(&own("Gate", &object, spec)).await?;
    Ok(name)
}

async fn a_job_starts_at_the_time_that_it_names(admission: Admission) -> Result<()> {
    play(admission, "sched-time", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = gate(scene, json!({"schedule": {"notBefore": {}}})).await?;
        let jobs = scene.record("Job").await?;
        let time = Timestamp::now().checked_add(SignedDuration::from_secs(5))?;
        let job = Job::new("j").queue("q").gate(&gate);
        let job = job.annotation(NOT_BEFORE, &time.to_string());
        scene.create(&job.json()).await?;
        let told = scene.see_event("j", "Gated").await?;
        ensure!(told.contains("not before"), "{told}");
        scene.see_complete("j").await?;
        ensure!(time <= Timestamp::now(), "started too early");
        let history = scene.history("Job", &jobs).await?;
        let lifted = history.iter().map(|revision| &revision.object);
        let lifted: Vec<_> = lifted
            .filter_map(|job| job["metadata"]["annotations"]["sluice.dev/lifted-gates"].as_str())
            .collect();
        let record: Value = serde_json::from_str(lifted[0])?;
        let at: Timestamp = record[0]["at"].as_str().unwrap_or_default().parse()?;
        ensure!(time <= at, "lifted at {at}, before {time}");
        ensure!(
            at.duration_since(time) < SignedDuration::from_mins(1),
            "lifted late: {at}"
        );
        assert_eq!(record[0]["reason"], "its schedule says");
        Ok(())
    })
    .await
}

async fn a_job_that_names_no_time_is_held_and_told(admission: Admission) -> Result<()> {
    play(admission, "sched-none", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = gate(scene, json!({"schedule": {"notBefore": {}}})).await?;
        scene.create(&Job::new("none").queue("q").gate(&gate).json()).await?;
        let told = scene.see_event("none", "Gated").await?;
        let missing = "metadata.annotations[sluice.dev/not-before]: Required value: a time such as 2026-12-01T08:00:00Z";
        ensure!(told.contains(missing), "{told}");
        let bad = Job::new("bad").queue("q").gate(&gate).annotation(NOT_BEFORE, "tomorrow");
        scene.create(&bad.json()).await?;
        let told = scene.see_event("bad", "Gated").await?;
        ensure!(told.contains("must be a time in the form of RFC 3339"), "{told}");
        for name in ["none", "bad"] {
            ensure!(is_suspended(&scene.get("Job", name).await?), "{name}");
        }
        // The time may be named later.
        let named = json!({"metadata": {"annotations": {(NOT_BEFORE): "2026-01-01T00:00:00Z"}}});
        scene.merge("Job", "none", named).await?;
        scene.see_complete("none").await?;
        Ok(())
    })
    .await
}

async fn a_window_lets_jobs_through_and_an_exception_does_not(admission: Admission) -> Result<()> {
    play(admission, "sched-window", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let always = json!({"start": "* * * * *", "durationSeconds": 3600, "timeZone": "Europe/Berlin"});
        let closed = json!({"schedule": {
            "windows": [always],
            "exceptions": [{"from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z", "reason": "closed for a century"}],
        }});
        let name = gate(scene, closed).await?;
        scene.create(&Job::new("j").queue("q").gate(&name).json()).await?;
        let told = scene.see_event("j", "Gated").await?;
        ensure!(told.contains("closed for a century"), "{told}");
        ensure!(is_suspended(&scene.get("Job", "j").await?));
        // A Gate may be edited while it holds.
        gate(scene, json!({"schedule": {"windows": [always]}})).await?;
        scene.see_complete("j").await?;
        let job = scene.get("Job", "j").await?;
        ensure!(job["metadata"]["annotations"][GATED].is_null(), "{job}");
        Ok(())
    })
    .await
}
