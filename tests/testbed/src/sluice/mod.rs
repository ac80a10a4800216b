//! Sluice as its users have it: installed by kubectl from the manifests, and running beside the
//! control plane with the rights of its own service account and no others.

mod manifests;
mod readiness;
mod shared;
mod visibility;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::controlplane::ControlPlane;
use crate::processes::http::get;
use crate::processes::ports;
use crate::processes::{Launch, Process};
use crate::programs::assets;
use crate::wait::eventually;

pub use manifests::apply_crds;
pub(crate) use manifests::crds;
use manifests::{apply_config, local_manifests};
use readiness::{client_of, holds, trusted, wait_for_rights};
pub use shared::Shared;
use shared::lost_leases;
pub use visibility::register_visibility;

/// Where the manifests put it.
pub const NAMESPACE: &str = "sluice-system";

/// The name of its lease, roles and webhook configurations, and of its service account if nobody says otherwise.
const NAME: &str = "sluice";

/// It takes a second or two; the rest is for a loaded machine and a debug build.
const READY_DEADLINE: Duration = Duration::from_mins(3);

/// The Deployment gives it 30 s, of which `preStop` takes five: later it would be killed, and keep the Lease.
const STOP_DEADLINE: Duration = Duration::from_secs(25);

/// What to install and start.
#[derive(Clone, Debug)]
pub struct SluiceOptions {
    /// The program: in tests of the root package `env!("CARGO_BIN_EXE_sluice")`.
    pub binary: PathBuf,
    /// Whether the webhook configurations are applied. Without them nothing holds a job at its
    /// creation, and Sluice has to see to it afterwards.
    pub webhooks: bool,
    /// The fields of the configuration file, as YAML without apiVersion and kind.
    pub config: Option<String>,
    /// More arguments.
    pub args: Vec<String>,
    /// What it logs, as in `RUST_LOG`; by default what the environment says.
    pub log_level: Option<String>,
    /// The URL by which it reaches the API server, if that is not its own: of a [`crate::Proxy`].
    pub server: Option<String>,
    /// The namespace that it is installed in.
    pub namespace: String,
    /// Its service account.
    pub service_account: String,
    /// The folder with the `crds` and `config` that are applied: of another version. By default this repository's.
    pub manifests: Option<PathBuf>,
}

impl SluiceOptions {
    /// With webhooks and without a configuration file.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            webhooks: true,
            config: None,
            args: Vec::new(),
            log_level: None,
            server: None,
            namespace: NAMESPACE.to_owned(),
            service_account: NAME.to_owned(),
            manifests: None,
        }
    }
}

/// An installed Sluice and its process. It ends when this is dropped, or with the control plane.
#[derive(Debug)]
pub struct Sluice {
    config_file: Option<PathBuf>,
    process: Process,
    webhooks: bool,
    webhook_port: u16,
    metrics_port: u16,
    health_port: u16,
    /// Its own kubeconfig and the administrator's.
    kubeconfig: PathBuf,
    admin_kubeconfig: PathBuf,
}

impl Sluice {
    /// Applies the CRDs and `config/local` as a user would, and gets ready to start the process.
    ///
    /// # Errors
    /// When kubectl refuses a manifest, or the service account does not get its rights.
    pub async fn install(control_plane: &ControlPlane, options: SluiceOptions) -> Result<Self> {
        let webhooks = options.webhooks;
        let root = match &options.manifests {
            Some(root) => root.clone(),
            None => assets::repository()?,
        };
        Self::install_by(control_plane, options, async |port| {
            if !control_plane.has_applied(&crds(&root)?) {
                apply_crds(control_plane, &root).await?;
            }
            apply_config(control_plane, &root, webhooks.then_some(port)).await
        })
        .await
    }

    /// As [`Sluice::install`], by another road. `apply` gets the port on this machine that webhooks are to call.
    ///
    /// # Errors
    /// When `apply` fails, or the service account does not get its rights.
    pub async fn install_by(
        control_plane: &ControlPlane,
        options: SluiceOptions,
        apply: impl AsyncFnOnce(u16) -> Result<()>,
    ) -> Result<Self> {
        let SluiceOptions {
            binary,
            webhooks,
            config,
            args,
            log_level,
            server,
            namespace,
            service_account,
            manifests: _,
        } = options;
        let binary = std::fs::canonicalize(&binary)
            .with_context(|| format!("no Sluice at {}: build it first", binary.display()))?;
        let (webhook_port, metrics_port, health_port) =
            (ports::free()?, ports::free()?, ports::free()?);
        apply(webhook_port).await?;
        let kubeconfig = control_plane
            .service_account_kubeconfig(&namespace, &service_account)
            .await?;
        wait_for_rights(&kubeconfig).await?;

        let level = log_level
            .map(Into::into)
            .or_else(|| std::env::var_os("RUST_LOG"));
        let level = level.unwrap_or_else(|| "info".into());
        // Two on one control plane don't share a log: the port tells them apart.
        let name = format!("{NAME}-{health_port}");
        let kubeconfig = match server {
            None => kubeconfig,
            Some(server) => {
                let text = std::fs::read_to_string(&kubeconfig)?;
                let path = control_plane.dir().join(format!("{name}.kubeconfig"));
                std::fs::write(&path, text.replace(control_plane.server(), &server))?;
                path
            }
        };
        let mut launch = Launch::new(&name, binary)
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--service-account={service_account}"))
            .arg(format!("--webhook-bind=127.0.0.1:{webhook_port}"))
            .arg("--webhook-san=127.0.0.1")
            .arg(format!("--metrics-bind=127.0.0.1:{metrics_port}"))
            .arg(format!("--health-bind=127.0.0.1:{health_port}"))
            .args(args)
            .env("KUBECONFIG", &kubeconfig)
            // Its name among replicas, as a pod's is.
            .env("POD_NAME", &name)
            .env("RUST_LOG", level)
            .env("RUST_BACKTRACE", "1")
            // An error says enough, and with a trace its first line would not be in the end of the log.
            .env("RUST_LIB_BACKTRACE", "0")
            .env("NO_COLOR", "1");
        let mut config_file = None;
        if let Some(config) = config {
            let path = control_plane.dir().join(format!("{name}.yaml"));
            std::fs::write(&path, configuration(&config))?;
            launch = launch.arg("--config").arg(&path);
            config_file = Some(path);
        }
        Ok(Self {
            config_file,
            process: control_plane.prepare(launch),
            webhooks,
            webhook_port,
            metrics_port,
            health_port,
            kubeconfig,
            admin_kubeconfig: control_plane.kubeconfig().to_owned(),
        })
    }

    /// Starts the process and waits until it is ready.
    ///
    /// # Errors
    /// When it still runs, ends, or does not get ready: with the end of its log.
    pub async fn start(&self) -> Result<()> {
        self.process.start_again()?;
        self.wait_ready().await
    }

    /// Starts it again the same way, after [`Sluice::kill`] or [`Sluice::stop`]; its log goes on
    /// in the same file.
    ///
    /// # Errors
    /// As [`Sluice::start`].
    pub async fn start_again(&self) -> Result<()> {
        self.start().await
    }

    /// Ends it as a crash does (SIGKILL), and waits until it is gone.
    pub fn kill(&self) {
        self.process.stop();
    }

    /// Asks it to end (SIGTERM), as Kubernetes does with a pod, and waits until it is gone.
    ///
    /// # Errors
    /// When it does not run, or does not end: with the end of its log.
    pub async fn stop(&self) -> Result<ExitStatus> {
        self.process.signal("TERM")?;
        let ended = eventually("Sluice to end", STOP_DEADLINE, async || {
            self.process.exit_status().ok_or("it still runs")
        });
        let status = ended.await.with_context(|| self.log())?;
        self.process.stop();
        Ok(status)
    }

    /// Until `/readyz` says so and, with webhooks, a job that is created is held.
    ///
    /// # Errors
    /// When it ends meanwhile, or does not get ready: with the end of its log.
    pub async fn wait_ready(&self) -> Result<()> {
        let client = client_of(&self.admin_kubeconfig).await?;
        eventually("Sluice to be ready", READY_DEADLINE, async || {
            if let Err(ended) = self.process.check_alive() {
                return Ok(Err(ended));
            }
            self.look_ready(&client).await.map(Ok)
        })
        .await
        .with_context(|| self.log())?
    }

    /// What it says on `/metrics`.
    ///
    /// # Errors
    /// When it does not answer with 200.
    pub async fn metrics(&self) -> Result<String> {
        let (status, body) = get(self.metrics_port, "/metrics").await?;
        ensure!(status == 200, "/metrics answered {status}: {body}");
        Ok(body)
    }

    /// Where its metrics are.
    pub fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.metrics_port)
    }

    /// The status of `/healthz` or `/readyz`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn health(&self, path: &str) -> Result<u16> {
        Ok(get(self.health_port, path).await?.0)
    }

    /// What [`Sluice::install`] applies for it, but for the CRDs.
    ///
    /// # Errors
    /// When kubectl can't render it.
    pub async fn manifests(&self, control_plane: &ControlPlane) -> Result<String> {
        let port = self.webhooks.then_some(self.webhook_port);
        local_manifests(control_plane, &assets::repository()?, port).await
    }

    /// Applies `config/local` of another version, in the folder `root`, over what is installed. What runs goes on.
    ///
    /// # Errors
    /// When kubectl refuses a manifest.
    pub async fn apply_config(&self, control_plane: &ControlPlane, root: &Path) -> Result<()> {
        let port = self.webhooks.then_some(self.webhook_port);
        apply_config(control_plane, root, port).await
    }

    /// Its process: to pause it (signals `STOP` and `CONT`), or to see whether it lives.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Its kubeconfig: that of its service account.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Puts another configuration file in place of the one that it has, as a kubelet does: in one step.
    ///
    /// # Errors
    /// When it has none, or the file can't be written.
    pub fn configure(&self, fields: &str) -> Result<()> {
        let path = self
            .config_file
            .as_ref()
            .context("it was installed without one")?;
        let next = path.with_extension("next");
        std::fs::write(&next, configuration(fields))?;
        Ok(std::fs::rename(&next, path)?)
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// How often it has ended because it lost its Lease, by its log: on a machine that is busy enough it can't renew it in
    /// time.
    pub fn lost_leases(&self) -> usize {
        let log = std::fs::read(self.process.log()).unwrap_or_default();
        lost_leases(&String::from_utf8_lossy(&log))
    }

    /// The memory that it has resident, in bytes. Only on Linux.
    ///
    /// # Errors
    /// When it does not run, or this is no Linux.
    pub fn resident_memory(&self) -> Result<u64> {
        let pid = self.pid().context("Sluice is stopped")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        resident(&status).with_context(|| format!("no VmRSS in /proc/{pid}/status"))
    }

    async fn look_ready(&self, client: &kube::Client) -> Result<()> {
        let (status, body) = get(self.health_port, "/readyz").await?;
        ensure!(status == 200, "/readyz answered {status}: {body}");
        if self.webhooks {
            trusted(client).await?;
            holds(client).await?;
        }
        Ok(())
    }

    fn log(&self) -> String {
        format!("Sluice's log ends:\n{}", self.log_tail())
    }
}

/// A configuration file with these fields.
fn configuration(fields: &str) -> String {
    format!("apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\n{fields}")
}

/// `VmRSS:     1234 kB`, in bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_memory() {
        assert_eq!(
            resident("VmSize:\t 9 kB\nVmRSS:\t   12 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(resident("VmRSS: many"), None);
    }
}
