//! A namespace that comes to require a queue step by step, and leaves again, with a hundred objects of all kinds, or five
//! hundred at full scale: none is lost, and none is freed wrongly at any revision.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::ListParams;
use serde_json::{Value, json};
use sluice_crds::{ENFORCEMENT_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::eventually;

use crate::support::enforcement::{Fate, cron_job, enforce, fate_of, see_fate};
use crate::support::history::Revision;
use crate::support::made_up::{MadeUp, controlled_by};
use crate::support::objects::{
    Job, is_admitted, is_complete, is_suspended, local_queue, name_of, quota, revision_of, with,
};
use crate::support::pods::{Pod, check_usage, is_released, replicated};
use crate::support::queues::{Limits, check_quota, nanos};
use crate::support::scale::scaled;
use crate::support::{DEADLINE, Scene, bed};

/// How many of each are created in each step at full scale, and have to be judged: 100 in all.
const JOBS: usize = 40;
const PODS: usize = 20;
const DEPLOYMENTS: usize = 15;
const MADE_UP: usize = 15;
/// Jobs that CronJobs make.
const OF_CRON_JOBS: usize = 10;
/// Users at the same time.
const AT_ONCE: usize = 8;
/// What the queue has: for some of what is created in a step, not for all of it at the same time.
const QUOTA: &str = "1500m";
/// The machine has much to do, and what waits for quota runs one after the other.
const END: std::time::Duration = DEADLINE.saturating_mul(3);

/// What is created in a step.
struct Batch<'a> {
    scene: &'a Scene<'a>,
    kind: &'a MadeUp,
    at: &'static str,
}

impl Batch<'_> {
    fn names(&self, what: &str, count: usize) -> Vec<String> {
        let name = |index| format!("{}-{what}-{index}", self.at);
        (0..scaled(count)).map(name).collect()
    }

    /// Creates all of it, and checks what becomes of each. Returns the objects as they were stored.
    async fn create(&self, expected: Fate) -> Result<Vec<Value>> {
        let Self { scene, kind, .. } = self;
        let mut objects = Vec::new();
        for name in self.names("job", JOBS) {
            objects.push(Job::new(&name).cpu("100m").runs("0.5").json());
        }
        for name in self.names("pod", PODS) {
            objects.push(Pod::new(&name).cpu("50m").runs("0.5").json());
        }
        for name in self.names("service", DEPLOYMENTS) {
            objects.push(replicated("Deployment", &name, 1, Pod::new("").cpu("5m")));
        }
        for name in self.names("train", MADE_UP) {
            let object = with(kind.object(&name), "/spec/halted", json!(false));
            let cpu = "/spec/template/spec/containers/0/resources/requests/cpu";
            objects.push(with(object, cpu, json!("5m")));
        }
        for name in self.names("cron", OF_CRON_JOBS) {
            let job = Job::new("").cpu("100m").runs("0.5");
            let cron = scene.create(&cron_job(&name, json!({}), &job)).await?;
            objects.push(made_by(&cron));
        }
        let stored = stream::iter(objects)
            .map(async |object| {
                let stored = if object["kind"] == kind.kind.as_str() {
                    kind.create(scene, &object).await?
                } else {
                    scene.create(&object).await?
                };
                ensure!(fate_of(&stored) == expected, "not {expected:?}: {stored}");
                Ok(stored)
            })
            .buffer_unordered(AT_ONCE);
        stored.try_collect().await
    }
}

/// The Job that a CronJob makes.
fn made_by(cron: &Value) -> Value {
    let template = &cron["spec"]["jobTemplate"];
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("{}-made", name_of(cron)),
            "labels": template["metadata"]["labels"],
            "ownerReferences": controlled_by(cron),
        },
        "spec": template["spec"],
    })
}

/// Waits until each object that was created is there still, as the same one, and has run or runs.
async fn see_all(scene: &Scene<'_>, kind: &MadeUp, created: &[Value]) -> Result<()> {
    eventually("each object to have run", END, async || {
        let mut now: BTreeMap<String, Value> = BTreeMap::new();
        for listed in ["Job", "Pod", "Deployment"] {
            let objects = scene.list(listed).await?.into_iter();
            now.extend(objects.map(|object| (uid(&object), object)));
        }
        for object in kind.api(scene).list(&ListParams::default()).await? {
            let object = crate::support::into_value(object);
            now.insert(uid(&object), object);
        }
        let is_there = |object: &&Value| !now.contains_key(&uid(object));
        let lost: Vec<_> = created.iter().filter(is_there).map(name_of).collect();
        ensure!(lost.is_empty(), "lost: {lost:?}");
        let waits = |object: &&Value| now.get(&uid(object)).is_none_or(|now| !has_run(now));
        let waiting: Vec<_> = created.iter().filter(waits).map(name_of).collect();
        ensure!(waiting.is_empty(), "{} wait: {waiting:?}", waiting.len());
        Ok(())
    })
    .await
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn has_run(object: &Value) -> bool {
    // What is listed does not say its kind.
    if object["spec"]["replicas"].is_number() {
        return object["status"]["readyReplicas"] == 1;
    }
    let is_bare_pod = object["spec"]["containers"].is_array();
    is_complete(object)
        || object["spec"]["halted"] == false
        || is_bare_pod && object["status"]["phase"] == "Succeeded"
}

/// Of what was created while everything is held, nothing is released at a revision before `left`.
fn check_held(history: &[Revision], left: u128) -> Result<usize> {
    let of_step = |revision: &&Revision| name_of(&revision.object).starts_with("held-");
    let early = history
        .iter()
        .filter(of_step)
        .filter(|revision| revision.number < left);
    let mut seen = BTreeSet::new();
    for Revision { object, number, .. } in early {
        let (spec, name) = (&object["spec"], name_of(object));
        let is_free = match (&spec["suspend"], &spec["halted"]) {
            (Value::Bool(suspended), _) | (_, Value::Bool(suspended)) => !suspended,
            _ => is_released(object),
        };
        ensure!(
            !is_free,
            "{name} is free at {number}, before {left}: {object}"
        );
        seen.insert(name);
    }
    Ok(seen.len())
}

/// No Job of a queue is started before its Workload is admitted.
fn check_admitted_first(jobs: &[Revision], workloads: &[Revision]) -> Result<usize> {
    let mut admitted: BTreeMap<&str, u128> = BTreeMap::new();
    for Revision { object, number, .. } in workloads.iter().filter(|r| is_admitted(&r.object)) {
        let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
        admitted
            .entry(owner.context("a Workload without an owner")?)
            .or_insert(*number);
    }
    let mut started = BTreeSet::new();
    let queued = jobs
        .iter()
        .filter(|r| r.object["metadata"]["labels"][QUEUE_NAME_LABEL].is_string());
    for Revision { object, number, .. } in queued.filter(|r| !is_suspended(&r.object)) {
        let job = object["metadata"]["uid"].as_str().context("no UID")?;
        let since = admitted.get(job);
        ensure!(
            since.is_some_and(|since| since < number),
            "not admitted at {number}: {object}"
        );
        started.insert(job);
    }
    Ok(started.len())
}

#[tokio::test]
async fn objects_of_all_kinds_live_through_a_namespace_that_enrols_and_leaves() -> Result<()> {
    bed::own_running("enf-many", async |_, scene| {
        scene.queue(&[quota("cpu", QUOTA)]).await?;
        scene.create(&local_queue("default", &scene.ns)).await?;
        let kind = MadeUp::new(scene, "Train");
        kind.install(scene).await?;
        let jobs = scene.record("Job").await?;
        let pods = scene.record("Pod").await?;
        let workloads = scene.record("Workload").await?;
        let trains = kind.record(scene).await?;

        let batch = |at: &'static str| Batch {
            scene,
            kind: &kind,
            at,
        };
        let mut created = batch("before").create(Fate::Left).await?;
        enforce(scene, Some("DryRun"), Fate::Left).await?;
        created.extend(batch("reported").create(Fate::Left).await?);
        enforce(scene, Some("Default"), Fate::Defaulted).await?;
        created.extend(batch("defaulted").create(Fate::Defaulted).await?);
        enforce(scene, Some("Hold"), Fate::Held).await?;
        let held = batch("held").create(Fate::Held).await?;
        // Everything else runs meanwhile.
        see_all(scene, &kind, &created).await?;
        created.extend(held);

        let label = json!({"metadata": {"labels": {(ENFORCEMENT_LABEL): null}}});
        let left = revision_of(&scene.merge("Namespace", &scene.ns, label).await?);
        see_fate(scene, Fate::Left).await?;
        created.extend(batch("left").create(Fate::Left).await?);
        see_all(scene, &kind, &created).await?;
        assert_eq!(
            created.len(),
            5 * scaled(JOBS + PODS + DEPLOYMENTS + MADE_UP + OF_CRON_JOBS)
        );

        let jobs = scene.history("Job", &jobs).await?;
        let pods = scene.history("Pod", &pods).await?;
        let workloads = scene.history("Workload", &workloads).await?;
        assert_eq!(check_held(&jobs, left)?, scaled(JOBS + OF_CRON_JOBS));
        assert_eq!(check_held(&trains.so_far(), left)?, scaled(MADE_UP));
        // The bare pods, and one of each Deployment.
        assert_eq!(check_held(&pods, left)?, scaled(PODS + DEPLOYMENTS));
        assert_eq!(
            check_admitted_first(&jobs, &workloads)?,
            scaled(JOBS + OF_CRON_JOBS)
        );
        let most = nanos(&json!(QUOTA));
        let queues = BTreeMap::from([(scene.ns.clone(), most)]);
        check_quota(
            &workloads,
            &Limits {
                resource: "cpu",
                queues,
                total: most,
            },
        )?;
        let is_alone = |pod: &Value| {
            let metadata = &pod["metadata"];
            metadata["labels"][QUEUE_NAME_LABEL].is_string()
                && metadata["ownerReferences"][0]["kind"] != "Job"
        };
        check_usage(&pods, "cpu", QUOTA, is_alone)?;
        kind.delete_crd(scene).await
    })
    .await
}
