//! The quota of preempted jobs is reserved for their preemptor, whichever job comes before it by then.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::queues::preemption::{Member, classes, cohort, end_slow_pods, leaving, slow};
use crate::support::history::check_conditions;
use crate::support::objects::{Job, condition, is_admitted};
use crate::support::pods::is_terminating;
use crate::support::queues::check_quota;
use crate::support::{Scene, bed};

/// `mine` takes back what its queue lent. While `theirs` is stopping, `small` gets the rest, so that
/// `mine` would borrow as `rival` would, which is more important.
async fn goes_to_whom_it_was_left(
    scene: &Scene<'_>,
    meanwhile: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let members = [
        Member {
            name: "a",
            cpu: "3",
            preemption: json!({ "reclaimWithinCohort": "Any" }),
        },
        Member {
            name: "b",
            cpu: "1",
            preemption: json!({}),
        },
    ];
    classes(scene).await?;
    let limits = cohort(scene, &members).await?;
    let workloads = scene.record("Workload").await?;
    let theirs = slow(Job::new("theirs").queue("b").cpu("2"));
    scene.create(&theirs.json()).await?;
    scene.see_pods("Running", 1).await?;
    let rival = Job::new("rival").queue("b").cpu("3");
    let rival = rival.priority_class(&scene.name("high"));
    scene.create(&rival.json()).await?;
    scene
        .see_workload("rival", "told why it waits", |w| {
            condition(w, "QuotaReserved").is_some()
        })
        .await?;
    let mine = Job::new("mine").queue("a").cpu("3").runs_forever();
    scene.create(&mine.json()).await?;
    scene.see_event("theirs", "Preempted").await?;
    let small = Job::new("small").queue("a").runs_forever();
    scene.create(&small.json()).await?;
    scene.see_admitted("small").await?;
    meanwhile().await?;
    assert_eq!(leaving(scene).await?, ["theirs"]);
    scene.see_so_many("terminating", 1, is_terminating).await?;
    end_slow_pods(scene).await?;
    scene.see_admitted("mine").await?;
    let theirs = scene.see_workload("theirs", "waiting", |w| !is_admitted(w));
    ensure!(theirs.await?["status"]["makesRoomFor"].is_null());
    let rival = scene.find_workload("rival").await?;
    ensure!(
        rival.is_some_and(|w| !is_admitted(&w)),
        "the quota was reserved for mine"
    );
    let history = scene.history("Workload", &workloads).await?;
    check_conditions(&history)?;
    check_quota(&history, &limits)
}

#[tokio::test]
async fn nobody_of_another_queue_gets_in_between() -> Result<()> {
    bed::shared("reserved-quota", async |scene| {
        goes_to_whom_it_was_left(scene, async || Ok(())).await
    })
    .await
}

#[tokio::test]
async fn after_a_kill_the_preemptor_is_still_known() -> Result<()> {
    bed::own_running("reserved-quota-kill", async |bed, scene| {
        goes_to_whom_it_was_left(scene, async || {
            bed.sluice.kill();
            bed.sluice.start_again().await
        })
        .await
    })
    .await
}
