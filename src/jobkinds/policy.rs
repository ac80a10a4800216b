//! Keeps the webhooks' policy in step with the JobKinds. Runs on every replica, as webhooks are
//! served by all of them, whoever leads. Of two JobKinds for one kind the older one counts, as in the controller
//! (`controller/kinds/changes.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use sluice_crds::JobKind;
use sluice_kinds::CompiledKind;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::QueueLabels;
use sluice_webhooks::Policy;
use tokio::sync::mpsc;
use tracing::warn;

use crate::api::client::Clients;
use crate::api::watch::{self, Change, Observation};
use crate::cache::Source;
use crate::process::metrics::Metrics;

/// Observations that may wait.
const OBSERVATIONS_MAX: usize = 64;

/// What the policy is made of besides JobKinds.
pub struct Basis {
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// The names of the queue gate.
    pub queue_gates: QueueGates,
    /// Sluice's own user name.
    pub username: String,
}

/// The JobKinds that compile, by name, with their age.
type Kinds = BTreeMap<String, (Option<Timestamp>, Arc<CompiledKind>)>;

/// Follows the JobKinds until the process ends. `is_listed` becomes true when all are known.
pub async fn follow(
    clients: Clients,
    metrics: Arc<Metrics>,
    basis: Basis,
    policy: Arc<ArcSwap<Policy>>,
    is_listed: Arc<AtomicBool>,
) {
    let (sender, mut receiver) = mpsc::channel(OBSERVATIONS_MAX);
    let resource = ApiResource::erase::<JobKind>(&());
    tokio::spawn(watch::watch(
        clients.read,
        resource,
        Source::JobKind,
        |object| object,
        sender,
        metrics,
    ));
    let mut kinds = Kinds::new();
    let mut listing: Option<Kinds> = None;
    while let Some(Observation { change, .. }) = receiver.recv().await {
        match change {
            Change::Listing(_) => listing = Some(BTreeMap::new()),
            Change::InList(object) => {
                put(listing.get_or_insert_default(), &object, &basis.queue_gates);
            }
            Change::Listed => kinds = listing.take().unwrap_or_default(),
            Change::Applied(object) => put(&mut kinds, &object, &basis.queue_gates),
            Change::Deleted(object) => {
                kinds.remove(object.metadata.name.as_deref().unwrap_or_default());
            }
        }
        if listing.is_none() {
            // Of two JobKinds for one kind the older one counts, as for the controller.
            let mut by_age: Vec<_> = kinds.iter().collect();
            by_age.sort_by_key(|(name, (created, _))| (created, *name));
            let compiled = by_age.into_iter().rev().map(|(_, (_, kind))| kind.clone());
            let next = Policy::new(compiled, basis.queue_labels.clone(), basis.username.clone())
                .with_queue_gates(basis.queue_gates.clone());
            policy.store(Arc::new(next));
            is_listed.store(true, Ordering::Release);
        }
    }
}

fn put(kinds: &mut Kinds, object: &DynamicObject, queue_gates: &QueueGates) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let parsed = serde_json::to_value(object).and_then(serde_json::from_value::<JobKind>);
    let compiled = match parsed.as_ref().map(CompiledKind::compile) {
        Ok(Ok(compiled)) => Some(compiled.with_queue_gates(queue_gates.clone())),
        Ok(Err(problems)) => {
            warn!(jobkind = %name, problems = summarize(&problems), "JobKind is ignored");
            None
        }
        Err(error) => {
            warn!(jobkind = %name, %error, "JobKind is ignored");
            None
        }
    };
    match compiled {
        Some(compiled) => {
            let created = object.metadata.creation_timestamp.as_ref().map(|at| at.0);
            kinds.insert(name, (created, Arc::new(compiled)))
        }
        None => kinds.remove(&name),
    };
}
