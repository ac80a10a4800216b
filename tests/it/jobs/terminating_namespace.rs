//! A namespace that is being deleted takes no new objects: nothing is created in it any more.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::objects::{Job, quota};
use crate::support::{DEADLINE, Scene, audit, bed};

const JOBS: usize = 30;
const FINALIZER: &str = "tests.example.com/hold";

/// Jobs that outlive their Workloads, as something else holds them up.
async fn create_jobs(scene: &Scene<'_>) -> Result<()> {
    for index in 0..JOBS {
        let job = Job::new(&format!("job-{index}")).queue("q");
        let job = job.with(&["metadata", "finalizers"], json!([FINALIZER]));
        scene.create(&job.json()).await?;
    }
    for index in 0..JOBS {
        scene
            .see_workload(&format!("job-{index}"), "there", |_| true)
            .await?;
    }
    // They are told what they wait for some seconds later: those events shall not be on their way when the
    // namespace goes. One or two may get lost.
    sluice_testbed::eventually("the jobs to be told", DEADLINE, async || {
        let events = scene.list("Event").await.map_err(|e| format!("{e:#}"))?;
        let by_sluice = events
            .iter()
            .filter(|e| e["reportingController"] == "sluice");
        let told: BTreeSet<_> = by_sluice.map(|e| e["regarding"]["name"].as_str()).collect();
        let told = told.len();
        if JOBS - 2 <= told {
            Ok(())
        } else {
            Err(format!("{told} are"))
        }
    })
    .await
}

#[tokio::test]
async fn no_workload_is_created_again() -> Result<()> {
    let shared = sluice_testbed::Sluice::shared(bed::BINARY);
    bed::shared("terminating", async |scene| {
        scene.queue(&[quota("cpu", "0")]).await?;
        create_jobs(scene).await?;
        scene.delete("Namespace", &scene.ns).await?;
        // The namespaces of all tests that ended wait for the same few workers of one controller.
        let patience = DEADLINE * 4;
        sluice_testbed::eventually("Workloads to be gone", patience, async || {
            let left = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            let left = left.len();
            if left == 0 {
                Ok(())
            } else {
                Err(format!("{left} are left"))
            }
        })
        .await?;
        for index in 0..JOBS {
            let freed = json!({ "metadata": { "finalizers": null } });
            scene.merge("Job", &format!("job-{index}"), freed).await?;
        }
        scene.see_gone("Namespace", &scene.ns).await?;
        let refused = audit::of_sluice(&shared.control_plane.audit_log())?
            .into_iter()
            .filter(|r| r.namespace == scene.ns && r.verb == "create" && !r.has_succeeded());
        // One that was sent before the deletion of the namespace was seen may be among them.
        let refused = refused.count();
        ensure!(refused < JOBS / 10, "{refused} were refused");
        Ok(())
    })
    .await
}
