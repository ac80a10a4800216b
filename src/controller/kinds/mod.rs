//! The JobKinds and how each of them stands. Each has a task of its own that looks for its kind and watches it
//! (`shell/kind_task.rs`), so that a broken one slows no other. One that is deleted is kept for what still runs
//! (`retiring.rs`). Which of two for one kind counts is `changes.rs`. Everybody asks here how objects are read and
//! where they are (`questions.rs`); what they are is not known here. When objects are to be forgotten or reviewed,
//! `intake` and `observe.rs` are called.
//!
//! Must not know objects of a kind, nor clients.

mod changes;
mod observed;
mod questions;
mod retiring;
pub(super) mod watch_state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use sluice_crds::JobKindStatus;
use sluice_kinds::CompiledKind;
use sluice_kinds::aliases::KeyAliases;
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use sluice_webhooks::manifests::ManagedResource;

use crate::cache::additions::PodAdditions;
use crate::cache::cluster::Kept;
use crate::cache::job::JobReader;
use crate::jobkinds::webhook_rules::{Rule, Rules};
use crate::process::clock::Moment;
use crate::process::metrics::Metrics;
use watch_state::WatchState;

/// How long the start waits for the first list of a kind.
const PATIENCE: Duration = Duration::from_secs(30);

/// All JobKinds.
pub struct Kinds {
    metrics: Arc<Metrics>,
    reading: ReadingBasis,
    rules: Rules,
    entries: BTreeMap<Arc<str>, Entry>,
    lives: u64,
    may_start: bool,
    /// What is to be done about tasks, in this order.
    orders: Vec<Order>,
}

/// What is to be done about the task of a JobKind, which looks for its kind and watches its objects.
pub enum Order {
    /// It begins.
    Start {
        /// Which life of its watch this is.
        life: u64,
        /// Reads the objects.
        reader: JobReader,
    },
    /// It ends.
    Stop {
        /// Which life of its watch.
        life: u64,
    },
}

/// What the task of a kind has found out.
#[derive(Debug)]
pub struct KindReport {
    /// The name of the JobKind.
    pub name: Arc<str>,
    /// Which life of its watch says so.
    pub life: u64,
    /// What.
    pub news: News,
}

/// What there is to say of a kind.
#[derive(Debug)]
pub enum News {
    /// It is served, and the JobKind fits it.
    Found {
        /// Where its objects are.
        resource: Box<ApiResource>,
        /// What the webhooks need to know of it.
        managed: Box<ManagedResource>,
    },
    /// Its published schema has changed while it is watched.
    Schema {
        /// What of the JobKind does not fit it, if something doesn't.
        misfit: Option<String>,
    },
    /// It is served, but not in the version that the JobKind names.
    OtherVersion {
        /// What the webhooks need to know of one of the others.
        managed: Box<ManagedResource>,
        /// A sentence for people.
        message: String,
    },
    /// It can't be watched.
    Unavailable(WatchState),
}

impl From<WatchState> for News {
    fn from(state: WatchState) -> Self {
        Self::Unavailable(state)
    }
}

/// What objects are read with besides their JobKind.
pub struct ReadingBasis {
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// The names of the queue gate.
    pub queue_gates: QueueGates,
    /// The other keys for keys of Sluice's own.
    pub key_aliases: Arc<KeyAliases>,
    /// The classes of devices that are counted.
    pub device_classes: Arc<DeviceClasses>,
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
    watch_state: WatchState,
    /// Why it does not fit the schema that is published by now, while its objects are watched.
    misfit: Option<String>,
    /// Whether what is known of its objects was read by this JobKind as it is.
    has_listed: bool,
    /// Whether it is deleted, and kept for objects that hold quota.
    is_retiring: bool,
    /// Since when no version of its group has the kind, until it is known that its objects are gone.
    unserved_since: Option<Moment>,
    life: u64,
    since: Moment,
    has_task: bool,
}

impl Kinds {
    /// No JobKinds.
    pub fn new(metrics: Arc<Metrics>, reading: ReadingBasis, rules: Rules) -> Self {
        Self {
            metrics,
            reading,
            rules,
            entries: BTreeMap::new(),
            lives: 0,
            may_start: false,
            orders: Vec::new(),
        }
    }

    /// What is to be done about tasks since the last time.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }
}
