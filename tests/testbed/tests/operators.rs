//! Parts of other projects in the test bed: their CRDs, and their real operators without Sluice.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use sluice_testbed::{ControlPlane, Crds, Operator, Operators, Options, RUN_SECONDS, eventually};

const DEADLINE: Duration = Duration::from_mins(2);

#[tokio::test]
async fn crds_of_other_projects_are_served() -> Result<()> {
    // Its own: those of the MPI operator don't go with others.
    let cp = ControlPlane::start(Options {
        nodes: 0,
        manifests: Crds::manifests(&Crds::TOGETHER)?,
        ..Options::default()
    })
    .await?;
    let get = async |resource: &str| cp.kubectl(["get", resource, "-A"], None).await?.ok();
    for resource in [
        "pytorchjobs.v1.kubeflow.org",
        "tfjobs.v1.kubeflow.org",
        "mpijobs.v1.kubeflow.org",
        "trainjobs.trainer.kubeflow.org",
        "clustertrainingruntimes.trainer.kubeflow.org",
        "jobsets.jobset.x-k8s.io",
        "rayjobs.ray.io",
        "rayclusters.ray.io",
        "appwrappers.workload.codeflare.dev",
        "leaderworkersets.leaderworkerset.x-k8s.io",
        "workflows.argoproj.io",
        "sparkapplications.sparkoperator.k8s.io",
    ] {
        get(resource).await?;
    }
    cp.kubectl(["delete", "crd", "mpijobs.kubeflow.org"], None)
        .await?
        .ok()?;
    cp.install_crds(&[Crds::MpiOperator]).await?;
    get("mpijobs.v2beta1.kubeflow.org").await?;
    Ok(())
}

#[tokio::test]
async fn the_training_operator_runs_and_suspends_jobs() -> Result<()> {
    let (cp, _operators) = with(&[Operator::Training]).await?;
    for (kind, field, first, container) in [
        ("PyTorchJob", "pytorchReplicaSpecs", "Master", "pytorch"),
        ("TFJob", "tfReplicaSpecs", "Chief", "tensorflow"),
    ] {
        let job = |name: &str, run_seconds: &str| {
            let replicas = |count| replicas(count, container, run_seconds);
            json!({
                "apiVersion": "kubeflow.org/v1",
                "kind": kind,
                "metadata": { "name": name },
                "spec": {
                    "runPolicy": { "suspend": false },
                    field: { first: replicas(1), "Worker": replicas(2) },
                },
            })
        };
        let suspend = "/spec/runPolicy/suspend";
        let short = Subject::create(&cp, job("short", "0"), suspend, false).await?;
        short.condition("Succeeded").await?;
        let held = Subject::create(&cp, job("held", "forever"), suspend, true).await?;
        held.comes_and_goes(3).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_trainer_runs_and_suspends_jobs() -> Result<()> {
    let (cp, _operators) = with(&[Operator::Trainer, Operator::JobSet]).await?;
    let job = |name: &str, runtime: &str| {
        json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": { "name": name },
            "spec": {
                "suspend": false,
                "runtimeRef": { "name": runtime },
                "trainer": { "numNodes": 2 },
            },
        })
    };
    cp.create_training_runtime("short", "0").await?;
    cp.create_training_runtime("endless", "forever").await?;
    let suspend = "/spec/suspend";
    let short = Subject::create(&cp, job("short", "short"), suspend, false).await?;
    short.condition("Complete").await?;
    let held = Subject::create(&cp, job("held", "endless"), suspend, true).await?;
    held.comes_and_goes(2).await
}

/// With the real operators and nodes for their pods.
async fn with(operators: &[Operator]) -> Result<(ControlPlane, Operators)> {
    let mut crds: Vec<_> = operators.iter().flat_map(|o| o.crds()).copied().collect();
    crds.sort();
    crds.dedup();
    let cp = ControlPlane::start(Options {
        manifests: Crds::manifests(&crds)?,
        ..Options::default()
    })
    .await?;
    let operators = Operators::start(&cp, operators).await?;
    Ok((cp, operators))
}

/// A replica spec of Kubeflow's training operator.
fn replicas(count: u32, container: &str, run_seconds: &str) -> Value {
    json!({
        "replicas": count,
        "restartPolicy": "Never",
        "template": {
            "metadata": { "annotations": { RUN_SECONDS: run_seconds } },
            "spec": { "containers": [{
                "name": container,
                "image": "example.com/none",
                "resources": { "requests": { "cpu": "1" } },
            }] },
        },
    })
}

/// One job of another project in a namespace of its own.
struct Subject<'a> {
    cp: &'a ControlPlane,
    namespace: String,
    /// As kubectl names it: `pytorchjob/name`.
    job: String,
    /// Where its `suspend` is.
    suspend: &'static str,
}

impl<'a> Subject<'a> {
    async fn create(
        cp: &'a ControlPlane,
        mut job: Value,
        suspend: &'static str,
        held: bool,
    ) -> Result<Self> {
        *job.pointer_mut(suspend).context("no suspend")? = held.into();
        let text = |path: &str| job.pointer(path).and_then(Value::as_str).context("no text");
        let (kind, name) = (text("/kind")?.to_lowercase(), text("/metadata/name")?);
        let namespace = cp.create_namespace(&kind).await?;
        let apply = ["create", "-n", &namespace, "-f", "-"];
        cp.kubectl(apply, Some(&job.to_string())).await?.ok()?;
        Ok(Self {
            cp,
            job: format!("{kind}/{name}"),
            namespace,
            suspend,
        })
    }

    async fn suspend(&self, held: bool) -> Result<()> {
        let patch = json!([{ "op": "replace", "path": self.suspend, "value": held }]).to_string();
        let args = [
            "patch",
            "-n",
            &self.namespace,
            &self.job,
            "--type=json",
            "-p",
            &patch,
        ];
        self.cp.kubectl(args, None).await?.ok()?;
        Ok(())
    }

    /// Of one that is held and would run forever: that it makes pods exactly while it may.
    async fn comes_and_goes(&self, pods: usize) -> Result<()> {
        // Only then has the operator seen it.
        self.condition("Suspended").await?;
        self.running_pods(0).await?;
        self.suspend(false).await?;
        self.running_pods(pods).await?;
        self.suspend(true).await?;
        self.running_pods(0).await?;
        self.suspend(false).await?;
        self.running_pods(pods).await
    }

    async fn condition(&self, condition: &str) -> Result<()> {
        let condition = format!("--for=condition={condition}");
        let args = [
            "wait",
            "-n",
            &self.namespace,
            &self.job,
            &condition,
            "--timeout=120s",
        ];
        let waited = self.cp.kubectl(args, None).await?.ok();
        waited.with_context(|| format!("{} never got {condition}", self.job))?;
        Ok(())
    }

    async fn running_pods(&self, count: usize) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.cp.client()?, &self.namespace);
        let what = format!("{} to have {count} running pods", self.job);
        eventually(&what, DEADLINE, async || {
            let pods = pods
                .list(&ListParams::default())
                .await
                .map_err(|e| e.to_string())?;
            let phases: Vec<_> = pods
                .iter()
                .map(|p| p.status.as_ref()?.phase.as_deref())
                .collect();
            let running = phases.iter().all(|p| *p == Some("Running"));
            if phases.len() == count && running {
                Ok(())
            } else {
                Err(format!("{phases:?}"))
            }
        })
        .await
    }
}
