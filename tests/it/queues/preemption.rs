//! Preemption: jobs are evicted for others, in their own queue and in their cohort,
//! and what they held is handed on only when their pods are gone.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Sluice, eventually};

use crate::support::history::{Revision, check_conditions};
use crate::support::objects::{
    self, Job, condition, is, is_admitted, name_of, priority_class, quota, with,
};
use crate::support::pods::{Pod, check_usage, has_queue_gate, is_running, replicated};
use crate::support::queues::{Limits, check_quota, nanos};
use crate::support::{DEADLINE, Scene, bed};

/// Makes the priority classes `low`, `mid` and `high` of the test.
pub async fn classes(scene: &Scene<'_>) -> Result<()> {
    for (name, value) in [("low", 1), ("mid", 50), ("high", 100)] {
        scene
            .create(&priority_class(&scene.name(name), value))
            .await?;
    }
    Ok(())
}

/// A job of this priority class of the test.
pub fn job_of(scene: &Scene<'_>, class: &str, name: &str) -> Job {
    Job::new(name).queue("q").priority_class(&scene.name(class))
}

/// A queue `q` whose jobs go before those of lower priority.
pub async fn queue_by_priority(scene: &Scene<'_>, cpu: &str) -> Result<()> {
    classes(scene).await?;
    let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", cpu)]);
    let preemption = json!({ "withinClusterQueue": "LowerPriority" });
    scene
        .queue_like(with(queue, "/spec/preemption", preemption))
        .await
}

/// One of the queues of a cohort, with a LocalQueue of its name.
pub struct Member<'a> {
    pub name: &'a str,
    pub cpu: &'a str,
    pub preemption: Value,
}

/// Queues that share one cohort, and what they may use.
pub async fn cohort(scene: &Scene<'_>, members: &[Member<'_>]) -> Result<Limits> {
    let cohort = scene.name("cohort");
    scene.create(&objects::flavor(&scene.ns)).await?;
    let mut limits = Limits {
        resource: "cpu",
        queues: BTreeMap::new(),
        total: members.iter().map(|m| nanos(&json!(m.cpu))).sum(),
    };
    for Member {
        name,
        cpu,
        preemption,
    } in members
    {
        let queue = scene.name(name);
        let object = objects::cluster_queue(&queue, &scene.ns, &[quota("cpu", cpu)]);
        let object = with(object, "/spec/cohortName", json!(cohort));
        scene
            .create(&with(object, "/spec/preemption", preemption.clone()))
            .await?;
        scene.create(&objects::local_queue(name, &queue)).await?;
        limits.queues.insert(queue, limits.total);
    }
    Ok(limits)
}

/// The name of the job of a Workload.
pub fn job_name(workload: &Value) -> &str {
    workload["metadata"]["ownerReferences"][0]["name"]
        .as_str()
        .unwrap_or_default()
}

/// Each preemption: the name of the target, the reason and the message.
pub fn preemptions(history: &[Revision]) -> Vec<(String, String, String)> {
    let mut under_way = BTreeSet::new();
    let mut all = Vec::new();
    for revision in history {
        let workload = &revision.object;
        let name = job_name(workload);
        match condition(workload, "Preempted") {
            Some(("True", right, message)) if is_admitted(workload) => {
                if under_way.insert(name) {
                    all.push((name.to_owned(), right.to_owned(), message.to_owned()));
                }
            }
            _ => {
                under_way.remove(name);
            }
        }
    }
    all
}

/// When each job was admitted for the first time, in whole seconds, as texts that compare as times.
fn admitted_first(history: &[Revision]) -> BTreeMap<String, String> {
    let mut since = BTreeMap::new();
    for workload in history.iter().map(|r| &r.object).filter(|w| is_admitted(w)) {
        let conditions = workload["status"]["conditions"].as_array();
        let reserved = conditions.into_iter().flatten();
        let reserved = reserved.filter(|c| c["type"] == "QuotaReserved");
        for at in reserved.filter_map(|c| c["lastTransitionTime"].as_str()) {
            since
                .entry(job_name(workload).to_owned())
                .or_insert_with(|| at.to_owned());
        }
    }
    since
}

/// Waits until so many jobs have been preempted since the recording began.
pub async fn see_preemptions(
    recorded: &crate::support::history::History,
    count: usize,
) -> Result<Vec<(String, String, String)>> {
    eventually(&format!("{count} preemptions"), DEADLINE, async || {
        let all = preemptions(&recorded.so_far());
        if count <= all.len() {
            Ok(all)
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await
}

/// A counter of the shared Sluice for a queue and a reason.
async fn counter(metric: &str, queue: &str, reason: &str) -> Result<u64> {
    let text = Sluice::shared(bed::BINARY).sluice.metrics().await?;
    let mut lines = text.lines().filter(|line| {
        line.starts_with(metric)
            && line.contains(&format!("\"{queue}\""))
            && line.contains(&format!("\"{reason}\""))
    });
    let count = lines.next().and_then(|line| line.rsplit(' ').next());
    Ok(count.map_or(0, |count| count.parse().unwrap()))
}

/// Suspended, gone, and then the other one: admitted again once there is quota.
#[tokio::test]
async fn a_job_is_preempted_for_one_of_higher_priority_and_admitted_again() -> Result<()> {
    bed::shared("preempt-own", async |scene| {
        let ns = &scene.ns;
        queue_by_priority(scene, "2").await?;
        let (workloads, pods) = (scene.record("Workload").await?, scene.record("Pod").await?);
        let low = job_of(scene, "low", "low").pods(2).runs_forever();
        scene.create(&low.json()).await?;
        scene.see_pods("Running", 2).await?;
        let high = job_of(scene, "high", "high").cpu("2").runs("0.5");
        scene.create(&high.json()).await?;
        scene.see_complete("high").await?;
        let workload = scene
            .see_workload("low", "admitted again", |w| {
                is_admitted(w) && condition(w, "Preempted").is_some_and(|(s, ..)| s == "False")
            })
            .await?;
        for kind in ["Preempted", "Evicted"] {
            let (status, reason, _) = condition(&workload, kind).unwrap();
            assert_eq!((status, reason), ("False", "QuotaReserved"), "{workload}");
        }
        scene.see_pods("Running", 2).await?;

        let message = format!(
            "Preempted by Job \"high\" (priority 100, ClusterQueue \"{ns}\") due to prioritization in the ClusterQueue"
        );
        assert_eq!(scene.see_event("low", "Preempted").await?, message);
        assert_eq!(
            scene.see_event("high", "Preempting").await?,
            "Preempting 1 workload: admitted when its pods are gone"
        );
        let history = scene.history("Workload", &workloads).await?;
        let told = ("low".to_owned(), "InClusterQueue".to_owned(), message.clone());
        assert_eq!(preemptions(&history), [told]);
        // Evicted, and stopped: two writes of its status, as for any eviction.
        let of_low = history.iter().filter(|r| job_name(&r.object) == "low");
        let leaving: Vec<&Value> = of_low
            .map(|r| &r.object)
            .filter(|w| is(w, "Evicted"))
            .collect();
        let told = condition(leaving[0], "Evicted");
        assert_eq!(told, Some(("True", "Preempted", message.as_str())));
        let (there, gone): (Vec<&Value>, Vec<&Value>) =
            leaving.into_iter().partition(|w| is_admitted(w));
        assert_eq!(there.len(), 1, "{there:#?}");
        let high = scene.get("Job", "high").await?;
        assert_eq!(there[0]["status"]["makesRoomFor"], high["metadata"]["uid"]);
        assert_eq!(gone[0]["status"]["makesRoomFor"], Value::Null);
        ensure!(is(gone[0], "Requeued"), "{:#?}", gone[0]);
        assert_eq!(gone[0]["status"]["requeueState"], Value::Null);

        check_conditions(&history)?;
        check_quota(&history, &one_queue(scene, "2"))?;
        check_usage(&scene.history("Pod", &pods).await?, "cpu", "2", |_| true)?;
        assert_eq!(counter("sluice_preempted_workloads_total", ns, "InClusterQueue").await?, 1);
        assert_eq!(counter("sluice_evicted_workloads_total", ns, "Preempted").await?, 1);
        Ok(())
    })
    .await
}

/// What the queue of the test may use.
fn one_queue(scene: &Scene<'_>, cpu: &str) -> Limits {
    let cpu = nanos(&json!(cpu));
    Limits {
        resource: "cpu",
        queues: BTreeMap::from([(scene.ns.clone(), cpu)]),
        total: cpu,
    }
}

/// A job whose pods take their time to end.
pub fn slow(job: Job) -> Job {
    let finalizers = ["spec", "template", "metadata", "finalizers"];
    job.runs_forever()
        .with(&finalizers, json!(["tests.sluice.dev/slow"]))
}

/// Lets the pods end that take their time.
pub async fn end_slow_pods(scene: &Scene<'_>) -> Result<()> {
    for pod in scene.list("Pod").await? {
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let gone = json!({"metadata": {"finalizers": null}});
            scene.merge("Pod", name_of(&pod), gone).await?;
        }
    }
    Ok(())
}

/// The evicted jobs that have not stopped.
pub async fn leaving(scene: &Scene<'_>) -> Result<Vec<String>> {
    let workloads = scene.list("Workload").await?;
    let leaving = workloads
        .iter()
        .filter(|w| is_admitted(w) && is(w, "Evicted"));
    Ok(leaving.map(|w| job_name(w).to_owned()).collect())
}

/// Between the eviction and the release: nothing else is evicted, nothing is admitted too early, and the
/// preemptor is told what it waits for.
async fn hands_over_late(
    scene: &Scene<'_>,
    meanwhile: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    queue_by_priority(scene, "2").await?;
    let (workloads, pods) = (scene.record("Workload").await?, scene.record("Pod").await?);
    for name in ["low-1", "low-2"] {
        let job = slow(job_of(scene, "low", name));
        scene.create(&job.json()).await?;
    }
    scene.see_pods("Running", 2).await?;
    let high = job_of(scene, "high", "high").runs("0.5");
    scene.create(&high.json()).await?;
    see_preemptions(&workloads, 1).await?;
    meanwhile().await?;
    scene
        .see_workload("high", "told what it waits for", |w| {
            condition(w, "QuotaReserved")
                .is_some_and(|(_, reason, _)| reason == "WaitingForPreemptedWorkloads")
        })
        .await?;
    // Told so, this one shows that something has been decided since.
    let later = job_of(scene, "low", "later").cpu("9");
    scene.create(&later.json()).await?;
    scene
        .see_workload("later", "told why it waits", |w| {
            condition(w, "QuotaReserved").is_some()
        })
        .await?;
    assert_eq!(leaving(scene).await?.len(), 1);
    let high = scene.find_workload("high").await?.unwrap();
    ensure!(!is_admitted(&high), "its quota is not free yet: {high}");
    let is_held = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
    scene.see_so_many("stopping", 1, is_held).await?;
    end_slow_pods(scene).await?;
    scene.see_complete("high").await?;
    scene.see_pods("Running", 2).await?;
    let history = scene.history("Workload", &workloads).await?;
    assert_eq!(preemptions(&history).len(), 1);
    check_conditions(&history)?;
    check_quota(&history, &one_queue(scene, "2"))?;
    check_usage(&scene.history("Pod", &pods).await?, "cpu", "2", |_| true)?;
    for job in ["low-1", "low-2"] {
        scene.delete("Job", job).await?;
    }
    eventually("the pods to be gone", DEADLINE, async || {
        end_slow_pods(scene).await.map_err(|e| format!("{e:#}"))?;
        let pods = scene.list("Pod").await.map_err(|e| format!("{e:#}"))?;
        let left = pods
            .iter()
            .filter(|pod| name_of(pod).starts_with("low"))
            .count();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} are left"))
        }
    })
    .await
}

#[tokio::test]
async fn quota_is_freed_when_the_last_pod_is_gone() -> Result<()> {
    bed::shared("preempt-late", async |scene| {
        hands_over_late(scene, async || Ok(())).await
    })
    .await
}

#[tokio::test]
async fn killed_between_eviction_and_release_it_goes_on_where_it_was() -> Result<()> {
    bed::own_running("preempt-kill", async |bed, scene| {
        hands_over_late(scene, async || {
            bed.sluice.kill();
            bed.sluice.start_again().await
        })
        .await
    })
    .await
}

/// What was lent is taken back from who borrowed it last, and no more than is needed. Who it is for is
/// told only to those of the same namespace.
#[tokio::test]
async fn a_queue_takes_back_what_is_its_own() -> Result<()> {
    bed::shared("preempt-reclaim", async |scene| {
        let members = [
            Member {
                name: "a",
                cpu: "2",
                preemption: json!({ "reclaimWithinCohort": "Any" }),
            },
            Member {
                name: "b",
                cpu: "2",
                preemption: json!({}),
            },
        ];
        let limits = cohort(scene, &members).await?;
        let (workloads, pods) = (scene.record("Workload").await?, scene.record("Pod").await?);
        for index in 0..4 {
            let job = Job::new(&format!("b-{index}")).queue("b").runs_forever();
            scene.create(&job.json()).await?;
        }
        scene.see_pods("Running", 4).await?;
        let elsewhere = Scene {
            cp: scene.cp,
            client: scene.client.clone(),
            ns: scene.cp.create_namespace("preempt-elsewhere").await?,
        };
        let queue = scene.name("a");
        elsewhere.create(&objects::local_queue("a", &queue)).await?;
        let owner = Job::new("owner").queue("a").pods(2).runs("0.5");
        elsewhere.create(&owner.json()).await?;
        elsewhere.see_complete("owner").await?;
        // Those two come again.
        scene.see_pods("Running", 4).await?;

        let history = scene.history("Workload", &workloads).await?;
        let told = preemptions(&history);
        assert_eq!(told.len(), 2, "{told:?}");
        let message = format!(
            "Preempted by a workload of another namespace (priority 0, ClusterQueue \"{queue}\") due to reclamation within the cohort"
        );
        for (_, right, text) in &told {
            assert_eq!((right.as_str(), text), ("InCohortReclamation", &message));
        }
        let since = admitted_first(&history);
        let (gone, stayed): (Vec<_>, Vec<_>) = since
            .iter()
            .partition(|(name, _)| told.iter().any(|(gone, ..)| gone == *name));
        let last_to_stay = stayed.iter().map(|(_, at)| at).max();
        let first_to_go = gone.iter().map(|(_, at)| at).min();
        ensure!(last_to_stay <= first_to_go, "not the latest: {since:?}");
        assert_eq!(
            elsewhere.see_event("owner", "Preempting").await?,
            "Preempting 2 workloads: admitted when their pods are gone"
        );
        check_conditions(&history)?;
        check_quota(&history, &limits)?;
        check_usage(&scene.history("Pod", &pods).await?, "cpu", "4", |_| true)?;
        scene.delete("Namespace", &elsewhere.ns).await
    })
    .await
}

/// With the right to it, a queue borrows at the cost of one that borrows for less important work.
#[tokio::test]
async fn a_queue_borrows_in_place_of_one_of_lower_priority() -> Result<()> {
    bed::shared("preempt-borrow", async |scene| {
        classes(scene).await?;
        let rights = json!({
            "reclaimWithinCohort": "LowerPriority",
            "borrowWithinCohort": { "policy": "LowerPriority", "maxPriorityThreshold": 10 },
        });
        let members = ["a", "b", "c"].map(|name| Member {
            name,
            cpu: if name == "c" { "2" } else { "1" },
            preemption: if name == "a" {
                rights.clone()
            } else {
                json!({})
            },
        });
        let limits = cohort(scene, &members).await?;
        let workloads = scene.record("Workload").await?;
        // Of higher priority than the threshold: it stays.
        for (name, class) in [("mid", "mid"), ("low-1", "low"), ("low-2", "low")] {
            let job = Job::new(name).queue("b").priority_class(&scene.name(class));
            scene.create(&job.runs_forever().json()).await?;
        }
        scene.see_pods("Running", 3).await?;
        let high = Job::new("high")
            .queue("a")
            .priority_class(&scene.name("high"));
        scene.create(&high.pods(2).runs_forever().json()).await?;
        scene.see_admitted("high").await?;
        scene.see_pods("Running", 4).await?;
        let history = scene.history("Workload", &workloads).await?;
        let told = preemptions(&history);
        let rights: Vec<&str> = told.iter().map(|(_, right, _)| right.as_str()).collect();
        assert_eq!(rights, ["InCohortReclaimWhileBorrowing"], "{told:?}");
        ensure!(told[0].0.starts_with("low"), "{told:?}");
        check_quota(&history, &limits)
    })
    .await
}

/// Nothing is preempted in vain: not if the preemptor would still not fit, and not if it is admitted no
/// sooner.
#[tokio::test]
async fn nothing_is_preempted_in_vain() -> Result<()> {
    bed::shared("preempt-vain", async |scene| {
        queue_by_priority(scene, "2").await?;
        let workloads = scene.record("Workload").await?;
        for class in ["low", "high"] {
            let job = job_of(scene, class, &format!("runs-{class}")).runs_forever();
            scene.create(&job.json()).await?;
        }
        scene.see_pods("Running", 2).await?;
        let large = job_of(scene, "mid", "large").cpu("2");
        scene.create(&large.json()).await?;
        let equal = job_of(scene, "low", "equal");
        scene.create(&equal.json()).await?;
        for name in ["large", "equal"] {
            scene
                .see_workload(name, "told why it waits", |w| {
                    condition(w, "QuotaReserved")
                        .is_some_and(|(s, r, _)| (s, r) == ("False", "WaitingForQuota"))
                })
                .await?;
        }
        let history = scene.history("Workload", &workloads).await?;
        assert_eq!(preemptions(&history), []);
        // One that fits in the place of the low one takes it.
        let small = job_of(scene, "mid", "small").runs("0.5");
        scene.create(&small.json()).await?;
        scene.see_complete("small").await?;
        let history = scene.history("Workload", &workloads).await?;
        let told = preemptions(&history);
        ensure!(told.len() == 1 && told[0].0 == "runs-low", "{told:?}");
        Ok(())
    })
    .await
}

/// A pod that somebody makes again is deleted; a bare one is not chosen, as it would not come again.
#[tokio::test]
async fn a_pod_is_preempted_if_another_one_replaces_it() -> Result<()> {
    bed::shared("preempt-pods", async |scene| {
        queue_by_priority(scene, "2").await?;
        let keep = json!({ "spec": { "whenNotRestartable": "Keep" } });
        scene.merge("ClusterQueue", &scene.ns, keep).await?;
        let pods = scene.record("Pod").await?;
        let low = scene.name("low");
        let replica = Pod::new("").queue("q").priority_class(&low);
        scene
            .create(&replicated("ReplicaSet", "many", 1, replica))
            .await?;
        let of_set = |pod: &Value| pod["metadata"]["labels"]["app"] == "many";
        let first = scene
            .see_so_many("running", 1, |pod| of_set(pod) && is_running(pod))
            .await?;
        let bare = Pod::new("bare").queue("q").priority_class(&low);
        scene.create(&bare.json()).await?;
        scene.see("Pod", "bare", "running", is_running).await?;
        let high = Pod::new("high").queue("q").priority_class(&scene.name("high"));
        scene.create(&high.json()).await?;
        scene.see("Pod", "high", "running", is_running).await?;
        let told = scene.see_event(name_of(&first[0]), "Preempted").await?;
        assert_eq!(
            told,
            format!(
                "Preempted by Pod \"high\" (priority 100, ClusterQueue \"{}\") due to prioritization in the ClusterQueue: deleted; its controller recreates it, and the new pod is queued",
                scene.ns
            )
        );
        let told = scene.see_event("high", "Preempting").await?;
        ensure!(told.starts_with("Preempting 1 workload"), "{told}");
        scene
            .see_so_many("waiting", 1, |pod| of_set(pod) && has_queue_gate(pod))
            .await?;
        scene.see("Pod", "bare", "running", is_running).await?;
        // Another one of high priority finds nobody who could go: the bare pod stays.
        let more = Pod::new("more").queue("q").priority_class(&scene.name("high"));
        scene.create(&more.json()).await?;
        scene.see_event("more", "Pending").await?;
        scene.see("Pod", "bare", "running", is_running).await?;
        scene.delete("Pod", "bare").await?;
        scene.see("Pod", "more", "running", is_running).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true)?;
        let deleted: BTreeSet<&str> = history
            .iter()
            .filter(|r| r.is_deleted)
            .map(|r| name_of(&r.object))
            .collect();
        assert_eq!(deleted, BTreeSet::from(["bare", name_of(&first[0])]));
        Ok(())
    })
    .await
}
