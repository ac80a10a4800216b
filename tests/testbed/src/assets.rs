//! The programs of a control plane: built from source once and kept in `.cache/controlplane`
//! under the repository's root, or taken from the folder that `KUBEBUILDER_ASSETS` names. Karpenter,
//! which few tests need, is built for the first of them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::processes::tail;
use crate::{crds, karpenter};

/// What the one binary of `tests/controlplane` serves as.
const NAMES: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
];

const MISSING_GO: &str = "the control plane is built from source with Go 1.26.6 or newer, but there \
    is no `go` on the PATH. Get it from https://go.dev/dl/, or set KUBEBUILDER_ASSETS to a folder \
    with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok";

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
            let dir = PathBuf::from(dir);
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

/// A build of one Go module, kept by the versions in it and a hash of its files.
struct Build {
    what: &'static str,
    cache: PathBuf,
    key: String,
    module: PathBuf,
    package: &'static str,
    output: &'static str,
    ldflags: String,
    links: &'static [&'static str],
    /// How the source is changed first, if it is: writes another go.mod into a folder, and
    /// returns its path.
    patch: Option<fn(module: &Path, dir: &Path) -> Result<PathBuf>>,
}

fn control_plane_build(root: &Path) -> Result<Build> {
    let module = root.join("tests/controlplane");
    let go_mod = read(&module.join("go.mod"))?;
    let kubernetes = required_version(&go_mod, "k8s.io/kubernetes")?;
    let etcd = required_version(&go_mod, "go.etcd.io/etcd/server/v3")?;
    let (major, minor) = major_minor(&kubernetes)?;
    let hash = hash_files(&module, &["go.mod", "go.sum", "main.go"])?;
    // kubectl refuses to speak of versions that it can't parse.
    let version = "k8s.io/component-base/version";
    Ok(Build {
        what: "the control plane",
        cache: root.join(".cache/controlplane"),
        key: format!("kubernetes-{kubernetes}-etcd-{etcd}-{hash}"),
        module,
        package: ".",
        output: "controlplane",
        ldflags: format!(
            "-s -w -X {version}.gitVersion={kubernetes} -X {version}.gitMajor={major} \
             -X {version}.gitMinor={minor} -X {version}.gitTreeState=clean"
        ),
        links: &NAMES,
        patch: None,
    })
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
        links: &[],
        patch: Some(karpenter::on_loopback),
    })
}

impl Build {
    /// The folder with the result; it appears as a whole or not at all.
    fn ensure(&self) -> Result<PathBuf> {
        let done = self.cache.join(&self.key);
        if done.exists() {
            return Ok(done);
        }
        fs::create_dir_all(&self.cache)?;
        let lock = File::create(self.cache.join(format!(".{}.lock", self.output)))?;
        if lock.try_lock().is_err() {
            eprintln!(
                "sluice-testbed: waiting for another process that builds {}",
                self.what
            );
            lock.lock().context("waiting for the lock of the build")?;
        }
        if done.exists() {
            return Ok(done);
        }
        // We hold the lock: what lies there is of a build that was interrupted.
        let unfinished = self.cache.join(format!(".unfinished-{}", self.output));
        match fs::remove_dir_all(&unfinished) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e.into()),
            _ => fs::create_dir(&unfinished)?,
        }
        self.build_in(&unfinished)?;
        for name in self.links {
            fs::hard_link(unfinished.join(self.output), unfinished.join(name))?;
        }
        fs::rename(&unfinished, &done)?;
        Ok(done)
    }

    fn build_in(&self, dir: &Path) -> Result<()> {
        eprintln!(
            "sluice-testbed: building {} from source (once; takes minutes): {}",
            self.what, self.key
        );
        let start = Instant::now();
        let log = dir.join("build.log");
        let output = File::create(&log)?;
        let mut command = Command::new("go");
        command
            .args([
                "build",
                "-trimpath",
                "-buildvcs=false",
                "-mod=readonly",
                "-ldflags",
            ])
            .arg(&self.ldflags)
            .arg("-o")
            .arg(dir.join(self.output));
        if let Some(patch) = self.patch {
            command.arg("-modfile").arg(patch(&self.module, dir)?);
        }
        let status = command
            .arg(self.package)
            .current_dir(&self.module)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status();
        let status = status.map_err(no_go)?;
        if !status.success() {
            let tail = tail(&log)?;
            bail!("go build of {} failed ({status}):\n{tail}", self.what);
        }
        let seconds = start.elapsed().as_secs();
        eprintln!("sluice-testbed: built {} in {seconds} s", self.what);
        Ok(())
    }
}

/// Where Go keeps a module: of the version in the go.mod of this folder, checked against its
/// go.sum.
pub(crate) fn downloaded(pins: &Path, module: &str) -> Result<PathBuf> {
    let version = required_version(&read(&pins.join("go.mod"))?, module)?;
    let output = Command::new("go")
        .args(["mod", "download", "-json"])
        // With its version it is downloaded alone, without what it requires.
        .arg(format!("{module}@{version}"))
        .current_dir(pins)
        .env("GOWORK", "off")
        .output()
        .map_err(no_go)?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer.get("Dir").and_then(Value::as_str) {
        Some(dir) if output.status.success() => Ok(dir.into()),
        _ => bail!(
            "go mod download of {module}@{version} failed ({}): {answer} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// Why go did not start.
fn no_go(error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => anyhow!(MISSING_GO),
        _ => anyhow!(error).context("starting go"),
    }
}

/// The repository that this crate was built in, else the one around the current folder.
pub(crate) fn repository() -> Result<PathBuf> {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
    let here = std::env::current_dir()?;
    built_in
        .ancestors()
        .chain(here.ancestors())
        .find(|dir| dir.join("tests/controlplane/go.mod").exists())
        .map(Path::to_owned)
        .context("tests/controlplane is not here: run this inside the Sluice repository")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The version of a module in a go.mod: a line `[require] MODULE VERSION`.
fn required_version(go_mod: &str, module: &str) -> Result<String> {
    go_mod
        .lines()
        .map(|line| line.trim().trim_start_matches("require "))
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' '))
        .and_then(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .with_context(|| format!("go.mod names no version of {module}"))
}

fn major_minor(version: &str) -> Result<(&str, &str)> {
    let mut parts = version.trim_start_matches('v').split('.');
    parts
        .next()
        .zip(parts.next())
        .with_context(|| format!("{version} is no version"))
}

/// FNV-1a, 64 bits: names a state of the module's files, and guards against nobody.
fn hash_files(dir: &Path, files: &[&str]) -> Result<String> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let path = dir.join(file);
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let platform = [std::env::consts::OS, std::env::consts::ARCH].concat();
        for byte in file.bytes().chain(platform.bytes()).chain(bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(format!("{hash:016x}"))
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
    fn finds_versions_in_both_forms_of_require() {
        let text = "module x\nrequire a.b/c v1.2.3\nrequire (\n\ta.b/cd v4.5.6 // indirect\n)\n";
        assert_eq!(
            required_version(text, "a.b/c").ok().as_deref(),
            Some("v1.2.3")
        );
        assert_eq!(
            required_version(text, "a.b/cd").ok().as_deref(),
            Some("v4.5.6")
        );
        assert!(required_version(text, "a.b/x").is_err());
    }

    #[test]
    fn splits_versions() {
        assert_eq!(major_minor("v1.36.3").ok(), Some(("1", "36")));
        assert!(major_minor("v1").is_err());
    }
}
