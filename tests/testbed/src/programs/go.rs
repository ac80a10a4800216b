//! What Go does for the test bed: it builds a program from its module, and downloads modules. What
//! is built from which is in `assets.rs`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::processes::tail;

const MISSING_GO: &str = "the control plane is built from source with Go 1.26.7 or newer, but there \
    is no `go` on the PATH. Get it from https://go.dev/dl/, or set KUBEBUILDER_ASSETS to a folder \
    with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok";

/// A build of one Go module, kept by the versions in it and a hash of its files.
pub(crate) struct Build {
    pub(crate) what: &'static str,
    pub(crate) cache: PathBuf,
    pub(crate) key: String,
    pub(crate) module: PathBuf,
    pub(crate) package: &'static str,
    pub(crate) output: &'static str,
    pub(crate) ldflags: String,
    /// Build tags.
    pub(crate) tags: &'static str,
    pub(crate) links: &'static [&'static str],
    /// How the source is changed first, if it is: writes another go.mod into a folder, and
    /// returns its path.
    pub(crate) patch: Option<fn(module: &Path, dir: &Path) -> Result<PathBuf>>,
}

impl Build {
    /// The folder with the result; it appears as a whole or not at all.
    pub(crate) fn ensure(&self) -> Result<PathBuf> {
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
                "-tags",
                self.tags,
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

/// The version of a module in a go.mod: a line `[require] MODULE VERSION`.
pub(crate) fn required_version(go_mod: &str, module: &str) -> Result<String> {
    go_mod
        .lines()
        .map(|line| line.trim().trim_start_matches("require "))
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' '))
        .and_then(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .with_context(|| format!("go.mod names no version of {module}"))
}

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// FNV-1a, 64 bits: names a state of the module's files, and guards against nobody.
pub(crate) fn hash_files(dir: &Path, files: &[&str]) -> Result<String> {
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
}
