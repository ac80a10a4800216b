//! CRDs of other projects, as they publish them: read from their Go modules, which
//! `tests/controlplane/crds` pins. None of them is in this repository, and no program that serves
//! them is started here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use crate::controlplane::ControlPlane;
use crate::programs::assets;
use crate::programs::go;
use crate::wait::eventually;

/// The project whose CRDs a test wants.
///
/// Large schemas are work for the API server: all of them cost it about 20 s of CPU time and half a
/// gigabyte, those of the training operator a quarter of that. A test takes what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crds {
    /// Kubeflow's jobs of v1: PyTorchJob, TFJob, XGBoostJob, PaddleJob, MXJob and MPIJob.
    TrainingOperator,
    /// TrainJob and its runtimes. Its controller makes JobSets.
    Trainer,
    /// JobSet.
    JobSet,
    /// RayJob, RayCluster and RayService.
    KubeRay,
    /// AppWrapper.
    AppWrapper,
    /// LeaderWorkerSet.
    LeaderWorkerSet,
    /// Workflow and what belongs to it, by the small CRDs: the full ones have schemas that are too
    /// large for an API server.
    ArgoWorkflows,
    /// SparkApplication, ScheduledSparkApplication and SparkConnect.
    SparkOperator,
    /// MPIJob v2beta1: the same name as the one of [`Crds::TrainingOperator`], so not with it.
    MpiOperator,
}

impl Crds {
    /// All but [`Crds::MpiOperator`], which does not go with the others.
    pub const TOGETHER: [Self; 8] = [
        Self::TrainingOperator,
        Self::Trainer,
        Self::JobSet,
        Self::KubeRay,
        Self::AppWrapper,
        Self::LeaderWorkerSet,
        Self::ArgoWorkflows,
        Self::SparkOperator,
    ];

    /// The module, its folder with the CRDs, and their group, with which the names of the files
    /// begin. These are the CRDs as generated: what upstream patches in (conversion webhooks,
    /// annotations for certificates) lies elsewhere.
    fn source(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::TrainingOperator => (
                "github.com/kubeflow/training-operator",
                "manifests/base/crds",
                "kubeflow.org",
            ),
            Self::Trainer => (
                "github.com/kubeflow/trainer/v2",
                "manifests/base/crds",
                "trainer.kubeflow.org",
            ),
            Self::JobSet => (
                "sigs.k8s.io/jobset",
                "config/components/crd/bases",
                "jobset.x-k8s.io",
            ),
            Self::KubeRay => (
                "github.com/ray-project/kuberay/ray-operator",
                "config/crd/bases",
                "ray.io",
            ),
            Self::AppWrapper => (
                "github.com/project-codeflare/appwrapper",
                "config/crd/bases",
                "workload.codeflare.dev",
            ),
            Self::LeaderWorkerSet => (
                "sigs.k8s.io/lws",
                "config/crd/bases",
                "leaderworkerset.x-k8s.io",
            ),
            Self::ArgoWorkflows => (
                "github.com/argoproj/argo-workflows/v3",
                "manifests/base/crds/minimal",
                "argoproj.io",
            ),
            Self::SparkOperator => (
                "github.com/kubeflow/spark-operator/v2",
                "config/crd/bases",
                "sparkoperator.k8s.io",
            ),
            Self::MpiOperator => (
                "github.com/kubeflow/mpi-operator",
                "manifests/base",
                "kubeflow.org",
            ),
        }
    }

    /// The files of its CRDs, downloaded first when they are not in Go's module cache.
    ///
    /// # Errors
    /// When there is no Go, the download fails, or it is not what go.sum says.
    pub fn files(self) -> Result<Vec<PathBuf>> {
        let (_, folder, group) = self.source();
        let dir = self.dir()?.join(folder);
        let begin = format!("{group}_");
        let mut files = Vec::new();
        for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&begin) {
                files.push(entry.path());
            }
        }
        ensure!(!files.is_empty(), "{} has no {begin}*.yaml", dir.display());
        files.sort();
        Ok(files)
    }

    /// The folder of the whole module.
    pub(crate) fn dir(self) -> Result<PathBuf> {
        let (module, ..) = self.source();
        let pins = assets::repository()?.join("tests/controlplane/crds");
        go::downloaded(&pins, module)
    }

    /// Their texts, for [`crate::Options::manifests`]: the garbage collector sees CRDs at once that
    /// are there when it starts, and others up to 30 s late.
    ///
    /// # Errors
    /// As [`Crds::files`], and when two of them have CRDs of the same name.
    pub fn manifests(which: &[Self]) -> Result<Vec<String>> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
        };
        all_files(which)?.iter().map(read).collect()
    }
}

/// Downloads the CRDs of all, so that no test waits for them.
///
/// # Errors
/// As [`Crds::files`].
pub(crate) fn ensure() -> Result<()> {
    for which in Crds::TOGETHER.into_iter().chain([Crds::MpiOperator]) {
        which.files()?;
    }
    Ok(())
}

impl ControlPlane {
    /// Applies the CRDs of other projects and waits until the API server serves them. Prefer
    /// [`Crds::manifests`] where the test needs the garbage collector.
    ///
    /// # Errors
    /// As [`Crds::manifests`], and when kubectl refuses them.
    pub async fn install_crds(&self, which: &[Crds]) -> Result<()> {
        let which = which.to_vec();
        let files = tokio::task::spawn_blocking(move || all_files(&which)).await??;
        self.apply_crds(&files).await
    }

    pub(crate) async fn apply_crds(&self, files: &[PathBuf]) -> Result<()> {
        // On the client's side they would not fit into the annotation that it keeps.
        let apply = ["apply", "--server-side", "--validate=false"];
        let named = files.iter().flat_map(|f| [Path::new("-f"), f.as_path()]);
        let args: Vec<_> = apply.iter().map(Path::new).chain(named).collect();
        let done = self.kubectl_again(&args, None).await;
        done.context("kubectl apply of the CRDs")?;
        self.crds_established().await
    }

    /// Waits until the API server has established every CRD that is there.
    ///
    /// # Errors
    /// When one is not established in time: which ones.
    pub async fn crds_established(&self) -> Result<()> {
        established(self.client()?, |_| true).await
    }

    /// Waits until the API server has established the CRD of this name.
    ///
    /// # Errors
    /// When it is not established in time.
    pub async fn crd_established(&self, name: &str) -> Result<()> {
        established(self.client()?, |crd| crd.name_any() == name).await
    }
}

/// How long the API server may take to establish CRDs.
const ESTABLISH_DEADLINE: Duration = Duration::from_mins(5);

/// Waits until every CRD that `counts` is established, and there is one. `kubectl wait` can't be used: it fails at once on a CRD that
/// has no `status.conditions` yet, as one has that was made a moment ago
/// (<https://github.com/kubernetes/kubernetes/issues/66439>).
///
/// # Errors
/// When one is not established in time: which ones.
pub(crate) async fn established(
    client: kube::Client,
    counts: impl Fn(&CustomResourceDefinition) -> bool,
) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    eventually(
        "the CRDs to be established",
        ESTABLISH_DEADLINE,
        async || {
            let crds = api.list(&ListParams::default()).await;
            let crds = crds.map_err(|e| e.to_string())?;
            let counted: Vec<_> = crds.iter().filter(|crd| counts(crd)).collect();
            let pending = counted.iter().filter(|crd| !is_established(crd));
            let pending: Vec<_> = pending.map(|crd| crd.name_any()).collect();
            match (counted.len(), pending.len()) {
                (0, _) => Err("there is none".to_owned()),
                (_, 0) => Ok(()),
                (_, _) => Err(format!("not yet: {}", pending.join(", "))),
            }
        },
    )
    .await
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.as_ref().and_then(|s| s.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c.type_ == "Established" && c.status == "True")
}

fn all_files(which: &[Crds]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for crds in which {
        files.extend(crds.files()?);
    }
    let names: BTreeSet<_> = files.iter().map(|f| f.file_name()).collect();
    ensure!(
        names.len() == files.len(),
        "{which:?} have CRDs of the same name: only one can be there"
    );
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crd_without_a_status_is_not_established() {
        let crd = |status: serde_json::Value| -> CustomResourceDefinition {
            serde_json::from_value(serde_json::json!({"spec": {}, "status": status}))
                .unwrap_or_default()
        };
        let with = |conditions: serde_json::Value| {
            is_established(&crd(serde_json::json!({"conditions": conditions,
                "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": []})))
        };
        assert!(!is_established(&CustomResourceDefinition::default()));
        assert!(!with(serde_json::json!(null)));
        assert!(!with(
            serde_json::json!([{"type": "Established", "status": "False"}])
        ));
        assert!(with(serde_json::json!([
            {"type": "NamesAccepted", "status": "True"},
            {"type": "Established", "status": "True"},
        ])));
    }

    #[test]
    fn two_crds_of_one_name_are_refused() {
        let both = all_files(&[Crds::TrainingOperator, Crds::MpiOperator]);
        let text = both.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(text.contains("same name"), "{text}");
        assert!(all_files(&Crds::TOGETHER).is_ok());
    }
}
