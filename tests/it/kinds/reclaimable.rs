//! Pods that have ended for good: what they held is free while the rest of their job goes on, never
//! before they are gone, and never twice.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Sluice, SluiceOptions, eventually};

use crate::leaders::failover::{leader, see_another_leader, wake_the_leader_of_before};
use crate::leaders::writes::{see_leading_again, see_nothing_written, see_quiet};
use crate::pods::whole::{GATE, gated_job};
use crate::queues::quota::see_all_complete;
use crate::support::history::{Revision, check_conditions};
use crate::support::objects::{Job, condition, is, is_admitted, name_of, quota, with};
use crate::support::pods::{check_usage, gates, has_queue_gate, is_running, is_scheduling_gated};
use crate::support::queues::{Limits, check_quota, nanos, reclaimed};
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene, bed};

/// As many pods have ended for good as a widget says.
const GONE: &str = "has(object.status) && has(object.status.gone) ? object.status.gone : 0";

/// Checks that the Workloads and the pods of a test kept within so many cpus at every revision.
fn check_cpus(
    scene: &Scene<'_>,
    cpus: &str,
    workloads: &[Revision],
    pods: &[Revision],
) -> Result<()> {
    let most = nanos(&json!(cpus));
    let limits = Limits {
        resource: "cpu",
        queues: BTreeMap::from([(scene.ns.clone(), most)]),
        total: most,
    };
    check_quota(workloads, &limits)?;
    check_conditions(workloads)?;
    check_usage(pods, "cpu", cpus, |_| true).map(drop)
}

/// What Workloads said of the pods of a job that have ended for good, one after the other.
fn all_reclaimed(history: &[Revision], job: &str) -> Vec<i64> {
    let of_job = history
        .iter()
        .filter(|r| r.object["metadata"]["ownerReferences"][0]["name"] == job);
    let mut all: Vec<_> = of_job.map(|r| reclaimed(&r.object, "main")).collect();
    all.dedup();
    all
}

fn waits(workload: &Value) -> bool {
    condition(workload, "QuotaReserved").is_some_and(|(status, ..)| status == "False")
}

/// Waits until as many pods of a job run as are wanted, and returns their names.
async fn see_running(scene: &Scene<'_>, job: &str, count: usize) -> Result<Vec<String>> {
    let is_so = |pod: &Value| is_running(pod) && pod["metadata"]["labels"]["job-name"] == job;
    let what = format!("of {job} and running");
    let pods = scene.see_so_many(&what, count, is_so).await?;
    Ok(pods.iter().map(|pod| name_of(pod).to_owned()).collect())
}

#[tokio::test]
async fn what_has_ended_leaves_its_quota_to_the_next() -> Result<()> {
    bed::shared("reclaim-next", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let wide = Job::new("wide").queue("q").pods(3).runs_forever();
        scene.create(&wide.json()).await?;
        let pods = see_running(scene, "wide", 3).await?;
        let narrow = |name: &str| Job::new(name).queue("q").runs_forever();
        scene.create(&narrow("a").json()).await?;
        scene.see_workload("a", "waiting", waits).await?;
        scene.see_account("cpu", ("3", "3", "0"), 1).await?;
        scene.end(&pods[0]).await?;
        see_running(scene, "a", 1).await?;
        let workload = scene.find_workload("wide").await?.unwrap();
        assert_eq!(
            workload["status"]["reclaimablePods"],
            json!([{"name": "main", "count": 1}])
        );
        scene.see_account("cpu", ("3", "3", "0"), 0).await?;
        // Two more, and both at once.
        scene
            .create_all(&[narrow("b").json(), narrow("c").json()])
            .await?;
        scene.end(&pods[1]).await?;
        scene
            .see_workload("wide", "of two ended pods", |w| reclaimed(w, "main") == 2)
            .await?;
        scene.end(&pods[2]).await?;
        scene.see_complete("wide").await?;
        see_running(scene, "b", 1).await?;
        see_running(scene, "c", 1).await?;
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        check_cpus(scene, "3", &workloads, &pods)
    })
    .await
}

/// An evicted job gets no reclaimed quota back until it stops, and is queued again with all its pods.
#[tokio::test]
async fn an_eviction_begins_anew() -> Result<()> {
    bed::shared("reclaim-evict", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let wide = Job::new("wide").queue("q").pods(3).runs_forever();
        scene.create(&wide.json()).await?;
        let pods = see_running(scene, "wide", 3).await?;
        scene.end(&pods[0]).await?;
        scene
            .see_workload("wide", "of one ended pod", |w| reclaimed(w, "main") == 1)
            .await?;
        scene.stop("HoldAndDrain").await?;
        let workload = scene
            .see_workload("wide", "queued again", |w| !is_admitted(w))
            .await?;
        assert_eq!(reclaimed(&workload, "main"), 0, "{workload}");
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.stop("None").await?;
        see_running(scene, "wide", 2).await?;
        scene
            .see_workload("wide", "of one ended pod again", |w| {
                reclaimed(w, "main") == 1
            })
            .await?;
        scene.see_complete("other").await?;
        let workloads = scene.history("Workload", &workloads).await?;
        assert_eq!(all_reclaimed(&workloads, "wide"), [0, 1, 0, 1]);
        let going = workloads
            .iter()
            .filter(|r| is(&r.object, "Evicted") && is_admitted(&r.object));
        for revision in going {
            assert_eq!(reclaimed(&revision.object, "main"), 1, "{revision:?}");
        }
        let pods = scene.history("Pod", &recorded).await?;
        check_cpus(scene, "3", &workloads, &pods)
    })
    .await
}

/// Whoever comes after a crash knows what was given away, and writes nothing.
#[tokio::test]
async fn a_restart_changes_nothing() -> Result<()> {
    bed::own_running("reclaim-restart", async |bed, scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let wide = Job::new("wide").queue("q").pods(3).runs_forever();
        scene.create(&wide.json()).await?;
        let pods = see_running(scene, "wide", 3).await?;
        scene.end(&pods[0]).await?;
        scene
            .see_workload("wide", "of one ended pod", |w| reclaimed(w, "main") == 1)
            .await?;
        scene.see_account("cpu", ("2", "2", "0"), 0).await?;
        let log = bed.cp.audit_log();
        see_quiet(&log).await?;
        let before = crate::support::audit::writes(&log)?.len();
        bed.sluice.kill();
        let requests = crate::support::audit::of_sluice(&log)?.len();
        bed.sluice.start_again().await?;
        see_leading_again(&log, requests).await?;
        see_nothing_written(&log, before).await?;
        scene
            .create(&Job::new("fits").queue("q").runs_forever().json())
            .await?;
        scene.create(&Job::new("waits").queue("q").json()).await?;
        see_running(scene, "fits", 1).await?;
        // Its second pod ends while nobody looks.
        bed.sluice.kill();
        scene.end(&pods[1]).await?;
        scene
            .see("Job", "wide", "of two ended pods", |job| {
                job["status"]["succeeded"] == 2
            })
            .await?;
        bed.sluice.start_again().await?;
        scene.see_complete("waits").await?;
        scene
            .see_workload("wide", "of two ended pods", |w| reclaimed(w, "main") == 2)
            .await?;
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        assert_eq!(all_reclaimed(&workloads, "wide"), [0, 1, 2]);
        check_cpus(scene, "3", &workloads, &pods)
    })
    .await
}

/// Of pods that wait behind gates no more are released than still hold quota.
#[tokio::test]
async fn gated_pods_are_not_ungated_with_reclaimed_quota() -> Result<()> {
    bed::shared("reclaim-gates", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let wide = gated_job("wide", 2)
            .runs_forever()
            .with(&["spec", "completions"], json!(3));
        scene.create(&wide.json()).await?;
        let open = async |count: usize| {
            let is_held = |pod: &Value| gates(pod).contains(&GATE);
            for pod in scene.see_so_many("held", count, is_held).await? {
                scene.open_gate(name_of(&pod), GATE).await?;
            }
            anyhow::Ok(())
        };
        open(2).await?;
        let pods = see_running(scene, "wide", 2).await?;
        scene
            .create(&Job::new("next").queue("q").runs_forever().json())
            .await?;
        scene.see_workload("next", "waiting", waits).await?;
        // The third takes the place of the first.
        scene.end(&pods[0]).await?;
        open(1).await?;
        let pods = see_running(scene, "wide", 2).await?;
        let next = scene.find_workload("next").await?.unwrap();
        ensure!(!is_admitted(&next), "{next}");
        // Nobody takes the place of the second.
        scene.end(&pods[0]).await?;
        see_running(scene, "next", 1).await?;
        see_running(scene, "wide", 1).await?;
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        assert_eq!(all_reclaimed(&workloads, "wide"), [0, 1]);
        check_cpus(scene, "2", &workloads, &pods)
    })
    .await
}

/// Makes a job of 4 pods, of which 3 run at the same time.
async fn add_with_tail(scene: &Scene<'_>, name: &str, runs: &str) -> Result<()> {
    let job = Job::new(name).queue("q").pods(3).runs(runs);
    let job = job.with(&["spec", "completions"], json!(4));
    scene.create(&job.json()).await.map(drop)
}

/// Ends so many pods of a job that run.
async fn end_running(scene: &Scene<'_>, job: &str, count: usize) -> Result<()> {
    for pod in see_running(scene, job, count).await? {
        scene.end(&pod).await?;
    }
    Ok(())
}

/// Makes such a job whose last pod runs until it is ended, and waits until what the others held is free.
async fn see_tail(scene: &Scene<'_>, name: &str) -> Result<()> {
    add_with_tail(scene, name, "forever").await?;
    end_running(scene, name, 3).await?;
    scene
        .see_workload(name, "of two ended pods", |w| reclaimed(w, "main") == 2)
        .await
        .map(drop)
}

/// Jobs whose last pods are fewer than the first, more of them than fit, and two controllers of which
/// the one sleeps past its lease.
#[tokio::test]
async fn a_load_with_long_tails_keeps_within_quota() -> Result<()> {
    bed::own_running("reclaim-load", async |bed, scene| {
        let second = SluiceOptions {
            webhooks: false,
            ..SluiceOptions::new(bed::BINARY)
        };
        let second = Sluice::install(&bed.cp, second).await?;
        second.start().await?;
        scene.queue(&[quota("cpu", "4")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        see_tail(scene, "a").await?;
        let first = leader(scene).await?;
        for name in ["b", "c"] {
            add_with_tail(scene, name, "8").await?;
        }
        bed.sluice.process().signal("STOP")?;
        end_running(scene, "a", 1).await?;
        see_another_leader(scene, &first).await?;
        wake_the_leader_of_before(bed).await?;
        see_tail(scene, "d").await?;
        end_running(scene, "d", 1).await?;
        see_all_complete(scene, 4).await?;
        for (kind, name) in [("LocalQueue", "q"), ("ClusterQueue", scene.ns.as_str())] {
            scene
                .see(kind, name, "idle", crate::queues::quota::is_idle)
                .await?;
        }
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        check_cpus(scene, "4", &workloads, &pods)
    })
    .await
}

/// A running job that is made smaller gives quota back, and grows no more than it has left.
#[tokio::test]
async fn a_running_job_that_is_made_smaller_gives_quota_back() -> Result<()> {
    bed::shared("reclaim-smaller", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let wide = Job::new("wide").queue("q").pods(4).runs_forever();
        let wide = wide.with(&["spec", "completions"], json!(40));
        scene.create(&wide.json()).await?;
        see_running(scene, "wide", 4).await?;
        scene
            .create(&Job::new("next").queue("q").cpu("3").runs_forever().json())
            .await?;
        scene.see_workload("next", "waiting", waits).await?;
        scene
            .merge("Job", "wide", json!({"spec": {"parallelism": 1}}))
            .await?;
        see_running(scene, "wide", 1).await?;
        see_running(scene, "next", 1).await?;
        scene.see_account("cpu", ("4", "4", "0"), 0).await?;
        // Evicted, it asks for what it asks for now.
        scene.stop("HoldAndDrain").await?;
        let is_small = |w: &Value| !is_admitted(w) && w["spec"]["podSets"][0]["count"] == 1;
        scene
            .see_workload("wide", "queued again with one pod", is_small)
            .await?;
        scene.stop("None").await?;
        see_running(scene, "wide", 1).await?;
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        let told = all_reclaimed(&workloads, "wide");
        // Its pods may go one by one.
        let is_so = told.ends_with(&[3, 0]) && told[..told.len() - 1].is_sorted();
        ensure!(is_so && told[0] == 0, "{told:?}");
        check_cpus(scene, "4", &workloads, &pods)
    })
    .await
}

/// Suspended and made larger in one update, as the refusal of growth tells, such a job is queued with the new count.
#[tokio::test]
async fn a_job_that_gave_quota_back_grows_through_its_queue() -> Result<()> {
    bed::shared("reclaim-regrown", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let wide = Job::new("wide").queue("q").pods(4).runs_forever();
        let wide = wide.with(&["spec", "completions"], json!(40));
        scene.create(&wide.json()).await?;
        see_running(scene, "wide", 4).await?;
        let smaller = json!({"spec": {"parallelism": 1}});
        scene.merge("Job", "wide", smaller).await?;
        let next = Job::new("next").queue("q").cpu("3").runs_forever();
        scene.create(&next.json()).await?;
        see_running(scene, "next", 1).await?;
        let regrown = json!({"spec": {"suspend": true, "parallelism": 4}});
        scene.merge("Job", "wide", regrown).await?;
        scene.see_workload("wide", "waiting", waits).await?;
        let workload = scene.find_workload("wide").await?.unwrap();
        assert_eq!(workload["spec"]["podSets"][0]["count"], 4, "{workload}");
        scene.delete("Job", "next").await?;
        see_running(scene, "wide", 4).await?;
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        check_cpus(scene, "4", &workloads, &pods)
    })
    .await
}

/// Of a job without completions no pod is replaced once one has succeeded.
#[tokio::test]
async fn a_work_queue_gives_quota_back_as_its_pods_end() -> Result<()> {
    bed::shared("reclaim-work-queue", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let workers = Job::new("workers").queue("q").pods(3).runs_forever();
        let workers = workers
            .with(&["spec", "completions"], Value::Null)
            .with(&["spec", "backoffLimit"], json!(6));
        scene.create(&workers.json()).await?;
        let pods = see_running(scene, "workers", 3).await?;
        let next = |name: &str| Job::new(name).queue("q").runs_forever().json();
        scene.create(&next("a")).await?;
        scene.see_workload("a", "waiting", waits).await?;
        scene.end(&pods[0]).await?;
        see_running(scene, "a", 1).await?;
        // One that is deleted is not made again either.
        scene.create(&next("b")).await?;
        scene.delete("Pod", &pods[1]).await?;
        see_running(scene, "b", 1).await?;
        scene.end(&pods[2]).await?;
        scene.see_complete("workers").await?;
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        check_cpus(scene, "3", &workloads, &pods)
    })
    .await
}

/// A pod of a widget, as its controller would make it.
fn pod_of(widget: &Value, name: &str) -> Value {
    let template = &widget["spec"]["template"];
    let mut pod = with(template.clone(), "/apiVersion", json!("v1"));
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["annotations"][sluice_testbed::RUN_SECONDS] = json!("forever");
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": widget["apiVersion"],
        "kind": widget["kind"],
        "name": widget["metadata"]["name"],
        "uid": widget["metadata"]["uid"],
        "controller": true,
    }]);
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod
}

/// Waits until widgets that can't be suspended are born with the queue gate in their template.
async fn see_gated(scene: &Scene<'_>, widget: &Value) -> Result<()> {
    let manifest = widget.to_string();
    eventually("new widgets to be gated", DEADLINE, async || {
        let args = ["create", "-f", "-", "--dry-run=server", "-o", "json"];
        let shown = scene.kubectl(&args, Some(&manifest)).await?.ok()?;
        let shown: Value = serde_json::from_str(&shown)?;
        let is_gated = has_queue_gate(&shown["spec"]["template"]);
        ensure!(is_gated, "{shown}");
        anyhow::Ok(())
    })
    .await
}

/// A pod that comes after its quota was given away waits behind its gate until there is quota for it.
#[tokio::test]
async fn a_pod_too_many_stays_behind_its_gate() -> Result<()> {
    bed::shared("reclaim-many", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        let mut kind = with(
            widgets.job_kind(),
            "/spec/podSets/0/reclaimable",
            json!(GONE),
        );
        for field in ["suspend", "active"] {
            kind["spec"].as_object_mut().unwrap().remove(field);
        }
        widgets.manage(&kind).await?;
        see_gated(scene, &widgets.widget("w")).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        scene.apply(&widgets.widget("w")).await?;
        let widget = widgets.see("w", "there", |_| true).await?;
        for name in ["one", "two"] {
            scene.create(&pod_of(&widget, name)).await?;
        }
        scene.see_so_many("running", 2, is_running).await?;
        scene
            .create(&Job::new("next").queue("q").runs_forever().json())
            .await?;
        scene.see_workload("next", "waiting", waits).await?;
        // One ends and is replaced: all is as before.
        scene.end("one").await?;
        scene.create(&pod_of(&widget, "three")).await?;
        scene.see("Pod", "three", "running", is_running).await?;
        // One ends for good, or so it seems.
        scene.end("three").await?;
        widgets.set_status("w", json!({"gone": 1})).await?;
        see_running(scene, "next", 1).await?;
        scene.create(&pod_of(&widget, "four")).await?;
        scene
            .see("Pod", "four", "gated", is_scheduling_gated)
            .await?;
        scene.end("two").await?;
        scene.see("Pod", "four", "running", is_running).await?;
        let (workloads, pods) = (
            scene.history("Workload", &workloads).await?,
            scene.history("Pod", &recorded).await?,
        );
        assert_eq!(all_reclaimed(&workloads, "w"), [0, 1]);
        check_cpus(scene, "2", &workloads, &pods)?;
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}

/// What an object says of its pods is believed as far as they are gone, and for good; when they come
/// back, it is evicted.
#[tokio::test]
async fn who_says_too_much_gets_no_more_than_its_own() -> Result<()> {
    bed::shared("reclaim-lie", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        let kind = with(widgets.job_kind(), "/spec/podSets/0/reclaimable", json!(GONE));
        widgets.manage(&kind).await?;
        let (workloads, recorded) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let liar = with(widgets.widget("liar"), "/spec/size", json!(3));
        scene.apply(&liar).await?;
        let liar = widgets.see_released("liar").await?;
        for name in ["one", "two", "three"] {
            scene.create(&pod_of(&liar, name)).await?;
        }
        scene.see_so_many("running", 3, is_running).await?;
        widgets.set_status("liar", json!({"gone": 3})).await?;
        scene.create(&Job::new("a").queue("q").runs_forever().json()).await?;
        scene.see_workload("a", "waiting", waits).await?;
        // Its first pod goes: so much of what it said is true now.
        scene.end("one").await?;
        see_running(scene, "a", 1).await?;
        widgets
            .see_workload("liar", "of one ended pod", |w| reclaimed(w, "main") == 1)
            .await?;
        // It takes all back: nothing changes, as long as no pod comes back.
        widgets.set_status("liar", json!({"gone": 0})).await?;
        scene.create(&Job::new("b").queue("q").json()).await?;
        scene.see_workload("b", "waiting", waits).await?;
        let workload = widgets.see_workload("liar", "admitted", is_admitted).await?;
        ensure!(reclaimed(&workload, "main") == 1 && !is(&workload, "Evicted"), "{workload}");
        // And then it is evicted, with all its pods, before it is admitted with all again.
        scene.create(&pod_of(&liar, "four")).await?;
        let workload = widgets.see_workload("liar", "evicted", |w| is(w, "Evicted")).await?;
        let (_, reason, message) = condition(&workload, "Evicted").unwrap();
        assert_eq!(reason, "ReclaimedPodsReturned");
        assert_eq!(
            message,
            "More pods run than quota is reserved for, because pods reported as finished were started again: queued again with all pods"
        );
        widgets.see("liar", "halted", |w| w["spec"]["halted"] == true).await?;
        for name in ["two", "three", "four"] {
            let workload = widgets.see_workload("liar", "admitted", is_admitted).await?;
            ensure!(reclaimed(&workload, "main") == 1, "{workload}");
            scene.end(name).await?;
        }
        let workload = widgets.see_workload("liar", "queued again", |w| !is_admitted(w)).await?;
        assert_eq!(reclaimed(&workload, "main"), 0, "{workload}");
        scene.see_complete("b").await?;
                widgets.see_workload("liar", "waiting for all of it", waits).await?;
        let workloads = scene.history("Workload", &workloads).await?;
        assert_eq!(all_reclaimed(&workloads, "liar"), [0, 1, 0]);
        let limits = Limits {
            resource: "cpu",
            queues: BTreeMap::from([(scene.ns.clone(), nanos(&json!("3")))]),
            total: nanos(&json!("3")),
        };
        check_quota(&workloads, &limits)?;
        // Apart from the pod that nobody let in.
        let pods = scene.history("Pod", &recorded).await?;
        check_usage(&pods, "cpu", "3", |pod| name_of(pod) != "four")?;
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}
