//! The process: watches in, engine in the middle, writes out. This file wires the parts together
//! and says what ends the process; it decides nothing.
//!
//! Webhooks, their certificate and their policy run on every replica. The controller runs on the one
//! that holds the Lease; a process that loses the Lease ends and starts anew with fresh lists. So does one that has
//! violated an invariant: it gives the Lease back first.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use axum::Router;
use k8s_openapi::jiff::SignedDuration;
use sluice_configuration::Configuration;
use sluice_engine::Settings;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use sluice_webhooks::{
    AllowedClients, CertificateSlot, Outside, Policy, Server, TlsMinVersion, TlsOptions, crypto,
    manifests, router,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::api::access::Authorizer;
use crate::api::client::Clients;
use crate::api::openapi::OpenApi;
use crate::api::reports::Reporter;
use crate::controller::{Options, Shell};
use crate::jobkinds::policy;
use crate::jobkinds::queue_states;
use crate::jobkinds::webhook_rules::{self, Rules};
use crate::pods_without_managed_label;
use crate::process::args::{Args, TlsVersion};
use crate::process::certificate::CertificateKeeper;
use crate::process::clock::WallClock;
use crate::process::config::{self, Follower};
use crate::process::lease::Election;
use crate::process::metrics::Metrics;
use crate::process::notices::Notices;
use crate::process::pulse::Pulse;
use crate::process::{clock, health};
use crate::visibility::{
    self, ASKED_MAX, Asked, Asker, Estimator, Explainer, ViewCache, Visibility,
};

/// How long the controller may take to end what it has under way.
const STEP_DOWN: Duration = Duration::from_secs(20);
/// How long a process lasts whose term was ended by a violated invariant, so that its metrics are read once more: longer
/// than the default `scrape_interval` of Prometheus, a minute.
const VIOLATIONS_SHOWN: Duration = Duration::from_secs(75);

/// Runs until the process is told to stop, or has to end.
///
/// # Errors
/// Why it ended, if nobody told it to.
pub async fn run(args: Args) -> Result<()> {
    clock::start();
    rustls_provider();
    let configuration = config::load(args.config.as_deref()).with_context(|| {
        let path = args.config.as_deref().unwrap_or(Path::new(""));
        format!("check the configuration file {}", path.display())
    })?;
    let clients = Clients::infer().await?;
    let stop = CancellationToken::new();
    stop_on_signals(stop.clone())?;
    let instance = args
        .instance
        .unwrap_or_else(|| format!("sluice-{}", std::process::id()));
    let identity = Identity {
        namespace: args.namespace,
        service_account: args.service_account,
        instance,
    };
    let mut replica = Replica::new(clients, identity, &configuration);
    if args.local_queue_metrics {
        replica.serve_local_queue_metrics();
    }
    if let Some(path) = &args.config {
        let settings = replica.settings.clone();
        let follower = Follower::new(path, configuration, settings, replica.metrics.clone());
        tokio::spawn(config::follow(follower, stop.clone()));
    }
    let slot = Arc::new(CertificateSlot::default());
    let tls = tls_options(args.tls_min_version, &args.tls_cipher_suites)?;
    let flag = "--webhook-client-ca";
    let allowed = allowed_clients(
        flag,
        args.webhook_client_ca.as_deref(),
        args.webhook_client_name,
    )?;
    let router = replica.router();
    let server = Server::bind(args.webhook_bind, slot.clone(), allowed, &tls, router).await;
    let server = server.with_context(|| format!("listen on {}", args.webhook_bind))?;
    let metrics = health::metrics_router(replica.metrics.clone());
    let metrics_server = if args.metrics_tls {
        let flag = "--metrics-client-ca";
        let readers = allowed_clients(flag, args.metrics_client_ca.as_deref(), Vec::new())?;
        Server::bind(args.metrics_bind, slot.clone(), readers, &tls, metrics).await
    } else {
        Server::bind_plain(args.metrics_bind, metrics).await
    };
    let metrics_server =
        metrics_server.with_context(|| format!("listen on {}", args.metrics_bind))?;
    if let Some(bind) = args.visibility_bind {
        let port = Visibility::bind(bind, args.pod_ip).await;
        let port = port.with_context(|| format!("listen on {bind}"))?;
        replica.show(port, slot.clone(), tls, &stop);
    }
    replica.keep_certificate(&args.webhook_san, slot.clone(), &stop);
    replica.follow_kinds();
    let liveness = health::liveness(replica.pulse.clone());
    let freshness = replica.metrics.freshness().clone();
    let readiness = health::readiness(slot, replica.knows_kinds.clone(), freshness);
    let probes = health::health_router(liveness, readiness);
    let probes = Server::bind_plain(args.health_bind, probes).await;
    let probes = probes.with_context(|| format!("listen on {}", args.health_bind))?;
    let serving = async {
        tokio::join!(
            server.serve(stop.clone().cancelled_owned()),
            probes.serve(stop.clone().cancelled_owned()),
            metrics_server.serve(stop.clone().cancelled_owned()),
        )
    };
    info!(version = env!("CARGO_PKG_VERSION"), "started");
    let leading = replica.lead(stop.clone());
    let ((), led) = tokio::join!(
        async {
            serving.await;
            stop.cancel();
        },
        async {
            let led = leading.await;
            stop.cancel();
            led
        }
    );
    led
}

/// Which versions and suites are served.
fn tls_options(min_version: TlsVersion, suites: &[String]) -> Result<TlsOptions> {
    let min_version = match min_version {
        TlsVersion::Tls12 => TlsMinVersion::Tls12,
        TlsVersion::Tls13 => TlsMinVersion::Tls13,
    };
    TlsOptions::new(min_version, suites).context("--tls-cipher-suites")
}

/// Which clients a server answers, by the file that `flag` names.
fn allowed_clients(
    flag: &str,
    authorities: Option<&Path>,
    names: Vec<String>,
) -> Result<AllowedClients> {
    let Some(path) = authorities else {
        return Ok(AllowedClients::default());
    };
    let bundle =
        std::fs::read_to_string(path).with_context(|| format!("{flag}={}", path.display()))?;
    AllowedClients::signed_by(&bundle, names).with_context(|| format!("{flag}={}", path.display()))
}

/// Who a replica is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The namespace that it runs in, and where its Lease is.
    pub namespace: String,
    /// Its service account.
    pub service_account: String,
    /// The name of its pod.
    pub instance: String,
}

/// One replica without its servers: what its webhooks judge by, and what it does while it leads.
pub struct Replica {
    clients: Clients,
    identity: Identity,
    options: Options,
    /// What the engine is to know of the configuration by now.
    settings: watch::Sender<Settings>,
    /// What the webhook configurations are made of, but for the resources.
    manifests: manifests::Options,
    policy: Arc<ArcSwap<Policy>>,
    knows_kinds: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    election: Election,
    clock: WallClock,
    /// Of changes of the webhook configurations.
    notices: Notices,
    /// What readers ask the controller.
    asks: mpsc::Sender<Asked>,
    asked: mpsc::Receiver<Asked>,
}

impl Replica {
    /// A replica that has not begun.
    pub fn new(clients: Clients, identity: Identity, configuration: &Configuration) -> Self {
        let settings = configuration.settings();
        let unmanaged = manifests::SYSTEM_NAMESPACES.into_iter().map(str::to_owned);
        let unmanaged = unmanaged.chain([identity.namespace.clone()]);
        let managed_namespaces = Arc::new(configuration.managed_namespaces().without(unmanaged));
        let options = Options {
            device_classes: configuration.device_classes(),
            queue_labels: QueueLabels::new(configuration.aliases.queue_labels()),
            queue_gates: QueueGates::new(configuration.aliases.queue_gates()),
            key_aliases: configuration.aliases.key_aliases(),
            instance: identity.instance.clone(),
            settings: settings.clone(),
            local_queue_metrics: false,
            clock_ahead: SignedDuration::ZERO,
            managed_namespaces,
        };
        let manifests = manifests::Options {
            namespace: identity.namespace.clone(),
            service_account: identity.service_account.clone(),
            queue_labels: options.queue_labels.keys().map(str::to_owned).collect(),
            queue_gates: options.queue_gates.names().map(str::to_owned).collect(),
            key_aliases: options.key_aliases.clone(),
            ..manifests::Options::default()
        };
        let metrics = Arc::new(Metrics::new());
        let election = Election::new(
            clients.write.clone(),
            &identity.namespace,
            identity.instance.clone(),
        );
        let (asks, asked) = mpsc::channel(ASKED_MAX);
        Self {
            asks,
            asked,
            clients,
            identity,
            options,
            settings: watch::Sender::new(settings),
            manifests,
            policy: Arc::new(ArcSwap::from_pointee(Policy::default())),
            knows_kinds: Arc::default(),
            pulse: metrics.pulse().clone(),
            metrics,
            election,
            clock: WallClock::default(),
            notices: Notices::default(),
        }
    }

    /// Has metrics of LocalQueues served too: tenants make these, so they may be many.
    pub fn serve_local_queue_metrics(&mut self) {
        self.options.local_queue_metrics = true;
    }

    /// Has this clock tell it what time it is.
    pub fn set_clock(&mut self, clock: WallClock) {
        self.clock = clock;
        self.election.set_clock(clock);
    }

    /// Keeps the certificate, and watches the webhook configurations that trust it.
    fn keep_certificate(
        &mut self,
        sans: &[String],
        slot: Arc<CertificateSlot>,
        stop: &CancellationToken,
    ) {
        self.notices = webhook_rules::notices(&self.clients.read);
        let keeper = CertificateKeeper::new(
            self.clients.write.clone(),
            &self.identity.namespace,
            sans,
            slot,
            self.election.term(),
            self.metrics.clone(),
            self.notices.clone(),
        );
        tokio::spawn(keeper.run(stop.clone()));
    }

    /// Starts to serve visibility.sluice.dev.
    fn show(
        &mut self,
        port: Visibility,
        slot: Arc<CertificateSlot>,
        tls: TlsOptions,
        stop: &CancellationToken,
    ) {
        self.election.advertise(port.address());
        let asker = Asker::new(self.asks.clone());
        let view_cache = ViewCache::open(asker.clone(), stop.clone());
        let explainer = Explainer::new(asker.clone(), view_cache.clone());
        let estimator = Estimator::new(asker);
        let leader = self.election.leader();
        let basis = visibility::Basis {
            router: visibility::router(view_cache, explainer, estimator, leader),
            slot,
            tls,
            client: self.clients.write.clone(),
            leader: self.election.leader(),
            metrics: self.metrics.clone(),
        };
        tokio::spawn(port.serve(basis, stop.clone()));
    }

    /// The webhooks.
    pub fn router(&self) -> Router {
        let outside = Outside {
            schemas: Arc::new(OpenApi::new(self.clients.write.clone())),
            access: Arc::new(Authorizer::new(self.clients.write.clone())),
            observer: Arc::new(Reporter::start(
                self.clients.write.clone(),
                self.identity.instance.clone(),
                self.metrics.clone(),
            )),
            clock: clock::wall,
        };
        router(&self.policy, outside)
    }

    /// Starts to keep what the webhooks judge by in step with the JobKinds.
    pub fn follow_kinds(&self) {
        let basis = policy::PolicyBasis {
            queue_labels: self.options.queue_labels.clone(),
            queue_gates: self.options.queue_gates.clone(),
            key_aliases: self.options.key_aliases.clone(),
            username: self.manifests.username(),
            managed_namespaces: self.options.managed_namespaces.clone(),
            queue_states: Arc::default(),
        };
        tokio::spawn(queue_states::follow(
            self.clients.clone(),
            self.metrics.clone(),
            self.settings.subscribe(),
            basis.queue_states.clone(),
        ));
        tokio::spawn(policy::follow(
            self.clients.clone(),
            self.metrics.clone(),
            basis,
            self.policy.clone(),
            self.knows_kinds.clone(),
        ));
    }

    /// Waits for the Lease and controls while it is held.
    ///
    /// # Errors
    /// The Lease is lost or was given back, or the controller ended: the process is to end, and to start anew.
    pub async fn lead(&mut self, stop: CancellationToken) -> Result<()> {
        let election = &mut self.election;
        if !election.acquire(&stop).await {
            return Ok(());
        }
        info!("leading");
        self.metrics.process.leader(true);
        let step_down = stop.child_token();
        let basis = pods_without_managed_label::SearchBasis {
            queue_labels: self.manifests.queue_labels.clone(),
            namespace: self.identity.namespace.clone(),
            term: election.term(),
        };
        pods_without_managed_label::keep(&self.clients, &basis, &self.metrics, &step_down);
        let basis = webhook_rules::RulesBasis {
            options: self.manifests.clone(),
            policy: self.policy.clone(),
            notices: self.notices.clone(),
        };
        let rules = Rules::keep(
            self.clients.write.clone(),
            election.term(),
            basis,
            step_down.clone(),
        );
        let (asks, unused) = mpsc::channel(1);
        drop(asks);
        let asked = std::mem::replace(&mut self.asked, unused);
        let settings = self.settings.subscribe();
        let options = Options {
            settings: settings.borrow().clone(),
            clock_ahead: election.clock_ahead(),
            ..self.options.clone()
        };
        let controller = Shell::new(
            options,
            self.clients.clone(),
            self.metrics.clone(),
            election.term(),
            rules,
            self.clock,
            asked,
        );
        self.pulse.beat();
        let running = controller.run(settings, self.pulse.clone(), step_down.clone());
        let controlling = tokio::spawn(running);
        election.keep(&self.pulse, &step_down).await;
        let has_lost = !step_down.is_cancelled();
        step_down.cancel();
        let ended = timeout(STEP_DOWN, controlling).await;
        let ended =
            ended.context("the controller hangs: ending, so that another replica takes over")?;
        let ended = ended.context("the controller ended")?;
        self.metrics.process.leader(false);
        if has_lost && !stop.is_cancelled() {
            ended?;
            anyhow::bail!("the lease is lost: ending, to restart with fresh lists");
        }
        election.give_back().await;
        ended?;
        if stop.is_cancelled() {
            return Ok(());
        }
        stop.run_until_cancelled(sleep(VIOLATIONS_SHOWN)).await;
        anyhow::bail!("an invariant was violated: ending, to restart with fresh lists")
    }
}

fn stop_on_signals(stop: CancellationToken) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("received a signal to stop");
        stop.cancel();
    });
    Ok(())
}

/// The cryptography of every TLS connection of the process. Fails only if it was chosen before.
fn rustls_provider() {
    let _ = crypto::provider().install_default();
}
