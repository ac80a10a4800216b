//! Beside the real training operator, and the real trainer with the real JobSet controller: their
//! jobs are held by gates, queued, released, drained, released again and end, and quota is right all the
//! way. What is read of jobs without their controllers is tested in `shipped_kinds`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use sluice_testbed::{Crds, Operator, Operators, Options, RUN_SECONDS, SluiceOptions, eventually};

use crate::support::objects::{cluster_queue, condition, is_admitted, local_queue, name_of, quota};
use crate::support::pods::{is_running, is_terminating};
use crate::support::queues::{Limits, check_quota};
use crate::support::{DEADLINE, Scene, bed, into_value};

const GATE: &str = "kueue.x-k8s.io/scheduling-gated-by";

/// A job of another project, what it is called, and how many pods of one CPU it has.
struct Subject {
    object: Value,
    resource: ApiResource,
    suspend: &'static str,
    pods: usize,
    /// Names and counts of its pod sets.
    sets: Value,
    kinds: &'static [&'static str],
}

#[tokio::test]
async fn the_life_of_a_pytorch_job() -> Result<()> {
    let replicas = json!({"Master": replicas(1, "pytorch"), "Worker": replicas(3, "pytorch")});
    play(
        &[Operator::Training],
        kubeflow(
            "PyTorchJob",
            "pytorchjobs",
            "pytorchReplicaSpecs",
            replicas,
            4,
        ),
    )
    .await
}

#[tokio::test]
async fn the_life_of_a_tensorflow_job() -> Result<()> {
    let replicas = json!({"Chief": replicas(1, "tensorflow"), "Worker": replicas(2, "tensorflow")});
    play(
        &[Operator::Training],
        kubeflow("TFJob", "tfjobs", "tfReplicaSpecs", replicas, 3),
    )
    .await
}

#[tokio::test]
async fn the_life_of_a_train_job() -> Result<()> {
    let object = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train"},
        // One CPU in the pods: the API server rounds up to thousandths, but not in custom resources.
        "spec": {"runtimeRef": {"name": "endless"}, "trainer": {
            "numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "0.9999"}},
        }},
    });
    let subject = Subject {
        resource: resource(&object, "trainjobs"),
        object,
        suspend: "/spec/suspend",
        pods: 3,
        sets: json!([["node", 3]]),
        kinds: &["jobset", "trainjob"],
    };
    play(&[Operator::Trainer, Operator::JobSet], subject).await
}

fn kubeflow(kind: &str, plural: &str, field: &str, replicas: Value, pods: usize) -> Subject {
    let roles = replicas.as_object().into_iter().flatten();
    let sets = roles.map(|(role, spec)| json!([role.to_lowercase(), spec["replicas"]]));
    let sets = sets.collect();
    let object = json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {"runPolicy": {"suspend": false}, field: replicas},
    });
    Subject {
        resource: resource(&object, plural),
        object,
        suspend: "/spec/runPolicy/suspend",
        pods,
        sets,
        kinds: &["pytorchjob", "tfjob"],
    }
}

fn resource(object: &Value, plural: &str) -> ApiResource {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// A replica spec whose pods have one CPU and run for ever.
fn replicas(count: u32, container: &str) -> Value {
    json!({
        "replicas": count,
        "restartPolicy": "Never",
        "template": {
            "metadata": {"annotations": {(RUN_SECONDS): "forever"}},
            "spec": {"containers": [{
                "name": container,
                "image": "example.com/none",
                "resources": {"requests": {"cpu": "1"}},
            }]},
        },
    })
}

async fn play(operators: &[Operator], subject: Subject) -> Result<()> {
    let mut crds: Vec<_> = operators.iter().flat_map(|o| o.crds()).copied().collect();
    crds.sort();
    crds.dedup();
    let mut options = Options::with_crds()?;
    options.manifests.extend(Crds::manifests(&crds)?);
    let sluice = SluiceOptions::new(bed::BINARY);
    bed::own("operators", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        for kind in subject.kinds {
            scene
                .see_condition("JobKind", kind, "Ready", "True", "Watched")
                .await?;
        }
        let running = Operators::start(&bed.cp, operators).await?;
        if operators.contains(&Operator::Trainer) {
            bed.cp.create_training_runtime("endless", "forever").await?;
        }
        let outcome = follow_its_life(scene, &subject).await;
        outcome.with_context(|| {
            let logs = operators.iter().filter_map(|o| running.process(*o).ok());
            let tails: Vec<_> = logs.map(sluice_testbed::Process::log_tail).collect();
            format!("the operators' logs end:\n{}", tails.join("\n"))
        })
    })
    .await
}

async fn follow_its_life(scene: &Scene<'_>, subject: &Subject) -> Result<()> {
    let jobs: Api<DynamicObject> =
        Api::namespaced_with(scene.client.clone(), &scene.ns, &subject.resource);
    let job = Job {
        scene,
        jobs,
        subject,
    };
    let recorded = scene.record("Workload").await?;
    let flavor = json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "ResourceFlavor",
        "metadata": {"name": scene.ns}, "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}}});
    let cpus = subject.pods.to_string();
    let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", &cpus)]);
    scene
        .create_all(&[flavor, queue, local_queue("q", &scene.ns)])
        .await?;

    let mut object = subject.object.clone();
    object["metadata"]["labels"] = json!({"sluice.dev/queue-name": "q"});
    object["metadata"]["annotations"] = json!({GATE: "acme.io/data"});
    let (args, object) = (["create", "-f", "-", "-o", "json"], object.to_string());
    // An operator's webhook may not have heard of the runtime yet, and any may not answer for a moment.
    let created = eventually("the job to be taken", DEADLINE, async || {
        scene.kubectl(&args, Some(&object)).await?.ok()
    })
    .await?;
    let created: Value = serde_json::from_str(&created)?;
    ensure!(
        created.pointer(subject.suspend) == Some(&json!(true)),
        "it was not born suspended: {created}"
    );
    scene
        .see("LocalQueue", "q", "counting one gated", |queue| {
            queue["status"]["gatedWorkloads"] == 1
        })
        .await?;
    ensure!(
        scene.list("Workload").await?.is_empty(),
        "a Workload while a gate is left"
    );

    let ungate = format!("{GATE}-");
    job.kubectl(&["annotate"], &[&ungate]).await?;
    job.runs().await.context("released for the first time")?;

    scene.stop("HoldAndDrain").await?;
    job.is_drained().await.context("drained")?;
    scene.stop("None").await?;
    job.runs().await.context("released again")?;

    for pod in scene.list("Pod").await? {
        // A pod of before the drain may still be terminating.
        if !is_terminating(&pod) {
            scene.end(name_of(&pod)).await?;
        }
    }
    job.see_workload("finished", |workload| {
        condition(workload, "Finished")
            .is_some_and(|(status, reason, _)| (status, reason) == ("True", "Succeeded"))
    })
    .await?;
    scene
        .see("ClusterQueue", &scene.ns, "free", |queue| {
            queue["status"]["admittedWorkloads"]
                .as_u64()
                .unwrap_or_default()
                == 0
        })
        .await?;
    let history = scene.history("Workload", &recorded).await?;
    let total = i128::try_from(subject.pods)? * 1_000_000_000;
    check_quota(
        &history,
        &Limits {
            resource: "cpu",
            queues: BTreeMap::from([(scene.ns.clone(), total)]),
            total,
        },
    )
}

/// The job during its life.
struct Job<'a> {
    scene: &'a Scene<'a>,
    jobs: Api<DynamicObject>,
    subject: &'a Subject,
}

impl Job<'_> {
    async fn kubectl(&self, verb: &[&str], rest: &[&str]) -> Result<()> {
        let job = format!("{}/train", self.subject.resource.plural);
        let args = [verb, &[job.as_str()], rest].concat();
        // A webhook may not answer for a moment; it is fine to be done twice.
        eventually("kubectl to be answered", DEADLINE, async || {
            self.scene.kubectl(&args, None).await?.ok()
        })
        .await?;
        Ok(())
    }

    /// Waits until its Workload is so. There is no other.
    async fn see_workload(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually(
            &format!("the Workload to be {what}"),
            DEADLINE,
            async || {
                let workloads = self.scene.list("Workload").await;
                match workloads.map_err(|e| format!("{e:#}"))?.as_slice() {
                    [workload] if is_so(workload) => Ok(workload.clone()),
                    others => Err(format!("{others:?}")),
                }
            },
        )
        .await
    }

    /// It holds quota for all its pods, which run where its flavor says.
    async fn runs(&self) -> Result<()> {
        let workload = self.see_workload("admitted", is_admitted).await?;
        let sets = workload["spec"]["podSets"].as_array();
        let sets = sets.into_iter().flatten();
        let sets: Value = sets.map(|set| json!([set["name"], set["count"]])).collect();
        ensure!(sets == self.subject.sets, "the pod sets are {sets}");
        let runs = |pod: &Value| is_running(pod) && !is_terminating(pod);
        let count = self.subject.pods;
        for pod in self.scene.see_so_many("running", count, runs).await? {
            ensure!(
                pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux",
                "a pod goes anywhere: {pod}"
            );
        }
        Ok(())
    }

    /// It is suspended, has no pods, and gave its quota back.
    async fn is_drained(&self) -> Result<()> {
        self.see_workload("evicted", |workload| !is_admitted(workload))
            .await?;
        let pods = self.scene.list("Pod").await?;
        let live = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        ensure!(live.count() == 0, "quota is free while pods run: {pods:?}");
        let job = into_value(self.jobs.get("train").await?);
        ensure!(
            job.pointer(self.subject.suspend) == Some(&json!(true)),
            "it is not suspended: {job}"
        );
        ensure!(
            !job.to_string().contains("kubernetes.io/os"),
            "what was put in was not taken out: {job}"
        );
        Ok(())
    }
}
