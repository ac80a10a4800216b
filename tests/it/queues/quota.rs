//! Quota: never exceeded at any revision, handed out in order, handed on when it gets free.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::history::check_conditions;
use crate::support::objects::{
    self, Job, is_admitted, is_complete, is_suspended, name_of, quota, with,
};
use crate::support::queues::{Limits, admission_order, check_quota, nanos};
use crate::support::{DEADLINE, Scene, bed};

/// Two queues of one cohort, 6 cpus in all: `{ns}-a` has 4 and may borrow 1, `{ns}-b` has 2 and may
/// borrow 3. LocalQueues `a` and `b`.
pub async fn two_queues(scene: &Scene<'_>) -> Result<Limits> {
    let cohort = scene.name("cohort");
    scene.create(&objects::flavor(&scene.ns)).await?;
    for (queue, nominal, limit) in [("a", "4", "1"), ("b", "2", "3")] {
        let name = scene.name(queue);
        let quotas = [quota("cpu", nominal).borrow(limit)];
        let cluster_queue = objects::cluster_queue(&name, &scene.ns, &quotas);
        scene
            .create(&with(cluster_queue, "/spec/cohortName", json!(cohort)))
            .await?;
        scene.create(&objects::local_queue(queue, &name)).await?;
    }
    let limit = |cpus: i64| nanos(&json!(cpus));
    Ok(Limits {
        resource: "cpu",
        queues: BTreeMap::from([(scene.name("a"), limit(5)), (scene.name("b"), limit(5))]),
        total: limit(6),
    })
}

/// The job number `index` of a mixed load: 500m to 3 cpus, one pod or two, half a second to one.
pub fn mixed_job(index: usize) -> Job {
    let cpu = ["500m", "1", "1500m", "3", "750m"][index % 5];
    let pods = if index % 5 == 3 {
        1
    } else {
        1 + u32::try_from(index % 2).unwrap()
    };
    let job = Job::new(&format!("job-{index}")).cpu(cpu).pods(pods);
    job.queue(["a", "b"][index % 2])
        .runs(["0.5", "0.7", "1"][index % 3])
}

/// Waits until all jobs of the namespace are complete.
pub async fn see_all_complete(scene: &Scene<'_>, count: usize) -> Result<()> {
    eventually(
        &format!("{count} jobs to be complete"),
        3 * DEADLINE,
        async || {
            let jobs = scene.list("Job").await.map_err(|e| format!("{e:#}"))?;
            let mut left = String::new();
            for job in jobs.iter().filter(|job| !is_complete(job)) {
                let _ = write!(left, "{} ", name_of(job));
            }
            if jobs.len() == count && left.is_empty() {
                Ok(())
            } else {
                Err(left)
            }
        },
    )
    .await
}

#[tokio::test]
async fn a_mixed_load_keeps_within_quota_and_ends() -> Result<()> {
    bed::shared("quota-mixed", async |scene| {
        let limits = two_queues(scene).await?;
        let workloads = scene.record("Workload").await?;
        for index in 0..30 {
            scene.create(&mixed_job(index).json()).await?;
        }
        see_all_complete(scene, 30).await?;
        for queue in ["a", "b"] {
            scene.see("LocalQueue", queue, "idle", is_idle).await?;
            scene
                .see("ClusterQueue", &scene.name(queue), "idle", is_idle)
                .await?;
        }
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(admission_order(&history).len(), 30);
        check_quota(&history, &limits)?;
        check_conditions(&history)?;
        // Proof that the quota was the bottleneck, and that borrowing happened.
        let borrowed = history
            .iter()
            .any(|r| most_used(&history, r.number, "b", scene) > 2);
        ensure!(borrowed, "nothing was ever borrowed");
        Ok(())
    })
    .await
}

/// How many whole cpus a queue uses at a revision.
fn most_used(
    history: &[crate::support::history::Revision],
    number: u128,
    queue: &str,
    scene: &Scene<'_>,
) -> i128 {
    let queue = scene.name(queue);
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    for revision in history.iter().filter(|r| r.number <= number) {
        last.insert(name_of(&revision.object), &revision.object);
    }
    let used = last.values().filter(|w| {
        objects::holds_quota(w) && w["status"]["admission"]["clusterQueue"] == queue.as_str()
    });
    used.map(|w| crate::support::queues::usage(w, "cpu"))
        .sum::<i128>()
        / 1_000_000_000
}

/// Whether a queue says that nothing is pending, nothing is admitted and nothing is used.
pub fn is_idle(queue: &Value) -> bool {
    let status = &queue["status"];
    let counts = [
        "pendingWorkloads",
        "reservingWorkloads",
        "admittedWorkloads",
    ];
    let usage = status["flavorsUsage"].as_array().into_iter().flatten();
    let mut amounts = usage.flat_map(|f| f["resources"].as_array().into_iter().flatten());
    counts.iter().all(|c| status[*c] == 0) && amounts.all(|r| nanos(&r["total"]) == 0)
}

/// Waits until the clock of the API server shows another second than when the object was made:
/// what is made from now on is younger.
async fn a_second_later(scene: &Scene<'_>, object: &Value) -> Result<()> {
    let created = object["metadata"]["creationTimestamp"].clone();
    eventually("another second", DEADLINE, async || {
        let probe = Job::new("clock").json();
        let params = kube::api::PostParams {
            dry_run: true,
            field_manager: None,
        };
        let probe = serde_json::from_value(probe).unwrap();
        let shown = scene
            .api("Job")
            .create(&params, &probe)
            .await
            .map_err(|e| e.to_string())?;
        let now = serde_json::to_value(shown).unwrap()["metadata"]["creationTimestamp"].clone();
        if now == created { Err(now) } else { Ok(()) }
    })
    .await
    .map_err(|e: anyhow::Error| e)
}

/// With quota for one at a time, jobs are admitted by priority, then age.
async fn admits_in_order(prefix: &str, strategy: &str) -> Result<()> {
    bed::shared(prefix, async |scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "1")]);
        let queue = with(queue, "/spec/queueingStrategy", json!(strategy));
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        let (high, low) = (scene.name("high"), scene.name("low"));
        scene.create(&objects::priority_class(&high, 100)).await?;
        scene.create(&objects::priority_class(&low, -5)).await?;
        let workloads = scene.record("Workload").await?;
        // Oldest first; three seconds.
        let rounds = [
            ["low-1", "none-1", "high-1"],
            ["high-2", "none-2", "low-2"],
            ["none-3", "low-3", "high-3"],
        ];
        for round in rounds {
            for name in round {
                let job = Job::new(name).queue("q");
                let job = match name.split_once('-').unwrap().0 {
                    "high" => job.priority_class(&high),
                    "low" => job.priority_class(&low),
                    _ => job,
                };
                scene.create(&job.json()).await?;
            }
            for name in round {
                scene.see_workload(name, "there", |_| true).await?;
            }
            let last = scene.find_workload(round[2]).await?.unwrap();
            a_second_later(scene, &last).await?;
        }
        scene.stop("None").await?;
        see_all_complete(scene, 9).await?;
        let history = scene.history("Workload", &workloads).await?;
        let expected = [
            "high-1", "high-2", "high-3", "none-1", "none-2", "none-3", "low-1", "low-2", "low-3",
        ];
        assert_eq!(admission_order(&history), expected);
        let one = BTreeMap::from([(scene.ns.clone(), nanos(&json!(1)))]);
        check_quota(
            &history,
            &Limits {
                resource: "cpu",
                queues: one,
                total: nanos(&json!(1)),
            },
        )
    })
    .await
}

#[tokio::test]
async fn strict_fifo_admits_by_priority_then_age() -> Result<()> {
    admits_in_order("quota-strict", "StrictFIFO").await
}

#[tokio::test]
async fn best_effort_fifo_admits_equal_shapes_by_priority_then_age() -> Result<()> {
    admits_in_order("quota-effort", "BestEffortFIFO").await
}

/// A queue of 2 cpus of which 1 is taken, then a job of 2 and, younger, one of 1.
async fn a_head_that_does_not_fit(scene: &Scene<'_>, strategy: &str) -> Result<()> {
    let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
    scene
        .queue_like(with(queue, "/spec/queueingStrategy", json!(strategy)))
        .await?;
    scene
        .create(&Job::new("first").queue("q").runs_forever().json())
        .await?;
    scene.see_admitted("first").await?;
    scene
        .create(&Job::new("large").queue("q").cpu("2").json())
        .await?;
    let large = scene.see_workload("large", "there", |_| true).await?;
    a_second_later(scene, &large).await?;
    scene
        .create(&Job::new("small").queue("q").cpu("1").json())
        .await?;
    Ok(())
}

#[tokio::test]
async fn strict_fifo_blocks_the_jobs_behind_the_head() -> Result<()> {
    bed::shared("quota-head", async |scene| {
        a_head_that_does_not_fit(scene, "StrictFIFO").await?;
        let ns = &scene.ns;
        // Each time that the head is told anew what it waits for, it keeps its place meanwhile.
        for nominal in ["2", "2100m", "2200m", "2300m", "2400m"] {
            scene.set_cpu(nominal).await?;
            let message = format!(
                "couldn't be admitted to ClusterQueue \"{ns}\": insufficient unused quota for cpu in flavor \"{ns}\": requests 2 (nominal quota {nominal})"
            );
            scene.see_waiting("large", "WaitingForQuota", &message).await?;
        }
        let message = format!(
            "waits in ClusterQueue \"{ns}\" (StrictFIFO) behind Job \"large\", which doesn't fit"
        );
        let small = scene.see_waiting("small", "PendingEvaluation", &message).await?;
        ensure!(!is_admitted(&small), "{small}");
        let workloads = scene.record("Workload").await?;
        scene.delete("Job", "first").await?;
        scene.see_complete("large").await?;
        scene.see_complete("small").await?;
        let history = scene.history("Workload", &workloads).await?;
        let order = admission_order(&history);
        assert_eq!(order.iter().filter(|n| *n != "first").collect::<Vec<_>>(), ["large", "small"]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn best_effort_fifo_admits_small_jobs_behind_the_head() -> Result<()> {
    bed::shared("quota-pass", async |scene| {
        a_head_that_does_not_fit(scene, "BestEffortFIFO").await?;
        scene.see_complete("small").await?;
        let large = scene.get("Job", "large").await?;
        ensure!(is_suspended(&large), "{large}");
        scene.delete("Job", "first").await?;
        scene.see_complete("large").await?;
        Ok(())
    })
    .await
}

/// Whether a job gets the quota of another: `end` ends the first.
async fn hands_on(
    prefix: &str,
    first: Job,
    end: impl AsyncFn(&Scene<'_>) -> Result<()>,
) -> Result<()> {
    bed::shared(prefix, async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&first.clone().queue("q").json()).await?;
        scene.see_admitted("first").await?;
        scene.create(&Job::new("second").queue("q").json()).await?;
        scene.see_workload("second", "there", |_| true).await?;
        end(scene).await?;
        scene.see_complete("second").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn quota_is_free_when_a_job_completes() -> Result<()> {
    hands_on("free-done", Job::new("first").runs("0.5"), async |scene| {
        scene.see_complete("first").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn quota_is_free_when_a_job_fails() -> Result<()> {
    hands_on(
        "free-failed",
        Job::new("first").runs("0.5").fails(),
        async |scene| {
            let message = scene
                .see_condition("Job", "first", "Failed", "True", "BackoffLimitExceeded")
                .await?;
            let workload = scene
                .see_workload("first", "finished", |w| objects::is(w, "Finished"))
                .await?;
            let finished = objects::condition(&workload, "Finished");
            assert_eq!(finished, Some(("True", "Failed", message.as_str())));
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn quota_is_free_when_a_job_is_deleted() -> Result<()> {
    hands_on(
        "free-deleted",
        Job::new("first").runs_forever(),
        async |scene| scene.delete("Job", "first").await,
    )
    .await
}

/// Foreground: the job stays until its pods are gone, and its Workload goes too.
#[tokio::test]
async fn quota_is_free_when_a_job_is_deleted_in_the_foreground() -> Result<()> {
    hands_on(
        "free-front",
        Job::new("first").runs_forever(),
        async |scene| {
            scene.see_pods("Running", 1).await?;
            let args = [
                "delete",
                "job",
                "first",
                "--cascade=foreground",
                "--timeout=180s",
            ];
            scene.kubectl(&args, None).await?.ok()?;
            // The garbage collector deletes it beside the pods, and does not keep the job for it.
            eventually("only the second to have a Workload", DEADLINE, async || {
                let workloads = scene.list("Workload").await?;
                ensure!(
                    workloads.len() == 1,
                    "the first left its Workload: {workloads:?}"
                );
                anyhow::Ok(())
            })
            .await
        },
    )
    .await
}

#[tokio::test]
async fn raised_quota_is_handed_out_at_once() -> Result<()> {
    bed::shared("quota-raise", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&Job::new("large").queue("q").cpu("3").json()).await?;
        let ns = &scene.ns;
        let message = format!(
            "can never be admitted to ClusterQueue \"{ns}\": insufficient quota for cpu in flavor \"{ns}\": requests 3, more than the maximum capacity (nominal quota 1)"
        );
        scene.see_waiting("large", "ExceedsMaxQuota", &message).await?;
        scene.set_cpu("3").await?;
        scene.see_complete("large").await?;
        Ok(())
    })
    .await
}

/// What a queue does not lend stays at home, and what it lends comes back only when it is free.
#[tokio::test]
async fn lent_quota_comes_back_when_it_is_free() -> Result<()> {
    bed::shared("quota-lend", async |scene| {
        let cohort = scene.name("cohort");
        scene.create(&objects::flavor(&scene.ns)).await?;
        for (queue, quotas) in [("a", quota("cpu", "4").lend("1")), ("b", quota("cpu", "2"))] {
            let name = scene.name(queue);
            let cluster_queue = objects::cluster_queue(&name, &scene.ns, &[quotas]);
            scene.create(&with(cluster_queue, "/spec/cohortName", json!(cohort))).await?;
            scene.create(&objects::local_queue(queue, &name)).await?;
        }
        let b = scene.name("b");
        scene.create(&Job::new("greedy").queue("b").cpu("4").json()).await?;
        let message = format!(
            "can never be admitted to ClusterQueue \"{b}\": insufficient quota for cpu in flavor \"{}\": requests 4, more than the maximum capacity (nominal quota 2, may borrow 1)",
            scene.ns
        );
        scene.see_waiting("greedy", "ExceedsMaxQuota", &message).await?;
        scene.create(&Job::new("borrower").queue("b").cpu("3").runs_forever().json()).await?;
        scene.see_admitted("borrower").await?;
        scene.create(&Job::new("lender").queue("a").cpu("4").json()).await?;
        let told = |w: &Value| objects::condition(w, "QuotaReserved").is_some() && !is_admitted(w);
        scene.see_workload("lender", "waiting for what it lent", told).await?;
        scene.create(&Job::new("small").queue("a").cpu("3").json()).await?;
        scene.see_complete("small").await?;
        scene.delete("Job", "borrower").await?;
        scene.see_complete("lender").await?;
        Ok(())
    })
    .await
}

/// Quota that is lowered below what is used evicts nothing and admits nothing.
#[tokio::test]
async fn a_lowered_quota_admits_nothing_until_usage_is_below_it() -> Result<()> {
    bed::shared("quota-lower", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        for name in ["a", "b"] {
            scene
                .create(&Job::new(name).queue("q").runs_forever().json())
                .await?;
            scene.see_admitted(name).await?;
        }
        scene.set_cpu("1").await?;
        scene
            .see("ClusterQueue", &scene.ns, "borrowing from nobody", |q| {
                q["status"]["flavorsUsage"][0]["resources"][0]["total"] == "2"
                    && q["status"]["conditions"][0]["observedGeneration"]
                        == q["metadata"]["generation"]
            })
            .await?;
        scene.create(&Job::new("c").queue("q").json()).await?;
        scene
            .see_workload("c", "told why it waits", |w| {
                objects::condition(w, "QuotaReserved").is_some_and(|(status, ..)| status == "False")
            })
            .await?;
        scene.delete("Job", "a").await?;
        scene.see_gone("Job", "a").await?;
        // One of two has ended: 1 of 1 is used, and there is no quota yet.
        scene
            .see("ClusterQueue", &scene.ns, "down to 1", |q| {
                q["status"]["flavorsUsage"][0]["resources"][0]["total"] == "1"
            })
            .await?;
        let c = scene.find_workload("c").await?.unwrap();
        ensure!(!is_admitted(&c), "{c}");
        let b = scene.get("Job", "b").await?;
        ensure!(!is_suspended(&b), "lowering quota evicted a job: {b}");
        scene.delete("Job", "b").await?;
        scene.see_complete("c").await?;
        Ok(())
    })
    .await
}
