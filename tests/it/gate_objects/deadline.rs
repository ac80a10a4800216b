//! Gates with a Gate: what its status says, and what its deadline does to jobs, pods and objects whose pods wait. Who
//! may lift a gate lies in `gates_owners.rs`.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::gate_objects::owners::dry;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, Job, condition, is_suspended, own, own_gate, quota};
use crate::support::persist::{answered, persist};
use crate::support::pods::{Pod, gates, queued, replicated};
use crate::support::{DEADLINE, Scene, refusal};

both_ways!(
    an_overdue_gate_is_told_once_and_still_holds,
    a_deadline_lifts_its_gate_and_no_other,
    a_deadline_deactivates_until_the_user_says_otherwise,
    nobody_starts_by_hand_what_is_deactivated,
    a_pod_is_lifted_by_the_deadline_of_its_gate,
    pods_of_a_deployment_are_lifted_by_the_deadline_of_its_gate,
    a_gate_says_what_it_holds,
);

const EXPIRED: &str = "sluice.dev/expired-gates";
const LIFTED: &str = "sluice.dev/lifted-gates";
const DEACTIVATED: &str = "sluice.dev/deactivated-by";

fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

/// Makes the Gate `name`, which anybody may lift, with this deadline.
async fn gate(scene: &Scene<'_>, name: &str, seconds: i32, on_expiry: &str) -> Result<()> {
    let spec = json!({
        "description": "Somebody has to say yes",
        "contact": "budget@acme.io",
        "lifting": "Anyone",
        "deadline": {"seconds": seconds, "onExpiry": on_expiry},
    });
    scene.apply(&own("Gate", name, spec)).await
}

async fn an_overdue_gate_is_told_once_and_still_holds(admission: Admission) -> Result<()> {
    play(admission, "dl-notify", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (name, object) = own_gate(&scene.ns, "budget");
        gate(scene, &object, 2, "Notify").await?;
        scene
            .create(&Job::new("late").queue("q").gate(&name).json())
            .await?;
        let told = scene.see_event("late", "Gated").await?;
        let described = format!("{name} (Somebody has to say yes; ask budget@acme.io)");
        ensure!(told.contains(&described), "{told}");
        let told = scene.see_event("late", "GateExpired").await?;
        let expected = format!(
            "Still held 2 s after its creation, which is the deadline of the gate {described}"
        );
        ensure!(told == expected, "{told}");
        let job = scene.get("Job", "late").await?;
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        assert_eq!(annotation(&job, EXPIRED), format!("{uid},{name}"));
        assert_eq!(annotation(&job, GATED), name);
        ensure!(is_suspended(&job), "{job}");
        scene
            .see("Gate", &object, "counting it", |gate| {
                gate["status"]["expiredTotal"] == 1 && gate["status"]["held"] == 1
            })
            .await?;
        // A second deadline of its own would be told now.
        let other = Job::new("later").queue("q").gate(&name);
        scene.create(&other.json()).await?;
        scene.see_event("later", "GateExpired").await?;
        let again = scene.get("Job", "late").await?;
        assert_eq!(
            job["metadata"]["resourceVersion"],
            again["metadata"]["resourceVersion"]
        );
        Ok(())
    })
    .await
}

async fn a_deadline_lifts_its_gate_and_no_other(admission: Admission) -> Result<()> {
    play(admission, "dl-lift", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (name, object) = own_gate(&scene.ns, "data");
        gate(scene, &object, 2, "Lift").await?;
        let job = Job::new("two")
            .queue("q")
            .gates(&format!("acme.io/other, {name}"));
        scene.create(&job.json()).await?;
        let job = scene
            .see("Job", "two", "without the gate", |job| {
                annotation(job, "kueue.x-k8s.io/admission-gated-by") == "acme.io/other"
            })
            .await?;
        ensure!(is_suspended(&job), "{job}");
        let lifted: Value = serde_json::from_str(annotation(&job, LIFTED))?;
        assert_eq!(lifted[0]["gate"], name);
        assert_eq!(lifted[0]["by"], "sluice");
        assert_eq!(lifted[0]["reason"], "its deadline has passed");
        let told = scene.see_event("two", "GateLifted").await?;
        let expected =
            format!("The gate {name:?} was lifted by \"sluice\", as its deadline has passed");
        ensure!(told == expected, "{told}");

        scene
            .create(&Job::new("one").queue("q").gate(&name).json())
            .await?;
        scene.see_complete("one").await?;
        scene
            .see("Gate", &object, "counting both", |gate| {
                let status = &gate["status"];
                status["liftedTotal"] == 2 && status["held"] == 0 && status["oldest"] == json!([])
            })
            .await?;
        Ok(())
    })
    .await
}

async fn a_deadline_deactivates_until_the_user_says_otherwise(admission: Admission) -> Result<()> {
    play(admission, "dl-deact", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (name, object) = own_gate(&scene.ns, "budget");
        gate(scene, &object, 1, "Deactivate").await?;
        scene
            .create(&Job::new("j").queue("q").gate(&name).json())
            .await?;
        let told = scene.see_event("j", "Deactivated").await?;
        ensure!(
            told.contains("remove its annotation sluice.dev/deactivated-by"),
            "{told}"
        );
        let job = scene.get("Job", "j").await?;
        assert_eq!(annotation(&job, DEACTIVATED), name);

        let ungated = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "j", ungated).await?;
        // Another job of the queue shows that Sluice has seen it.
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        let job = scene.get("Job", "j").await?;
        ensure!(is_suspended(&job), "a deactivated job was started: {job}");
        ensure!(scene.find_workload("j").await?.is_none(), "it is queued");

        let active = json!({"metadata": {"annotations": {(DEACTIVATED): null}}});
        scene.merge("Job", "j", active).await?;
        scene.see_complete("j").await?;
        Ok(())
    })
    .await
}

/// Whoever may edit it may say that it is not deactivated any more; but that he has to say.
async fn nobody_starts_by_hand_what_is_deactivated(admission: Admission) -> Result<()> {
    play(admission, "dl-by-hand", async |scene| {
        let (name, object) = own_gate(&scene.ns, "budget");
        gate(scene, &object, 1, "Deactivate").await?;
        // Neither is in a queue.
        scene.create(&Job::new("j").gate(&name).json()).await?;
        let pod = Pod::new("p").annotation(GATED, &name);
        scene.create(&pod.json()).await?;
        for (kind, object) in [("Job", "j"), ("Pod", "p")] {
            scene.see_event(object, "Deactivated").await?;
            let ungated = json!({"metadata": {"annotations": {(GATED): null}}});
            scene.merge(kind, object, ungated).await?;
        }
        let started = json!({"spec": {"suspend": false}});
        let refused = answered(async || dry(scene, "Job", "j", started.clone()).await).await?;
        let told = refusal(refused)?;
        let expected = format!(
            "spec.suspend: Forbidden: the job is deactivated, as the gate \"{name}\" was not lifted in time; remove the annotation sluice.dev/deactivated-by, and it is queued, or started if it has no queue"
        );
        ensure!(told.ends_with(&expected), "{told}");
        let ungated = json!({"spec": {"schedulingGates": null}});
        let refused = answered(async || dry(scene, "Pod", "p", ungated.clone()).await).await?;
        let told = refusal(refused)?;
        let expected = format!(
            "spec.schedulingGates: Forbidden: the gate \"{name}\" stays, as the pod is deactivated; remove the annotation sluice.dev/deactivated-by, and Sluice removes the gate"
        );
        ensure!(told.ends_with(&expected), "{told}");
        let mut both = started;
        both["metadata"]["annotations"] = json!({(DEACTIVATED): null});
        persist(async || dry(scene, "Job", "j", both.clone()).await).await?;
        let active = json!({"metadata": {"annotations": {(DEACTIVATED): null}}});
        for (kind, object) in [("Job", "j"), ("Pod", "p")] {
            scene.merge(kind, object, active.clone()).await?;
        }
        scene.see_complete("j").await?;
        scene
            .see("Pod", "p", "ungated", |pod| gates(pod).is_empty())
            .await?;
        Ok(())
    })
    .await
}

async fn a_pod_is_lifted_by_the_deadline_of_its_gate(admission: Admission) -> Result<()> {
    play(admission, "dl-pod", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (name, object) = own_gate(&scene.ns, "data");
        gate(scene, &object, 2, "Lift").await?;
        let pod = Pod::new("p").queue("q").annotation(GATED, &name);
        scene.create(&pod.json()).await?;
        scene
            .see("Pod", "p", "released", |pod| {
                pod["spec"]["schedulingGates"]
                    .as_array()
                    .is_none_or(Vec::is_empty)
                    && annotation(pod, GATED).is_empty()
            })
            .await?;
        scene
            .see("Gate", &object, "counting it", |gate| {
                gate["status"]["liftedTotal"] == 1
            })
            .await?;
        Ok(())
    })
    .await
}

async fn pods_of_a_deployment_are_lifted_by_the_deadline_of_its_gate(
    admission: Admission,
) -> Result<()> {
    play(admission, "dl-dep", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let (name, object) = own_gate(&scene.ns, "data");
        gate(scene, &object, 3, "Lift").await?;
        let mut deployment = queued(replicated("Deployment", "d", 2, Pod::new("d")));
        deployment["metadata"]["annotations"] = json!({(GATED): name});
        scene.create(&deployment).await?;
        eventually("both pods to be released", DEADLINE, async || {
            let pods = scene.list("Pod").await?;
            let is_free = |pod: &Value| {
                pod["spec"]["schedulingGates"]
                    .as_array()
                    .is_none_or(Vec::is_empty)
            };
            let free = pods.iter().filter(|pod| is_free(pod)).count();
            ensure!(free == 2, "{free} of {}", pods.len());
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let deployment = scene.get("Deployment", "d").await?;
        assert_eq!(annotation(&deployment, GATED), "");
        let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default();
        assert_eq!(annotation(&deployment, EXPIRED), format!("{uid},{name}"));
        Ok(())
    })
    .await
}

async fn a_gate_says_what_it_holds(admission: Admission) -> Result<()> {
    play(admission, "dl-status", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (name, object) = own_gate(&scene.ns, "licence");
        let spec = json!({"lifting": "Anyone", "backlog": {"held": 2}});
        scene.apply(&own("Gate", &object, spec)).await?;
        for index in 0..3 {
            let job = Job::new(&format!("j{index}")).queue("q").gate(&name);
            scene.create(&job.json()).await?;
        }
        scene
            .see_condition("Gate", &object, "Backlogged", "True", "TooManyHeld")
            .await?;
        let gate = scene
            .see("Gate", &object, "naming three", |gate| {
                gate["status"]["held"] == 3
            })
            .await?;
        let oldest = gate["status"]["oldest"].as_array().unwrap().clone();
        assert_eq!(oldest.len(), 3);
        assert_eq!(oldest[0]["kind"], "Job.batch");
        assert_eq!(oldest[0]["namespace"], scene.ns.as_str());
        assert_eq!(gate["status"]["oldestSince"], oldest[0]["since"]);
        scene
            .see_condition("LocalQueue", "q", "Backlogged", "True", "TooManyHeld")
            .await?;
        let queue = scene
            .see("LocalQueue", "q", "naming three", |queue| {
                queue["status"]["oldestGated"]
                    .as_array()
                    .is_some_and(|oldest| oldest.len() == 3)
            })
            .await?;
        let told = condition(&queue, "Backlogged").unwrap_or_default().2;
        let expected = format!("Gate {object} holds more than 2 objects of this queue");
        assert_eq!(told, expected);
        let first = &queue["status"]["oldestGated"][0];
        assert_eq!(first["gates"], json!([name]));
        assert_eq!(first["since"], oldest[0]["since"]);
        let shown = scene
            .kubectl(&["get", "gates", &object], None)
            .await?
            .ok()?;
        ensure!(
            ["HELD", "OLDEST", "DEADLINE"]
                .iter()
                .all(|column| shown.contains(column)),
            "{shown}"
        );

        let ungated = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "j1", ungated).await?;
        scene
            .see_condition("Gate", &object, "Backlogged", "False", "WithinThresholds")
            .await?;
        scene
            .see_condition("LocalQueue", "q", "Backlogged", "False", "WithinThresholds")
            .await?;
        // The gate holds on by itself when its Gate is gone.
        scene.delete("Gate", &object).await?;
        let job = scene.get("Job", "j2").await?;
        ensure!(is_suspended(&job), "{job}");
        let ungated = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "j2", ungated).await?;
        scene.see_complete("j2").await?;
        Ok(())
    })
    .await
}
