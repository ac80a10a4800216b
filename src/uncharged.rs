//! Pods that run with a queue label and without usage: they were made where no webhook
//! holds pods, or by a Job that is in no queue itself and whose template carries the label. Each is
//! marked as one that is admitted by itself, so that the controller counts it, and is told.
//!
//! They are found by watches of their own, by metadata alone, and nothing of them is kept. What a marked
//! pod uses lies in `controller/engine_sync.rs`; how pods are held before they run, in the webhooks.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Error};
use serde_json::json;
use sluice_crds::{MANAGED_LABEL, QUEUE_GATE};
use sluice_webhooks::Policy;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::api::client::Clients;
use crate::api::events::{Events, pod_reference};
use crate::api::lookup::{Found, look_up};
use crate::api::watch::{
    BACKOFF_MAX, BACKOFF_MIN, PAGE_SIZE, WATCH_SECONDS, outside_of_the_system,
};
use crate::cache::Uid;
use crate::cache::pod::{CHAIN_MAX, OwnerRef};
use crate::plan::Note;
use crate::process::FIELD_MANAGER;
use crate::process::hashing::HashMap;
use crate::process::metrics::Metrics;
use crate::process::term::Term;

/// Longest time for one request.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often a request is tried that was not answered, and how long after each.
const TRIES: usize = 3;
const RETRY: Duration = Duration::from_secs(2);
/// Pods that are looked at together, so that one that can't be marked does not hold up the others.
const CONCURRENCY: usize = 16;
/// How long an owner is believed to be what it was, and of how many that is known.
const KEPT: Duration = Duration::from_mins(1);
const KEPT_MAX: usize = 10_000;

/// What the search depends on.
#[derive(Clone)]
pub struct Basis {
    /// Which kinds have usage, and for which pods.
    pub policy: Arc<ArcSwap<Policy>>,
    /// The labels that name a queue.
    pub queue_labels: Vec<String>,
    /// Where Sluice runs: nobody waits in a queue there.
    pub namespace: String,
    /// Nothing is written after it.
    pub term: Arc<Term>,
    /// Under which name events are reported.
    pub instance: String,
}

/// Searches until `stop`.
pub fn keep(clients: &Clients, basis: &Basis, metrics: &Arc<Metrics>, stop: &CancellationToken) {
    let events = Events::start(
        clients.write.clone(),
        basis.instance.clone(),
        metrics.clone(),
    );
    for label in &basis.queue_labels {
        let search = Search {
            basis: basis.clone(),
            read: clients.read.clone(),
            write: clients.write.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            label: label.clone(),
            owners: Mutex::default(),
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

/// By namespace and UID of an owner: whether its pods have usage, and when that was found.
type Owners = HashMap<(String, Uid), (bool, Instant)>;

/// The pods with one label.
struct Search {
    basis: Basis,
    read: Client,
    write: Client,
    events: Events,
    metrics: Arc<Metrics>,
    label: String,
    owners: Mutex<Owners>,
}

impl Search {
    async fn run(self) {
        while !self.basis.policy.load().knows_kinds() {
            sleep(BACKOFF_MIN).await;
        }
        // One without a node has not started: it may still be held, by others.
        let running = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
        let config = watcher::Config::default()
            .timeout(WATCH_SECONDS)
            .page_size(PAGE_SIZE)
            .labels(&format!("{},!{MANAGED_LABEL}", self.label))
            .fields(&format!("{running},{}", outside_of_the_system()));
        let api: Api<PartialObjectMeta<Pod>> = Api::all(self.read.clone());
        let mut stream = pin!(watcher::watcher(api, config));
        let search = Arc::new(self);
        let mut looks = JoinSet::new();
        let mut backoff = BACKOFF_MIN;
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                    backoff = BACKOFF_MIN;
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

    /// Marks the pod if it has no usage.
    async fn look(&self, pod: &ObjectMeta) {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        if namespace == self.basis.namespace || pod.deletion_timestamp.is_some() {
            return;
        }
        for _ in 0..TRIES {
            let done = match self.has_usage(namespace, OwnerRef::of(pod)).await {
                Some(true) => true,
                Some(false) => self.mark(namespace, pod).await,
                None => false,
            };
            if done {
                return;
            }
            sleep(RETRY).await;
        }
        warn!(
            namespace,
            name = pod.name,
            "can't find out whether a running pod has usage: no answer"
        );
    }

    /// Whether the pods of `owner` count in the usage of their owner; none if that was not answered.
    async fn has_usage(&self, namespace: &str, owner: Option<Arc<OwnerRef>>) -> Option<bool> {
        let Some(direct) = owner else {
            return Some(false);
        };
        let place = (namespace.to_owned(), direct.uid.clone());
        if let Some((has_usage, since)) = self.owners().get(&place).copied()
            && since.elapsed() < KEPT
        {
            return Some(has_usage);
        }
        let mut above = Some(direct);
        let mut has_usage = false;
        for _ in 0..CHAIN_MAX {
            let Some(owner) = above else { break };
            match look_up(&self.write, namespace, &owner).await {
                Found::Object(found) if self.counts_pods_of(&owner, &found) => {
                    has_usage = true;
                    break;
                }
                Found::Object(found) => above = OwnerRef::of(&found),
                // What Sluice may not read no JobKind declares.
                Found::Gone | Found::Unreadable => break,
                Found::Unanswered => return None,
            }
        }
        let mut owners = self.owners();
        if KEPT_MAX <= owners.len() {
            owners.clear();
        }
        owners.insert(place, (has_usage, Instant::now()));
        Some(has_usage)
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all pods of an object count in its usage, as it is in a queue.
    fn counts_pods_of(&self, owner: &OwnerRef, found: &ObjectMeta) -> bool {
        let (group, _) = owner.group_version();
        let labels = found.labels.as_ref();
        let is_queued = labels.is_some_and(|labels| {
            let mut keys = self.basis.queue_labels.iter();
            keys.any(|key| labels.contains_key(key))
        });
        is_queued && self.basis.policy.load().counts_whole(group, &owner.kind)
    }

    /// Gives the pod usage of its own. Returns whether there is nothing more to do.
    async fn mark(&self, namespace: &str, pod: &ObjectMeta) -> bool {
        let (Some(name), Some(uid), true) = (&pod.name, &pod.uid, self.basis.term.is_valid())
        else {
            return true;
        };
        let patch = json!({"metadata": {
            "uid": uid,
            "labels": {MANAGED_LABEL: "true"},
            "annotations": {QUEUE_GATE: "true"},
        }});
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api: Api<Pod> = Api::namespaced(self.write.clone(), namespace);
        let patch = Patch::Merge(patch);
        match timeout(DEADLINE, api.patch_metadata(name, &params, &patch)).await {
            Ok(Ok(_)) => {
                self.tell(pod, pod_reference(namespace, name, uid));
                true
            }
            // It is gone, or another one by its name.
            Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => true,
            Ok(Err(error)) => {
                debug!(%error, namespace, name, "a running pod could not be labelled");
                false
            }
            Err(_) => false,
        }
    }

    fn tell(&self, pod: &ObjectMeta, object: ObjectReference) {
        let labels = pod.labels.as_ref();
        let queue = labels.and_then(|labels| labels.get(&self.label));
        let note = Note::warning(
            "Uncharged",
            format!(
                "The pod runs without an admission: it names LocalQueue {:?}, and no owner of it is queued; its usage counts from now on",
                queue.map_or("", String::as_str)
            ),
        );
        self.events.tell(object, note);
    }
}
