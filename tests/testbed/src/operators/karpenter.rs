//! The real Karpenter, with its own provider that makes nodes for KWOK to play. It is built from
//! its module with one change: upstream it listens on all addresses, here on loopback only.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::controlplane::ControlPlane;
use crate::processes::http::get;
use crate::processes::ports;
use crate::processes::{Launch, Process};
use crate::programs::assets::Assets;
use crate::programs::go;
use crate::wait::eventually;

pub(crate) const MODULE: &str = "sigs.k8s.io/karpenter";

/// The file of the module that says where it listens: for metrics and for health.
const OPERATOR: &str = "pkg/operator/operator.go";
const ANYWHERE: &str = "fmt.Sprintf(\":%d\"";
const LOOPBACK: &str = "fmt.Sprintf(\"127.0.0.1:%d\"";
const LISTENERS: usize = 2;

/// The CRDs that it can't do without, as the module has them.
const CRDS: [&str; 3] = [
    "pkg/apis/crds/karpenter.sh_nodepools.yaml",
    "pkg/apis/crds/karpenter.sh_nodeclaims.yaml",
    "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
];

/// It takes 1–2 s; the rest is for a loaded machine.
const READY_DEADLINE: Duration = Duration::from_mins(3);

/// A running Karpenter. It ends when this is dropped, or with the control plane.
///
/// It makes nodes for the pods that the scheduler calls unschedulable, once there is a
/// [`Karpenter::node_pool`]. Start the control plane with [`crate::Options::for_karpenter`].
#[derive(Debug)]
pub struct Karpenter {
    process: Process,
    health_port: u16,
}

impl Karpenter {
    /// Applies its CRDs, starts it and waits until it is ready. Builds it first when that was never
    /// done.
    ///
    /// # Errors
    /// When it can't be built, ends, or does not get ready: with the end of its log.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let dir = tokio::task::spawn_blocking(Assets::ensure_karpenter).await??;
        let source = dir.join("source");
        control_plane
            .apply_crds(&CRDS.map(|crd| source.join(crd)))
            .await
            .context("the CRDs of Karpenter")?;
        let health_port = ports::free()?;
        let launch = Launch::new("karpenter", dir.join("karpenter"))
            .env(
                "KUBECONFIG",
                control_plane.another_admin("testbed-karpenter")?,
            )
            .env("DISABLE_LEADER_ELECTION", "true")
            .env("HEALTH_PROBE_PORT", health_port.to_string())
            // Nobody asks for its metrics: any port will do.
            .env("METRICS_PORT", "0")
            // It waits this long for more pods before it makes nodes; by default 1 s and 10 s.
            .env("BATCH_IDLE_DURATION", "100ms")
            .env("BATCH_MAX_DURATION", "1s");
        let karpenter = Self {
            process: control_plane.spawn(launch)?,
            health_port,
        };
        karpenter.wait_ready().await?;
        Ok(karpenter)
    }

    /// Makes a `NodePool` and its `KWOKNodeClass`, both of this name: nodes with this many CPUs (1,
    /// 2, 4, 8, …), of which Karpenter keeps 0.1 back, and at least 2 Gi of memory for each. Waits
    /// until pods may count on it. Nodes stay until their `NodeClaim` is deleted.
    ///
    /// # Errors
    /// When kubectl refuses them, or Karpenter does not take them.
    pub async fn node_pool(
        &self,
        control_plane: &ControlPlane,
        name: &str,
        cpus: u32,
    ) -> Result<()> {
        let kubectl = async |args: &[&str], stdin: Option<&str>| {
            let output = control_plane.kubectl_again(args, stdin).await;
            output.context("the node pool of Karpenter")
        };
        for object in [node_class(name), node_pool(name, cpus)] {
            kubectl(&["apply", "-f", "-"], Some(&object.to_string())).await?;
        }
        // A pod that comes before it is ready waits 10 s for the next look at it.
        let pool = format!("nodepool/{name}");
        let ready = ["wait", "--for=condition=Ready", "--timeout=180s", &pool];
        kubectl(&ready, None).await?;
        Ok(())
    }

    /// Its process: to pause it (signals `STOP` and `CONT`), or to see whether it lives.
    pub fn process(&self) -> &Process {
        &self.process
    }

    async fn wait_ready(&self) -> Result<()> {
        eventually("Karpenter to be ready", READY_DEADLINE, async || {
            if let Err(ended) = self.process.check_alive() {
                return Ok(Err(ended));
            }
            match get(self.health_port, "/readyz").await {
                Ok((200, _)) => Ok(Ok(())),
                Ok((status, body)) => Err(anyhow!("/readyz answered {status}: {body}")),
                Err(error) => Err(error),
            }
        })
        .await
        .with_context(|| format!("Karpenter's log ends:\n{}", self.process.log_tail()))?
    }
}

fn node_class(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": { "name": name },
    })
}

fn node_pool(name: &str, cpus: u32) -> Value {
    let requirement =
        |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": name },
        "spec": {
            "template": { "spec": {
                "requirements": [
                    requirement("kubernetes.io/os", "linux"),
                    requirement("kubernetes.io/arch", "amd64"),
                    requirement("karpenter.sh/capacity-type", "on-demand"),
                    requirement("karpenter.kwok.sh/instance-cpu", &cpus.to_string()),
                ],
                "nodeClassRef": {
                    "group": "karpenter.kwok.sh",
                    "kind": "KWOKNodeClass",
                    "name": name,
                },
                "expireAfter": "Never",
            } },
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" },
        },
    })
}

/// Copies the module into `dir`, has the copy listen on loopback, and writes a go.mod that takes
/// the copy: Go builds nothing that was changed in the module cache itself.
pub(crate) fn on_loopback(module: &Path, dir: &Path) -> Result<PathBuf> {
    let source = dir.join("source");
    copy(&go::downloaded(module, MODULE)?, &source)?;
    let operator = source.join(OPERATOR);
    fs::write(&operator, patch(&fs::read_to_string(&operator)?)?)?;

    let go_mod = fs::read_to_string(module.join("go.mod"))?;
    let replaced = format!("{go_mod}\nreplace {MODULE} => \"{}\"\n", source.display());
    let path = dir.join("loopback.mod");
    fs::write(&path, replaced)?;
    fs::copy(module.join("go.sum"), dir.join("loopback.sum"))?;
    Ok(path)
}

fn patch(operator: &str) -> Result<String> {
    let found = operator.matches(ANYWHERE).count();
    ensure!(
        found == LISTENERS,
        "{OPERATOR} of {MODULE} has {found} listeners where {LISTENERS} were known: see what has \
         become of them"
    );
    Ok(operator.replace(ANYWHERE, LOOPBACK))
}

/// Copies a folder. The copies can be written, unlike what is in the module cache.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::write(target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_is_patched_or_none() {
        let known = "BindAddress: fmt.Sprintf(\":%d\", a)\nProbe: fmt.Sprintf(\":%d\", b)\n";
        let patched = patch(known).unwrap_or_default();
        assert_eq!(patched.matches("\"127.0.0.1:%d\"").count(), 2, "{patched}");
        assert!(patch("fmt.Sprintf(\":%d\", a)").is_err());
    }
}
