//! The process: watches in, engine in the middle, writes out. This file wires the parts together
//! and says what ends the process; it decides nothing.
//!
//! Webhooks, their certificate and their policy run on every replica. The controller runs on the one
//! that holds the Lease; a process that loses the Lease ends and starts anew with fresh lists.
#![forbid(unsafe_code)]
// In a binary `pub` says what a module offers to the others.
#![allow(unreachable_pub)]

mod args;
mod certificate;
mod client;
mod clock;
mod conditions;
mod config;
mod controller;
mod events;
mod freshness;
mod health;
mod hooks;
mod lease;
mod lookup;
mod metrics;
mod plan;
mod policy;
mod published;
mod pulse;
mod term;
mod uncharged;
mod watch;
mod world;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use clap::Parser;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use sluice_webhooks::{CertificateSlot, Policy, Server, router};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::info;
use tracing_subscriber::EnvFilter;

use args::{Args, LogFormat};
use certificate::Keeper;
use client::Clients;
use config::Config;
use controller::{Controller, Options};
use freshness::Freshness;
use hooks::Rules;
use lease::Election;
use metrics::Metrics;
use published::OpenApi;
use pulse::Pulse;

/// How long the controller may take to end what it has under way.
const STEP_DOWN: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let args = Args::parse();
    start_log(args.log_format);
    clock::start();
    rustls_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(run(args));
    // A task that hangs must not keep the process from ending.
    runtime.shutdown_background();
    ended
}

async fn run(args: Args) -> Result<()> {
    let config = Config::load(args.config.as_deref())?;
    let (settings, device_classes) = (config.settings()?, config.device_classes());
    let queue_labels = QueueLabels::new(config.queue_label_aliases);
    let queue_gates = QueueGates::new(config.queue_gate_aliases);
    let clients = Clients::infer().await?;
    let metrics = Arc::new(Metrics::new());
    let stop = CancellationToken::new();
    stop_on_signals(stop.clone())?;

    let slot = Arc::new(CertificateSlot::default());
    let policy = Arc::new(ArcSwap::from_pointee(Policy::default()));
    let manifests = sluice_webhooks::manifests::Options {
        namespace: args.namespace.clone(),
        service_account: args.service_account.clone(),
        queue_labels: queue_labels.keys().map(str::to_owned).collect(),
        queue_gates: queue_gates.names().map(str::to_owned).collect(),
        resources: Vec::new(),
        ..sluice_webhooks::manifests::Options::default()
    };
    let hooks = hooks::Basis {
        options: manifests,
        policy: policy.clone(),
    };
    let knows_kinds = Arc::new(AtomicBool::new(false));
    let basis = policy::Basis {
        queue_labels: queue_labels.clone(),
        queue_gates: queue_gates.clone(),
        username: hooks.options.username(),
    };
    let schemas = Arc::new(OpenApi::new(clients.write.clone()));
    let router = router(&policy, schemas);
    let server = Server::bind(args.webhook_bind, slot.clone(), router).await;
    let server = server.with_context(|| format!("listen on {}", args.webhook_bind))?;
    let instance = args
        .instance
        .unwrap_or_else(|| format!("sluice-{}", std::process::id()));
    let mut election = Election::new(clients.write.clone(), &args.namespace, instance.clone());
    let keeper = Keeper::new(
        clients.write.clone(),
        &args.namespace,
        &args.webhook_san,
        slot.clone(),
        election.term(),
    );
    tokio::spawn(keeper.run(stop.clone()));
    tokio::spawn(policy::follow(
        clients.clone(),
        metrics.clone(),
        basis,
        policy,
        knows_kinds.clone(),
    ));
    let ready = readiness(slot, knows_kinds, metrics.freshness().clone());
    let pulse = Arc::new(Pulse::default());
    let alive: health::Check = {
        let pulse = pulse.clone();
        Arc::new(move || pulse.is_beating())
    };
    let serving = async {
        tokio::try_join!(
            async {
                server.serve(stop.clone().cancelled_owned()).await;
                Ok(())
            },
            health::serve_health(args.health_bind, alive, ready, stop.clone()),
            health::serve_metrics(args.metrics_bind, metrics.clone(), stop.clone()),
        )
    };
    info!(version = env!("CARGO_PKG_VERSION"), "started");
    let options = Options {
        queue_labels,
        queue_gates,
        instance,
        settings,
        device_classes,
    };
    let leading = lead(
        &mut election,
        options,
        hooks,
        clients,
        metrics.clone(),
        pulse,
        stop.clone(),
    );
    let (served, led) = tokio::join!(
        async {
            let served = serving.await;
            stop.cancel();
            served
        },
        async {
            let led = leading.await;
            stop.cancel();
            led
        }
    );
    served?;
    led
}

/// Whether webhooks can be served, and what is known is not old.
fn readiness(
    slot: Arc<CertificateSlot>,
    knows_kinds: Arc<AtomicBool>,
    freshness: Arc<Freshness>,
) -> health::Check {
    Arc::new(move || slot.is_set() && knows_kinds.load(Ordering::Acquire) && freshness.is_fresh())
}

/// Waits for the Lease and controls while it is held.
async fn lead(
    election: &mut Election,
    options: Options,
    hooks: hooks::Basis,
    clients: Clients,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    stop: CancellationToken,
) -> Result<()> {
    if !election.acquire(&stop).await {
        return Ok(());
    }
    info!("leading");
    metrics.leader(true);
    let step_down = stop.child_token();
    let basis = uncharged::Basis {
        policy: hooks.policy.clone(),
        queue_labels: hooks.options.queue_labels.clone(),
        namespace: hooks.options.namespace.clone(),
        term: election.term(),
        instance: options.instance.clone(),
    };
    uncharged::keep(&clients, &basis, &metrics, &step_down);
    let rules = Rules::keep(
        clients.write.clone(),
        election.term(),
        hooks,
        step_down.clone(),
    );
    let controller = Controller::new(options, clients, metrics.clone(), election.term(), rules);
    pulse.beat();
    let controlling = tokio::spawn(controller.run(pulse.clone(), step_down.clone()));
    election.keep(&pulse, &stop).await;
    step_down.cancel();
    let ended = timeout(STEP_DOWN, controlling).await;
    let ended = ended.context("the controller hangs: ending, so that another one takes over")?;
    let ended = ended.context("the controller ended")?;
    metrics.leader(false);
    if stop.is_cancelled() {
        election.release().await;
        return ended;
    }
    ended?;
    anyhow::bail!("the lease is lost: ending, to start anew with fresh lists")
}

fn stop_on_signals(stop: CancellationToken) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("told to stop");
        stop.cancel();
    });
    Ok(())
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}

/// The cryptography of every TLS connection of the process. Fails only if it was chosen before.
fn rustls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
