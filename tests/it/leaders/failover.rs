//! Two controllers, a leader that is dead, asleep or back from the dead, an API server that goes and
//! comes: the same end, within quota.

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_testbed::{Sluice, SluiceOptions, eventually};

use crate::leaders::crash::{check_releases, check_workloads, count_admitted};
use crate::queues::quota::{is_idle, mixed_job, see_all_complete, two_queues};
use crate::support::audit;
use crate::support::bed::{self, Bed};
use crate::support::objects::{Job, revision_of};
use crate::support::queues::{admission_order, check_quota};
use crate::support::{DEADLINE, Scene};

/// Who holds the lease.
pub async fn leader(scene: &Scene<'_>) -> Result<String> {
    let path = "--output=jsonpath={.spec.holderIdentity}";
    let args = ["get", "lease", "sluice", "--namespace=sluice-system", path];
    scene.cp.kubectl(args, None).await?.ok()
}

/// Waits until somebody else holds the lease.
pub async fn see_another_leader(scene: &Scene<'_>, before: &str) -> Result<String> {
    eventually("another leader", DEADLINE, async || {
        match leader(scene).await {
            Ok(now) if now != before && !now.is_empty() => Ok(now),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// Waits for this many admissions more, or for the last of so many jobs: who looks late has missed some.
async fn see_admissions(scene: &Scene<'_>, more: usize, jobs: usize) -> Result<()> {
    let mut before = None;
    eventually(
        &format!("{more} admissions more of {jobs}"),
        DEADLINE,
        async || {
            let now = count_admitted(scene).await.map_err(|e| format!("{e:#}"))?;
            let before = *before.get_or_insert(now);
            if jobs.min(before + more) <= now {
                Ok(())
            } else {
                Err(format!("{now}, after {before}"))
            }
        },
    )
    .await
}

/// Sets the stopPolicy of both queues: the jobs are made while nothing is admitted, so that most of the work
/// is left when something goes wrong.
async fn stop_both(scene: &Scene<'_>, policy: &str) -> Result<()> {
    for queue in ["a", "b"] {
        let patch = json!({"spec": {"stopPolicy": policy}});
        scene
            .merge("ClusterQueue", &scene.name(queue), patch)
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_leader_that_wakes_up_too_late_does_no_harm() -> Result<()> {
    bed::own_unsupervised(
        "failover",
        SluiceOptions::new(bed::BINARY),
        async |bed, scene| {
            let second = SluiceOptions {
                webhooks: false,
                ..SluiceOptions::new(bed::BINARY)
            };
            let second = Sluice::install(&bed.cp, second).await?;
            second.start().await?;
            let limits = two_queues(scene).await?;
            let workloads = scene.record("Workload").await?;
            let jobs = scene.record("Job").await?;
            let count = 24;
            stop_both(scene, "Hold").await?;
            for index in 0..count {
                scene.create(&mixed_job(index).json()).await?;
            }
            let first_leader = leader(scene).await?;
            stop_both(scene, "None").await?;
            see_admissions(scene, 1, count).await?;
            // Asleep in the middle of its work, past its lease.
            bed.sluice.process().signal("STOP")?;
            see_another_leader(scene, &first_leader).await?;
            see_admissions(scene, 2, count).await?;
            wake_the_leader_of_before(bed).await?;
            see_all_complete(scene, count).await?;
            // And back: the second is killed, the first takes over.
            second.kill();
            scene.create(&Job::new("after").queue("a").json()).await?;
            scene.see_complete("after").await?;
            for queue in ["a", "b"] {
                scene.see("LocalQueue", queue, "idle", is_idle).await?;
            }
            let history = scene.history("Workload", &workloads).await?;
            check_quota(&history, &limits)?;
            check_workloads(&history, count + 1)?;
            check_releases(&scene.history("Job", &jobs).await?)?;
            let requests = audit::writes(&bed.cp.audit_log())?;
            let released = requests
                .iter()
                .filter(|r| r.what() == "patch jobs" && r.has_succeeded());
            let released = released.count();
            ensure!(
                released <= count + 1,
                "{released} successful patches of {} jobs",
                count + 1
            );
            Ok(())
        },
    )
    .await
}

/// Starts Sluice again whenever it has ended, as Kubernetes does.
pub async fn keep_running(sluice: &Sluice) -> Result<()> {
    loop {
        eventually("Sluice to end", 60 * DEADLINE, async || {
            sluice.process().exit_status().ok_or("it runs")
        })
        .await?;
        sluice.kill();
        sluice.process().start_again()?;
    }
}

#[tokio::test]
async fn an_api_server_that_goes_and_comes_does_no_harm() -> Result<()> {
    bed::own_unsupervised(
        "outage",
        SluiceOptions::new(bed::BINARY),
        async |bed, scene| {
            let limits = two_queues(scene).await?;
            let workloads = scene.record("Workload").await?;
            let jobs = scene.record("Job").await?;
            let count = 20;
            stop_both(scene, "Hold").await?;
            let mut last = 0;
            for index in 0..count {
                last = revision_of(&scene.create(&mixed_job(index).json()).await?);
            }
            // Recorded as they were born: what comes in an outage may be seen late.
            jobs.until(last).await?;
            stop_both(scene, "None").await?;
            let outages = async {
                for _ in 0..2 {
                    see_admissions(scene, 2, count).await?;
                    bed.cp.kill_api_server()?;
                    bed.cp.restart_api_server().await?;
                }
                see_all_complete(scene, count).await?;
                for queue in ["a", "b"] {
                    scene.see("LocalQueue", queue, "idle", is_idle).await?;
                }
                anyhow::Ok(())
            };
            // It may end when it can't renew its lease in time.
            tokio::select! {
                done = outages => done?,
                broken = keep_running(&bed.sluice) => broken?,
            }
            let history = scene.history("Workload", &workloads).await?;
            check_quota(&history, &limits)?;
            assert_eq!(admission_order(&history).len(), count);
            check_workloads(&history, count)?;
            check_releases(&scene.history("Job", &jobs).await?)
        },
    )
    .await
}

/// Wakes a leader that slept past its lease: it ends by itself, and is started again.
pub async fn wake_the_leader_of_before(bed: &Bed) -> Result<()> {
    bed.sluice.process().signal("CONT")?;
    eventually("the leader of before to end", DEADLINE, async || {
        bed.sluice.process().exit_status().ok_or("it runs")
    })
    .await?;
    bed.sluice.kill();
    bed.sluice.start_again().await
}
