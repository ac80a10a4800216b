//! The life of a job between its creation and its end: what its user may do to it and what not, where
//! its pods land, and what is told meanwhile.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{NodeSpec, eventually};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{
    self, Job, cluster_queue, condition, is_admitted, is_suspended, local_queue, name_of, own,
    priority_class, quota, with,
};
use crate::support::persist::answered;
use crate::support::{DEADLINE, Scene, refusal};

both_ways!(
    starting_a_job_by_hand_is_refused_with_advice_that_works,
    the_queue_of_a_job_can_change_while_it_waits,
    a_job_can_be_edited_while_it_waits_and_not_grow_while_it_runs,
    a_waiting_job_can_be_edited_often,
    priority_comes_from_the_classes_of_job_and_pods,
    a_job_lands_on_the_nodes_of_its_flavor,
    flavors_are_tried_in_order,
    a_job_has_the_usage_that_the_scheduler_counts,
    a_jobs_events_tell_its_story,
    what_sluice_does_not_know_it_leaves_alone,
);

const UNSUSPEND: &str = r#"{"spec":{"suspend":false}}"#;

/// What kubectl says where the API server, or a webhook that it asked, could not answer in time.
const NO_ANSWER: [&str; 4] = [
    "(InternalError)",
    "(ServiceUnavailable)",
    "(Timeout)",
    "(TooManyRequests)",
];

/// Merges a patch into a job as a user with the role `edit` in the namespace, and nothing else. Asks again
/// where there was no answer, be it a refusal.
async fn patch_as_user(
    scene: &Scene<'_>,
    job: &str,
    patch: &str,
) -> Result<sluice_testbed::KubectlOutput> {
    let args = ["--as=ann", "patch", "job", job, "--type=merge", "-p", patch];
    eventually("an answer to kubectl", DEADLINE, async || {
        let output = scene.kubectl(&args, None).await?;
        let is_answered = !NO_ANSWER.iter().any(|why| output.stderr.contains(why));
        ensure!(is_answered, "{}", output.stderr);
        anyhow::Ok(output)
    })
    .await
}

/// What is said to a patch of a job that is refused.
async fn refused(scene: &Scene<'_>, job: &str, patch: Value) -> Result<String> {
    let answer = answered(async || scene.try_merge("Job", job, patch.clone()).await).await?;
    refusal(answer)
}

/// A queue `q` of the namespace that admits nothing yet.
async fn closed_queue(scene: &Scene<'_>, quotas: &[objects::Quota<'_>]) -> Result<()> {
    let queue = cluster_queue(&scene.ns, &scene.ns, quotas);
    scene
        .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
        .await
}

async fn let_ann_edit(scene: &Scene<'_>) -> Result<()> {
    let args = [
        "create",
        "rolebinding",
        "ann",
        "--clusterrole=edit",
        "--user=ann",
    ];
    scene.kubectl(&args, None).await?.ok()?;
    eventually("ann to have her role", DEADLINE, async || {
        let args = ["--as=ann", "auth", "can-i", "patch", "jobs"];
        scene
            .kubectl(&args, None)
            .await
            .and_then(sluice_testbed::KubectlOutput::ok)
    })
    .await?;
    Ok(())
}

async fn starting_a_job_by_hand_is_refused_with_advice_that_works(
    admission: Admission,
) -> Result<()> {
    play(admission, "life-hand", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let_ann_edit(scene).await?;
        scene.create(&Job::new("first").queue("q").runs_forever().json()).await?;
        scene.see_admitted("first").await?;
        scene.create(&Job::new("pending").queue("q").json()).await?;
        scene.create(&Job::new("gated").queue("q").gates("acme.io/b,acme.io/a").json()).await?;

        let told = patch_as_user(scene, "gated", UNSUSPEND).await?.err()?;
        let expected = "spec.suspend: Forbidden: the job is held by acme.io/a, acme.io/b; it is queued, or started if it has no queue, once the last gate is removed from its annotations";
        ensure!(told.trim_end().ends_with(&admission.of_job(expected)), "{told}");
        let told = patch_as_user(scene, "pending", UNSUSPEND).await?.err()?;
        let expected = "spec.suspend: Forbidden: Sluice starts the job once it is admitted through LocalQueue \"q\"; to run it without a queue, remove the label sluice.dev/queue-name in the same update (refused where the namespace requires a queue)";
        ensure!(told.trim_end().ends_with(&admission.of_job(expected)), "{told}");
        // The administrator is told the same.
        let again = refused(scene, "pending", json!({"spec": {"suspend": false}})).await?;
        assert_eq!(again, admission.of_job(expected));

        scene.see_workload("pending", "there", |_| true).await?;
        let advised = r#"{"metadata":{"labels":{"sluice.dev/queue-name":null}},"spec":{"suspend":false}}"#;
        patch_as_user(scene, "pending", advised).await?.ok()?;
        scene.see_complete("pending").await?;
        eventually("its Workload to be gone", DEADLINE, async || {
            match scene.find_workload("pending").await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    })
    .await
}

async fn the_queue_of_a_job_can_change_while_it_waits(admission: Admission) -> Result<()> {
    play(admission, "life-queue", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&local_queue("other", &scene.ns)).await?;
        let to = |queue: Value| json!({"metadata": {"labels": {"sluice.dev/queue-name": queue}}});
        scene.create(&Job::new("mover").queue("nope").runs_forever().json()).await?;
        scene.see_workload("mover", "there", |w| w["spec"]["queueName"] == "nope").await?;
        scene.merge("Job", "mover", to(json!("other"))).await?;
        let workload = scene.see_admitted("mover").await?;
        assert_eq!(workload["spec"]["queueName"], "other");
        // Until then it is suspended, and may move.
        scene.see_pods("Running", 1).await?;

        let at = "metadata.labels[sluice.dev/queue-name]: Forbidden: ";
        let told = refused(scene, "mover", to(json!("q"))).await?;
        let rule = "is immutable while the job is not suspended; delete the job and create it again in the \
                    other queue";
        assert_eq!(told, admission.of_job(&format!("{at}{rule}")));
        let told = refused(scene, "mover", to(json!(null))).await?;
        let rule = "may not be removed while the job is not suspended; delete the job and create it again \
                    without the label";
        assert_eq!(told, admission.of_job(&format!("{at}{rule}")));
        scene.create(&Job::new("free").runs_forever().json()).await?;
        let told = refused(scene, "free", to(json!("q"))).await?;
        let rule = "may not be added while the job runs; suspend the job in the same update, and it is \
                    queued";
        assert_eq!(told, admission.of_job(&format!("{at}{rule}")));
        // The advice works.
        let mut advised = to(json!("q"));
        advised["spec"] = json!({"suspend": true});
        scene.merge("Job", "free", advised).await?;
        scene.see_admitted("free").await?;
        scene.see_pods("Running", 2).await?;
        Ok(())
    })
    .await
}

async fn a_job_can_be_edited_while_it_waits_and_not_grow_while_it_runs(
    admission: Admission,
) -> Result<()> {
    play(admission, "life-edit", async |scene| {
        if !scene.edits_requests().await? {
            return Ok(());
        }
        scene.queue(&[quota("cpu", "2")]).await?;
        let job = Job::new("edited").queue("q").cpu("3").pods(1).runs_forever();
        scene.apply(&job.json()).await?;
        scene.see_workload("edited", "there", |w| !is_admitted(w)).await?;
        scene.merge("Job", "edited", json!({"spec": {"parallelism": 0}})).await?;
        scene.see_workload("edited", "empty", |w| w["spec"]["podSets"][0]["count"] == 0).await?;
        // Admitted with nothing, it asks for something: it has to queue for that.
        scene.see_admitted("edited").await?;
        // Until then it is suspended, and may grow.
        let runs = |job: &Value| !is_suspended(job);
        scene.see("Job", "edited", "released", runs).await?;
        let told = refused(scene, "edited", json!({"spec": {"parallelism": 1}})).await?;
        ensure!(told.contains("Forbidden: may not grow from 0 to 1 pods"), "{told}");
        scene.delete("Job", "edited").await?;
        scene.see_gone("Job", "edited").await?;

        let job = Job::new("grown").queue("q").cpu("3").pods(2).runs_forever();
        scene.apply(&job.clone().json()).await?;
        scene.see_workload("grown", "there", |w| !is_admitted(w)).await?;
        scene.apply(&job.clone().cpu("750m").json()).await?;
        let workload = scene.see_admitted("grown").await?;
        assert_eq!(workload["spec"]["podSets"][0]["requests"]["cpu"], "750m");
        scene.see_pods("Running", 2).await?;
        let more = json!({"spec": {"parallelism": 3}});
        // completions is 2: more parallelism makes no more pods.
        let taken = scene.merge("Job", "grown", more).await;
        taken.context("raising parallelism above completions is no growth")?;
        scene.create(&Job::new("wide").queue("q").cpu("250m").with(&["spec", "completions"], json!(9)).runs_forever().json()).await?;
        scene.see_admitted("wide").await?;
        // Until then it is suspended, and may grow.
        scene.see_pods("Running", 3).await?;
        let more = json!({"spec": {"parallelism": 2}});
        let told = refused(scene, "wide", more).await?;
        let expected = "pod set \"main\": Forbidden: may not grow from 1 to 2 pods while the job is admitted; suspend the job in the same update, and it is queued with the new value";
        assert_eq!(told, admission.of_job(expected));
        // The advice works: it is queued with the new value, and admitted with it.
        let advised = json!({"spec": {"parallelism": 2, "suspend": true}});
        scene.merge("Job", "wide", advised).await?;
        let is_wide = |w: &Value| {
            is_admitted(w)
                && w["spec"]["podSets"][0]["count"] == 2
                && w["status"]["admission"]["podSetAssignments"][0]["count"] == 2
        };
        scene.see_workload("wide", "admitted with 2 pods", is_wide).await?;
        scene.see_pods("Running", 4).await?;
        // It may shrink, and not grow back, whether or not the quota of its removed pod is free yet.
        scene.merge("Job", "wide", json!({"spec": {"parallelism": 1}})).await?;
        let back = || refused(scene, "wide", json!({"spec": {"parallelism": 2}}));
        assert_eq!(back().await?, admission.of_job(expected));
        scene.see_pods("Running", 3).await?;
        assert_eq!(back().await?, admission.of_job(expected));
        Ok(())
    })
    .await
}

/// A user who edits a waiting job many times is followed, and not told that somebody meddles.
async fn a_waiting_job_can_be_edited_often(admission: Admission) -> Result<()> {
    play(admission, "life-often", async |scene| {
        if !scene.edits_requests().await? {
            return Ok(());
        }
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = Job::new("edited").queue("q").runs_forever();
        for cpu in ["11", "12", "13", "14", "15", "16", "17", "1"] {
            scene.apply(&job.clone().cpu(cpu).json()).await?;
            let follows = |w: &Value| w["spec"]["podSets"][0]["requests"]["cpu"] == cpu;
            scene.see_workload("edited", "as edited", follows).await?;
        }
        scene.see_admitted("edited").await?;
        let events = scene.events("edited").await?;
        ensure!(
            !events.iter().any(|(reason, _)| reason == "ChangedBack"),
            "{events:?}"
        );
        Ok(())
    })
    .await
}

async fn priority_comes_from_the_classes_of_job_and_pods(admission: Admission) -> Result<()> {
    play(admission, "life-priority", async |scene| {
        closed_queue(scene, &[quota("cpu", "1")]).await?;
        let (own_class, pod_class) = (scene.name("own"), scene.name("pod"));
        scene.create(&priority_class(&own_class, 10)).await?;
        scene
            .create(&json!({
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": pod_class},
                "value": 20,
                "preemptionPolicy": "Never",
            }))
            .await?;
        let path = ["spec", "template", "spec", "priorityClassName"];
        let of_pods = Job::new("of-pods").queue("q").with(&path, json!(pod_class));
        scene.create(&of_pods.json()).await?;
        scene
            .create(
                &Job::new("of-both")
                    .queue("q")
                    .priority_class(&own_class)
                    .with(&path, json!(pod_class))
                    .json(),
            )
            .await?;
        scene.create(&Job::new("of-none").queue("q").json()).await?;
        for (name, value, kind) in [
            ("of-pods", 20, "PriorityClass"),
            ("of-both", 10, "WorkloadPriorityClass"),
            ("of-none", 0, ""),
        ] {
            let workload = scene
                .see_workload(name, "there", |w| w["spec"]["priority"] == value)
                .await?;
            let told = workload["spec"]["priorityClassRef"]["kind"]
                .as_str()
                .unwrap_or_default();
            assert_eq!(told, kind, "{workload}");
        }
        // A class with another value moves what waits.
        scene
            .merge("WorkloadPriorityClass", &own_class, json!({"value": 30}))
            .await?;
        scene
            .see_workload("of-both", "moved", |w| w["spec"]["priority"] == 30)
            .await?;
        let workloads = scene.record("Workload").await?;
        scene.stop("None").await?;
        crate::queues::quota::see_all_complete(scene, 3).await?;
        let history = scene.history("Workload", &workloads).await?;
        let order = crate::support::queues::admission_order(&history);
        assert_eq!(order, ["of-both", "of-pods", "of-none"]);

        // What is admitted keeps the priority that it was admitted with.
        scene
            .create(
                &Job::new("kept")
                    .queue("q")
                    .priority_class(&own_class)
                    .runs_forever()
                    .json(),
            )
            .await?;
        scene.see_admitted("kept").await?;
        scene
            .merge(
                "Job",
                "kept",
                json!({"metadata": {"labels": {"sluice.dev/priority-class": null}}}),
            )
            .await?;
        scene.create(&Job::new("late").queue("q").json()).await?;
        scene
            .see_workload("late", "told why it waits", |w| {
                condition(w, "QuotaReserved").is_some()
            })
            .await?;
        let kept = scene.see_admitted("kept").await?;
        assert_eq!(kept["spec"]["priority"], 30);
        scene.delete("PriorityClass", &pod_class).await
    })
    .await
}

/// A flavor with nodes of its own: the job gets its labels and tolerations and lands there.
async fn a_job_lands_on_the_nodes_of_its_flavor(admission: Admission) -> Result<()> {
    play(admission, "life-flavor", async |scene| {
        let ns = scene.ns.as_str();
        let node = NodeSpec::new(scene.name("node")).resource("cpu", "4");
        let node = node.label("pool", ns).taint("pool", ns, "NoSchedule");
        scene.cp.add_node(node).await?;
        let toleration =
            json!({"key": "pool", "operator": "Equal", "value": ns, "effect": "NoSchedule"});
        let spec = json!({
            "nodeLabels": {"pool": ns},
            "nodeTaints": [{"key": "pool", "value": ns, "effect": "NoSchedule"}],
            "tolerations": [toleration],
        });
        scene.create(&own("ResourceFlavor", ns, spec)).await?;
        scene
            .create(&cluster_queue(ns, ns, &[quota("cpu", "4")]))
            .await?;
        scene.create(&local_queue("q", ns)).await?;

        let mine = json!({"key": "mine", "operator": "Exists"});
        let job = Job::new("placed").queue("q").runs_forever();
        let job = job.with(&["spec", "template", "spec", "tolerations"], json!([mine]));
        scene.create(&job.json()).await?;
        let workload = scene.see_admitted("placed").await?;
        let given = &workload["status"]["admission"]["podSetAssignments"][0];
        assert_eq!(given["flavors"]["cpu"], ns);
        assert_eq!(given["nodeSelector"], json!({"pool": ns}));
        let pods = scene.see_pods("Running", 1).await?;
        assert_eq!(pods[0]["spec"]["nodeName"], scene.name("node").as_str());
        let job = scene.get("Job", "placed").await?;
        let template = &job["spec"]["template"]["spec"];
        assert_eq!(template["nodeSelector"], json!({"pool": ns}));
        assert_eq!(template["tolerations"], json!([mine, toleration]));

        // A job that asks for other nodes is not given this flavor.
        let other = Job::new("other").queue("q");
        let other = other.with(
            &["spec", "template", "spec", "nodeSelector"],
            json!({"pool": "other"}),
        );
        scene.create(&other.json()).await?;
        let told = scene.see_workload("other", "told why it waits", |w| {
            condition(w, "QuotaReserved").is_some_and(|(.., told)| told.contains("pool"))
        });
        told.await?;
        scene
            .kubectl(&["delete", "node", &scene.name("node")], None)
            .await?
            .ok()?;
        Ok(())
    })
    .await
}

/// Two flavors: the first as long as it has unused quota, then the second.
async fn flavors_are_tried_in_order(admission: Admission) -> Result<()> {
    play(admission, "life-order", async |scene| {
        let (first, second) = (scene.name("first"), scene.name("second"));
        let one = |name: &str| json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]});
        let queue = with(
            cluster_queue(&scene.ns, &first, &[quota("cpu", "1")]),
            "/spec/resourceGroups/0/flavors",
            json!([one(&first), one(&second)]),
        );
        scene.create_all(&[objects::flavor(&first), objects::flavor(&second), queue]).await?;
        scene.create(&local_queue("q", &scene.ns)).await?;
        for (name, flavor) in [("a", &first), ("b", &second)] {
            scene.create(&Job::new(name).queue("q").runs_forever().json()).await?;
            let workload = scene.see_admitted(name).await?;
            let given = &workload["status"]["admission"]["podSetAssignments"][0]["flavors"]["cpu"];
            assert_eq!(*given, flavor.as_str());
        }
        scene.create(&Job::new("c").queue("q").json()).await?;
        let ns = &scene.ns;
        let message = format!(
            "couldn't be admitted to ClusterQueue \"{ns}\": insufficient unused quota for cpu in flavor \"{first}\": requests 1 (nominal quota 1); insufficient unused quota for cpu in flavor \"{second}\": requests 1 \
             (nominal quota 1)"
        );
        scene.see_waiting("c", "WaitingForQuota", &message).await?;
        scene.delete("Job", "b").await?;
        let workload = scene.see_admitted("c").await?;
        let given = &workload["status"]["admission"]["podSetAssignments"][0]["flavors"]["cpu"];
        assert_eq!(*given, second.as_str());
        Ok(())
    })
    .await
}

/// Usage is what the scheduler will count: limits, sidecars, overhead, LimitRange.
async fn a_job_has_the_usage_that_the_scheduler_counts(admission: Admission) -> Result<()> {
    play(admission, "life-usage", async |scene| {
        let quotas = [
            quota("cpu", "8"),
            quota("memory", "8Gi"),
            quota("pods", "8"),
        ];
        closed_queue(scene, &quotas).await?;
        scene
            .apply(&json!({
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "defaults"},
                "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "64Mi"}}]},
            }))
            .await?;
        let overhead = json!({
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": scene.ns},
            "handler": "runc",
            "overhead": {"podFixed": {"cpu": "250m"}},
        });
        scene.create(&overhead).await?;
        let template = ["spec", "template", "spec"];
        let at = |field: &'static str| [&template[..], &[field]].concat();
        let init = json!([
            {"name": "once", "image": "example.com/none", "resources": {"requests": {"cpu": "2"}}},
            {"name": "side", "image": "example.com/none", "restartPolicy": "Always",
             "resources": {"limits": {"cpu": "500m"}}},
        ]);
        let job = Job::new("heavy").queue("q").cpu("1").pods(2);
        let job = job.with(&at("initContainers"), init);
        let job = job.with(&at("runtimeClassName"), json!(scene.ns));
        scene.create(&job.json()).await?;
        // The init container's 2 are more than 1 and 500m together; and 250m of overhead.
        let used = json!({"cpu": "2250m", "memory": "128Mi"});
        let is_right = |w: &Value| w["spec"]["podSets"][0]["requests"] == used;
        scene
            .see_workload("heavy", "using 2250m and 128Mi a pod", is_right)
            .await?;
        scene.stop("None").await?;
        let workload = scene.see_admitted("heavy").await?;
        let usage = &workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"];
        assert_eq!(
            *usage,
            json!({"cpu": "4500m", "memory": "256Mi", "pods": "2"})
        );
        scene.delete("RuntimeClass", &scene.ns).await
    })
    .await
}

/// The events of a job's life, in words that help.
async fn a_jobs_events_tell_its_story(admission: Admission) -> Result<()> {
    play(admission, "life-events", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(
                &Job::new("told")
                    .queue("q")
                    .gate("acme.io/x")
                    .runs("0.5")
                    .json(),
            )
            .await?;
        scene.see_event("told", "Gated").await?;
        let gone = json!({"metadata": {"annotations": {(objects::GATED): null}}});
        scene.merge("Job", "told", gone).await?;
        let job = scene.see_complete("told").await?;
        let record = job["metadata"]["annotations"]["sluice.dev/lifted-gates"].as_str();
        let record: Value = serde_json::from_str(record.unwrap_or_default())?;
        let by = record[0]["by"].as_str().unwrap_or_default();
        let rows = [
            (
                "Gated",
                "Held until these gates are removed: acme.io/x".to_owned(),
            ),
            (
                "GateLifted",
                format!("The gate \"acme.io/x\" was lifted by {by:?}"),
            ),
            (
                "Admitted",
                format!("Admitted by ClusterQueue \"{ns}\" with flavor {ns}"),
            ),
            (
                "Finished",
                "The job finished successfully; its quota is free".to_owned(),
            ),
        ];
        for (reason, words) in &rows {
            assert_eq!(scene.see_event("told", reason).await?, *words);
        }
        // As many as there is something to tell, each once.
        let events = scene.events("told").await?;
        assert_eq!(events.len(), rows.len(), "{events:?}");
        // They stand on the job, where `kubectl describe` shows them.
        let shown = scene
            .kubectl(&["describe", "job", "told"], None)
            .await?
            .ok()?;
        ensure!(
            rows.iter().all(|(reason, _)| shown.contains(reason)),
            "{shown}"
        );
        Ok(())
    })
    .await
}

/// Sluice touches what is its own and nothing else: the rest of a job survives it.
async fn what_sluice_does_not_know_it_leaves_alone(admission: Admission) -> Result<()> {
    play(admission, "life-rest", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let template = ["spec", "template", "spec"];
        let at = |field: &'static str| [&template[..], &[field]].concat();
        let job = Job::new("rest").queue("q").runs_forever();
        let job = job.annotation("acme.io/note", "kept").label("team", "red");
        let job = job.with(&at("terminationGracePeriodSeconds"), json!(7));
        let job = job.with(
            &at("hostAliases"),
            json!([{"ip": "10.1.2.3", "hostnames": ["a.example.com"]}]),
        );
        let job = job.with(
            &["spec", "podFailurePolicy"],
            json!({"rules": [{
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }]}),
        );
        let created = scene.create(&job.json()).await?;
        scene.see_admitted("rest").await?;
        let running = scene
            .see("Job", "rest", "released", |job| !is_suspended(job))
            .await?;
        let mut expected = created.clone();
        expected["spec"]["suspend"] = json!(false);
        // Sluice suspended it, and has released it.
        assert_eq!(
            created["metadata"]["annotations"]["sluice.dev/held"],
            "true"
        );
        expected["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
        // Its pods are known by these.
        let metadata = &mut expected["spec"]["template"]["metadata"];
        metadata["labels"]["sluice.dev/managed"] = json!("true");
        metadata["annotations"]["sluice.dev/pod-set"] = json!("main");
        assert_eq!(running["spec"], expected["spec"]);
        for field in [
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "name",
        ] {
            assert_eq!(
                running["metadata"][field], expected["metadata"][field],
                "{field}"
            );
        }
        assert_eq!(name_of(&running), "rest");
        Ok(())
    })
    .await
}
