//! Gates that can't be, are edited while they hold, or go away: what is refused, what is told, and that objects stay
//! held meanwhile.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::made_up::MadeUp;
use crate::support::objects::{Job, condition, here, is_suspended, own, own_gate, quota};
use crate::support::persist::answered;
use crate::support::{DEADLINE, Scene, refusal};

both_ways!(
    a_schedule_that_can_not_be_is_refused_or_told,
    an_exception_ends_before_the_calendar_does,
    there_is_one_gate_object_for_a_gate,
    a_gate_object_that_goes_while_it_holds_is_told,
    another_way_of_lifting_counts_at_once,
    what_is_no_kind_is_refused_and_what_nobody_manages_is_told,
);

fn window(start: &str, zone: &str) -> Value {
    json!({"schedule": {"windows": [{"start": start, "durationSeconds": 60, "timeZone": zone}]}})
}

async fn see_told(scene: &Scene<'_>, job: &str, message: &str) -> Result<()> {
    eventually(&format!("the event {message:?}"), DEADLINE, async || {
        let events = scene.events(job).await?;
        let is_told = events
            .iter()
            .any(|(reason, told)| reason == "Gated" && told == message);
        ensure!(is_told, "{events:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// The webhook refuses it. Where only the schema is there, the Gate says so, and lifts nothing.
async fn a_schedule_that_can_not_be_is_refused_or_told(admission: Admission) -> Result<()> {
    play(admission, "bad-schedule", async |scene| {
        let at = "spec.schedule.windows[0]";
        let cases = [
            (
                "zone",
                window("* * * * *", "Mars/Base"),
                format!("{at}.timeZone: Invalid value: \"Mars/Base\": unknown time zone; use a name of the IANA database such as \"Europe/Berlin\""),
            ),
            (
                "never",
                window("0 0 31 2 *", "Etc/UTC"),
                format!("{at}.start: Invalid value: \"0 0 31 2 *\": never comes: none of its months has such a day"),
            ),
        ];
        for (path, spec, problem) in cases {
            let (gate, object) = own_gate(&scene.ns, path);
            let answer = scene.try_create(&own("Gate", &object, spec)).await;
            if admission == Admission::Webhooks {
                let told = refusal(answer)?;
                ensure!(told.ends_with(&problem), "{told}");
                continue;
            }
            answer?;
            let told = scene.see_condition("Gate", &object, "Active", "False", "Invalid").await?;
            ensure!(told.contains(&problem), "{told}");
            scene.create(&Job::new(path).gate(&gate).json()).await?;
            let told = format!("Held until these gates are removed: {gate} (its Gate is not valid)");
            see_told(scene, path, &told).await?;
            ensure!(is_suspended(&scene.get("Job", path).await?));
        }
        Ok(())
    })
    .await
}

/// The schema says so, in either variant: nobody could read the Gate.
async fn an_exception_ends_before_the_calendar_does(admission: Admission) -> Result<()> {
    play(admission, "bad-end", async |scene| {
        let (gate, object) = own_gate(&scene.ns, "end");
        let until = |to: &str| {
            let exception = json!({"from": "2026-01-01T00:00:00Z", "to": to});
            let spec = json!({"schedule": {"notBefore": {}, "exceptions": [exception]}});
            own("Gate", &object, spec)
        };
        let told = refusal(scene.try_create(&until("9999-12-31T23:59:59Z")).await)?;
        let rule = "spec.schedule.exceptions[0].to: Invalid value";
        ensure!(told.contains(rule), "{told}");
        ensure!(
            told.contains("must be before 9999-12-30T00:00:00Z"),
            "{told}"
        );
        scene.create(&until("9999-12-29T23:59:59Z")).await?;
        scene.create(&Job::new("j").gate(&gate).json()).await?;
        scene.see_event("j", "Gated").await?;
        scene
            .see_condition("Gate", &object, "Active", "True", "Ready")
            .await?;
        Ok(())
    })
    .await
}

async fn there_is_one_gate_object_for_a_gate(admission: Admission) -> Result<()> {
    play(admission, "bad-twice", async |scene| {
        let (_, object) = own_gate(&scene.ns, "budget");
        scene.create(&own("Gate", &object, json!({}))).await?;
        let again = scene.create_once(&own("Gate", &object, json!({}))).await;
        let told = refusal(again)?;
        ensure!(told.contains("already exists"), "{told}");
        // No other name says the same gate.
        for name in ["budget", "Budget.acme.io", "a--.acme.io"] {
            let told = refusal(scene.create_once(&own("Gate", name, json!({}))).await)?;
            ensure!(told.contains("metadata.name"), "{name}: {told}");
        }
        Ok(())
    })
    .await
}

async fn a_gate_object_that_goes_while_it_holds_is_told(admission: Admission) -> Result<()> {
    play(admission, "bad-deleted", async |scene| {
        let (gate, object) = own_gate(&scene.ns, "budget");
        scene
            .apply(&own("Gate", &object, json!({"contact": "budget@acme.io"})))
            .await?;
        scene.create(&Job::new("j").gate(&gate).json()).await?;
        let held = format!("Held until these gates are removed: {gate}");
        see_told(scene, "j", &format!("{held} (ask budget@acme.io)")).await?;
        scene.delete("Gate", &object).await?;
        see_told(scene, "j", &held).await?;
        ensure!(is_suspended(&scene.get("Job", "j").await?));
        Ok(())
    })
    .await
}

async fn another_way_of_lifting_counts_at_once(admission: Admission) -> Result<()> {
    play(admission, "bad-edited", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (gate, object) = own_gate(&scene.ns, "turns");
        let counter = json!({"counter": {"limit": 0}});
        scene.apply(&own("Gate", &object, counter)).await?;
        for name in ["one", "two"] {
            scene
                .create(&Job::new(name).queue("q").gate(&gate).json())
                .await?;
        }
        let holds = |count: u32| move |gate: &Value| gate["status"]["held"] == count;
        scene.see("Gate", &object, "holding two", holds(2)).await?;
        // Both at once: what lifts it is told apart by the schema.
        let both = json!({"spec": {"approval": {}}});
        let told = refusal(scene.merge_once("Gate", &object, both).await)?;
        ensure!(told.contains("at most one of"), "{told}");
        let approval = json!({"spec": {"counter": null, "approval": {}}});
        scene.merge("Gate", &object, approval).await?;
        // Nothing lifts it by itself any more; a schedule that is open does.
        let schedule = json!({"spec": {"approval": null, "schedule": {
            "windows": [{"start": "* * * * *", "durationSeconds": 3600}],
        }}});
        scene.merge("Gate", &object, schedule).await?;
        for name in ["one", "two"] {
            scene.see_complete(name).await?;
        }
        scene.see("Gate", &object, "holding none", holds(0)).await?;
        Ok(())
    })
    .await
}

async fn what_is_no_kind_is_refused_and_what_nobody_manages_is_told(
    admission: Admission,
) -> Result<()> {
    play(admission, "bad-kinds", async |scene| {
        let (_, object) = own_gate(&scene.ns, "kinds");
        let of = |group: &str, kind: &str| {
            let kinds = json!([{"group": "batch", "kind": "Job"}, {"group": group, "kind": kind}]);
            own("Gate", &object, json!({"appliesTo": {"namespaceSelector": here(&scene.ns), "queues": ["gold"], "kinds": kinds}}))
        };
        for (group, kind, field) in [
            ("apps", "Deploy ment", "kind"),
            ("apps", "Deployment.apps", "kind"),
            ("apps", "", "kind"),
            ("apps/v1", "Deployment", "group"),
            ("Apps", "Deployment", "group"),
        ] {
            let told = refusal(answered(async || scene.create_once(&of(group, kind)).await).await?)?;
            let at = format!("spec.appliesTo.kinds[1].{field}: Invalid value: ");
            ensure!(told.contains(&at), "{group} {kind}: {told}");
        }
        // Nobody has heard of it yet.
        let train = MadeUp::new(scene, "Train");
        let gate = of(&train.group, &train.kind);
        let args = ["create", "-f", "-"];
        let output = scene.kubectl(&args, Some(&gate.to_string())).await?;
        ensure!(output.code == 0, "{}", output.stderr);
        let warning = format!(
            "Warning: spec.appliesTo.kinds[1]: no JobKind declares Train of API group \"{}\", so its objects do not get the gate until there is one",
            train.group
        );
        let is_warned = admission == Admission::Webhooks;
        ensure!(output.stderr.contains(&warning) == is_warned, "{}", output.stderr);
        let told = format!(
            ". No JobKind declares Train.{}, so objects of such a kind do not get the gate",
            train.group
        );
        let (reason, is_known) = match admission {
            Admission::Webhooks => ("KindNotManaged", ("True", "InPlace")),
            Admission::Policies => ("NoWebhook", ("False", "NoWebhook")),
        };
        let see = async |is_told: bool| {
            scene
                .see("Gate", &object, "telling of its kinds", |gate| {
                    let expected = if is_told { ("False", reason) } else { is_known };
                    let applied = condition(gate, "Applied");
                    applied.is_some_and(|(status, reason, message)| {
                        (status, reason) == expected && message.ends_with(&told) == is_told
                    })
                })
                .await
        };
        see(true).await?;
        train.install(scene).await?;
        see(false).await?;
        scene.delete("JobKind", &train.name).await?;
        see(true).await?;
        train.delete_crd(scene).await?;
        scene.delete("Gate", &object).await
    })
    .await
}
