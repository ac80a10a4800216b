//! What an object tells of its gates: labels by which the controller of a gate finds what it holds, and who lifted
//! which gate, by every road.

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::gates::roads::{PARTS, ROADS, edit, mk_job};
use crate::support::Scene;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, GATES, Job, name_of};
use crate::support::persist::persist;
use crate::support::pods::{Pod, queued, replicated};

both_ways!(
    labels_come_at_birth_and_go_with_the_gates,
    who_lifted_a_gate_is_kept_and_told_by_every_road,
    no_user_lies_about_gates,
);

const LIFTED: &str = "sluice.dev/lifted-gates";
const A: &str = "gate.sluice.dev/a.acme.io";
const B: &str = "gate.sluice.dev/b.acme.io";

/// The labels that tell of gates.
fn told(object: &Value) -> Vec<&str> {
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    let labels =
        labels.filter(|(key, value)| key.starts_with("gate.sluice.dev/") && *value == "true");
    labels.map(|(key, _)| key.as_str()).collect()
}

fn record(object: &Value) -> Result<Vec<Value>> {
    let text = object["metadata"]["annotations"][LIFTED].as_str();
    let text = text.with_context(|| format!("no record: {object}"))?;
    Ok(serde_json::from_str(text)?)
}

fn kept(gates: Value) -> Value {
    json!({"metadata": {"annotations": gates}})
}

async fn labels_come_at_birth_and_go_with_the_gates(admission: Admission) -> Result<()> {
    play(admission, "marks-labels", async |scene| {
        let gates = "acme.io/a, acme.io/b, acme.io/No.Label";
        let pod = Pod::new("pod").annotation(GATES, gates).json();
        let mut deployment = queued(replicated("Deployment", "web", 1, Pod::new("web")));
        deployment["metadata"]["annotations"] = json!({(GATES): gates});
        // A gate that pods can carry by its own name: policies can't make others.
        deployment["metadata"]["annotations"][GATES] = json!("acme.io/a, acme.io/b");
        let job = Job::new("job").gates(gates).label("team", "blue").json();
        for (kind, object) in [("Job", job), ("Pod", pod), ("Deployment", deployment)] {
            let name = name_of(&object).to_owned();
            let born = scene.create(&object).await?;
            assert_eq!(told(&born), [A, B], "{kind}");
            let one = scene
                .merge(kind, &name, kept(json!({(GATES): "acme.io/b"})))
                .await?;
            assert_eq!(told(&one), [B], "{kind}");
            let none = scene
                .merge(kind, &name, kept(json!({(GATES): null})))
                .await?;
            assert_eq!(told(&none), [""; 0], "{kind}");
        }
        // The pods of the Deployment wait behind its gates, and are nobody's to look after.
        for pod in scene.list("Pod").await? {
            assert_eq!(told(&pod), [""; 0], "{pod}");
        }
        Ok(())
    })
    .await
}

async fn who_lifted_a_gate_is_kept_and_told_by_every_road(admission: Admission) -> Result<()> {
    play(admission, "marks-roads", async |scene| {
        let user = scene.editor("ann").await?;
        let role = scene.name("status");
        let args = [
            "create",
            "role",
            &role,
            "--verb=patch,update,get",
            "--resource=jobs.batch/status",
        ];
        scene.kubectl(&args, None).await?.ok()?;
        let (for_role, for_user) = (format!("--role={role}"), format!("--user={user}"));
        let args = ["create", "rolebinding", &role, &for_role, &for_user];
        scene.kubectl(&args, None).await?.ok()?;
        let ann = scene.acting_as(&user)?;
        for (index, road) in ROADS.into_iter().enumerate() {
            for part in PARTS {
                let name = format!("{index}-{}", format!("{part:?}").to_lowercase());
                let from = [(GATES, "acme.io/a,acme.io/b")];
                let made = mk_job(&name, &from);
                let born = crate::gates::roads::apply(scene, &made, false).await?;
                let to = [(GATES, "acme.io/b")];
                // The API server hears of the binding by a watch of its own.
                let job =
                    persist(async || edit(&ann, (road, part, false), &name, &from, &to).await)
                        .await?;
                assert_eq!(told(&job), [B], "{road:?} {part:?}");
                let record = record(&job)?;
                ensure!(record.len() == 1, "{road:?} {part:?}: {record:?}");
                assert_eq!(record[0]["gate"], "acme.io/a");
                assert_eq!(record[0]["by"], user);
                assert_eq!(record[0]["uid"], born["metadata"]["uid"]);
                // Policies know no time.
                assert_eq!(
                    record[0]["at"].is_string(),
                    admission == Admission::Webhooks
                );
                let event = scene.see_event(&name, "GateLifted").await?;
                assert_eq!(
                    event,
                    format!("The gate \"acme.io/a\" was lifted by {user:?}")
                );
            }
        }
        Ok(())
    })
    .await
}

async fn no_user_lies_about_gates(admission: Admission) -> Result<()> {
    play(admission, "marks-lies", async |scene| {
        scene.create(&Job::new("j").queue("nowhere").gate("acme.io/a").label(B, "true").json()).await?;
        let job = scene.get("Job", "j").await?;
        assert_eq!(told(&job), [A]);
        for labels in [json!({(A): null}), json!({(B): "true"}), json!({(A): "false", (B): "x"})] {
            let patch = json!({"metadata": {"labels": labels}});
            let job = scene.merge("Job", "j", patch).await?;
            assert_eq!(told(&job), [A]);
        }
        // What others lifted, and when, is not for him to say who lifts.
        let forged = json!([{"gate": "acme.io/a", "by": "bob", "at": "2026-01-01T00:00:00Z", "uid": job["metadata"]["uid"]}]);
        let patch = kept(json!({(GATED): null, (LIFTED): forged.to_string()}));
        let job = scene.merge("Job", "j", patch).await?;
        let record = record(&job)?;
        ensure!(record.len() == 1 && record[0]["by"] != "bob", "{record:?}");
        ensure!(record[0]["at"] != "2026-01-01T00:00:00Z", "{record:?}");
        // Nor at what time he lifts a gate himself, by which the job may take its place.
        let job = scene.create(&Job::new("timed").gate("acme.io/a").json()).await?;
        let early = Timestamp::now() - SignedDuration::from_secs(40);
        let early = Timestamp::from_second(early.as_second())?.to_string();
        let (by, uid) = (&record[0]["by"], &job["metadata"]["uid"]);
        let forged = format!(
            r#"[{{"gate":"acme.io/a","by":{by},"at":"{early}","uid":{uid}}}]"#
        );
        let patch = kept(json!({(GATED): null, (LIFTED): forged}));
        let job = scene.merge("Job", "timed", patch).await?;
        let record = self::record(&job)?;
        ensure!(record.len() == 1 && record[0]["at"] != early, "{record:?}");
        // A label without a gate holds nothing, and goes.
        let patch = json!({"metadata": {"labels": {(B): "true"}}});
        let job = scene.merge("Job", "j", patch).await?;
        assert_eq!(told(&job), [""; 0]);
        scene.find_workload("j").await?;
        scene.see_workload("j", "queued", |_| true).await?;
        Ok(())
    })
    .await
}

/// The controller mends what nobody saw at admission.
#[tokio::test]
async fn without_admission_the_controller_takes_away_the_labels_of_lifted_gates() -> Result<()> {
    use sluice_testbed::SluiceOptions;
    let options = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(crate::support::bed::BINARY)
    };
    crate::support::bed::own_running_with("marks-bare", options, async |_, scene: &Scene<'_>| {
        let job = Job::new("j")
            .gate("acme.io/a")
            .queue("nowhere")
            .label(A, "true");
        let job = job.with(&["spec", "suspend"], json!(true)).json();
        scene.create(&job).await?;
        let pod = Pod::new("p")
            .annotation(GATED, "acme.io/a")
            .label(A, "true");
        let pod = pod
            .label("sluice.dev/managed", "true")
            .scheduling_gate("acme.io/a");
        let pod = pod
            .annotation("sluice.dev/propagated-gates", "acme.io/a")
            .json();
        scene.create(&pod).await?;
        for (kind, name) in [("Job", "j"), ("Pod", "p")] {
            scene
                .merge(kind, name, kept(json!({(GATED): null})))
                .await?;
            let is_untold = |object: &Value| told(object).is_empty();
            scene
                .see(kind, name, "without the label", is_untold)
                .await?;
        }
        Ok(())
    })
    .await
}
