//! What jobs depend on is moved, renamed or made again under them: nothing gets stuck, and nothing gets past the quota.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::objects::{
    self, Job, cluster_queue, condition, flavor, is_admitted, is_complete, is_suspended,
    local_queue, name_of, quota, with,
};
use crate::support::pods::{check_usage, is_running};
use crate::support::{DEADLINE, Scene, bed};

/// The Job controller counts by a Job's name the pods that it has made and not yet seen. It does not see the pods of a Job
/// that was made again meanwhile, and waits for five minutes: `ExpectationsTimeout` of its `controller_utils.go`.
const JOB_CONTROLLER: Duration = Duration::from_mins(5).saturating_add(DEADLINE);

/// Waits until a ClusterQueue uses so much cpu.
async fn see_used(scene: &Scene<'_>, queue: &str, cpu: &str) -> Result<()> {
    scene
        .see("ClusterQueue", queue, &format!("using {cpu}"), |queue| {
            let used = &queue["status"]["flavorsUsage"][0]["resources"][0]["total"];
            used.as_str().unwrap_or("0") == cpu
        })
        .await
        .map(drop)
}

/// Jobs that are deleted and made again while they are released, over and over.
#[tokio::test]
async fn jobs_that_are_made_again_while_they_are_released() -> Result<()> {
    bed::shared("moved-again", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        let job = |name: &str| Job::new(name).queue("q").runs("0.1").json();
        for _ in 0..6 {
            for name in ["a", "b", "c"] {
                if scene.find("Job", name).await?.is_some() {
                    scene.delete("Job", name).await?;
                    scene.see_gone("Job", name).await?;
                }
                scene.create(&job(name)).await?;
            }
        }
        for name in ["a", "b", "c"] {
            eventually("the Job to be complete", JOB_CONTROLLER, async || {
                let job = scene.find("Job", name).await?;
                ensure!(job.as_ref().is_some_and(is_complete), "{name}: {job:?}");
                anyhow::Ok(())
            })
            .await?;
        }
        see_used(scene, &scene.ns, "0").await?;
        eventually("no Workload of a job that is gone", DEADLINE, async || {
            let left = scene.list("Workload").await?.len();
            ensure!(left == 3, "{left}");
            anyhow::Ok(())
        })
        .await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true).map(drop)
    })
    .await
}

/// What runs keeps its quota in the ClusterQueue that admitted it; what waits, and what comes, goes by the new one.
#[tokio::test]
async fn a_local_queue_that_is_made_again_for_another_cluster_queue() -> Result<()> {
    bed::shared("moved-local", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let other = scene.name("other");
        scene
            .create(&cluster_queue(&other, &scene.ns, &[quota("cpu", "1")]))
            .await?;
        let job = |name: &str| Job::new(name).queue("q").runs_forever().json();
        scene.create(&job("first")).await?;
        scene.see_admitted("first").await?;
        scene.create(&job("second")).await?;
        scene
            .see_workload("second", "waiting", |w| !is_admitted(w))
            .await?;
        scene.delete("LocalQueue", "q").await?;
        scene.create(&local_queue("q", &other)).await?;
        let second = scene.see_admitted("second").await?;
        assert_eq!(second["status"]["admission"]["clusterQueue"], other);
        let first = scene.see_admitted("first").await?;
        assert_eq!(first["status"]["admission"]["clusterQueue"], scene.ns);
        see_used(scene, &scene.ns, "1").await?;
        see_used(scene, &other, "1").await?;
        for name in ["first", "second"] {
            scene.delete("Job", name).await?;
        }
        see_used(scene, &scene.ns, "0").await?;
        see_used(scene, &other, "0").await
    })
    .await
}

/// A ClusterQueue that borrows moves to another cohort: what it has borrowed counts there, and nobody gets it twice.
#[tokio::test]
async fn a_queue_that_borrows_moves_to_another_cohort() -> Result<()> {
    bed::shared("moved-cohort", async |scene| {
        let [one, two] = ["one", "two"].map(|name| scene.name(name));
        let lender = |name: &str, cohort: &str| {
            let queue = cluster_queue(name, &scene.ns, &[quota("cpu", "1")]);
            with(queue, "/spec/cohortName", json!(cohort))
        };
        let [lender_one, lender_two] = ["lender-one", "lender-two"].map(|name| scene.name(name));
        let borrower = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "0")]);
        scene
            .queue_like(with(borrower, "/spec/cohortName", json!(one)))
            .await?;
        scene
            .create_all(&[
                lender(&lender_one, &one),
                lender(&lender_two, &two),
                local_queue("of-one", &lender_one),
                local_queue("of-two", &lender_two),
            ])
            .await?;
        let job = |name: &str, queue: &str| Job::new(name).queue(queue).runs_forever().json();
        scene.create(&job("borrows", "q")).await?;
        scene.see_admitted("borrows").await?;
        let moved = json!({"spec": {"cohortName": two}});
        scene.merge("ClusterQueue", &scene.ns, moved).await?;
        // The quota of the first cohort is free, that of the second is used.
        scene.create(&job("of-one", "of-one")).await?;
        scene.see_admitted("of-one").await?;
        scene.create(&job("of-two", "of-two")).await?;
        scene
            .see_workload("of-two", "told that it waits", |w| {
                condition(w, "QuotaReserved").is_some_and(|(status, reason, _)| {
                    (status, reason) == ("False", "WaitingForQuota")
                })
            })
            .await?;
        scene.delete("Job", "borrows").await?;
        scene.see_admitted("of-two").await.map(drop)
    })
    .await
}

/// A flavor is deleted while it is used, and made again with other labels: the next admission has these, and the job is
/// given back as its user wrote it.
#[tokio::test]
async fn a_flavor_that_is_made_again_with_other_labels() -> Result<()> {
    bed::shared("moved-flavor", async |scene| {
        let labels = |value: &str| {
            let flavor = flavor(&scene.ns);
            with(flavor, "/spec/nodeLabels", json!({ "tests/moved": value }))
        };
        let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
        scene
            .create_all(&[labels("old"), queue, local_queue("q", &scene.ns)])
            .await?;
        scene
            .create(&Job::new("train").queue("q").runs_forever().json())
            .await?;
        scene.see_admitted("train").await?;
        let selects = |value: Option<&'static str>| {
            move |job: &Value| {
                let selector = &job["spec"]["template"]["spec"]["nodeSelector"]["tests/moved"];
                selector.as_str() == value && is_suspended(job) == value.is_none()
            }
        };
        scene
            .see(
                "Job",
                "train",
                "released to old nodes",
                selects(Some("old")),
            )
            .await?;
        scene.delete("ResourceFlavor", &scene.ns).await?;
        scene.stop("HoldAndDrain").await?;
        scene
            .see("Job", "train", "given back", selects(None))
            .await?;
        scene.create(&labels("new")).await?;
        scene.stop("None").await?;
        scene
            .see(
                "Job",
                "train",
                "released to new nodes",
                selects(Some("new")),
            )
            .await
            .map(drop)
    })
    .await
}

/// The labels of a namespace change so that its ClusterQueue does not select it any more: what runs runs on, what waits
/// waits and says why, until they are back.
#[tokio::test]
async fn a_namespace_that_is_not_selected_any_more() -> Result<()> {
    bed::shared("moved-namespace", async |scene| {
        let label = |value: Value| json!({"metadata": {"labels": {"tests/moved": value}}});
        scene
            .merge("Namespace", &scene.ns, label(json!("in")))
            .await?;
        let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
        let selector = json!({"matchLabels": {"tests/moved": "in"}});
        scene
            .queue_like(with(queue, "/spec/namespaceSelector", selector))
            .await?;
        scene
            .create(&Job::new("first").queue("q").runs_forever().json())
            .await?;
        scene.see_so_many("running", 1, is_running).await?;
        scene
            .create(&Job::new("second").queue("q").runs_forever().json())
            .await?;
        scene
            .see_workload("second", "waiting", |w| !is_admitted(w))
            .await?;
        scene
            .merge("Namespace", &scene.ns, label(Value::Null))
            .await?;
        scene
            .see_workload("second", "told of the selector", |w| {
                condition(w, "QuotaReserved").is_some_and(|(_, reason, message)| {
                    reason == "Misconfigured" && message.contains("namespace")
                })
            })
            .await?;
        see_used(scene, &scene.ns, "1").await?;
        scene.delete("Job", "first").await?;
        see_used(scene, &scene.ns, "0").await?;
        let second = scene.get("Job", "second").await?;
        ensure!(is_suspended(&second), "{second}");
        scene
            .merge("Namespace", &scene.ns, label(json!("in")))
            .await?;
        scene.see_admitted("second").await.map(drop)
    })
    .await
}

/// Many jobs by generated names at once, in a queue for few of them.
#[tokio::test]
async fn a_storm_of_generated_names() -> Result<()> {
    bed::shared("moved-storm", async |scene| {
        scene.queue(&[quota("cpu", "5")]).await?;
        let pods = scene.record("Pod").await?;
        let job = Job::new("").queue("q").runs("0").json();
        let mut job = with(job, "/metadata/generateName", json!("storm-"));
        job["metadata"].as_object_mut().unwrap().remove("name");
        try_join_all((0..40).map(|_| scene.create(&job))).await?;
        eventually("all to be complete", DEADLINE, async || {
            let jobs = scene.list("Job").await?;
            let complete = jobs.iter().filter(|job| is_complete(job)).count();
            ensure!(complete == 40, "{complete}");
            anyhow::Ok(())
        })
        .await?;
        see_used(scene, &scene.ns, "0").await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "5", |_| true).map(drop)
    })
    .await
}

/// A rolling update that may not remove its old pod first waits for ever, and says so.
#[tokio::test]
async fn a_rolling_update_without_quota_says_what_it_waits_for() -> Result<()> {
    bed::shared("moved-rollout", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let pod = crate::support::pods::Pod::new("");
        let mut deployment = crate::support::pods::replicated("Deployment", "serve", 1, pod);
        deployment["metadata"]["labels"] = json!({"sluice.dev/queue-name": "q"});
        deployment["metadata"]["annotations"] = json!({"sluice.dev/admission": "Whole"});
        scene.create(&deployment).await?;
        scene.see_so_many("running", 1, is_running).await?;
        let changed = json!({"spec": {"template": {"metadata": {"annotations": {"tests/round": "2"}}}}});
        scene.merge("Deployment", "serve", changed).await?;
        assert_eq!(
            scene.see_event("serve", "PodsWaiting").await?,
            "1 pod waits: as many pods run as were admitted; a waiting pod is ungated when a running one is gone; a rolling update needs maxUnavailable of 1 or more, or the strategy Recreate"
        );
        let recreate = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
        scene.merge("Deployment", "serve", recreate).await?;
        scene
            .see_so_many("running with the new template", 1, |pod| {
                is_running(pod) && pod["metadata"]["annotations"]["tests/round"] == "2"
            })
            .await
            .map(drop)
    })
    .await
}

/// A job without pods runs at once, and may grow only by being queued again.
#[tokio::test]
async fn a_job_of_no_pods_that_grows() -> Result<()> {
    bed::shared("moved-zero", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("first").queue("q").runs_forever().json())
            .await?;
        scene.see_admitted("first").await?;
        let none = Job::new("none").queue("q").runs_forever();
        scene
            .create(&none.with(&["spec", "parallelism"], json!(0)).json())
            .await?;
        scene
            .see("Job", "none", "released", |job| !is_suspended(job))
            .await?;
        let grown = scene
            .merge_once("Job", "none", json!({"spec": {"parallelism": 1}}))
            .await;
        let refusal = crate::support::refusal(grown)?;
        ensure!(refusal.contains("may not grow"), "{refusal}");
        scene
            .merge(
                "Job",
                "none",
                json!({"spec": {"parallelism": 1, "suspend": true}}),
            )
            .await?;
        scene
            .see_workload("none", "waiting with one pod", |w| {
                !is_admitted(w) && w["spec"]["podSets"][0]["count"] == 1
            })
            .await?;
        scene.delete("Job", "first").await?;
        scene.see_admitted("none").await?;
        scene.see_so_many("running", 1, is_running).await.map(drop)
    })
    .await
}

/// Indexes that fail for good, a success policy, and pods that are replaced only when they have ended: quota is never
/// given twice, and is free in the end.
#[tokio::test]
async fn indexed_jobs_end_with_their_quota() -> Result<()> {
    bed::shared("moved-indexed", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        let indexed = |name: &str| {
            let job = Job::new(name).queue("q").pods(2).runs("0.2");
            job.with(&["spec", "completionMode"], json!("Indexed"))
        };
        let failing = indexed("failing").fails();
        let failing = failing
            .with(&["spec", "backoffLimit"], json!(4))
            .with(&["spec", "backoffLimitPerIndex"], json!(0))
            .with(&["spec", "maxFailedIndexes"], json!(1));
        let succeeding = indexed("succeeding").runs("forever").with(
            &["spec", "successPolicy"],
            json!({"rules": [{"succeededIndexes": "0"}]}),
        );
        let replaced = indexed("replaced").with(&["spec", "podReplacementPolicy"], json!("Failed"));
        for job in [failing, succeeding, replaced] {
            scene.create(&job.json()).await?;
        }
        let is_first = |pod: &Value| {
            is_running(pod)
                && pod["metadata"]["labels"]["job-name"] == "succeeding"
                && pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0"
        };
        let first = scene
            .see_so_many("the first of succeeding", 1, is_first)
            .await?;
        scene.end(name_of(&first[0])).await?;
        for name in ["succeeding", "replaced"] {
            scene.see_complete(name).await?;
        }
        scene
            .see("Job", "failing", "failed", |job| objects::is(job, "Failed"))
            .await?;
        see_used(scene, &scene.ns, "0").await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true).map(drop)
    })
    .await
}
