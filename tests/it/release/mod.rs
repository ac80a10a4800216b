//! What a release ships, as users get it: the artefacts, the image in a container, the Helm charts, and the
//! manifests of a release on a control plane.

mod artefacts;
mod charts;
mod charts_config;
mod charts_elsewhere;
mod charts_kinds;
mod charts_life;
mod charts_overlays;
mod charts_values;
mod charts_web;
mod container;
mod demo;
mod image;
mod other_namespace;
mod uninstall;
mod uninstall_gates;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_testbed::{Assets, ControlPlane};

/// The root of the repository.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a program to its end. Returns its standard output.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?}: {}: {stderr}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The kinds of what holds and judges in either variant, as far as this Kubernetes serves them.
pub async fn admission_kinds(cp: &ControlPlane) -> Result<String> {
    let group = "--api-group=admissionregistration.k8s.io";
    let args = ["api-resources", group, "-o", "name"];
    let served = cp.kubectl(args, None).await?.ok()?;
    Ok(served.split_whitespace().collect::<Vec<_>>().join(","))
}

/// The objects of a text of YAML documents.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in text.split("\n---\n") {
        let object: Value =
            serde_saphyr::from_str(document).with_context(|| document.to_owned())?;
        if !object.is_null() {
            objects.push(object);
        }
    }
    Ok(objects)
}

/// What kubectl makes of a folder of the repository. Blocks, and builds kubectl if that was never done.
pub fn kustomized(folder: &str) -> Result<Vec<Value>> {
    let mut kubectl = Command::new(Assets::ensure()?.binary("kubectl")?);
    objects(&run(kubectl
        .arg("kustomize")
        .arg(Path::new(ROOT).join(folder)))?)
}
