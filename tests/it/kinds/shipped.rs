//! The JobKinds that Sluice ships, on the CRDs that their projects publish, with the shipped samples.
//! No operator runs: the test writes what it would write into the status, and makes the pods. What each
//! stage of a status means to Sluice is seen without an API server, in the crate that reads objects.

mod children;
mod gated;
mod leaderworkerset;
mod per_pod;
mod refused;
mod suspended;
mod trainjob;

use std::fs;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_testbed::{Crds, Options, SluiceOptions, eventually};

use crate::support::bed::{self, BINARY};
use crate::support::objects::{cluster_queue, name_of, own, quota};
use crate::support::persist::{is_there_already, persist};
use crate::support::{DEADLINE, Scene, into_value};

/// All but those of Kubernetes itself, which other tests play, and JAXJob: the training-operator whose CRDs are there
/// has none yet.
const SHIPPED: [&str; 13] = [
    "appwrapper",
    "jobset",
    "leaderworkerset",
    "mpijob",
    "paddlejob",
    "pytorchjob",
    "raycluster",
    "rayjob",
    "sparkapplication",
    "tfjob",
    "trainjob",
    "workflow",
    "xgboostjob",
];

/// The object that is shipped for a JobKind, in a LocalQueue with the name of the JobKind.
fn sample(name: &str) -> Result<Value> {
    let path = format!(
        "{}/config/samples/jobkinds/{name}.yaml",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let mut sample: Value = serde_saphyr::from_str(&text).context(path)?;
    let metadata = sample["metadata"].as_object_mut().context("no metadata")?;
    metadata.remove("namespace");
    metadata["labels"][QUEUE_NAME_LABEL] = json!(name);
    Ok(sample)
}

/// The objects of a shipped kind in the namespace of a scene.
struct Objects<'a> {
    scene: &'a Scene<'a>,
    api: Api<DynamicObject>,
}

impl<'a> Objects<'a> {
    /// Those of the same kind as `object`.
    fn like(scene: &'a Scene<'a>, object: &Value) -> Self {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            api_version: api_version.clone(),
            kind,
        };
        let api = Api::namespaced_with(scene.client.clone(), &scene.ns, &resource);
        Self { scene, api }
    }

    async fn create(&self, object: &Value) -> Result<Value> {
        let mut was_asked = false;
        let attempt = async || match self.try_create(object).await {
            Err(error) if was_asked && is_there_already(&error) => {
                self.api.get(name_of(object)).await.map(into_value)
            }
            answer => {
                was_asked = true;
                answer
            }
        };
        persist(attempt).await
    }

    /// Creates an object, for tests of what the API server answers.
    async fn try_create(&self, object: &Value) -> kube::Result<Value> {
        let object: DynamicObject =
            serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        let created = self.api.create(&PostParams::default(), &object).await?;
        Ok(into_value(created))
    }

    /// Tries to create an object.
    async fn try_dry(&self, object: &Value) -> kube::Result<Value> {
        let object: DynamicObject =
            serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        let params = PostParams {
            dry_run: true,
            field_manager: None,
        };
        Ok(into_value(self.api.create(&params, &object).await?))
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let params = DeleteParams::background();
        persist(async || self.api.delete(name, &params).await).await?;
        Ok(())
    }

    /// Merges a patch into an object (RFC 7386).
    async fn merge(&self, name: &str, patch: &Value) -> Result<()> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        persist(async || self.api.patch(name, &params, &patch).await).await?;
        Ok(())
    }

    /// Replaces the status of an object, as its controller would.
    async fn set_status(&self, name: &str, status: &Value) -> Result<()> {
        let gone = Patch::Merge(json!({"status": null}));
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        for patch in [gone, patch] {
            persist(async || self.api.patch_status(name, &params, &patch).await).await?;
        }
        Ok(())
    }

    /// Waits until an object is so.
    async fn see(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually(&format!("{name} to be {what}"), DEADLINE, async || {
            let object = self.api.get(name).await.map_err(|e| e.to_string())?;
            let object = into_value(object);
            if is_so(&object) {
                Ok(object)
            } else {
                Err(object.to_string())
            }
        })
        .await
    }

    /// The API server takes the sample as it is. Nothing is warned of but that its queue is closed.
    async fn see_accepted(&self, sample: &Value) -> Result<()> {
        let (args, sample) = (
            ["create", "--dry-run=server", "-f", "-"],
            sample.to_string(),
        );
        // A webhook may not be able to answer for a moment.
        let warned = eventually("the sample to be accepted", DEADLINE, async || {
            let output = self.scene.kubectl(&args, Some(&sample)).await?;
            let warned = output.stderr.clone();
            output.ok().map(|_| warned)
        })
        .await?;
        let is_expected = |line: &&str| {
            line.ends_with("is stopped (stopPolicy); the object waits until it is not")
        };
        let others: Vec<_> = warned.lines().filter(|line| !is_expected(line)).collect();
        ensure!(others.is_empty(), "{warned}");
        Ok(())
    }
}

/// A LocalQueue that admits nothing yet, with a name of its own.
fn closed_queue(scene: &Scene<'_>, name: &str) -> Value {
    let spec = json!({"clusterQueue": scene.ns, "stopPolicy": "Hold"});
    own("LocalQueue", name, spec)
}

async fn stop(scene: &Scene<'_>, queue: &str, policy: &str) -> Result<()> {
    let patch = json!({"spec": {"stopPolicy": policy}});
    scene.merge("LocalQueue", queue, patch).await?;
    Ok(())
}

/// Plays on a control plane with the CRDs of all the projects: one ClusterQueue with quota for all, whose
/// flavor is a kind of node, and a closed LocalQueue for each kind.
async fn play(prefix: &str, test: impl AsyncFn(&Scene<'_>) -> Result<()>) -> Result<()> {
    let mut options = Options::with_crds()?;
    options.manifests.extend(Crds::manifests(&Crds::TOGETHER)?);
    let sluice = SluiceOptions::new(BINARY);
    bed::own(prefix, sluice, options, async |bed, scene| {
        // The MPIJob of the training-operator gives way to the one that the shipped JobKind reads.
        let args = ["delete", "crd", "mpijobs.kubeflow.org"];
        scene.kubectl(&args, None).await?.ok()?;
        bed.cp.install_crds(&[Crds::MpiOperator]).await?;
        bed.sluice.start().await?;
        let flavor = json!({
            "nodeLabels": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "acme.io/spot", "operator": "Exists"}],
        });
        scene
            .create(&own("ResourceFlavor", &scene.ns, flavor))
            .await?;
        let quotas = [quota("cpu", "1k"), quota("memory", "1Ti")];
        scene
            .create(&cluster_queue(&scene.ns, &scene.ns, &quotas))
            .await?;
        for name in SHIPPED {
            scene.create(&closed_queue(scene, name)).await?;
            // The paths of the JobKind are those of the real CRD.
            scene
                .see_condition("JobKind", name, "Ready", "True", "Watched")
                .await?;
        }
        test(scene).await
    })
    .await
}

#[tokio::test]
async fn each_is_held_released_and_evicted() -> Result<()> {
    play("shipped", async |scene| {
        for name in SHIPPED {
            let sample = sample(name)?;
            let objects = Objects::like(scene, &sample);
            objects.see_accepted(&sample).await.context(name)?;
        }
        suspended::all(scene).await?;
        per_pod::all(scene).await?;
        leaderworkerset::all(scene)
            .await
            .context("leaderworkerset")?;
        refused::all(scene).await.context("refused")?;
        children::play(scene).await.context("children")?;
        trainjob::play(scene).await.context("trainjob")
    })
    .await
}

#[tokio::test]
async fn each_is_in_the_queue_that_its_templates_name() -> Result<()> {
    play("shipped-gated", gated::all).await
}

#[tokio::test]
async fn without_their_crds_they_wait_and_disturb_nobody() -> Result<()> {
    bed::shared("shipped-no-crds", async |scene| {
        for name in SHIPPED {
            let told = scene
                .see_condition("JobKind", name, "Ready", "False", "Waiting")
                .await?;
            ensure!(told.contains("not served"), "{name}: {told}");
        }
        for name in ["job", "deployment", "statefulset"] {
            scene
                .see_condition("JobKind", name, "Ready", "True", "Watched")
                .await?;
        }
        let queue = [quota("cpu", "1")];
        scene.queue(&queue).await?;
        let job = crate::support::objects::Job::new("other").queue("q");
        scene.create(&job.json()).await?;
        scene.see_complete("other").await?;
        Ok(())
    })
    .await
}
