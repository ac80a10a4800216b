//! Fair sharing of what a cohort lends: jobs of a queue with more than its share are preempted for a
//! queue with less, until they are even, and then nobody goes any more.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, SluiceOptions, eventually};

use crate::queues::preemption::{Member, cohort, preemptions};
use crate::support::history::check_conditions;
use crate::support::objects::{Job, holds_quota, name_of};
use crate::support::queues::check_quota;
use crate::support::{DEADLINE, Scene, bed};

/// How many jobs hold quota in each LocalQueue.
async fn holding(scene: &Scene<'_>) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for workload in scene.list("Workload").await? {
        if holds_quota(&workload) {
            let queue = workload["spec"]["queueName"].as_str().unwrap_or_default();
            *counts.entry(queue.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Waits until these many jobs hold quota, and no pod is left over.
async fn see_shares(scene: &Scene<'_>, a: usize, b: usize) -> Result<()> {
    let wanted = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
    eventually(&format!("shares of {a} and {b}"), DEADLINE, async || {
        let now = holding(scene).await.map_err(|e| format!("{e:#}"))?;
        if now == wanted {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await?;
    scene.see_pods("Running", a + b).await.map(drop)
}

async fn create_jobs(scene: &Scene<'_>, queue: &str, count: usize) -> Result<()> {
    for index in 0..count {
        let job = Job::new(&format!("{queue}-{index}")).queue(queue);
        scene.create(&job.runs_forever().json()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn queues_share_evenly_what_a_third_one_lends() -> Result<()> {
    let sluice = SluiceOptions {
        config: Some("fairSharing: {}".to_owned()),
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own("fair", sluice, Options::with_crds()?, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        let member = |name, cpu| Member {
            name,
            cpu,
            preemption: json!({ "reclaimWithinCohort": "Any" }),
        };
        let members = [member("a", "0"), member("b", "0"), member("c", "6")];
        let limits = cohort(scene, &members).await?;
        let workloads = scene.record("Workload").await?;
        create_jobs(scene, "a", 6).await?;
        scene.see_pods("Running", 6).await?;
        create_jobs(scene, "b", 5).await?;
        see_shares(scene, 3, 3).await?;
        // Told that they wait, all have been decided about: nobody goes back and forth.
        eventually("those that wait to be told so", DEADLINE, async || {
            let all = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            let is_told = |w: &&Value| {
                let told = crate::support::objects::condition(w, "QuotaReserved");
                told.is_some_and(|(s, r, _)| (s, r) == ("False", "WaitingForQuota"))
            };
            match all.iter().filter(is_told).count() {
                5 => Ok(()),
                told => Err(format!("{told} are")),
            }
        })
        .await?;
        see_shares(scene, 3, 3).await?;
        let history = scene.history("Workload", &workloads).await?;
        let told = preemptions(&history);
        assert_eq!(told.len(), 3, "{told:?}");
        for (name, right, message) in &told {
            assert_eq!(right, "InCohortFairSharing");
            ensure!(name.starts_with("a-"), "{told:?}");
            ensure!(
                message.ends_with("due to fair sharing within the cohort"),
                "{message}"
            );
        }
        // What b gives up goes to those of a that wait.
        for job in scene.list("Job").await? {
            if name_of(&job).starts_with("b-") {
                scene.delete("Job", name_of(&job)).await?;
            }
        }
        eventually("only a to be left", DEADLINE, async || {
            let now = holding(scene).await.map_err(|e| format!("{e:#}"))?;
            let all = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            if now.get("a") == Some(&6) && all.len() == 6 {
                Ok(())
            } else {
                Err(format!("{now:?} of {}", all.len()))
            }
        })
        .await?;
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(preemptions(&history).len(), 3);
        check_conditions(&history)?;
        check_quota(&history, &limits)
    })
    .await
}
