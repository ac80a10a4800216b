//! A running control plane: what tests hold in their hands. Its processes depend on no async
//! runtime; clients do, so each test makes its own.

pub(crate) mod certificates;
pub(crate) mod components;
pub(crate) mod kubeconfig;
pub(crate) mod kubectl;
pub(crate) mod nodes;
pub(crate) mod options;
pub(crate) mod start;
pub(crate) mod template;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::controlplane::certificates::Certificates;
use crate::controlplane::components::{Addresses, Component};
use crate::controlplane::kubeconfig::Credentials;
use crate::controlplane::kubectl::KubectlOutput;
use crate::controlplane::nodes::NodeSpec;
use crate::controlplane::options::Options;
use crate::processes::reaper::Reaper;
use crate::processes::{Launch, Process};
use crate::programs::assets::{self, Assets};
use crate::wait::eventually;

/// A restarted API server is ready in 1–2 s; the rest is for a loaded machine.
const RESTART_DEADLINE: Duration = Duration::from_mins(5);

/// The controllers need milliseconds; the rest is for a loaded machine.
const NAMESPACE_DEADLINE: Duration = Duration::from_mins(3);

/// Control planes that [`ControlPlane::start`] has running at the same time: each takes 600 MB and, to start, both cores.
static STARTED: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(4)));

/// Longer than any run: tests of expiry ask for their own tokens.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// Waits until the reaper knows this process (see [`ControlPlane::adopt`]), then becomes the program.
/// Who would have adopted it may be killed first: then it ends too.
const AWAIT_ADOPTION: &str = r#"
dir=$1
shift
until [ -e "$dir/adopted-$$" ]; do
    kill -0 "$PPID" 2>/dev/null || exit
    sleep 0.01
done
exec "$@"
"#;

/// A control plane of our own. It ends when this is dropped, and with the process in any case.
#[derive(Debug)]
pub struct ControlPlane {
    /// Dropped first, then the reaper, which removes the folder.
    processes: BTreeMap<Component, Process>,
    reaper: Arc<Reaper>,
    assets: Assets,
    certificates: Certificates,
    addresses: Addresses,
    kubeconfig: PathBuf,
    /// What was applied at the start.
    manifests: Vec<String>,
    /// None for one that tests share.
    _permit: Option<OwnedSemaphorePermit>,
}

impl ControlPlane {
    /// Starts one, and builds its programs first when that was never done. Waits while four others run that were
    /// started so.
    ///
    /// # Errors
    /// When a step of the start fails: with the end of the log of the component that did.
    pub async fn start(options: Options) -> Result<Self> {
        let permit = Arc::clone(&STARTED).acquire_owned().await?;
        let started = tokio::task::spawn_blocking(move || Self::start_blocking(&options)).await?;
        Ok(Self {
            _permit: Some(permit),
            ..started?
        })
    }

    /// Like [`ControlPlane::start`], for callers that are not async (or are, and may block). It waits for no other one.
    ///
    /// # Errors
    /// When a step of the start fails.
    pub fn start_blocking(options: &Options) -> Result<Self> {
        // A thread of its own: the caller's may already be inside a runtime.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let assets = Assets::ensure()?;
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(start::start(&assets, options))
            });
            thread
                .join()
                .map_err(|_| anyhow!("the start of the control plane panicked"))?
        })
    }

    /// The one control plane that all tests of this process share, started by the first who asks.
    /// Blocks the calling thread meanwhile, which is fine in a `#[tokio::test]`.
    ///
    /// # Panics
    /// When it can't be started: no test could go on.
    pub fn shared() -> &'static Self {
        Self::shared_with(Options::default)
    }

    /// Like [`ControlPlane::shared`]; the options count only for the call that starts it.
    ///
    /// # Panics
    /// When it can't be started: no test could go on.
    #[allow(
        clippy::panic,
        reason = "no test can go on without it, and each shall say why"
    )]
    pub fn shared_with(options: impl FnOnce() -> Options) -> &'static Self {
        static SHARED: OnceLock<std::result::Result<ControlPlane, String>> = OnceLock::new();
        let started = SHARED
            .get_or_init(|| Self::start_blocking(&options()).map_err(|error| format!("{error:#}")));
        match started {
            Ok(control_plane) => control_plane,
            Err(error) => panic!("the shared control plane did not start: {error}"),
        }
    }

    pub(crate) fn new(
        processes: BTreeMap<Component, Process>,
        reaper: Arc<Reaper>,
        assets: Assets,
        certificates: Certificates,
        addresses: Addresses,
        kubeconfig: PathBuf,
        manifests: Vec<String>,
    ) -> Self {
        Self {
            processes,
            reaper,
            assets,
            certificates,
            addresses,
            kubeconfig,
            manifests,
            _permit: None,
        }
    }

    /// Whether all these manifests were applied at the start.
    pub(crate) fn has_applied(&self, manifests: &[String]) -> bool {
        manifests
            .iter()
            .all(|manifest| self.manifests.contains(manifest))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The API server's address.
    pub fn server(&self) -> &str {
        &self.addresses.server
    }

    /// The second API server's address, if the options ask for one.
    pub fn second_server(&self) -> Option<&str> {
        self.addresses.second_server.as_deref()
    }

    /// etcd's address, for clients. It speaks gRPC and, as JSON, HTTP.
    pub fn etcd(&self) -> &str {
        &self.addresses.etcd
    }

    /// The run's folder, with logs, keys and kubeconfigs. It goes with the run, unless
    /// `TESTBED_KEEP=1` is set.
    pub fn dir(&self) -> &Path {
        self.reaper.dir()
    }

    /// The API server's audit log, one JSON object a line.
    pub fn audit_log(&self) -> PathBuf {
        self.dir().join(components::AUDIT_LOG)
    }

    /// The audit log of the second API server, if the options ask for one.
    pub fn second_audit_log(&self) -> Option<PathBuf> {
        self.addresses.second_server.as_ref()?;
        Some(self.dir().join(components::SECOND_AUDIT_LOG))
    }

    /// The programs it was started from.
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// A client for the administrator, without kube's retries: a test sees what the server says.
    /// A client belongs to the runtime it was made in, so each test makes its own.
    ///
    /// # Errors
    /// When the certificates can't be read.
    pub fn client(&self) -> Result<kube::Client> {
        self.client_as(None)
    }

    /// A client of this user, for whom the administrator acts; of the administrator himself without one.
    ///
    /// # Errors
    /// When the certificates can't be read.
    pub fn client_as(&self, user: Option<&str>) -> Result<kube::Client> {
        client_as(&self.addresses.server, &self.certificates, user)
    }

    /// Runs kubectl as the administrator.
    ///
    /// # Errors
    /// When it can't be started. What it answers is in the output: see [`KubectlOutput::ok`].
    pub async fn kubectl<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        stdin: Option<&str>,
    ) -> Result<KubectlOutput> {
        self.kubectl_as(&self.kubeconfig, args, stdin).await
    }

    /// Runs kubectl with another kubeconfig.
    ///
    /// # Errors
    /// When it can't be started.
    pub async fn kubectl_as<A: AsRef<OsStr>>(
        &self,
        kubeconfig: &Path,
        args: impl IntoIterator<Item = A>,
        stdin: Option<&str>,
    ) -> Result<KubectlOutput> {
        let program = self.assets.binary("kubectl")?;
        kubectl::run(&program, kubeconfig, self.dir(), args, stdin).await
    }

    /// Runs kubectl for what is fine to be done twice, and once more if that went wrong: a webhook may not
    /// have answered in time, or a kind that is new may not have been found yet.
    pub(crate) async fn kubectl_again<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        stdin: Option<&str>,
    ) -> Result<String> {
        match self.kubectl(args, stdin).await?.ok() {
            Ok(output) => Ok(output),
            Err(error) => {
                eprintln!("sluice-testbed: once more after: {error:#}");
                self.kubectl(args, stdin).await?.ok()
            }
        }
    }

    /// Makes a namespace of a name that begins so and is nobody else's, and waits until pods can
    /// be made in it.
    ///
    /// # Errors
    /// When it can't be created, or the controllers give it no service account.
    pub async fn create_namespace(&self, prefix: &str) -> Result<String> {
        let client = self.client()?;
        let metadata = ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(client.clone());
        // Whose answer was lost has another name: it disturbs nobody.
        let what = format!("a namespace {prefix}");
        let name = eventually(&what, NAMESPACE_DEADLINE, async || {
            let made = api.create(&PostParams::default(), &namespace).await;
            made.map(|made| made.name_any())
        })
        .await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &name);
        let what = format!("the default service account of {name}");
        eventually(&what, NAMESPACE_DEADLINE, async || {
            accounts.get("default").await.map(drop)
        })
        .await?;
        Ok(name)
    }

    /// Adds a node and waits until the scheduler may use it.
    ///
    /// # Errors
    /// When it can't be created, or does not get ready.
    pub async fn add_node(&self, node: NodeSpec) -> Result<()> {
        self.add_nodes(&[node]).await
    }

    /// Adds nodes and waits until the scheduler may use all of them.
    ///
    /// # Errors
    /// When one can't be created, or does not get ready.
    pub async fn add_nodes(&self, nodes: &[NodeSpec]) -> Result<()> {
        nodes::create(self.client()?, nodes).await?;
        nodes::wait_ready(self.client()?, nodes).await
    }

    /// Takes a node away, and waits until it is gone.
    ///
    /// # Errors
    /// When there is none of this name, or it does not go.
    pub async fn remove_node(&self, name: &str) -> Result<()> {
        nodes::remove(self.client()?, name).await
    }

    /// Makes a kubeconfig for another administrator: the audit log tells the two apart.
    pub(crate) fn another_admin(&self, user: &str) -> Result<PathBuf> {
        let (certificate, key) = self.certificates.client(user, Some("system:masters"))?;
        let path = self.dir().join(format!("{user}.kubeconfig"));
        let ca = self.certificates.path("ca.crt");
        let credentials = Credentials::Certificate(&certificate, &key);
        kubeconfig::write(&path, &self.addresses.server, &ca, "default", &credentials)?;
        Ok(path)
    }

    /// Makes a kubeconfig for a service account that exists, by a token that lasts a day.
    ///
    /// # Errors
    /// When the API server gives no token.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client()?, namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..Default::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..Default::default()
        };
        let made = api
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("asking for a token of {namespace}/{name}"))?;
        let token = made.status.and_then(|status| status.token);
        let token = token.context("the token request came back without a token")?;
        let path = self.dir().join(format!("{namespace}.{name}.kubeconfig"));
        let ca = self.certificates.path("ca.crt");
        kubeconfig::write(
            &path,
            &self.addresses.server,
            &ca,
            namespace,
            &Credentials::Token(&token),
        )?;
        Ok(path)
    }

    /// Kills the API server (SIGKILL), until [`ControlPlane::restart_api_server`].
    ///
    /// # Errors
    /// When this control plane was started without one.
    pub fn kill_api_server(&self) -> Result<()> {
        self.process(Component::ApiServer)?.stop();
        Ok(())
    }

    /// Starts the API server again, on the same port and data, and waits until it is ready. One
    /// that still runs is killed first.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.restart(Component::ApiServer).await
    }

    /// Starts a component again. One that still runs is killed first.
    ///
    /// # Errors
    /// When it can't be started, or the API server does not get ready.
    pub async fn restart(&self, component: Component) -> Result<()> {
        let process = self.process(component)?;
        process.stop();
        process.start_again()?;
        match component {
            Component::Etcd | Component::ApiServer | Component::SecondApiServer => {
                self.wait_ready().await
            }
            Component::ControllerManager | Component::Scheduler | Component::Kwok => Ok(()),
        }
    }

    /// The process of a component: to pause it (signals `STOP` and `CONT`), kill it, or read its
    /// log.
    ///
    /// # Errors
    /// When this control plane was started without it.
    pub fn process(&self, component: Component) -> Result<&Process> {
        self.processes
            .get(&component)
            .with_context(|| format!("started without {component:?}"))
    }

    /// Starts another program that ends with this run, its log beside those of the components.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn spawn(&self, launch: Launch) -> Result<Process> {
        Process::start(launch, &self.reaper)
    }

    /// Like [`ControlPlane::spawn`], but does not start it yet.
    pub(crate) fn prepare(&self, launch: Launch) -> Process {
        Process::stopped(launch, &self.reaper)
    }

    /// A program for the caller to start, with input and output of its own, that shall end with
    /// this run too: it begins when it is [adopted](ControlPlane::adopt).
    pub fn command(&self, program: &OsStr) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", AWAIT_ADOPTION, "sh"]);
        command.arg(self.dir()).arg(program);
        command
    }

    /// Has a started [command](ControlPlane::command) end with this run and lets it begin;
    /// [`ControlPlane::disown`] it once it has ended.
    ///
    /// # Errors
    /// When the run's folder can't be written.
    pub fn adopt(&self, pid: u32) -> Result<()> {
        self.reaper.remember(pid);
        std::fs::write(self.dir().join(format!("adopted-{pid}")), "").context("adopting a command")
    }

    /// Says that an adopted process has ended and was waited for.
    pub fn disown(&self, pid: u32) {
        self.reaper.forget(pid);
    }

    /// PATH with this control plane's kubectl first.
    ///
    /// # Errors
    /// When the folder's name can't be part of a PATH.
    pub fn path(&self) -> Result<std::ffi::OsString> {
        assets::path_with(self.assets.dir())
    }

    /// Until the API server says that it is ready, and the second one too.
    ///
    /// # Errors
    /// When it ends, or does not get ready in time.
    pub async fn wait_ready(&self) -> Result<()> {
        self.wait_server_ready(Component::ApiServer, &self.addresses.server)
            .await?;
        match &self.addresses.second_server {
            Some(server) => {
                self.wait_server_ready(Component::SecondApiServer, server)
                    .await
            }
            None => Ok(()),
        }
    }

    async fn wait_server_ready(&self, component: Component, server: &str) -> Result<()> {
        let client = admin_client(server, &self.certificates)?;
        let process = self.process(component)?;
        eventually(
            "the API server to be ready again",
            RESTART_DEADLINE,
            async || match process.check_alive() {
                Ok(()) => start::readyz(&client).await.map(Ok),
                ended => Ok(ended),
            },
        )
        .await?
    }
}

pub(crate) fn admin_client(server: &str, certificates: &Certificates) -> Result<kube::Client> {
    client_as(server, certificates, None)
}

fn client_as(
    server: &str,
    certificates: &Certificates,
    user: Option<&str>,
) -> Result<kube::Client> {
    let mut config = kube::Config::new(server.parse()?);
    config.root_cert = Some(vec![certificates.ca_der()]);
    config.default_retry = false;
    let file = |name: &str| certificates.path(name).to_string_lossy().into_owned();
    config.auth_info.client_certificate = Some(file("kubernetes-admin.crt"));
    config.auth_info.client_key = Some(file("kubernetes-admin.key"));
    config.auth_info.impersonate = user.map(str::to_owned);
    Ok(kube::Client::try_from(config)?)
}
