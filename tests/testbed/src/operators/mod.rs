//! Real operators of other projects: their controllers and their webhooks, from Go modules that
//! only do what the projects' own mains do in a cluster. Their CRDs are in `crds.rs`.

pub(crate) mod cert_manager;
pub(crate) mod crds;
pub(crate) mod karpenter;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::ByteString;
use kube::api::PostParams;
use kube::core::Request;
use serde_json::{Value, json};

use crate::RUN_SECONDS;
use crate::controlplane::ControlPlane;
use crate::operators::crds::Crds;
use crate::processes::http::get;
use crate::processes::ports;
use crate::processes::{Launch, Process};
use crate::programs::assets;
use crate::wait::eventually;

/// It takes a second or two; the rest is for a loaded machine.
const READY_DEADLINE: Duration = Duration::from_mins(5);

/// What can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// Kubeflow's training operator: PyTorchJob, TFJob, XGBoostJob, PaddleJob, MXJob and MPIJob.
    Training,
    /// Kubeflow's trainer: makes a JobSet of a TrainJob, so it is of use with
    /// [`Operator::JobSet`] only.
    Trainer,
    /// The controller of JobSet: makes Jobs.
    JobSet,
}

/// Running operators. They end when this is dropped, or with the control plane.
///
/// As in a cluster, their webhooks are asked even then, and nobody can make their jobs any more.
#[derive(Debug)]
pub struct Operators {
    processes: BTreeMap<Operator, Process>,
}

/// What is particular to an operator.
struct Parts {
    /// The name of its program, of its log and of its webhook configurations.
    name: &'static str,
    /// The CRDs with whose module it comes.
    module: Crds,
    /// The webhook configurations in that module, without what a patch of the project adds.
    webhooks: &'static str,
    /// What its webhooks refuse or change, and where it would be created.
    probe: Value,
    url: &'static str,
}

impl Operator {
    /// The CRDs that it can't do without, for [`Crds::manifests`].
    pub fn crds(self) -> &'static [Crds] {
        match self {
            Self::Training => &[Crds::TrainingOperator],
            Self::Trainer => &[Crds::Trainer, Crds::JobSet],
            Self::JobSet => &[Crds::JobSet],
        }
    }

    fn parts(self) -> Parts {
        match self {
            Self::Training => Parts {
                name: "training-operator",
                module: Crds::TrainingOperator,
                webhooks: "manifests/base/webhook/manifests.yaml",
                // No Service can have this name.
                probe: json!({
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "PyTorchJob",
                    "metadata": { "name": "0.probe" },
                    "spec": { "pytorchReplicaSpecs": { "Master": { "template": pod_template() } } },
                }),
                url: "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
            },
            Self::Trainer => Parts {
                name: "trainer",
                module: Crds::Trainer,
                webhooks: "manifests/base/webhook/manifests.yaml",
                probe: json!({
                    "apiVersion": "trainer.kubeflow.org/v1alpha1",
                    "kind": "TrainJob",
                    "metadata": { "name": "0.probe" },
                    "spec": { "runtimeRef": { "name": "none" } },
                }),
                url: "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
            },
            Self::JobSet => Parts {
                name: "jobset",
                module: Crds::JobSet,
                webhooks: "config/components/webhook/manifests.yaml",
                probe: json!({
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "metadata": { "name": "probe" },
                    "spec": { "replicatedJobs": [{
                        "name": "probe",
                        "template": { "spec": { "template": pod_template() } },
                    }] },
                }),
                url: "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
            },
        }
    }
}

impl Operators {
    /// Starts them and waits until they work. Builds them first when that was never done. Start
    /// the control plane with their CRDs, see [`Operator::crds`].
    ///
    /// # Errors
    /// When one can't be built, ends, or does not get ready: with the end of its log.
    pub async fn start(control_plane: &ControlPlane, operators: &[Operator]) -> Result<Self> {
        let mut starting = Vec::new();
        for &operator in operators {
            starting.push(Starting::launch(control_plane, operator).await?);
        }
        let mut processes = BTreeMap::new();
        for one in starting {
            one.wait_ready(control_plane)
                .await
                .with_context(|| format!("its log ends:\n{}", one.process.log_tail()))?;
            processes.insert(one.operator, one.process);
        }
        Ok(Self { processes })
    }

    /// The process of one: to pause it (signals `STOP` and `CONT`), to stop it and start it again,
    /// or to read its log.
    ///
    /// # Errors
    /// When it is not among those that were started.
    pub fn process(&self, operator: Operator) -> Result<&Process> {
        self.processes
            .get(&operator)
            .with_context(|| format!("started without {operator:?}"))
    }
}

/// One that was launched and may not be ready yet.
struct Starting {
    operator: Operator,
    process: Process,
    health_port: u16,
    parts: Parts,
}

impl Starting {
    async fn launch(control_plane: &ControlPlane, operator: Operator) -> Result<Self> {
        let build = move || assets::operator_program(operator);
        let program = tokio::task::spawn_blocking(build).await??;
        let parts = operator.parts();
        let (health_port, webhook_port) = (ports::free()?, ports::free()?);
        let kubeconfig = control_plane.another_admin(&format!("testbed-{}", parts.name))?;
        let launch = Launch::new(parts.name, program)
            .env("KUBECONFIG", kubeconfig)
            .arg(format!("-health=127.0.0.1:{health_port}"))
            .arg(format!("-webhook-port={webhook_port}"))
            .arg("-certificates")
            .arg(control_plane.dir().join("pki"));
        let process = control_plane.spawn(launch)?;
        install_webhooks(control_plane, &parts, webhook_port)
            .await
            .with_context(|| format!("the webhooks of {}", parts.name))?;
        Ok(Self {
            operator,
            process,
            health_port,
            parts,
        })
    }

    async fn wait_ready(&self, control_plane: &ControlPlane) -> Result<()> {
        let client = control_plane.client()?;
        let what = format!("{} to work", self.parts.name);
        eventually(&what, READY_DEADLINE, async || {
            if let Err(ended) = self.process.check_alive() {
                return Ok(Err(ended));
            }
            match get(self.health_port, "/readyz").await {
                Ok((200, _)) => self.answers(&client).await.map(Ok),
                Ok((status, body)) => Err(anyhow!("/readyz answered {status}: {body}")),
                Err(error) => Err(error),
            }
        })
        .await?
    }

    /// Whether the API server has heard of the webhooks, and they answer. A dry run, so nothing
    /// stays.
    async fn answers(&self, client: &kube::Client) -> Result<()> {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let body = serde_json::to_vec(&self.parts.probe)?;
        let request = Request::new(self.parts.url).create(&dry_run, body)?;
        match client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.message.contains("denied the request") => {
                Ok(())
            }
            Err(error) => Err(error.into()),
            Ok(made) => {
                let filled_in = made.pointer("/spec/network/enableDNSHostnames").is_some();
                ensure!(filled_in, "the webhooks are not asked");
                Ok(())
            }
        }
    }
}

/// Applies the webhook configurations of the operator's module, with addresses on loopback.
async fn install_webhooks(control_plane: &ControlPlane, parts: &Parts, port: u16) -> Result<()> {
    let module = parts.module;
    let dir: PathBuf = tokio::task::spawn_blocking(move || module.dir()).await??;
    let file = dir.join(parts.webhooks).into_os_string();
    let read = ["create", "--dry-run=client", "--output=json", "-f"].map(Into::into);
    let read = read.into_iter().chain([file]);
    let json = control_plane.kubectl(read, None).await?.ok()?;
    let ca = ByteString(std::fs::read(control_plane.dir().join("pki/ca.crt"))?);
    let mut found = Vec::new();
    for object in serde_json::Deserializer::from_str(&json).into_iter::<Value>() {
        found.push(on_loopback(object?, parts.name, port, &ca)?);
    }
    ensure!(!found.is_empty(), "{} is empty", parts.webhooks);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": found }).to_string();
    let apply = ["apply", "--server-side", "-f", "-"];
    control_plane.kubectl_again(&apply, Some(&list)).await?;
    Ok(())
}

/// A webhook configuration under another name and with other addresses.
fn on_loopback(mut object: Value, name: &str, port: u16, ca: &ByteString) -> Result<Value> {
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.context("it has no webhooks")? {
        let path = webhook.pointer("/clientConfig/service/path");
        let path = path.and_then(Value::as_str);
        let path = path.context("a webhook has no path")?;
        let url = format!("https://127.0.0.1:{port}{path}");
        let is_of_pods = path.ends_with("-v1-pod");
        let webhook = webhook.as_object_mut().context("a webhook is no object")?;
        webhook.insert("clientConfig".into(), json!({ "url": url, "caBundle": ca }));
        // As JobSet's own patch has it: other pods are none of its business.
        if is_of_pods {
            let with_label =
                json!({ "key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists" });
            webhook.insert(
                "objectSelector".into(),
                json!({ "matchExpressions": [with_label] }),
            );
        }
    }
    let object_map = object.as_object_mut().context("it is no object")?;
    object_map.insert("metadata".into(), json!({ "name": name }));
    Ok(object)
}

fn pod_template() -> Value {
    json!({ "spec": {
        "restartPolicy": "Never",
        "containers": [{ "name": "main", "image": "example.com/none" }],
    } })
}

impl ControlPlane {
    /// Makes a ClusterTrainingRuntime for TrainJobs: one replicated job, `node`, with pods of one
    /// CPU that run for this many seconds (see [`RUN_SECONDS`]). A TrainJob says how many.
    ///
    /// # Errors
    /// When it is refused, as when [`Operator::Trainer`] does not run.
    pub async fn create_training_runtime(&self, name: &str, run_seconds: &str) -> Result<()> {
        let runtime = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime",
            "metadata": { "name": name },
            "spec": {
                "mlPolicy": { "numNodes": 1 },
                "template": { "spec": { "replicatedJobs": [{
                    "name": "node",
                    "template": {
                        "metadata": { "labels": {
                            "trainer.kubeflow.org/trainjob-ancestor-step": "trainer",
                        } },
                        "spec": { "template": {
                            "metadata": { "annotations": { RUN_SECONDS: run_seconds } },
                            "spec": { "containers": [{
                                "name": "node",
                                "image": "example.com/none",
                                "resources": { "requests": { "cpu": "1" } },
                            }] },
                        } },
                    },
                }] } },
            },
        });
        let apply = ["apply", "--server-side", "-f", "-"];
        let done = self.kubectl_again(&apply, Some(&runtime.to_string())).await;
        done.with_context(|| format!("the training runtime {name}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_come_onto_loopback() {
        let service = |path: &str| json!({ "clientConfig": { "service": { "path": path } } });
        let object = json!({ "webhooks": [service("/mutate-a"), service("/mutate--v1-pod")] });
        let ca = ByteString(b"ca".to_vec());
        let got = on_loopback(object, "jobset", 1234, &ca).unwrap_or_default();
        let client = json!({ "url": "https://127.0.0.1:1234/mutate-a", "caBundle": "Y2E=" });
        let first = json!({ "clientConfig": client });
        assert_eq!(got.pointer("/webhooks/0"), Some(&first));
        let selector = got.pointer("/webhooks/1/objectSelector/matchExpressions/0/key");
        assert_eq!(selector, Some(&json!("jobset.sigs.k8s.io/jobset-name")));
        assert_eq!(got.pointer("/metadata/name"), Some(&json!("jobset")));
        assert!(on_loopback(json!({}), "jobset", 1234, &ca).is_err());
    }
}
