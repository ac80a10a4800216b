//! Gates that are lifted after another object, where something goes wrong: the object fails, a right is taken away, the
//! Gate is edited or deleted, the controller is killed. What goes right lies in `gates_after.rs`.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, SluiceOptions};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::after::{AFTER, after_gate, job_rule, object, rule, waiting};
use crate::support::made_up::MadeUp;
use crate::support::objects::{GATED, Job, is_suspended, own, own_gate, quota};
use crate::support::{Scene, bed};

both_ways!(
    what_has_failed_is_told_and_may_recover,
    what_has_failed_lifts_the_gate,
    what_has_failed_deactivates,
    without_a_deadline_what_has_failed_is_told,
    a_right_that_is_taken_away_holds,
    a_gate_is_edited_and_deleted_while_it_holds,
);

const EXPIRED: &str = "sluice.dev/expired-gates";

fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

/// Makes the Gate `data` with this deadline, which would pass in a day.
async fn gate(scene: &Scene<'_>, after: Value, on_expiry: &str) -> Result<String> {
    let (name, object) = own_gate(&scene.ns, "data");
    let deadline = json!({"seconds": 86400, "onExpiry": on_expiry});
    let spec = json!({"after": after, "deadline": deadline, "lifting": "Anyone"});
    scene.apply(&own("Gate", &object, spec)).await?;
    Ok(name)
}

async fn what_has_failed_is_told_and_may_recover(admission: Admission) -> Result<()> {
    play(admission, "after-notify", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = gate(scene, json!({"kinds": [job_rule()]}), "Notify").await?;
        scene.create(&Job::new("prepare").fails().json()).await?;
        scene
            .create(&waiting("train", &gate, "prepare").json())
            .await?;
        let told = scene.see_event("train", "DependencyFailed").await?;
        let expected =
            format!("Still held: Job.batch prepare has failed, and the gate {gate} waits for it");
        ensure!(told == expected, "{told}");
        scene
            .see_told("train", "Gated", "Job.batch \"prepare\" has failed")
            .await?;
        let train = scene.get("Job", "train").await?;
        let uid = train["metadata"]["uid"].as_str().unwrap_or_default();
        assert_eq!(annotation(&train, EXPIRED), format!("{uid},{gate}"));
        ensure!(is_suspended(&train), "{train}");
        // It acts once: another job shows that all is looked at again.
        scene
            .create(&waiting("other", &gate, "prepare").json())
            .await?;
        scene.see_event("other", "DependencyFailed").await?;
        let events = scene.events("train").await?;
        let failed = events
            .iter()
            .filter(|(reason, _)| reason == "DependencyFailed");
        ensure!(failed.count() == 1, "{events:?}");
        let again = scene.get("Job", "train").await?;
        assert_eq!(
            train["metadata"]["resourceVersion"],
            again["metadata"]["resourceVersion"]
        );
        let (_, object) = own_gate(&scene.ns, "data");
        scene
            .see("Gate", &object, "counting both", |gate| {
                gate["status"]["expiredTotal"] == 2
            })
            .await?;
        scene.delete("Job", "prepare").await?;
        scene.see_gone("Job", "prepare").await?;
        scene.create(&Job::new("prepare").json()).await?;
        scene.see_complete("train").await?;
        scene.see_complete("other").await?;
        Ok(())
    })
    .await
}

async fn what_has_failed_lifts_the_gate(admission: Admission) -> Result<()> {
    play(admission, "after-lift", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = gate(scene, json!({"kinds": [job_rule()]}), "Lift").await?;
        scene.create(&Job::new("prepare").fails().json()).await?;
        scene
            .create(&waiting("train", &gate, "prepare").json())
            .await?;
        scene.see_complete("train").await?;
        let told = scene.see_event("train", "GateLifted").await?;
        let expected =
            format!("The gate {gate:?} was lifted by \"sluice\", as Job.batch prepare has failed");
        ensure!(told == expected, "{told}");
        Ok(())
    })
    .await
}

async fn what_has_failed_deactivates(admission: Admission) -> Result<()> {
    play(admission, "after-deact", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = gate(scene, json!({"kinds": [job_rule()]}), "Deactivate").await?;
        scene.create(&Job::new("prepare").fails().json()).await?;
        scene.create(&waiting("train", &gate, "prepare").json()).await?;
        let told = scene.see_event("train", "Deactivated").await?;
        let expected = format!(
            "Deactivated: Job.batch prepare has failed, and the gate {gate:?} waits for it; to let the object go on when its gates are lifted, remove its annotation sluice.dev/deactivated-by"
        );
        ensure!(told == expected, "{told}");
        let train = scene.get("Job", "train").await?;
        assert_eq!(annotation(&train, "sluice.dev/deactivated-by"), gate);
        scene.delete("Job", "prepare").await?;
        scene.see_gone("Job", "prepare").await?;
        scene.create(&Job::new("prepare").json()).await?;
        // What recovers lifts the gate; the object stays held for its user.
        let train = scene
            .see("Job", "train", "without the gate", |job| annotation(job, GATED).is_empty())
            .await?;
        ensure!(is_suspended(&train), "{train}");
        let active = json!({"metadata": {"annotations": {"sluice.dev/deactivated-by": null}}});
        scene.merge("Job", "train", active).await?;
        scene.see_complete("train").await?;
        Ok(())
    })
    .await
}

async fn without_a_deadline_what_has_failed_is_told(admission: Admission) -> Result<()> {
    play(admission, "after-failed", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = after_gate(scene, json!({"kinds": [job_rule()]})).await?;
        scene.create(&Job::new("prepare").fails().json()).await?;
        scene
            .create(&waiting("train", &gate, "prepare").json())
            .await?;
        let told = scene.see_event("train", "DependencyFailed").await?;
        let expected = format!(
            "Held until these gates are removed: {gate} (Job.batch \"prepare\" has failed)"
        );
        ensure!(told == expected, "{told}");
        let train = scene.get("Job", "train").await?;
        ensure!(
            is_suspended(&train) && annotation(&train, EXPIRED).is_empty(),
            "{train}"
        );
        Ok(())
    })
    .await
}

async fn a_right_that_is_taken_away_holds(admission: Admission) -> Result<()> {
    play(admission, "after-right", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install_crd(scene).await?;
        scene.apply(&widget.role()).await?;
        let done = rule(
            &widget.group,
            "Widget",
            "has(object.status) && object.status.done",
        );
        let gate = after_gate(scene, json!({"kinds": [done]})).await?;
        let (_, object) = own_gate(&scene.ns, "data");
        scene
            .see_condition("Gate", &object, "Active", "True", "Ready")
            .await?;
        widget.create(scene, &widget.object("table")).await?;
        widget
            .set_status(scene, "table", json!({"done": true}))
            .await?;
        scene
            .create(&waiting("first", &gate, "table").json())
            .await?;
        scene.see_complete("first").await?;
        scene.delete("ClusterRole", &widget.resource()).await?;
        scene
            .see_condition("Gate", &object, "Active", "False", "Forbidden")
            .await?;
        // What was seen before does not count any more.
        scene
            .create(&waiting("second", &gate, "table").json())
            .await?;
        scene
            .see_told("second", "Gated", "such objects can't be watched")
            .await?;
        ensure!(is_suspended(&scene.get("Job", "second").await?));
        scene.apply(&widget.role()).await?;
        scene.see_complete("second").await?;
        scene.delete("Gate", &object).await?;
        widget.delete_crd(scene).await
    })
    .await
}

async fn a_gate_is_edited_and_deleted_while_it_holds(admission: Admission) -> Result<()> {
    play(admission, "after-edit", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        scene.create(&Job::new("prepare").json()).await?;
        scene.see_complete("prepare").await?;
        let (gate, name) = own_gate(&scene.ns, "data");
        let apply = async |spec: Value| scene.apply(&own("Gate", &name, spec)).await;
        apply(json!({"approval": {}})).await?;
        scene.create(&waiting("one", &gate, "prepare").json()).await?;
        scene.see_event("one", "Gated").await?;
        // From approval to after: what is complete lifts it now.
        let after = json!({"kinds": [job_rule()]});
        apply(json!({ "after": after })).await?;
        scene.see_complete("one").await?;
        scene.create(&waiting("two", &gate, "other").json()).await?;
        scene.see_told("two", "Gated", "does not exist").await?;
        // To another condition, and to a schedule that is closed.
        apply(json!({"after": object(rule("batch", "Job", "object.status.succeeded > 5"), "prepare", None)})).await?;
        scene.see_told("two", "Gated", "waits for Job.batch \"prepare\": its condition is not true yet").await?;
        apply(json!({"schedule": {"notBefore": {}}})).await?;
        scene.see_told("two", "Gated", "metadata.annotations[sluice.dev/not-before]: Required value").await?;
        // Without its Gate a gate is a plain one, and holds.
        scene.delete("Gate", &name).await?;
        scene.create(&waiting("three", &gate, "prepare").json()).await?;
        let told = scene.see_event("three", "Gated").await?;
        ensure!(told == format!("Held until these gates are removed: {gate}"), "{told}");
        for job in ["two", "three"] {
            ensure!(is_suspended(&scene.get("Job", job).await?), "{job}");
        }
        // The Gate comes again.
        apply(json!({ "after": after })).await?;
        scene.see_complete("three").await?;
        let named = json!({"metadata": {"annotations": {(AFTER): "prepare"}}});
        scene.merge("Job", "two", named).await?;
        scene.see_complete("two").await?;
        Ok(())
    })
    .await
}

/// What has come true, failed or gone while no controller ran is seen by the next one.
#[tokio::test]
async fn a_restart_sees_what_happened_meanwhile() -> Result<()> {
    let options = Options::with_crds()?;
    let sluice = SluiceOptions::new(bed::BINARY);
    bed::own("after-restart", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        scene.queue(&[quota("cpu", "4")]).await?;
        let gate = gate(scene, json!({"kinds": [job_rule()]}), "Notify").await?;
        for (job, named) in [
            ("done", "prepare"),
            ("failed", "broken"),
            ("waits", "missing"),
        ] {
            scene.create(&waiting(job, &gate, named).json()).await?;
            scene.see_told(job, "Gated", "does not exist").await?;
        }
        bed.sluice.kill();
        scene.create(&Job::new("prepare").json()).await?;
        scene.create(&Job::new("broken").fails().json()).await?;
        scene.see_complete("prepare").await?;
        scene
            .see_condition("Job", "broken", "Failed", "True", "BackoffLimitExceeded")
            .await?;
        bed.sluice.start_again().await?;
        scene.see_complete("done").await?;
        scene.see_event("failed", "DependencyFailed").await?;
        let waits = scene.get("Job", "waits").await?;
        ensure!(is_suspended(&waits), "{waits}");
        // Again, with nothing new: nothing is written.
        let failed = scene.get("Job", "failed").await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene
            .create(&waiting("last", &gate, "prepare").json())
            .await?;
        scene.see_complete("last").await?;
        for before in [waits, failed] {
            let name = before["metadata"]["name"].as_str().unwrap_or_default();
            let now = scene.get("Job", name).await?;
            assert_eq!(
                before["metadata"]["resourceVersion"],
                now["metadata"]["resourceVersion"]
            );
        }
        Ok(())
    })
    .await
}
