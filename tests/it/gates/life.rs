//! The life of a gated job: held without Workload and pods, released when its last gate goes, with or
//! without a queue, and whatever happens to the controller meanwhile.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::gates::kubectl::kubectl_answered;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::history::History;
use crate::support::made_up::controlled_by;
use crate::support::objects::{
    GATED, GATES, Job, is_admitted, is_complete, is_suspended, name_of, own, own_gate, quota,
    revision_of, with,
};
use crate::support::pods::Pod;
use crate::support::{Scene, bed};

both_ways!(
    a_lifted_gate_queues_the_job_as_it_was_edited,
    one_patch_raises_requests_and_lifts_the_gate,
    a_gate_without_a_domain_and_a_late_one_are_refused,
    all_gates_of_a_list_must_go,
    gates_of_both_annotations_hold_together,
    a_gate_needs_no_queue,
    a_suspended_job_without_gate_and_queue_is_left_alone,
    a_deleted_and_recreated_job_is_judged_anew,
    the_garbage_collector_is_not_stopped_by_gates,
);

/// Removes a gate annotation and returns the job as it was stored then.
async fn lift(scene: &Scene<'_>, name: &str, annotation: &str) -> Result<Value> {
    scene
        .merge(
            "Job",
            name,
            json!({"metadata": {"annotations": {(annotation): null}}}),
        )
        .await
}

/// Fails if anything of a kind was there before the revision, if what `of` says of the objects.
fn none_before(
    history: &[crate::support::history::Revision],
    number: u128,
    what: &str,
) -> Result<()> {
    let first = history.first();
    ensure!(
        first.is_none_or(|first| number < first.number),
        "a {what} was there before revision {number}: {first:?}"
    );
    Ok(())
}

/// What is recorded up to the first object of a kind that there is.
async fn up_to_the_first(
    scene: &Scene<'_>,
    kind: &str,
    recorded: &History,
) -> Result<Vec<crate::support::history::Revision>> {
    let objects = scene.list(kind).await?;
    let newest = objects.iter().map(revision_of).max();
    ensure!(newest.is_some(), "there is no {kind}");
    recorded.until(newest.unwrap_or_default()).await
}

/// KEP-6915, its first case: the Workload comes when the gate goes, with what the job asks for then.
async fn a_lifted_gate_queues_the_job_as_it_was_edited(admission: Admission) -> Result<()> {
    play(admission, "life-lift", async |scene| {
        if !scene.edits_requests().await? {
            return Ok(());
        }
        scene.queue(&[quota("cpu", "2")]).await?;
        let (workloads, pods) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let job = Job::new("train")
            .queue("q")
            .gate("acme.io/budget")
            .cpu("100m");
        scene.apply(&job.json()).await?;
        let told = scene.see_event("train", "Gated").await?;
        ensure!(told.contains("acme.io/budget"), "{told}");
        scene
            .see("LocalQueue", "q", "counting it", |q| {
                q["status"]["gatedWorkloads"] == 1
            })
            .await?;
        scene.apply(&job.cpu("200m").json()).await?;

        let lifted = lift(scene, "train", GATED).await?;
        let workload = scene.see_workload("train", "there", |_| true).await?;
        assert_eq!(workload["spec"]["queueName"], "q");
        assert_eq!(
            workload["spec"]["podSets"][0]["requests"]["cpu"], "200m",
            "{workload}"
        );
        scene.see_complete("train").await?;
        scene.see_event("train", "GateLifted").await?;
        scene
            .see("LocalQueue", "q", "counting it no more", |q| {
                q["status"]["gatedWorkloads"] == 0
            })
            .await?;
        for (kind, recorded) in [("Workload", &workloads), ("Pod", &pods)] {
            let history = up_to_the_first(scene, kind, recorded).await?;
            none_before(&history, revision_of(&lifted), kind)?;
        }
        Ok(())
    })
    .await
}

/// KEP-6915: the gate is lifted by the edit that raises what the job asks for.
async fn one_patch_raises_requests_and_lifts_the_gate(admission: Admission) -> Result<()> {
    play(admission, "life-raise", async |scene| {
        if !scene.edits_requests().await? {
            return Ok(());
        }
        scene.queue(&[quota("cpu", "2")]).await?;
        let workloads = scene.record("Workload").await?;
        let job = Job::new("train")
            .queue("q")
            .gate("acme.io/budget")
            .cpu("100m");
        scene.create(&job.json()).await?;
        let path = "/spec/template/spec/containers/0/resources/requests/cpu";
        let patch = serde_json::from_value(json!([
            {"op": "replace", "path": path, "value": "900m"},
            {"op": "remove", "path": "/metadata/annotations/kueue.x-k8s.io~1scheduling-gated-by"},
        ]))?;
        let patch = Patch::<Value>::Json(patch);
        scene
            .api("Job")
            .patch("train", &PatchParams::default(), &patch)
            .await?;
        scene.see_complete("train").await?;
        for revision in up_to_the_first(scene, "Workload", &workloads).await? {
            assert_eq!(
                revision.object["spec"]["podSets"][0]["requests"]["cpu"],
                "900m"
            );
        }
        Ok(())
    })
    .await
}

/// KEP-6915, the other two, as kubectl shows them.
async fn a_gate_without_a_domain_and_a_late_one_are_refused(admission: Admission) -> Result<()> {
    play(admission, "life-refuse", async |scene| {
        let at = "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]";
        let bad = Job::new("bad").queue("q").gate("mygate").manifest();
        let create = async || scene.kubectl(&["create", "-f", "-"], Some(&bad)).await;
        let told = kubectl_answered(create).await?.err()?;
        let expected = format!(
            "{at}: Invalid value: \"mygate\": must be a domain-prefixed path (such as \"acme.io/foo\")"
        );
        ensure!(told.contains(&admission.of_job(&expected)), "{told}");

        scene.create(&Job::new("late").queue("q").json()).await?;
        let args = ["annotate", "job", "late", "kueue.x-k8s.io/scheduling-gated-by=acme.io/x"];
        let told = kubectl_answered(async || scene.kubectl(&args, None).await).await?.err()?;
        let expected = format!("{at}: Forbidden: may only be set at creation and removed later");
        ensure!(told.contains(&admission.of_job(&expected)), "{told}");
        Ok(())
    })
    .await
}

async fn all_gates_of_a_list_must_go(admission: Admission) -> Result<()> {
    play(admission, "life-list", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let workloads = scene.record("Workload").await?;
        scene
            .create(
                &Job::new("two")
                    .queue("q")
                    .gates("acme.io/a, acme.io/b")
                    .json(),
            )
            .await?;
        let told = scene.see_event("two", "Gated").await?;
        ensure!(told.contains("acme.io/a, acme.io/b"), "{told}");
        let one_left = json!({"metadata": {"annotations": {(GATES): "acme.io/b"}}});
        scene.merge("Job", "two", one_left).await?;
        // A job that comes later has come through by the time that the other still waits.
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        let job = scene.get("Job", "two").await?;
        ensure!(is_suspended(&job), "{job}");

        let lifted = lift(scene, "two", GATES).await?;
        scene.see_complete("two").await?;
        let history = scene.history("Workload", &workloads).await?;
        let of_two: Vec<_> = history
            .into_iter()
            .filter(|r| name_of(&r.object).starts_with("two-"))
            .collect();
        ensure!(!of_two.is_empty(), "it completed without a Workload");
        none_before(&of_two, revision_of(&lifted), "Workload")
    })
    .await
}

async fn gates_of_both_annotations_hold_together(admission: Admission) -> Result<()> {
    play(admission, "life-both", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let job = Job::new("both")
            .queue("q")
            .gate("acme.io/a")
            .gates("acme.io/b,acme.io/c");
        scene.create(&job.json()).await?;
        lift(scene, "both", GATES).await?;
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        ensure!(
            scene.find_workload("both").await?.is_none(),
            "it has a gate left"
        );
        lift(scene, "both", GATED).await?;
        scene.see_complete("both").await?;
        Ok(())
    })
    .await
}

async fn a_gate_needs_no_queue(admission: Admission) -> Result<()> {
    play(admission, "life-only", async |scene| {
        let workloads = scene.record("Workload").await?;
        let pods = scene.record("Pod").await?;
        scene
            .create(&Job::new("only").gate("acme.io/data").json())
            .await?;
        let told = scene.see_event("only", "Gated").await?;
        ensure!(told.contains("acme.io/data"), "{told}");
        let lifted = lift(scene, "only", GATED).await?;
        scene.see_complete("only").await?;
        let history = up_to_the_first(scene, "Pod", &pods).await?;
        none_before(&history, revision_of(&lifted), "Pod")?;
        ensure!(workloads.so_far().is_empty(), "{:?}", workloads.so_far());
        Ok(())
    })
    .await
}

/// One that was never gated is none of Sluice's business.
async fn a_suspended_job_without_gate_and_queue_is_left_alone(admission: Admission) -> Result<()> {
    play(admission, "life-alone", async |scene| {
        let alone = Job::new("alone").with(&["spec", "suspend"], json!(true));
        scene.create(&alone.json()).await?;
        scene
            .create(&Job::new("gated").gate("acme.io/a").json())
            .await?;
        lift(scene, "gated", GATED).await?;
        scene.see_complete("gated").await?;
        let job = scene.get("Job", "alone").await?;
        ensure!(is_suspended(&job), "{job}");
        Ok(())
    })
    .await
}

async fn a_deleted_and_recreated_job_is_judged_anew(admission: Admission) -> Result<()> {
    play(admission, "life-anew", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("again").queue("q").runs_forever().json())
            .await?;
        let first = scene.see_admitted("again").await?;
        // With its pods: Kubernetes' Job controller knows jobs by name, and mistakes the second for
        // the first while it has not seen the end of that.
        scene.see_pods("Running", 1).await?;
        let args = [
            "delete",
            "job",
            "again",
            "--cascade=foreground",
            "--timeout=180s",
        ];
        scene.kubectl(&args, None).await?.ok()?;
        scene
            .create(&Job::new("again").queue("q").gate("acme.io/x").json())
            .await?;
        scene.see_event("again", "Gated").await?;
        // The quota of the first is free, and the second does not have it.
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        ensure!(scene.find_workload("again").await?.is_none(), "it is gated");
        lift(scene, "again", GATED).await?;
        let second = scene.see_admitted("again").await?;
        ensure!(name_of(&first) != name_of(&second), "{second}");
        scene.see_complete("again").await?;
        Ok(())
    })
    .await
}

/// What owners of a gate may do is nothing to it: it takes gated objects whose owner is deleted, and references to an
/// owner that leaves them behind.
async fn the_garbage_collector_is_not_stopped_by_gates(admission: Admission) -> Result<()> {
    play(admission, "life-gc", async |scene| {
        let (gate, object) = own_gate(&scene.ns, "budget");
        scene.apply(&own("Gate", &object, json!({}))).await?;
        for cascade in ["background", "foreground", "orphan"] {
            let name = |part: &str| format!("{part}-{cascade}");
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name("owner")}});
            let owner = scene.create(&owner).await?;
            let mut reference = controlled_by(&owner);
            reference[0]["blockOwnerDeletion"] = json!(true);
            let mut plain = reference.clone();
            plain[0]["controller"] = json!(false);
            let gated = [
                ("Job", Job::new(&name("controlled")).gate(&gate).json(), &reference),
                ("Job", Job::new(&name("owned")).gate(&gate).json(), &plain),
                ("Pod", Pod::new(&name("pod")).annotation(GATED, &gate).json(), &plain),
            ];
            for (kind, object, reference) in &gated {
                let object = with(object.clone(), "/metadata/ownerReferences", (*reference).clone());
                let stored = scene.create(&object).await?;
                ensure!(stored["metadata"]["annotations"][GATED] == gate, "{kind}: {stored}");
            }
            let (owner, cascade) = (name("owner"), format!("--cascade={cascade}"));
            let args = ["delete", "configmap", &owner, &cascade, "--timeout=180s"];
            scene.kubectl(&args, None).await?.ok()?;
            for (kind, object, _) in &gated {
                if cascade == "--cascade=orphan" {
                    let left = |object: &Value| object["metadata"]["ownerReferences"].is_null();
                    let left = scene.see(kind, name_of(object), "left behind", left).await?;
                    ensure!(left["metadata"]["annotations"][GATED] == gate, "{left}");
                } else {
                    scene.see_gone(kind, name_of(object)).await?;
                }
            }
        }
        scene.delete("Gate", &object).await
    })
    .await
}

/// While it is gated a job has neither Workload nor pods, with the controller there, gone, and back;
/// and a gate that is lifted while it is gone is not forgotten.
#[tokio::test]
async fn gates_outlast_the_controller() -> Result<()> {
    bed::own_running("life-restart", async |bed, scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let workloads = scene.record("Workload").await?;
        let pods = scene.record("Pod").await?;
        for name in ["early", "late"] {
            scene
                .create(
                    &Job::new(name)
                        .queue("q")
                        .gates("acme.io/a,acme.io/b")
                        .json(),
                )
                .await?;
        }
        scene
            .create(&Job::new("only").gate("acme.io/a").json())
            .await?;
        scene.see_event("late", "Gated").await?;

        bed.sluice.kill();
        bed.sluice.start_again().await?;
        // Once a later job has come through, all that was listed has been judged.
        scene.create(&Job::new("marker").queue("q").json()).await?;
        scene.see_complete("marker").await?;
        let of_others = |history: Vec<crate::support::history::Revision>| -> Vec<_> {
            let is_other = |object: &Value| {
                !object["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with("marker")
            };
            history
                .into_iter()
                .filter(|r| is_other(&r.object))
                .collect()
        };
        let seen = of_others(scene.history("Workload", &workloads).await?);
        ensure!(seen.is_empty(), "a gated job has a Workload: {seen:?}");
        let seen = of_others(scene.history("Pod", &pods).await?);
        ensure!(seen.is_empty(), "a gated job has a pod: {seen:?}");

        bed.sluice.kill();
        // The webhook is gone too: an administrator takes it out of the way.
        for kind in [
            "validatingwebhookconfiguration",
            "mutatingwebhookconfiguration",
        ] {
            scene
                .kubectl(&["delete", kind, "sluice"], None)
                .await?
                .ok()?;
        }
        let lifted = lift(scene, "early", GATES).await?;
        lift(scene, "only", GATED).await?;
        let one_left = json!({"metadata": {"annotations": {(GATES): "acme.io/b"}}});
        scene.merge("Job", "late", one_left).await?;
        bed.sluice.process().start_again()?;
        scene.see_complete("early").await?;
        scene.see_complete("only").await?;
        let late = scene.get("Job", "late").await?;
        ensure!(is_suspended(&late), "{late}");
        lift(scene, "late", GATES).await?;
        scene.see_complete("late").await?;
        let seen = of_others(scene.history("Workload", &workloads).await?);
        none_before(&seen, revision_of(&lifted), "Workload")?;
        let seen = of_others(scene.history("Pod", &pods).await?);
        none_before(&seen, revision_of(&lifted), "Pod")?;
        // What it has finished it does not start again.
        let jobs = scene.list("Job").await?;
        ensure!(jobs.iter().all(is_complete), "{jobs:?}");
        let workloads = scene.list("Workload").await?;
        ensure!(
            workloads.len() == 3 && workloads.iter().all(is_admitted),
            "{workloads:?}"
        );
        Ok(())
    })
    .await
}
