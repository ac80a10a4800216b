//! Pods that run with a queue label and without Sluice's: they were made where no webhook holds pods, or by a Job
//! that is in no queue itself and whose template carries the label. Each gets Sluice's label, so that the
//! controller sees it.
//!
//! They are found by watches of their own, by metadata alone, and nothing of them is kept. Whose quota such a pod
//! uses is decided in `controller/decisions/pod_usage.rs`; how pods are held before they run, in the webhooks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Error};
use serde_json::json;
use sluice_crds::{ADMITTED_ANNOTATION, MANAGED_LABEL};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::api::client::Clients;
use crate::api::watch::{
    BACKOFF_MAX, BACKOFF_MIN, PAGE_SIZE, WATCH_SECONDS, outside_of_the_system,
};
use crate::process::FIELD_MANAGER;
use crate::process::metrics::Metrics;
use crate::process::term::Term;

/// Longest time for one request.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often a request is tried that was not answered, and how long after each.
const TRIES: usize = 3;
const RETRY: Duration = Duration::from_secs(2);
/// Pods that are looked at together, so that one that can't be marked does not hold up the others.
const CONCURRENCY: usize = 16;

/// What the search depends on.
#[derive(Clone)]
pub struct Basis {
    /// The labels that name a queue.
    pub queue_labels: Vec<String>,
    /// Where Sluice runs: nobody waits in a queue there.
    pub namespace: String,
    /// Nothing is written after it.
    pub term: Arc<Term>,
}

/// Searches until `stop`.
pub fn keep(clients: &Clients, basis: &Basis, metrics: &Arc<Metrics>, stop: &CancellationToken) {
    for label in &basis.queue_labels {
        let search = Search {
            basis: basis.clone(),
            read: clients.read.clone(),
            write: clients.write.clone(),
            metrics: metrics.clone(),
            label: label.clone(),
        };
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = search.run() => {}
            }
        });
    }
}

/// The pods with one label.
struct Search {
    basis: Basis,
    read: Client,
    write: Client,
    metrics: Arc<Metrics>,
    label: String,
}

impl Search {
    async fn run(self) {
        // One without a node has not started: it may still be held, by others.
        let running = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
        let config = watcher::Config::default()
            .timeout(WATCH_SECONDS)
            .page_size(PAGE_SIZE)
            .labels(&format!("{},{MANAGED_LABEL} notin (true)", self.label))
            .fields(&format!("{running},{}", outside_of_the_system()));
        let api: Api<PartialObjectMeta<Pod>> = Api::all(self.read.clone());
        let mut stream = pin!(watcher::watcher(api, config));
        let search = Arc::new(self);
        let mut looks = JoinSet::new();
        let mut backoff = BACKOFF_MIN;
        while let Some(event) = stream.next().await {
            // Of a list that fails again and again the first page may come each time.
            if let Ok(Event::Apply(_) | Event::InitDone) = event {
                backoff = BACKOFF_MIN;
            }
            match event {
                Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                    while looks.try_join_next().is_some() {}
                    if CONCURRENCY <= looks.len() {
                        looks.join_next().await;
                    }
                    let search = search.clone();
                    looks.spawn(async move { search.look(&pod.metadata).await });
                }
                Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
                Err(error) => {
                    search.metrics.traffic.watch_error("pods");
                    warn!(%error, "the watch of labelled pods failed; trying again");
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
    }

    /// Labels the pod.
    async fn look(&self, pod: &ObjectMeta) {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        if namespace == self.basis.namespace || pod.deletion_timestamp.is_some() {
            return;
        }
        for _ in 0..TRIES {
            if self.mark(namespace, pod).await {
                return;
            }
            sleep(RETRY).await;
        }
        warn!(
            namespace,
            name = pod.name,
            "a running pod with a queue label could not be labelled: its usage does not count"
        );
    }

    /// Gives the pod Sluice's label. Returns whether there is nothing more to do.
    async fn mark(&self, namespace: &str, pod: &ObjectMeta) -> bool {
        let (Some(name), Some(uid), true) = (&pod.name, &pod.uid, self.basis.term.is_valid())
        else {
            return true;
        };
        let patch = json!({"metadata": {
            "uid": uid,
            "labels": {MANAGED_LABEL: "true"},
            // Somebody else wrote it, as the pod was none of Sluice's.
            "annotations": {ADMITTED_ANNOTATION: null},
        }});
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api: Api<Pod> = Api::namespaced(self.write.clone(), namespace);
        let patch = Patch::Merge(patch);
        match timeout(DEADLINE, api.patch_metadata(name, &params, &patch)).await {
            Ok(Ok(_)) => true,
            // It is gone, or another one by its name.
            Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => true,
            Ok(Err(error)) => {
                debug!(%error, namespace, name, "a running pod could not be labelled");
                false
            }
            Err(_) => false,
        }
    }
}
