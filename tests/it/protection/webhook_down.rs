//! No webhook: dead, it refuses what it guards and nothing else; not installed, the controller holds
//! what is to be held.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION};
use sluice_testbed::{Options, RUN_SECONDS, SluiceOptions};

use crate::support::objects::{self, GATED, GATES, Job, is, is_suspended, name_of, quota};
use crate::support::persist::answered;
use crate::support::pods::{Pod, replicated};
use crate::support::{Scene, bed, by_jobs_webhook, refusal};

#[tokio::test]
async fn a_dead_webhook_hurts_only_what_it_guards() -> Result<()> {
    bed::own_running("hook-dead", async |bed, scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        for name in ["ending", "running", "doomed"] {
            scene
                .create(&Job::new(name).queue("q").runs_forever().json())
                .await?;
        }
        for name in ["pending", "pending-too"] {
            scene
                .create(&Job::new(name).queue("q").cpu("2").json())
                .await?;
        }
        scene
            .create(&Job::new("gated").queue("q").gate("acme.io/x").json())
            .await?;
        scene.see_event("gated", "Gated").await?;
        let pods = scene.see_pods("Running", 3).await?;
        // One that says by which labels and annotation its group is told.
        let gang = Pod::new("gang")
            .queue("q")
            .annotation(POD_GROUP_LABELS_ANNOTATION, "acme.io/gang")
            .annotation(POD_GROUP_TOTAL_FROM_ANNOTATION, "acme.io/size");
        scene.create(&gang.json()).await?;
        bed.sluice.kill();

        // What does not concern Sluice.
        scene.create(&Job::new("plain").json()).await?;
        scene.see_complete("plain").await?;
        // What would have to be held, and can't be.
        for job in [
            Job::new("refused").queue("q"),
            Job::new("refused").gate("acme.io/x"),
            Job::new("refused").gates("acme.io/x"),
        ] {
            let told = refusal(scene.create_once(&job.json()).await)?;
            ensure!(
                told.contains("mutate.jobs.sluice.dev"),
                "it does not name Sluice: {told}"
            );
        }
        let later = json!({"metadata": {"labels": {"sluice.dev/queue-name": "other"}}});
        let told = refusal(scene.merge_once("Job", "running", later).await)?;
        ensure!(
            told.contains(".jobs.sluice.dev"),
            "it does not name Sluice: {told}"
        );
        let ungate = json!({"metadata": {"annotations": {(GATED): null}}});
        let told = refusal(scene.merge_once("Job", "gated", ungate).await)?;
        ensure!(
            told.contains(".jobs.sluice.dev"),
            "it does not name Sluice: {told}"
        );

        // What of a queued job is not Sluice's business: status, finalizers, other labels, its end.
        let of_ending = |pod: &&Value| pod["metadata"]["labels"]["job-name"] == "ending";
        let ending = pods.iter().find(of_ending).context("it has no pod")?;
        scene.end(name_of(ending)).await?;
        scene.see_complete("ending").await?;
        let status = json!({"status": {"ready": 1}}).to_string();
        let args = [
            "patch",
            "job",
            "running",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ];
        scene.kubectl(&args, None).await?.ok()?;
        for finalizers in [json!(["acme.io/kept"]), json!(null)] {
            let patch = json!({"metadata": {"finalizers": finalizers, "labels": {"team": "red"}}});
            scene.merge("Job", "running", patch).await?;
        }
        let by_a_network = json!({"metadata": {"annotations": {"cni.example/ip": "10.0.0.1"}}});
        scene.merge("Pod", "gang", by_a_network).await?;
        let moved = json!({"metadata": {"labels": {"acme.io/gang": "other"}}});
        let told = refusal(scene.merge_once("Pod", "gang", moved).await)?;
        ensure!(told.contains("validate.pods.sluice.dev"), "{told}");
        for (name, cascade) in [
            ("doomed", "background"),
            ("pending", "foreground"),
            ("gated", "foreground"),
        ] {
            let cascade = format!("--cascade={cascade}");
            let args = ["delete", "job", name, &cascade, "--timeout=180s"];
            scene.kubectl(&args, None).await?.ok()?;
        }

        bed.sluice.start_again().await?;
        scene.see_complete("pending-too").await?;
        scene.create(&Job::new("again").queue("q").json()).await?;
        scene.see_complete("again").await?;
        scene.delete("Job", "running").await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        Ok(())
    })
    .await
}

/// A queue with 2 cpus, and a Sluice without webhooks.
async fn without_webhooks(
    prefix: &str,
    test: impl AsyncFn(&Scene<'_>) -> Result<()>,
) -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own(
        prefix,
        sluice,
        Options::with_crds()?,
        async |bed, scene: &Scene<'_>| {
            bed.sluice.start().await?;
            scene.queue(&[quota("cpu", "2")]).await?;
            // It leads once it has come to its first decision.
            scene.create(&Job::new("first").queue("q").json()).await?;
            scene.see_complete("first").await?;
            test(scene).await
        },
    )
    .await
}

#[tokio::test]
async fn without_webhooks_the_controller_holds_what_is_to_be_held() -> Result<()> {
    without_webhooks("hook-none", async |scene| {
        // Queued: stopped, then admitted by the rules.
        scene.create(&Job::new("queued").queue("q").cpu("2").runs_forever().json()).await?;
        let told = scene.see_event("queued", "Stopped").await?;
        assert_eq!(
            told,
            "Suspended because it ran without being admitted; Sluice starts it once it is admitted through LocalQueue \"q\""
        );
        scene.see_admitted("queued").await?;
        scene.see("Job", "queued", "running", |job| !is_suspended(job)).await?;
        scene.see_pods("Running", 1).await?;
        scene.create(&Job::new("waiting").queue("q").runs_forever().json()).await?;
        scene.see("Job", "waiting", "suspended", is_suspended).await?;
        scene.see_pods("Running", 1).await?;

        // Un-suspended by hand: undone.
        scene.merge("Job", "waiting", json!({"spec": {"suspend": false}})).await?;
        let again = scene.see("Job", "waiting", "suspended again", |job| {
            // Created, held, released, held.
            is_suspended(job) && job["metadata"]["generation"] == 4
        });
        again.await?;
        scene.see("Job", "waiting", "without pods", |job| job["status"]["active"].is_null()).await?;

        // Gated: held, and its events say by what.
        scene.create(&Job::new("gated").queue("q").gate("acme.io/x").runs_forever().json()).await?;
        scene.see("Job", "gated", "suspended", is_suspended).await?;
        let told = scene.see_event("gated", "Gated").await?;
        assert_eq!(told, "Held until these gates are removed: acme.io/x");
        scene.create(&Job::new("only").gates("acme.io/x,acme.io/y").json()).await?;
        scene.see("Job", "only", "suspended", is_suspended).await?;
        scene.see_event("only", "Gated").await?;

        // A value that names no gate: held all the same, with a warning.
        for (name, key, value) in [("bad", GATED, "mygate"), ("empty", GATED, ""), ("hole", GATES, "a.io/x,")] {
            scene.create(&Job::new(name).queue("q").annotation(key, value).json()).await?;
            scene.see("Job", name, "suspended", is_suspended).await?;
            let told = scene.see_event(name, "InvalidGate").await?;
            let field = format!("metadata.annotations[{key}]: Invalid value: ");
            ensure!(told.contains(&field), "{told}");
            ensure!(told.contains("remove the annotation, or create the object again"), "{told}");
        }
        scene.delete("Job", "queued").await?;
        scene.see_admitted("waiting").await?;
        for name in ["gated", "bad", "empty", "hole"] {
            let job = scene.get("Job", name).await?;
            ensure!(is_suspended(&job), "{job}");
            ensure!(scene.find_workload(name).await?.is_none(), "{name} has a Workload");
        }

        // Its pods can't be held, as they come without its gate.
        let mut set = replicated("StatefulSet", "set", 1, Pod::new("p"));
        set["metadata"]["annotations"] = json!({(GATED): "acme.io/x"});
        scene.create(&set).await?;
        let told = scene.see_event("set", "NotGated").await?;
        assert_eq!(
            told,
            "Not held by its gates, and its pods run: no webhook put the gates into its pod template when it was created; delete it and create it again"
        );

        // What holds them can be taken away, and they go on.
        for (name, key) in [("gated", GATED), ("only", GATES), ("bad", GATED)] {
            let gone = json!({"metadata": {"annotations": {(key): null}}});
            scene.merge("Job", name, gone).await?;
        }
        scene.see_complete("only").await?;
        scene.see_admitted("gated").await?;
        scene.delete("Job", "gated").await?;
        scene.see_complete("bad").await?;
        Ok(())
    })
    .await
}

/// A gate that is added by a road without a webhook has no effect on what was released.
#[tokio::test]
async fn a_gate_that_comes_too_late_is_ignored() -> Result<()> {
    without_webhooks("hook-late", async |scene| {
        scene
            .create(&Job::new("running").queue("q").runs_forever().json())
            .await?;
        scene.see_admitted("running").await?;
        scene.see_pods("Running", 1).await?;
        let late = json!({"metadata": {"annotations": {(GATED): "acme.io/x"}}});
        scene.merge("Job", "running", late.clone()).await?;
        let told = scene.see_event("running", "GateIgnored").await?;
        ensure!(told.contains("no effect"), "{told}");
        scene
            .create(&Job::new("only").gate("acme.io/y").runs_forever().json())
            .await?;
        scene.see_event("only", "Gated").await?;
        let gone = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "only", gone).await?;
        // A pod that it had before it was suspended may still be there.
        scene
            .see("Job", "only", "started", |job| !is_suspended(job))
            .await?;
        scene.see_pods("Running", 2).await?;
        scene.merge("Job", "only", late).await?;
        // What comes later has gone through by the time that both still run.
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        for name in ["running", "only"] {
            let job = scene.get("Job", name).await?;
            ensure!(!is_suspended(&job), "{job}");
        }
        Ok(())
    })
    .await
}

/// A bad value from a time without webhooks stands in nobody's way and can be taken out.
#[tokio::test]
async fn a_bad_gate_that_is_stored_blocks_no_other_edit() -> Result<()> {
    bed::own_running("hook-stored", async |_, scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let saved = take_webhooks_away(scene).await?;
        let bad = Job::new("bad").queue("q").annotation(GATED, "mygate").cpu("100m");
        scene.create(&bad.json()).await?;
        scene.see_event("bad", "InvalidGate").await?;
        for configuration in &saved {
            let text = configuration.to_string();
            scene.kubectl(&["create", "-f", "-"], Some(&text)).await?.ok()?;
        }
        // They are back when a new one is refused.
        let refused = scene.see_refused(&Job::new("new").annotation(GATED, "mygate")).await?;
        ensure!(refused.contains("mygate"), "{refused}");

        scene.merge("Job", "bad", json!({"metadata": {"labels": {"team": "red"}}})).await?;
        scene.apply(&bad.clone().cpu("200m").json()).await?;
        let other = json!({"metadata": {"annotations": {(GATED): "acme.io/x"}}});
        let told = answered(async || scene.merge_once("Job", "bad", other.clone()).await).await?;
        let told = refusal(told)?;
        let at = "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]";
        let expected = format!("{at}: Forbidden: may only be set at creation and removed later");
        assert_eq!(told, by_jobs_webhook(&expected));
        let unsuspend = json!({"spec": {"suspend": false}});
        let told = answered(async || scene.merge_once("Job", "bad", unsuspend.clone()).await).await?;
        let told = refusal(told)?;
        let expected = format!(
            "spec.suspend: Forbidden: the job is held by an invalid value of {at}; remove the annotation"
        );
        assert_eq!(told, by_jobs_webhook(&expected));
        let gone = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "bad", gone).await?;
        let workload = scene.see_admitted("bad").await?;
        assert_eq!(workload["spec"]["podSets"][0]["requests"]["cpu"], "200m");
        scene.see_complete("bad").await?;
        Ok(())
    })
    .await
}

/// Deletes the webhook configurations and returns them, ready to be created again.
async fn take_webhooks_away(scene: &Scene<'_>) -> Result<Vec<Value>> {
    let mut saved = Vec::new();
    for kind in [
        "validatingwebhookconfiguration",
        "mutatingwebhookconfiguration",
    ] {
        let text = scene
            .kubectl(&["get", kind, "sluice", "--output=json"], None)
            .await?
            .ok()?;
        let mut configuration: Value = serde_json::from_str(&text)?;
        configuration["metadata"] = json!({"name": "sluice"});
        saved.push(configuration);
        scene
            .kubectl(&["delete", kind, "sluice"], None)
            .await?
            .ok()?;
    }
    // They are gone when a bad gate is taken.
    let probe = objects::with(
        Job::new("probe").json(),
        "/metadata/annotations",
        json!({(GATED): "mygate"}),
    );
    sluice_testbed::wait_for(
        "the webhooks to be gone",
        crate::support::DEADLINE,
        async || {
            let params = kube::api::PostParams {
                dry_run: true,
                field_manager: None,
            };
            let probe = serde_json::from_value(probe.clone()).unwrap();
            scene.api("Job").create(&params, &probe).await.ok()
        },
    )
    .await?;
    Ok(saved)
}

impl Scene<'_> {
    /// Waits until the creation of a job is refused, and returns the words.
    async fn see_refused(&self, job: &Job) -> Result<String> {
        let params = kube::api::PostParams {
            dry_run: true,
            field_manager: None,
        };
        sluice_testbed::eventually("a refusal", crate::support::DEADLINE, async || {
            let job = serde_json::from_value(job.json()).unwrap();
            match self.api("Job").create(&params, &job).await {
                // Not that a webhook, which is new again, could not be asked.
                Err(kube::Error::Api(status)) if status.code < 500 => Ok(status.message),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}

/// The shipped jobs. Those of team blue run for ever here: none ends before it was looked at.
fn sample_jobs(folder: &str) -> Result<String> {
    let mut jobs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let text = std::fs::read_to_string(entry?.path())?;
        let mut job: Value = serde_saphyr::from_str(&text)?;
        if job["metadata"]["namespace"] == "team-blue" {
            let path = ["spec", "template", "metadata", "annotations", RUN_SECONDS];
            objects::set(&mut job, &path, json!("forever"));
        }
        jobs.push(job.to_string());
    }
    Ok(jobs.join("\n---\n"))
}

/// Where nothing holds a job at its creation, it is asked for what it is: two gates are no less.
#[tokio::test]
async fn jobs_of_before_the_start_are_taken_over() -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own(
        "hook-before",
        sluice,
        Options::with_crds()?,
        async |bed, scene: &Scene<'_>| {
            let root = env!("CARGO_MANIFEST_DIR");
            let crds = format!("{root}/crds/");
            let samples = format!("{root}/config/samples");
            for args in [["apply", "-f", &crds], ["apply", "-k", &samples]] {
                bed.cp.kubectl(args, None).await?.ok()?;
            }
            let jobs = sample_jobs(&format!("{samples}/jobs"))?;
            let args = ["apply", "-f", "-"];
            bed.cp.kubectl(args, Some(&jobs)).await?.ok()?;
            let blue = Scene {
                cp: scene.cp,
                client: scene.client.clone(),
                ns: "team-blue".to_owned(),
            };
            blue.see_pods("Running", 4).await?;
            bed.sluice.start().await?;
            for name in ["evaluate", "publish"] {
                blue.see("Job", name, "suspended", is_suspended).await?;
                blue.see_event(name, "Gated").await?;
            }
            // 2 cpus of its own and 2 that are borrowed from the other team: both at once.
            for name in ["train", "tune"] {
                blue.see_admitted(name).await?;
                blue.see("Job", name, "released", |job| !is_suspended(job))
                    .await?;
            }
            let tune = blue.see_admitted("tune").await?;
            assert_eq!(tune["spec"]["priority"], 1000);
            let queue = scene.see("ClusterQueue", "blue", "borrowing", |q| {
                q["status"]["flavorsUsage"][0]["resources"][0]["borrowed"] == "2"
            });
            queue.await?;
            for (kind, name) in [("LocalQueue", "main"), ("ClusterQueue", "blue")] {
                blue.see(kind, name, "active", |q| is(q, "Active")).await?;
            }
            Ok(())
        },
    )
    .await
}
