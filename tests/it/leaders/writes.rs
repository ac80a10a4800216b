//! As few writes as can be: four for a job, and none when there is nothing to do.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::audit::{self, Request};
use crate::support::objects::{self, GATED, Job, own, own_gate, quota};
use crate::support::scale::scaled;
use crate::support::{DEADLINE, bed};

/// Renewals of the lease in a quiet window: one comes every two seconds.
const RENEWALS: usize = 10;

/// How often Sluice wrote what.
fn count(requests: &[Request]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.what()).or_default() += 1;
    }
    counts
}

/// Waits until Sluice has renewed its lease so often in a row without writing anything else.
pub async fn see_quiet(log: &Path) -> Result<()> {
    let mut last_writes = String::new();
    eventually(
        "Sluice to write nothing but its lease",
        2 * DEADLINE,
        async || {
            let requests = audit::of_sluice(log).map_err(|e| format!("{e:#}"))?;
            let writes: Vec<_> = requests.into_iter().filter(Request::is_write).collect();
            let renewals = writes
                .iter()
                .rev()
                .take_while(|r| r.resource == "leases")
                .count();
            if RENEWALS <= renewals {
                return Ok(());
            }
            let others = writes
                .iter()
                .rev()
                .filter(|r| r.resource != "leases")
                .take(3);
            last_writes = others
                .map(|r| format!("{} {} {}", r.at, r.what(), r.name))
                .collect::<Vec<_>>()
                .join("; ");
            Err(format!(
                "{renewals} renewals in a row; the last other writes: {last_writes}"
            ))
        },
    )
    .await
}

#[tokio::test]
async fn a_plain_job_costs_four_writes() -> Result<()> {
    let shared = sluice_testbed::Sluice::shared(bed::BINARY);
    bed::shared("writes-job", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        // A job that is there first is told after a while that there is no such queue.
        scene
            .see_condition("LocalQueue", "q", "Active", "True", "Ready")
            .await?;
        scene
            .create(&Job::new("plain").queue("q").runs("0.5").json())
            .await?;
        scene.see_complete("plain").await?;
        scene
            .see_workload("plain", "finished", |w| objects::is(w, "Finished"))
            .await?;
        // The status of the queue is written after that of the job.
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        let mut writes = audit::writes(&shared.control_plane.audit_log())?;
        writes.retain(|r| r.namespace == scene.ns && r.resource != "localqueues");
        let expected = [
            ("create workloads", 1),
            ("patch jobs", 1),
            ("patch workloads/status", 2),
        ];
        let expected = expected.map(|(what, count)| (what.to_owned(), count));
        assert_eq!(count(&writes), BTreeMap::from(expected), "{writes:#?}");
        ensure!(writes.iter().all(Request::has_succeeded), "{writes:#?}");
        Ok(())
    })
    .await
}

/// A gated job costs nothing until its gate goes, however often it is edited.
#[tokio::test]
async fn a_gated_job_costs_nothing() -> Result<()> {
    let shared = sluice_testbed::Sluice::shared(bed::BINARY);
    bed::shared("writes-gated", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("gated").queue("q").gate("acme.io/x").json())
            .await?;
        scene.see_event("gated", "Gated").await?;
        for cpu in ["100m", "200m", "300m"] {
            scene
                .apply(
                    &Job::new("gated")
                        .queue("q")
                        .gate("acme.io/x")
                        .cpu(cpu)
                        .json(),
                )
                .await?;
        }
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        let mut writes = audit::writes(&shared.control_plane.audit_log())?;
        writes.retain(|r| {
            r.namespace == scene.ns && r.resource != "localqueues" && !r.name.starts_with("other")
        });
        // The name of an object that is created is not in the path of the request.
        writes.retain(|r| r.what() != "create workloads");
        ensure!(writes.is_empty(), "{writes:#?}");
        let workloads = scene.list("Workload").await?;
        ensure!(workloads.len() == 1, "{workloads:?}");
        Ok(())
    })
    .await
}

/// Jobs in each state that lasts, and then: nothing.
#[tokio::test]
async fn what_is_settled_stays_unwritten() -> Result<()> {
    bed::own_running("writes-quiet", async |bed, scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene
            .create(&objects::local_queue("lost", "nowhere"))
            .await?;
        scene
            .create(&objects::cohort(&scene.name("a"), Some(&scene.name("b"))))
            .await?;
        scene
            .create(&objects::cohort(&scene.name("b"), Some(&scene.name("a"))))
            .await?;
        let jobs = [
            Job::new("done").queue("q"),
            Job::new("failed").queue("q").fails(),
            Job::new("gated").queue("q").gate("acme.io/x"),
            Job::new("only").gate("acme.io/x"),
            Job::new("lifted").gate("acme.io/x"),
            Job::new("unknown").queue("nope"),
            Job::new("astray").queue("lost"),
            Job::new("huge").queue("q").cpu("100"),
            Job::new("classless").queue("q").priority_class("nope"),
        ];
        for job in &jobs {
            scene.create(&job.json()).await?;
        }
        scene.see_complete("done").await?;
        let gone = serde_json::json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "lifted", gone).await?;
        scene.see_complete("lifted").await?;
        for name in ["running", "evicted"] {
            scene
                .create(&Job::new(name).queue("q").runs_forever().json())
                .await?;
            scene.see_admitted(name).await?;
        }
        scene.create(&Job::new("waiting").queue("q").json()).await?;
        scene
            .see_workload("waiting", "told", |w| {
                objects::condition(w, "QuotaReserved").is_some()
            })
            .await?;
        let pending = scene.see("LocalQueue", "q", "right", |q| {
            let status = &q["status"];
            status["admittedWorkloads"] == 2 && status["gatedWorkloads"] == 1
        });
        pending.await?;
        see_quiet(&bed.cp.audit_log()).await?;
        // A restart changes nothing: what is right is not written again.
        let before = audit::writes(&bed.cp.audit_log())?.len();
        bed.sluice.kill();
        let requests = audit::of_sluice(&bed.cp.audit_log())?.len();
        bed.sluice.start_again().await?;
        see_leading_again(&bed.cp.audit_log(), requests).await?;
        see_nothing_written(&bed.cp.audit_log(), before).await
    })
    .await
}

/// Waits until Sluice is quiet, and sees that its restart wrote nothing after its first so many writes.
pub async fn see_nothing_written(log: &Path, before: usize) -> Result<()> {
    // It may have been quiet before that.
    eventually("as many renewals again", 2 * DEADLINE, async || {
        let writes = audit::writes(log)?.split_off(before);
        let renewals = writes.iter().filter(|r| r.resource == "leases").count();
        ensure!(RENEWALS <= renewals, "{renewals} renewals since");
        anyhow::Ok(())
    })
    .await?;
    see_quiet(log).await?;
    let mut writes = audit::writes(log)?.split_off(before);
    writes.retain(|r| !["leases", "secrets"].contains(&r.resource.as_str()));
    ensure!(writes.is_empty(), "a restart wrote {writes:#?}");
    Ok(())
}

/// Waits until a process that was started again has listed the Workloads and renewed its lease. There
/// were so many requests of Sluice `before` its start.
pub async fn see_leading_again(log: &Path, before: usize) -> Result<()> {
    eventually("Sluice to lead again", 2 * DEADLINE, async || {
        let requests = audit::of_sluice(log).map_err(|e| format!("{e:#}"))?;
        let new = requests.get(before..).unwrap_or_default();
        let listed = new
            .iter()
            .position(|r| r.resource == "workloads" && r.verb == "list");
        let renewals = listed.map_or(0, |at| {
            new[at..]
                .iter()
                .filter(|r| r.resource == "leases" && r.is_write())
                .count()
        });
        if 2 <= renewals {
            Ok(())
        } else {
            Err(format!("{renewals} renewals since"))
        }
    })
    .await
}

/// What gates hold costs nothing while nothing changes. `benches/gates.rs` has the figures of many more.
#[tokio::test]
async fn held_jobs_cost_no_write_while_nothing_changes() -> Result<()> {
    let count = scaled(500);
    bed::own_running("writes-held", async |bed, scene| {
        let (gate, object) = own_gate(&scene.ns, "budget");
        let deadline = json!({"seconds": 86_400, "onExpiry": "Deactivate"});
        scene
            .apply(&own("Gate", &object, json!({"deadline": deadline})))
            .await?;
        let jobs = (0..count).map(|index| Job::new(&format!("held-{index}")).gate(&gate).json());
        scene.create_all(&jobs.collect::<Vec<_>>()).await?;
        let holds_all = |gate: &Value| gate["status"]["held"] == count;
        scene.see("Gate", &object, "holding all", holds_all).await?;
        let log = bed.cp.audit_log();
        see_quiet(&log).await?;
        let mut writes = audit::writes(&log)?;
        writes.retain(|write| ["jobs", "workloads"].contains(&write.resource.as_str()));
        ensure!(writes.is_empty(), "{writes:#?}");
        // Nor does a restart.
        let before = audit::writes(&log)?.len();
        bed.sluice.kill();
        let requests = audit::of_sluice(&log)?.len();
        bed.sluice.start_again().await?;
        see_leading_again(&log, requests).await?;
        see_nothing_written(&log, before).await
    })
    .await
}
