//! The JobKinds and how each of them stands. Each has a task of its own that looks for its kind and
//! watches it (`task.rs`), so that a broken one slows no other. One that is deleted is kept for what
//! still runs (`retiring.rs`). Everybody asks here how objects are read and where they are (`questions.rs`); what
//! they are is not known here. When objects are to be forgotten or reviewed, `intake` and `observe.rs` are called.

mod changes;
mod observed;
mod questions;
mod retiring;
pub(super) mod standing;
mod task;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use sluice_crds::JobKindStatus;
use sluice_kinds::CompiledKind;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::observe::Seen;
use crate::api::client::Clients;
use crate::api::openapi::OpenApi;
use crate::api::watch::Observation;
use crate::cache::additions::PodAdditions;
use crate::cache::cluster::Kept;
use crate::jobkinds::webhook_rules::{Rule, Rules};
use crate::process::metrics::Metrics;
use standing::Standing;
use task::Report;

/// How long the start waits for the first list of a kind.
const PATIENCE: Duration = Duration::from_secs(30);
/// Reports that may wait.
const REPORTS_MAX: usize = 64;

/// All JobKinds.
pub struct Kinds {
    clients: Clients,
    published: Arc<OpenApi>,
    observations: mpsc::Sender<Observation<Seen>>,
    metrics: Arc<Metrics>,
    reading: Reading,
    rules: Rules,
    entries: BTreeMap<Arc<str>, Entry>,
    lives: u64,
    may_start: bool,
    sender: mpsc::Sender<Report>,
    receiver: mpsc::Receiver<Report>,
}

/// What objects are read with besides their JobKind.
pub struct Reading {
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// The names of the queue gate.
    pub queue_gates: QueueGates,
    /// What namespaces and RuntimeClasses add to pods.
    pub additions: PodAdditions,
}

struct Entry {
    created: Option<Timestamp>,
    kept: Kept<JobKindStatus>,
    spec: sluice_crds::JobKindSpec,
    compiled: Option<Arc<CompiledKind>>,
    resource: Option<ApiResource>,
    /// Which rule the webhooks are to have for it.
    rule: Rule,
    standing: Standing,
    /// Why it does not fit the schema that is published by now, while its objects are watched.
    misfit: Option<String>,
    /// Whether what is known of its objects was read by this JobKind as it is.
    has_listed: bool,
    /// Whether it is deleted, and kept for objects that hold quota.
    is_retiring: bool,
    /// Since when no version of its group has the kind, until it is known that its objects are gone.
    unserved_since: Option<Instant>,
    life: u64,
    since: Instant,
    task: Option<AbortHandle>,
}

impl Kinds {
    /// No JobKinds.
    pub fn new(
        clients: Clients,
        observations: mpsc::Sender<Observation<Seen>>,
        metrics: Arc<Metrics>,
        reading: Reading,
        rules: Rules,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(REPORTS_MAX);
        Self {
            published: Arc::new(OpenApi::new(clients.read.clone())),
            clients,
            observations,
            metrics,
            reading,
            rules,
            entries: BTreeMap::new(),
            lives: 0,
            may_start: false,
            sender,
            receiver,
        }
    }

    /// The next report of a kind's task.
    pub async fn next_report(&mut self) -> Option<Report> {
        self.receiver.recv().await
    }
}
