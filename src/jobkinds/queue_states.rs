//! Keeps what the webhooks know of queues, for warnings alone: on every replica, and nothing waits for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use serde_json::Value;
use sluice_crds::{ClusterQueue, LocalQueue};
use sluice_webhooks::{ClusterQueueState, LocalQueueState, QueueStates};

use crate::api::client::Clients;
use crate::api::watch::{Change, Observation, watch_all};
use crate::cache::Source;
use crate::process::metrics::Metrics;

/// Observations that may wait.
const OBSERVATIONS_MAX: usize = 64;

/// Follows the queues until the process ends.
pub async fn follow(clients: Clients, metrics: Arc<Metrics>, states: Arc<ArcSwap<QueueStates>>) {
    let sources = [
        (Source::LocalQueue, ApiResource::erase::<LocalQueue>(&())),
        (
            Source::ClusterQueue,
            ApiResource::erase::<ClusterQueue>(&()),
        ),
    ];
    let mut unlisted: BTreeSet<Source> = sources.iter().map(|(of, _)| of.clone()).collect();
    let mut receiver = watch_all(&clients.read, sources, OBSERVATIONS_MAX, &metrics);
    let mut known = QueueStates::default();
    while let Some(Observation { source, change }) = receiver.recv().await {
        let has_changed = match change {
            Change::Listing(_) => {
                if source == Source::LocalQueue {
                    known.forget_local_queues();
                } else {
                    known.forget_cluster_queues();
                }
                unlisted.insert(source);
                true
            }
            Change::InList(object) | Change::Applied(object) => {
                put(&mut known, &source, &object, true) && unlisted.is_empty()
            }
            Change::Deleted(object) => {
                put(&mut known, &source, &object, false) && unlisted.is_empty()
            }
            Change::Listed => {
                unlisted.remove(&source);
                true
            }
        };
        if has_changed {
            known.set_complete(unlisted.is_empty());
            states.store(Arc::new(known.clone()));
        }
    }
}

/// Takes in a queue that is there, or is gone. Returns whether that says anything new.
fn put(known: &mut QueueStates, source: &Source, object: &DynamicObject, is_there: bool) -> bool {
    let spec = |field: &str| {
        let value = object.data.pointer(&format!("/spec/{field}"));
        value.and_then(Value::as_str).unwrap_or_default()
    };
    let is_stopped = !matches!(spec("stopPolicy"), "" | "None");
    let name = object.name_any();
    if *source == Source::ClusterQueue {
        let state = ClusterQueueState {
            is_stopped,
            counts_pods: counts_pods(object),
        };
        return known.set_cluster_queue(&name, is_there.then_some(state));
    }
    let state = LocalQueueState {
        cluster_queue: spec("clusterQueue").to_owned(),
        is_stopped,
    };
    let namespace = object.namespace().unwrap_or_default();
    known.set_local_queue(&namespace, &name, is_there.then_some(state))
}

/// Whether a ClusterQueue has quota for pods.
fn counts_pods(cluster_queue: &DynamicObject) -> bool {
    let groups = cluster_queue.data.pointer("/spec/resourceGroups");
    let groups = groups.and_then(Value::as_array).into_iter().flatten();
    let covered = groups.filter_map(|group| group.get("coveredResources")?.as_array());
    covered.flatten().any(|resource| resource == "pods")
}
