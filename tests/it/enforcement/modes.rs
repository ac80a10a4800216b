//! A namespace with the label `sluice.dev/enforcement`: what becomes of objects without a queue.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::enforcement::{Fate, cron_job, enforce, fate_of, is_required};
use crate::support::made_up::{MadeUp, controlled_by};
use crate::support::objects::{Job, is_suspended, local_queue, name_of, quota, with};
use crate::support::pods::{Pod, gates, is_released, is_running, replicated};
use crate::support::{DEADLINE, refusal};

both_ways!(
    by_default_an_object_gets_the_label_and_is_queued,
    a_held_object_is_queued_once_it_names_a_queue,
    nobody_but_its_owners_lifts_the_gate,
    what_names_no_queue_is_refused,
    the_jobs_of_a_cron_job_are_judged_by_its_template,
    a_value_that_is_not_known_is_refused,
    what_a_controller_makes_for_a_pod_of_its_own_is_left_alone,
);

const QUEUE_GATE: &str = "sluice.dev/queue-allocation-gate";
const REQUIRED_GATE: &str = "sluice.dev/queue-required";

fn in_queue(queue: &str) -> Value {
    json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): queue}}})
}

async fn by_default_an_object_gets_the_label_and_is_queued(admission: Admission) -> Result<()> {
    play(admission, "enf-default", async |scene| {
        enforce(scene, Some("Default"), Fate::Defaulted).await?;
        // The LocalQueue is not there yet: it waits, and is told so.
        let job = Job::new("early").runs_forever();
        let stored = scene.create(&job.json()).await?;
        ensure!(
            fate_of(&stored) == Fate::Defaulted && is_suspended(&stored),
            "{stored}"
        );
        scene
            .see_workload("early", "told that its queue is missing", |workload| {
                let (_, _, told) = crate::support::objects::condition(workload, "QuotaReserved")
                    .unwrap_or_default();
                told.contains("doesn't exist")
            })
            .await?;
        scene.queue(&[quota("cpu", "4")]).await?;
        scene.create(&local_queue("default", &scene.ns)).await?;
        scene.see_admitted("early").await?;

        let deployment = replicated("Deployment", "d", 1, Pod::new(""));
        let stored = scene.create(&deployment).await?;
        ensure!(fate_of(&stored) == Fate::Defaulted, "{stored}");
        let stored = scene.create(&Pod::new("p").json()).await?;
        ensure!(fate_of(&stored) == Fate::Defaulted, "{stored}");
        ensure!(gates(&stored) == [QUEUE_GATE], "{stored}");
        // Policies know the shipped kinds.
        if admission == Admission::Webhooks {
            let kind = MadeUp::new(scene, "Train");
            kind.install(scene).await?;
            let stored = kind.create(scene, &kind.object("t")).await?;
            ensure!(fate_of(&stored) == Fate::Defaulted, "{stored}");
            kind.see_released(scene, "t").await?;
            kind.delete_crd(scene).await?;
        }
        scene.see_pods("Running", 3).await?;
        Ok(())
    })
    .await
}

async fn a_held_object_is_queued_once_it_names_a_queue(admission: Admission) -> Result<()> {
    play(admission, "enf-hold", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;
        let stored = scene.create(&Job::new("j").runs_forever().json()).await?;
        ensure!(is_required(&stored) && is_suspended(&stored), "{stored}");
        let told = scene.see_event("j", "Gated").await?;
        ensure!(
            told == "Held until these gates are removed: sluice.dev/queue-required (its namespace requires a queue: set the label sluice.dev/queue-name to the name of a LocalQueue, or create the object anew with it)",
            "{told}"
        );
        ensure!(scene.find_workload("j").await?.is_none());
        // A template with a gate of somebody else: its pods wait behind gates.
        let gated = Job::new("gated").runs_forever().with(
            &["spec", "template", "spec", "schedulingGates"],
            json!([{"name": "acme.io/data"}]),
        );
        scene.create(&gated.json()).await?;
        scene.create(&Pod::new("p").json()).await?;
        scene.create(&replicated("Deployment", "d", 1, Pod::new(""))).await?;
        let pods = scene.see_so_many("there", 3, |_| true).await?;
        for pod in &pods {
            let held = [QUEUE_GATE, REQUIRED_GATE];
            ensure!(held.iter().all(|gate| gates(pod).contains(gate)), "{pod}");
        }

        for (kind, name) in [("Job", "j"), ("Job", "gated"), ("Pod", "p"), ("Deployment", "d")] {
            scene.merge(kind, name, in_queue("q")).await?;
        }
        scene.see_admitted("j").await?;
        scene.see("Pod", "p", "running", is_running).await?;
        let pods = scene.list("Pod").await?;
        let of_gated = pods.iter().find(|pod| pod["metadata"]["labels"]["job-name"] == "gated");
        let of_gated = name_of(of_gated.expect("it has a pod")).to_owned();
        scene
            .see("Pod", &of_gated, "behind one gate", |pod| {
                gates(pod).len() == 2 && !gates(pod).contains(&REQUIRED_GATE)
            })
            .await?;
        scene.open_gate(&of_gated, "acme.io/data").await?;
        scene.see("Pod", &of_gated, "running", is_running).await?;
        // The pods of the Deployment are made anew, in the queue.
        eventually("one pod of the Deployment to run in the queue", DEADLINE, async || {
            let mut pods = scene.list("Pod").await?;
            pods.retain(|pod| pod["metadata"]["labels"]["app"] == "d");
            for pod in &pods {
                let is_queued = pod["metadata"]["labels"][QUEUE_NAME_LABEL] == "q";
                ensure!(is_queued || !is_released(pod), "it runs without a queue: {pod}");
            }
            ensure!(pods.len() == 1 && is_running(&pods[0]), "{pods:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    })
    .await
}

async fn nobody_but_its_owners_lifts_the_gate(admission: Admission) -> Result<()> {
    play(admission, "enf-lift", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;
        let user = scene.editor("tenant").await?;
        let of_tenant = scene.acting_as(&user)?;
        let job = Job::new("j").runs_forever();
        of_tenant.create(&job.json()).await?;
        let lifted = json!({"metadata": {"annotations": {(crate::support::objects::GATES): null}}});
        let told = refusal(of_tenant.try_merge("Job", "j", lifted.clone()).await)?;
        ensure!(told.contains("cannot lift gates.sluice.dev \"queue-required.sluice.dev\""), "{told}");
        ensure!(told.ends_with("; set metadata.labels[sluice.dev/queue-name], and Sluice lifts it, or create the object anew with that label"), "{told}");
        let started = json!({"spec": {"suspend": false}});
        let told = refusal(of_tenant.try_merge("Job", "j", started).await)?;
        ensure!(told.contains("the job is held by sluice.dev/queue-required"), "{told}");
        // With a queue it may be lifted in the same update.
        let mut both = lifted.clone();
        both["metadata"]["labels"] = json!({(QUEUE_NAME_LABEL): "q"});
        of_tenant.merge("Job", "j", both).await?;
        scene.see_admitted("j").await?;
        // A queue may not be left.
        of_tenant.create(&Job::new("k").queue("nowhere").json()).await?;
        let left = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): null}}});
        let told = refusal(of_tenant.try_merge("Job", "k", left).await)?;
        ensure!(
            told.contains(&format!(
                "metadata.labels[sluice.dev/queue-name]: Forbidden: may not be removed, as namespace \"{}\" requires a queue; name another LocalQueue",
                scene.ns
            )),
            "{told}"
        );
        // Nor may a tenant say that his namespace requires none.
        let none = json!({"metadata": {"labels": {"sluice.dev/enforcement": "Ignore"}}});
        let told = refusal(of_tenant.try_merge("Namespace", &scene.ns, none).await)?;
        ensure!(told.contains("cannot patch resource \"namespaces\""), "{told}");
        // An administrator may lift it: it runs without a queue.
        scene.create(&Job::new("free").json()).await?;
        scene.merge("Job", "free", lifted).await?;
        scene.see_complete("free").await?;
        Ok(())
    })
    .await
}

async fn what_names_no_queue_is_refused(admission: Admission) -> Result<()> {
    play(admission, "enf-refuse", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        // What is there already goes on.
        scene.create(&Job::new("before").runs_forever().json()).await?;
        scene.create(&replicated("Deployment", "before", 1, Pod::new(""))).await?;
        scene.see_pods("Running", 2).await?;
        enforce(scene, Some("Refuse"), Fate::Refused).await?;
        let refused = format!(
            "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"{}\" requires a queue: must be the name of a LocalQueue of the namespace",
            scene.ns
        );
        for object in [
            Job::new("j").json(),
            Job::new("j").gate("acme.io/x").json(),
            Pod::new("p").json(),
            replicated("Deployment", "d", 1, Pod::new("")),
            replicated("StatefulSet", "s", 1, Pod::new("")),
        ] {
            let told = refusal(scene.try_create(&object).await)?;
            ensure!(told.contains(&refused), "{told}");
        }
        let told = refusal(scene.try_create(&replicated("ReplicaSet", "r", 1, Pod::new(""))).await)?;
        ensure!(told.contains(&format!("spec.template.{refused}")), "{told}");
        let cron = cron_job("c", json!({(QUEUE_NAME_LABEL): "q"}), &Job::new(""));
        let output = scene.kubectl(&["create", "-f", "-"], Some(&cron.to_string())).await?;
        ensure!(output.stderr.contains(&format!("spec.jobTemplate.{refused}")), "{}", output.stderr);

        scene.create(&Job::new("j").queue("q").runs_forever().json()).await?;
        scene.see_admitted("j").await?;
        let scaled = json!({"spec": {"replicas": 2}});
        scene.merge("Deployment", "before", scaled).await?;
        scene.see_pods("Running", 4).await?;
        Ok(())
    })
    .await
}

async fn the_jobs_of_a_cron_job_are_judged_by_its_template(admission: Admission) -> Result<()> {
    play(admission, "enf-cron", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        scene.create(&local_queue("default", &scene.ns)).await?;
        enforce(scene, Some("Default"), Fate::Defaulted).await?;
        let outer = cron_job("outer", json!({(QUEUE_NAME_LABEL): "q"}), &Job::new(""));
        let output = scene.kubectl(&["create", "-f", "-"], Some(&outer.to_string())).await?;
        for warning in [
            "Warning: metadata.labels[sluice.dev/queue-name]: has no effect, as the Jobs of a CronJob are queued, not the object itself; set spec.jobTemplate.metadata.labels[sluice.dev/queue-name]",
            "Warning: spec.jobTemplate.metadata.labels[sluice.dev/queue-name]: is not set, so the Jobs of this CronJob will be queued in LocalQueue \"default\"",
        ] {
            let is_told = output.stderr.contains(warning);
            ensure!(is_told == (admission == Admission::Webhooks), "{}", output.stderr);
        }
        let inner = cron_job("inner", json!({}), &Job::new("").queue("q"));
        let output = scene.kubectl(&["create", "-f", "-"], Some(&inner.to_string())).await?;
        ensure!(output.code == 0 && output.stderr.is_empty(), "{}", output.stderr);
        for (cron, queue) in [("outer", "default"), ("inner", "q")] {
            let from = format!("--from=cronjob/{cron}");
            scene.kubectl(&["create", "job", cron, &from], None).await?.ok()?;
            let job = scene.get("Job", cron).await?;
            ensure!(job["metadata"]["labels"][QUEUE_NAME_LABEL] == queue, "{job}");
            scene.see_complete(cron).await?;
        }
        Ok(())
    })
    .await
}

async fn a_value_that_is_not_known_is_refused(admission: Admission) -> Result<()> {
    play(admission, "enf-value", async |scene| {
        for value in ["hold", "Anything", ""] {
            let labels = json!({"metadata": {"labels": {"sluice.dev/enforcement": value}}});
            let told = refusal(scene.try_merge("Namespace", &scene.ns, labels).await)?;
            let expected = format!(
                "metadata.labels[sluice.dev/enforcement]: Unsupported value: {value:?}: supported values: \"Default\", \"DryRun\", \"Hold\", \"Ignore\", \"Refuse\""
            );
            ensure!(told.contains(&expected), "{told}");
        }
        Ok(())
    })
    .await
}

/// The worker StatefulSets of a LeaderWorkerSet carry nothing but the labels of its own, and belong to the pods of leaders.
async fn what_a_controller_makes_for_a_pod_of_its_own_is_left_alone(
    admission: Admission,
) -> Result<()> {
    play(admission, "enf-for-pod", async |scene| {
        let leader = scene.create(&Pod::new("leader").json()).await?;
        let controller = "system:serviceaccount:lws-system:lws-controller-manager";
        scene.let_edit(controller).await?;
        let of_controller = scene.acting_as(controller)?;
        let user = scene.editor("tenant").await?;
        let of_tenant = scene.acting_as(&user)?;
        let workers = |name: &str| {
            with(
                replicated("StatefulSet", name, 1, Pod::new("")),
                "/metadata/ownerReferences",
                controlled_by(&leader),
            )
        };
        for (value, fate) in [
            ("Default", Fate::Defaulted),
            ("Hold", Fate::Held),
            ("Refuse", Fate::Refused),
        ] {
            enforce(scene, Some(value), fate).await?;
            let name = format!("workers-{}", value.to_lowercase());
            let stored = of_controller.create(&workers(&name)).await?;
            ensure!(fate_of(&stored) == Fate::Left, "{stored}");
            let pod = format!("{name}-0");
            scene.see("Pod", &pod, "running", is_running).await?;
            match of_tenant.try_create(&workers("forged")).await {
                Ok(stored) => {
                    ensure!(fate_of(&stored) == fate, "{stored}");
                    scene.delete("StatefulSet", "forged").await?;
                }
                // With a queue it may not say that it belongs to another object.
                Err(told) => ensure!(
                    fate == Fate::Refused
                        || told.to_string().contains("only its controller may name it"),
                    "{told}"
                ),
            }
        }
        Ok(())
    })
    .await
}
