//! The manifests of this machine: the CRDs and `config/local`, applied by kubectl as a user would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::controlplane::ControlPlane;

/// The address in `config/local`, in whose place comes one with a free port.
const URL: &str = "https://127.0.0.1:9443/";

/// The texts of Sluice's CRDs, those in the folder `root`.
pub(crate) fn crds(root: &Path) -> Result<Vec<String>> {
    let dir = root.join("crds");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    };
    files.iter().map(read).collect()
}

/// Applies the CRDs in the folder `root`, also over those of another version.
///
/// # Errors
/// When kubectl refuses one, or one is not served.
pub async fn apply_crds(control_plane: &ControlPlane, root: &Path) -> Result<()> {
    let crds = root.join("crds");
    let crds = crds.to_string_lossy();
    let args = ["apply", "--server-side", "--force-conflicts", "-k", &crds];
    kubectl(control_plane, &args, None).await?;
    control_plane.crds_established().await
}

pub(super) async fn apply_config(
    control_plane: &ControlPlane,
    root: &Path,
    webhook_port: Option<u16>,
) -> Result<()> {
    let manifests = local_manifests(control_plane, root, webhook_port).await?;
    // Half of what kubectl does is to validate; that the manifests are valid is told by the tests of the installation.
    let args = ["apply", "--validate=false", "-f", "-"];
    kubectl(control_plane, &args, Some(&manifests)).await?;
    Ok(())
}

pub(super) async fn local_manifests(
    control_plane: &ControlPlane,
    root: &Path,
    webhook_port: Option<u16>,
) -> Result<String> {
    /// By their folder: they are the same for each control plane.
    static RENDERED: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let rendered = || RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = root.join("config/local");
    let known = rendered().get(&folder).cloned();
    if let Some(local) = known {
        return adapt(&local, webhook_port);
    }
    let args = ["kustomize", &*folder.to_string_lossy()];
    let local = kubectl(control_plane, &args, None).await?;
    rendered().insert(folder, local.clone());
    adapt(&local, webhook_port)
}

async fn kubectl(
    control_plane: &ControlPlane,
    args: &[&str],
    stdin: Option<&str>,
) -> Result<String> {
    let output = control_plane.kubectl_again(args, stdin).await;
    output.with_context(|| format!("kubectl {}", args.join(" ")))
}

/// `config/local` with another port, or without webhook configurations.
fn adapt(manifests: &str, webhook_port: Option<u16>) -> Result<String> {
    ensure!(manifests.contains(URL), "config/local does not name {URL}");
    if let Some(port) = webhook_port {
        return Ok(manifests.replace(URL, &format!("https://127.0.0.1:{port}/")));
    }
    let is_webhook = |document: &&str| {
        let mut lines = document.lines();
        lines.any(|l| l.starts_with("kind: ") && l.ends_with("WebhookConfiguration"))
    };
    let kept: Vec<_> = manifests
        .split("\n---\n")
        .filter(|d| !is_webhook(d))
        .collect();
    Ok(kept.join("\n---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFESTS: &str = "kind: JobKind\nmetadata:\n  name: job\n---\n\
        kind: ValidatingWebhookConfiguration\nwebhooks:\n- clientConfig:\n    \
        url: https://127.0.0.1:9443/validate\n";

    #[test]
    fn the_port_comes_into_the_webhooks() {
        let got = adapt(MANIFESTS, Some(1234)).unwrap_or_default();
        assert!(
            got.contains("https://127.0.0.1:1234/validate\n") && !got.contains("9443"),
            "{got}"
        );
        assert!(adapt("kind: JobKind\n", Some(1234)).is_err());
    }

    #[test]
    fn webhooks_can_be_left_out() {
        let got = adapt(MANIFESTS, None).unwrap_or_default();
        assert_eq!(got, "kind: JobKind\nmetadata:\n  name: job");
    }
}
