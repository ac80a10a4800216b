//! The programs of a control plane: built from source once and kept in `.cache/controlplane`
//! under the repository's root, or taken from the folder that `KUBEBUILDER_ASSETS` names. Karpenter
//! and the operators, which few tests need, are built for the first of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::operators::Operator;
use crate::operators::cert_manager;
use crate::operators::crds;
use crate::operators::karpenter;
use crate::programs::go::{Build, hash_files, read, required_version};

/// What the one binary of `tests/controlplane` serves as.
const NAMES: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
];

/// Names the minor version of Kubernetes that is built, such as `1.34`; by default that of `tests/controlplane/go.mod`.
const KUBERNETES: &str = "TESTBED_KUBERNETES";

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Assets {
    dir: PathBuf,
    kwok: PathBuf,
}

impl Assets {
    /// Finds the programs, and builds them when this version of them was not built yet: that
    /// takes minutes, once. Concurrent calls wait for the one that builds.
    ///
    /// # Errors
    /// When there is no Go, or the build fails.
    pub fn ensure() -> Result<Self> {
        let root = repository()?;
        if let Some(dir) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()) {
            // The programs run in folders of their own.
            let dir = std::path::absolute(dir)?;
            let kwok = dir.join("kwok");
            let kwok = if kwok.exists() {
                kwok
            } else {
                kwok_build(&root)?.ensure()?.join("kwok")
            };
            return Ok(Self { dir, kwok });
        }
        let dir = control_plane_build(&root)?.ensure()?;
        let kwok = kwok_build(&root)?.ensure()?.join("kwok");
        Ok(Self { dir, kwok })
    }

    /// The folder with `karpenter` and its `source`, built as in [`Assets::ensure`].
    ///
    /// # Errors
    /// When there is no Go, or the build fails.
    pub fn ensure_karpenter() -> Result<PathBuf> {
        karpenter_build(&repository()?)?.ensure()
    }

    /// The programs of the operators, built as in [`Assets::ensure`].
    ///
    /// # Errors
    /// When there is no Go, or a build fails.
    pub fn ensure_operators() -> Result<()> {
        for operator in [Operator::Training, Operator::Trainer, Operator::JobSet] {
            operator_program(operator)?;
        }
        Ok(())
    }

    /// The controller of a gate that is an example of Go's client, built as in [`Assets::ensure`].
    ///
    /// # Errors
    /// When there is no Go, or the build fails.
    pub fn ensure_gate_controller() -> Result<PathBuf> {
        let built = gate_controller_build(&repository()?)?.ensure()?;
        Ok(built.join("gate-controller"))
    }

    /// The program of Helm, built as in [`Assets::ensure`].
    ///
    /// # Errors
    /// When there is no Go, or the build fails.
    pub fn ensure_helm() -> Result<PathBuf> {
        Ok(helm_build(&repository()?)?.ensure()?.join("helm"))
    }

    /// The programs `prometheus` and `promtool`, built as in [`Assets::ensure`].
    ///
    /// # Errors
    /// When there is no Go, or a build fails.
    pub fn ensure_prometheus() -> Result<[PathBuf; 2]> {
        let root = repository()?;
        let [server, tool] = ["prometheus", "promtool"].map(|program| {
            let built = prometheus_build(&root, program)?.ensure()?;
            anyhow::Ok(built.join(program))
        });
        Ok([server?, tool?])
    }

    /// The program of cert-manager, built as in [`Assets::ensure`].
    ///
    /// # Errors
    /// When there is no Go, or the build fails.
    pub fn ensure_cert_manager() -> Result<PathBuf> {
        let built = cert_manager_build(&repository()?)?.ensure()?;
        Ok(built.join("cert-manager"))
    }

    /// The folders with `kubelet` and `kube-proxy`, and with `kube-router`, built as in [`Assets::ensure`].
    ///
    /// # Errors
    /// When there is no Go, or a build fails.
    pub fn ensure_node() -> Result<[PathBuf; 2]> {
        let root = repository()?;
        let node = node_build(&root)?.ensure()?;
        Ok([node, kube_router_build(&root)?.ensure()?])
    }

    /// Downloads the CRDs of other projects, all that [`crate::Crds`] names.
    ///
    /// # Errors
    /// As [`crate::Crds::files`].
    pub fn ensure_crds() -> Result<()> {
        crds::ensure()
    }

    /// The folder, as envtest lays it out.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of `etcd`, `kube-apiserver`, `kubectl`, …
    ///
    /// # Errors
    /// When the folder lacks it, as one of envtest's own lacks the controller manager.
    pub fn binary(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        if !path.exists() {
            bail!(
                "{} has no {name}; add it there, or unset KUBEBUILDER_ASSETS to have the whole \
                 control plane built from source",
                self.dir.display()
            );
        }
        Ok(path)
    }

    pub(crate) fn kwok(&self) -> &Path {
        &self.kwok
    }
}

fn control_plane_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane");
    let file = mod_file(&module)?;
    let go_mod = read(&file)?;
    let kubernetes = required_version(&go_mod, "k8s.io/kubernetes")?;
    let etcd = required_version(&go_mod, "go.etcd.io/etcd/server/v3")?;
    let (sums, main) = (file.with_extension("sum"), module.join("main.go"));
    let files = [&file, &sums, &main].map(|path| within(&module, path));
    let hash = hash_files(&module, &files)?;
    Ok(Build {
        what: "the control plane",
        cache: root.join(".cache/controlplane"),
        key: format!("kubernetes-{kubernetes}-etcd-{etcd}-{hash}"),
        module,
        package: ".",
        output: "controlplane",
        ldflags: kubernetes_ldflags(&kubernetes)?,
        tags: "",
        links: &NAMES,
        patch: Some(|module, _| mod_file(module)),
    })
}

/// Tells programs of Kubernetes their version: kubectl refuses to speak of versions that it can't parse.
fn kubernetes_ldflags(kubernetes: &str) -> Result<String> {
    let (major, minor) = major_minor(kubernetes)?;
    let version = "k8s.io/component-base/version";
    Ok(format!(
        "-s -w -X {version}.gitVersion={kubernetes} -X {version}.gitMajor={major} \
         -X {version}.gitMinor={minor} -X {version}.gitTreeState=clean"
    ))
}

/// One binary for both: they share most of their code.
fn node_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/node");
    let kubernetes = required_version(&read(&module.join("go.mod"))?, "k8s.io/kubernetes")?;
    let hash = hash_files(&module, &["go.mod", "go.sum", "main.go"])?;
    Ok(Build {
        what: "kubelet and kube-proxy",
        cache: root.join(".cache/controlplane"),
        key: format!("node-{kubernetes}-{hash}"),
        module,
        package: ".",
        output: "kubelet",
        ldflags: kubernetes_ldflags(&kubernetes)?,
        tags: "",
        links: &["kube-proxy"],
        patch: None,
    })
}

fn kube_router_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/kube-router");
    let name = "github.com/cloudnativelabs/kube-router/v2";
    let version = required_version(&read(&module.join("go.mod"))?, name)?;
    let hash = hash_files(&module, &["go.mod", "go.sum"])?;
    Ok(Build {
        what: "kube-router",
        cache: root.join(".cache/controlplane"),
        key: format!("kube-router-{version}-{hash}"),
        module,
        package: "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
        output: "kube-router",
        ldflags: "-s -w".into(),
        tags: "",
        links: &[],
        patch: None,
    })
}

/// The module file of the version of Kubernetes that is asked for. Its sums are beside it.
fn mod_file(module: &Path) -> Result<PathBuf> {
    let newest = module.join("go.mod");
    let Some(asked) = std::env::var(KUBERNETES).ok().filter(|v| !v.is_empty()) else {
        return Ok(newest);
    };
    let version = required_version(&read(&newest)?, "k8s.io/kubernetes")?;
    let (major, minor) = major_minor(&version)?;
    if asked == format!("{major}.{minor}") {
        return Ok(newest);
    }
    let file = module.join(format!("kubernetes/{asked}.mod"));
    if !file.exists() {
        bail!("{KUBERNETES}={asked}: there is no {}", file.display());
    }
    Ok(file)
}

/// A path below a folder, as it is named there.
fn within<'a>(folder: &Path, path: &'a Path) -> &'a str {
    let path = path.strip_prefix(folder).unwrap_or(path);
    path.to_str().unwrap_or_default()
}

fn kwok_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/kwok");
    let kwok = required_version(&read(&module.join("go.mod"))?, "sigs.k8s.io/kwok")?;
    let hash = hash_files(&module, &["go.mod", "go.sum"])?;
    Ok(Build {
        what: "KWOK",
        cache: root.join(".cache/controlplane"),
        key: format!("kwok-{kwok}-{hash}"),
        module,
        package: "sigs.k8s.io/kwok/cmd/kwok",
        output: "kwok",
        ldflags: "-s -w".into(),
        tags: "",
        links: &[],
        patch: None,
    })
}

fn karpenter_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/karpenter");
    let karpenter = required_version(&read(&module.join("go.mod"))?, karpenter::MODULE)?;
    let hash = hash_files(&module, &["go.mod", "go.sum"])?;
    Ok(Build {
        what: "Karpenter",
        cache: root.join(".cache/controlplane"),
        key: format!("karpenter-{karpenter}-loopback-{hash}"),
        module,
        package: "sigs.k8s.io/karpenter/kwok",
        output: "karpenter",
        ldflags: format!(
            "-s -w -X {}/pkg/operator.Version={karpenter}",
            karpenter::MODULE
        ),
        tags: "",
        links: &[],
        patch: Some(karpenter::on_loopback),
    })
}

fn cert_manager_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/cert-manager");
    let version = required_version(&read(&module.join("go.mod"))?, cert_manager::MODULE)?;
    let hash = hash_files(&module, &["go.mod", "go.sum", "main.go"])?;
    Ok(Build {
        what: "cert-manager",
        cache: root.join(".cache/controlplane"),
        key: format!("cert-manager-{version}-{hash}"),
        module,
        package: ".",
        output: "cert-manager",
        ldflags: "-s -w".into(),
        tags: "",
        links: &[],
        patch: None,
    })
}

fn helm_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/helm");
    let go_mod = read(&module.join("go.mod"))?;
    let helm = required_version(&go_mod, "helm.sh/helm/v3")?;
    // The Kubernetes that Helm takes a chart to be for if it asks no cluster, as in Helm's own Makefile.
    let client = required_version(&go_mod, "k8s.io/client-go")?;
    let (_, minor) = major_minor(&client)?;
    let hash = hash_files(&module, &["go.mod", "go.sum"])?;
    Ok(Build {
        what: "Helm",
        cache: root.join(".cache/controlplane"),
        key: format!("helm-{helm}-kubernetes-1.{minor}-{hash}"),
        module,
        package: "helm.sh/helm/v3/cmd/helm",
        output: "helm",
        ldflags: format!(
            "-s -w -X helm.sh/helm/v3/internal/version.version={helm} \
             -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={minor} \
             -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor={minor}"
        ),
        tags: "",
        links: &[],
        patch: None,
    })
}

/// Without what finds targets in clouds, which is most of it: the targets of tests are told.
fn prometheus_build(root: &Path, program: &'static str) -> Result<Build> {
    let module = root.join("tests/controlplane/prometheus");
    let version = required_version(
        &read(&module.join("go.mod"))?,
        "github.com/prometheus/prometheus",
    )?;
    let hash = hash_files(&module, &["go.mod", "go.sum"])?;
    let package = match program {
        "promtool" => "github.com/prometheus/prometheus/cmd/promtool",
        _ => "github.com/prometheus/prometheus/cmd/prometheus",
    };
    Ok(Build {
        what: "Prometheus",
        cache: root.join(".cache/controlplane"),
        key: format!("{program}-{version}-{hash}"),
        module,
        package,
        output: program,
        ldflags: "-s -w".into(),
        tags: "remove_all_sd",
        links: &[],
        patch: None,
    })
}

fn gate_controller_build(root: &Path) -> Result<Build> {
    let module = root.join("examples/gate-controller");
    let client = required_version(&read(&module.join("go.mod"))?, "k8s.io/client-go")?;
    let hash = hash_files(&module, &["go.mod", "go.sum", "main.go"])?;
    Ok(Build {
        what: "the example of a gate controller",
        cache: root.join(".cache/controlplane"),
        key: format!("gate-controller-{client}-{hash}"),
        module,
        package: ".",
        output: "gate-controller",
        ldflags: "-s -w".into(),
        tags: "",
        links: &[],
        patch: None,
    })
}

/// The program of an operator, built first when that was never done.
pub(crate) fn operator_program(operator: Operator) -> Result<PathBuf> {
    let root = repository()?;
    Ok(match operator {
        Operator::Training => training_operator_build(&root)?
            .ensure()?
            .join("training-operator"),
        Operator::Trainer => trainer_build(&root)?.ensure()?.join("trainer"),
        Operator::JobSet => trainer_build(&root)?.ensure()?.join("jobset"),
    })
}

fn training_operator_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/training-operator");
    let name = "github.com/kubeflow/training-operator";
    let version = required_version(&read(&module.join("go.mod"))?, name)?;
    let hash = hash_files(&module, &["go.mod", "go.sum", "main.go"])?;
    Ok(Build {
        what: "the training operator",
        cache: root.join(".cache/controlplane"),
        key: format!("training-operator-{version}-{hash}"),
        module,
        package: ".",
        output: "training-operator",
        ldflags: "-s -w".into(),
        tags: "",
        links: &[],
        patch: None,
    })
}

/// One binary for both: they share most of their code.
fn trainer_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane/trainer");
    let go_mod = read(&module.join("go.mod"))?;
    let trainer = required_version(&go_mod, "github.com/kubeflow/trainer/v2")?;
    let jobset = required_version(&go_mod, "sigs.k8s.io/jobset")?;
    let hash = hash_files(&module, &["go.mod", "go.sum", "main.go"])?;
    Ok(Build {
        what: "the trainer and JobSet",
        cache: root.join(".cache/controlplane"),
        key: format!("trainer-{trainer}-jobset-{jobset}-{hash}"),
        module,
        package: ".",
        output: "trainer",
        ldflags: "-s -w".into(),
        tags: "",
        links: &["jobset"],
        patch: None,
    })
}

/// The repository that this crate was built in, else the one around the current folder.
///
/// # Errors
/// When there is none.
pub fn repository() -> Result<PathBuf> {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
    let here = std::env::current_dir()?;
    built_in
        .ancestors()
        .chain(here.ancestors())
        .find(|dir| dir.join("tests/controlplane/go.mod").exists())
        .map(Path::to_owned)
        .context("tests/controlplane is not here: run this inside the Sluice repository")
}

fn major_minor(version: &str) -> Result<(&str, &str)> {
    let mut parts = version.trim_start_matches('v').split('.');
    parts
        .next()
        .zip(parts.next())
        .with_context(|| format!("{version} is no version"))
}

/// PATH with the folder of kubectl first.
pub(crate) fn path_with(dir: &Path) -> Result<OsString> {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::iter::once(dir.to_owned()).chain(std::env::split_paths(&old));
    Ok(std::env::join_paths(dirs)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_has_the_version_of_the_control_plane() -> Result<()> {
        let root = repository()?;
        let version = |module: &str| {
            let go_mod = read(&root.join(module).join("go.mod"))?;
            required_version(&go_mod, "k8s.io/kubernetes")
        };
        let control_plane = version("tests/controlplane")?;
        assert_eq!(version("tests/controlplane/node")?, control_plane);
        Ok(())
    }

    #[test]
    fn splits_versions() {
        assert_eq!(major_minor("v1.36.3").ok(), Some(("1", "36")));
        assert!(major_minor("v1").is_err());
    }
}
