//! The real cert-manager: those of its controllers that issue certificates by issuers of kind SelfSigned and CA, and its
//! CRDs. Its webhooks are not there: nobody checks what a test writes.

use anyhow::{Context, Result, anyhow};

use crate::controlplane::ControlPlane;
use crate::processes::http::get;
use crate::processes::ports;
use crate::processes::{Launch, Process};
use crate::programs::assets::{Assets, repository};
use crate::programs::go::{downloaded, read};
use crate::wait::eventually;

/// Its module.
pub(crate) const MODULE: &str = "github.com/cert-manager/cert-manager";

/// The CRDs of the kinds that its controllers watch.
const CRDS: [&str; 6] = [
    "acme.cert-manager.io_challenges",
    "acme.cert-manager.io_orders",
    "cert-manager.io_certificaterequests",
    "cert-manager.io_certificates",
    "cert-manager.io_clusterissuers",
    "cert-manager.io_issuers",
];

/// It takes a second or two; the rest is for a loaded machine.
const READY_DEADLINE: std::time::Duration = std::time::Duration::from_mins(5);

/// A running cert-manager. It ends when this is dropped, or with the control plane.
#[derive(Debug)]
pub struct CertManager {
    process: Process,
}

impl CertManager {
    /// Applies its CRDs, starts it, and waits until it is ready. Builds it first when that was never done.
    ///
    /// # Errors
    /// When it can't be built, ends, or does not get ready: with the end of its log.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let program = tokio::task::spawn_blocking(Assets::ensure_cert_manager).await??;
        let pins = repository()?.join("tests/controlplane/cert-manager");
        let module = tokio::task::spawn_blocking(move || downloaded(&pins, MODULE)).await??;
        for crd in CRDS {
            let text = read(&module.join(format!("deploy/crds/{crd}.yaml")))?;
            let args = ["apply", "--server-side", "-f", "-"];
            control_plane.kubectl(args, Some(&text)).await?.ok()?;
        }
        control_plane.crds_established().await?;
        let port = ports::free()?;
        let kubeconfig = control_plane.another_admin("testbed-cert-manager")?;
        let launch = Launch::new("cert-manager", program)
            .env("KUBECONFIG", kubeconfig)
            .arg(format!("-health=127.0.0.1:{port}"));
        let process = control_plane.spawn(launch)?;
        let ready = eventually("cert-manager to be ready", READY_DEADLINE, async || {
            if let Err(ended) = process.check_alive() {
                return Ok(Err(ended));
            }
            match get(port, "/readyz").await {
                Ok((200, _)) => Ok(Ok(())),
                Ok((status, body)) => Err(anyhow!("/readyz answered {status}: {body}")),
                Err(error) => Err(error),
            }
        });
        ready
            .await?
            .with_context(|| format!("its log ends:\n{}", process.log_tail()))?;
        Ok(Self { process })
    }

    /// Its process: to stop it, or to read its log.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
