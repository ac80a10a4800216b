//! Sluice as its users have it: installed by kubectl from the manifests, and running beside the
//! control plane with the rights of its own service account and no others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::assets;
use crate::controlplane::ControlPlane;
use crate::http::get;
use crate::options::Options;
use crate::ports;
use crate::processes::{Launch, Process};
use crate::wait::eventually;

/// Where the manifests put it.
pub const NAMESPACE: &str = "sluice-system";

/// The name of its lease, roles and webhook configurations, and of its service account if nobody says otherwise.
const NAME: &str = "sluice";

/// The address in `config/local`, in whose place comes one with a free port.
const URL: &str = "https://127.0.0.1:9443/";

/// It takes a second or two; the rest is for a loaded machine and a debug build.
const READY_DEADLINE: Duration = Duration::from_mins(3);

/// The controllers aggregate roles in milliseconds; the rest is for a loaded machine.
const RIGHTS_DEADLINE: Duration = Duration::from_mins(3);

/// How its last line begins then.
const LEASE_LOST: &str = "Error: the lease is lost";

/// How often it is looked whether the shared Sluice lives.
const SUPERVISION: Duration = Duration::from_millis(200);

/// The Deployment gives it 30 s; the rest is for a loaded machine.
const STOP_DEADLINE: Duration = Duration::from_mins(1);

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

/// A control plane and the Sluice on it: what the tests of a process share.
#[derive(Debug)]
pub struct Shared {
    /// Dropped first.
    pub sluice: Sluice,
    /// With Sluice's CRDs from the start.
    pub control_plane: ControlPlane,
    supervised: Once,
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
            apply_crds(control_plane, &root).await?;
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
        // Installing takes seconds, in which others look for free ports.
        let reserved = [ports::reserve()?, ports::reserve()?, ports::reserve()?];
        let [webhook_port, metrics_port, health_port] =
            reserved.each_ref().map(|reserved| reserved.port);
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
            process: control_plane.prepare(launch, reserved.into()),
            webhooks,
            webhook_port,
            metrics_port,
            health_port,
            kubeconfig,
            admin_kubeconfig: control_plane.kubeconfig().to_owned(),
        })
    }

    /// The one control plane with the one Sluice that all tests of this process share, started by
    /// the first who asks. Blocks the calling thread meanwhile, which is fine in a
    /// `#[tokio::test]`. The binary counts only for the call that starts it.
    ///
    /// # Panics
    /// When it can't be started: no test could go on.
    #[allow(
        clippy::panic,
        reason = "no test can go on without it, and each shall say why"
    )]
    pub fn shared(binary: impl AsRef<Path>) -> &'static Shared {
        static SHARED: OnceLock<std::result::Result<Shared, String>> = OnceLock::new();
        let started = SHARED.get_or_init(|| {
            Shared::start(SluiceOptions::new(binary.as_ref()), async |_| Ok(()))
                .map_err(|error| format!("{error:#}"))
        });
        match started {
            Ok(shared) => shared,
            Err(error) => panic!("the shared Sluice did not start: {error}"),
        }
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

impl Shared {
    /// Starts a control plane and a Sluice on it. `before` runs when Sluice is installed and not
    /// started yet. Blocks the calling thread.
    ///
    /// # Errors
    /// When one of them does not start, or `before` fails.
    pub fn start(
        options: SluiceOptions,
        before: impl AsyncFnOnce(&ControlPlane) -> Result<()> + Send,
    ) -> Result<Self> {
        let control_plane = ControlPlane::start_blocking(&Options::with_crds()?)?;
        // A thread of its own: the caller's may already be inside a runtime.
        let sluice = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    let sluice = Sluice::install(&control_plane, options).await?;
                    before(&control_plane).await?;
                    sluice.start().await?;
                    anyhow::Ok(sluice)
                })
            });
            thread
                .join()
                .map_err(|_| anyhow!("the start of Sluice panicked"))?
        });
        Ok(Self {
            sluice: sluice?,
            control_plane,
            supervised: Once::new(),
        })
    }

    /// Starts Sluice again when it has lost its Lease, as a kubelet does: on a machine that is busy
    /// enough it can't renew it in time. If it ends for another reason it stays so, and tests fail.
    pub fn supervise(&'static self) {
        self.supervised.call_once(|| {
            std::thread::spawn(move || {
                let mut told_before = 0;
                loop {
                    std::thread::sleep(SUPERVISION);
                    let process = self.sluice.process();
                    if process.exit_status().is_none() {
                        continue;
                    }
                    let log = std::fs::read_to_string(process.log()).unwrap_or_default();
                    if has_lost_its_lease(log.get(told_before..).unwrap_or_default()) {
                        told_before = log.len();
                        process.stop();
                        // What goes wrong here fails the tests that wait for it.
                        let _ = process.start_again();
                    }
                }
            });
        });
    }
}

impl Sluice {
    /// Starts it again if it has ended because it lost its Lease.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn revive(&self) -> Result<()> {
        let process = self.process();
        if process.exit_status().is_some() && has_lost_its_lease(&process.log_tail()) {
            process.stop();
            process.start_again()?;
        }
        Ok(())
    }
}

/// A configuration file with these fields.
fn configuration(fields: &str) -> String {
    format!("apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\n{fields}")
}

/// How many of the errors in a log are that.
fn lost_leases(log: &str) -> usize {
    log.lines()
        .filter(|line| line.starts_with(LEASE_LOST))
        .count()
}

/// Whether that is the error with which a Sluice ended, by its log. A stack trace may follow.
fn has_lost_its_lease(log: &str) -> bool {
    let mut lines = log.lines().rev();
    let error = lines.find(|line| line.starts_with("Error: "));
    error.is_some_and(|error| error.starts_with(LEASE_LOST))
}

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

async fn apply_config(
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

async fn local_manifests(
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

/// The roles of all kinds come together a moment after they were applied.
async fn wait_for_rights(kubeconfig: &Path) -> Result<()> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client_of(kubeconfig).await?);
    let may = async |verb: &str, group: &str, resource: &str| {
        let asked = serde_json::from_value(json!({
            "spec": { "resourceAttributes": { "verb": verb, "group": group, "resource": resource } },
        }))?;
        let answer = reviews.create(&PostParams::default(), &asked).await?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        ensure!(is_allowed, "may not {verb} {resource}.{group}");
        Ok(())
    };
    eventually("Sluice to get its rights", RIGHTS_DEADLINE, async || {
        may("list", "batch", "jobs").await?;
        may("create", "sluice.dev", "workloads").await
    })
    .await
}

/// A client of the user of a kubeconfig, without kube's retries.
async fn client_of(kubeconfig: &Path) -> Result<kube::Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

/// Whether the API server has a CA to trust for every webhook.
async fn trusted(client: &kube::Client) -> Result<()> {
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let check = |webhook: &str, config: &WebhookClientConfig| {
        ensure!(config.ca_bundle.is_some(), "{webhook} has no caBundle");
        Ok(())
    };
    for webhook in validating.get(NAME).await?.webhooks.iter().flatten() {
        check(&webhook.name, &webhook.client_config)?;
    }
    for webhook in mutating.get(NAME).await?.webhooks.iter().flatten() {
        check(&webhook.name, &webhook.client_config)?;
    }
    Ok(())
}

/// Whether a job with a gate would be held: the API server has heard of the webhooks and the
/// certificate, and Sluice of the `JobKind`. A dry run, so nothing stays.
async fn holds(client: &kube::Client) -> Result<()> {
    let job: Job = serde_json::from_value(json!({
        "metadata": {
            "generateName": "testbed-probe-",
            "annotations": { "kueue.x-k8s.io/scheduling-gated-by": "testbed.sluice.dev/probe" },
        },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "example.com/none" }],
        } } },
    }))?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let held = jobs.create(&dry_run, &job).await?.spec;
    let held = held.and_then(|spec| spec.suspend);
    ensure!(held == Some(true), "a job with a gate is not held");
    Ok(())
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

    const MANIFESTS: &str = "kind: JobKind\nmetadata:\n  name: job\n---\n\
        kind: ValidatingWebhookConfiguration\nwebhooks:\n- clientConfig:\n    \
        url: https://127.0.0.1:9443/validate\n";

    #[test]
    fn the_last_error_tells_whether_the_lease_was_lost() {
        let trace =
            "\nStack backtrace:\n   0: main\n             at ./src/main.rs:1:1\n".repeat(99);
        let lost = format!("INFO ready\nError: the lease is lost: ending\n{trace}");
        assert!(has_lost_its_lease(&lost));
        let other = format!("{lost}INFO ready\nError: no kubeconfig\n{trace}");
        assert!(!has_lost_its_lease(&other));
        assert!(!has_lost_its_lease("INFO the lease is lost: so it says"));
    }

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

    #[test]
    fn reads_memory() {
        assert_eq!(
            resident("VmSize:\t 9 kB\nVmRSS:\t   12 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(resident("VmRSS: many"), None);
    }
}
