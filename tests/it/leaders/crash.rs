//! The controller is killed in the middle of its work, five times: everything ends as if it had not
//! been, and nothing happens twice.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use sluice_testbed::{Options, SluiceOptions, eventually};

use crate::leaders::writes::see_quiet;
use crate::queues::quota::{is_idle, mixed_job, see_all_complete, two_queues};
use crate::support::history::{Revision, check_conditions};
use crate::support::objects::{is_admitted, is_suspended, name_of};
use crate::support::queues::{admission_order, check_quota};
use crate::support::{DEADLINE, Scene, audit, bed};

const KILLS: usize = 5;
const JOBS_EACH: usize = 8;

/// Of what Sluice writes the bodies too.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
    omitStages: [RequestReceived]\nrules:\n\
    - level: Request\n  users: [\"system:serviceaccount:sluice-system:sluice\"]\n  \
      verbs: [create, patch]\n  resources:\n  - group: batch\n  - group: sluice.dev\n\
    - level: Metadata\n";

#[tokio::test]
async fn killed_in_the_middle_nothing_is_lost_and_nothing_happens_twice() -> Result<()> {
    let options = Options {
        audit_policy: AUDIT_POLICY.to_owned(),
        ..Options::with_crds()?
    };
    bed::own(
        "crash",
        SluiceOptions::new(bed::BINARY),
        options,
        async |bed, scene| {
            bed.sluice.start().await?;
            let limits = two_queues(scene).await?;
            let workloads = scene.record("Workload").await?;
            let jobs = scene.record("Job").await?;
            for round in 0..KILLS {
                let admitted = count_admitted(scene).await?;
                for index in 0..JOBS_EACH {
                    scene
                        .create(&mixed_job(round * JOBS_EACH + index).json())
                        .await?;
                }
                // At another moment each time: the first admission, the second, …
                eventually(
                    "admissions in the middle of which to kill",
                    DEADLINE,
                    async || {
                        let now = count_admitted(scene).await.map_err(|e| format!("{e:#}"))?;
                        if admitted + round < now {
                            Ok(())
                        } else {
                            Err(format!("{now}"))
                        }
                    },
                )
                .await?;
                bed.sluice.kill();
                bed.sluice.start_again().await?;
            }
            let count = KILLS * JOBS_EACH;
            see_all_complete(scene, count).await?;
            for queue in ["a", "b"] {
                scene.see("LocalQueue", queue, "idle", is_idle).await?;
                scene
                    .see("ClusterQueue", &scene.name(queue), "idle", is_idle)
                    .await?;
            }

            let history = scene.history("Workload", &workloads).await?;
            check_quota(&history, &limits)?;
            check_conditions(&history)?;
            assert_eq!(admission_order(&history).len(), count);
            check_workloads(&history, count)?;
            check_releases(&scene.history("Job", &jobs).await?)?;
            check_requests(&bed.cp.audit_log())?;
            let jobs = scene.list("Job").await?;
            // Created, and released: two generations of its spec.
            ensure!(
                jobs.iter().all(|job| job["metadata"]["generation"] == 2),
                "{jobs:?}"
            );
            see_quiet(&bed.cp.audit_log()).await
        },
    )
    .await
}

pub async fn count_admitted(scene: &Scene<'_>) -> Result<usize> {
    let workloads = scene.list("Workload").await?;
    Ok(workloads.iter().filter(|w| is_admitted(w)).count())
}

/// One Workload for each job, made once, admitted once, none deleted.
pub fn check_workloads(history: &[Revision], count: usize) -> Result<()> {
    let mut uids = BTreeSet::new();
    let mut of_job: BTreeMap<&str, &str> = BTreeMap::new();
    let mut admitted: BTreeMap<&str, bool> = BTreeMap::new();
    for revision in history {
        let workload = &revision.object;
        let uid = workload["metadata"]["uid"].as_str().unwrap();
        let job = workload["metadata"]["ownerReferences"][0]["uid"]
            .as_str()
            .unwrap();
        ensure!(!revision.is_deleted, "a Workload was deleted: {workload}");
        uids.insert(uid);
        let known = of_job.insert(job, uid).unwrap_or(uid);
        ensure!(known == uid, "a job had two Workloads, {known} and {uid}");
        let before = admitted
            .insert(uid, is_admitted(workload))
            .unwrap_or_default();
        ensure!(
            !before || is_admitted(workload),
            "an admission was taken back: {workload}"
        );
    }
    ensure!(
        uids.len() == count,
        "{} Workloads for {count} jobs",
        uids.len()
    );
    Ok(())
}

/// Each job was released once and never stopped again.
pub fn check_releases(history: &[Revision]) -> Result<()> {
    let mut suspended: BTreeMap<&str, bool> = BTreeMap::new();
    for revision in history {
        let job = &revision.object;
        match suspended.insert(name_of(job), is_suspended(job)) {
            None => ensure!(
                is_suspended(job),
                "it was not held from its first revision: {job}"
            ),
            Some(before) => {
                ensure!(
                    before || !is_suspended(job),
                    "it was suspended again: {job}"
                );
            }
        }
    }
    Ok(())
}

/// What had an effect was sent once: one Workload and one release for each job.
fn check_requests(log: &std::path::Path) -> Result<()> {
    let mut created: BTreeMap<String, usize> = BTreeMap::new();
    let mut released: BTreeMap<String, usize> = BTreeMap::new();
    for request in audit::writes(log)?
        .into_iter()
        .filter(audit::Request::has_succeeded)
    {
        match request.what().as_str() {
            "create workloads" => {
                let owner = &request.body["metadata"]["ownerReferences"][0]["name"];
                *created
                    .entry(owner.as_str().unwrap_or_default().to_owned())
                    .or_default() += 1;
            }
            "patch jobs" => {
                let is_release = request
                    .body
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|operation| {
                        operation["path"] == "/spec/suspend" && operation["value"] == false
                    });
                ensure!(
                    is_release,
                    "a job was patched for something else: {request:?}"
                );
                *released.entry(request.name.clone()).or_default() += 1;
            }
            _ => {}
        }
    }
    // The answers to requests that were under way at a kill are not in the log.
    for (what, counts) in [("Workload created", created), ("released", released)] {
        ensure!(
            counts.values().all(|count| *count == 1),
            "{what} twice: {counts:?}"
        );
        let most = KILLS * JOBS_EACH;
        ensure!(
            (most / 2..=most).contains(&counts.len()),
            "{what}: {counts:?}"
        );
    }
    Ok(())
}
