//! Pods that run with a queue label and without Sluice's: they were made where no webhook holds pods, or by a Job
//! that is in no queue itself and whose template carries the label. Each gets Sluice's label, so that the
//! controller sees it.
//!
//! They are found by watches of their own, by metadata alone, and nothing of them is kept: where one could not be
//! labelled, all are listed again, as the list has only pods that lack the label. Whose quota such a pod
//! uses is decided in `controller/decisions/pod_usage.rs`; how pods are held before they run, in the webhooks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::pending;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use sluice_crds::{ADMITTED_ANNOTATION, MANAGED_LABEL};
use sluice_kinds::stored::Stored;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::api::client::Clients;
use crate::api::watch::{
    BACKOFF_MAX, BACKOFF_MIN, PAGE_SIZE, WATCH_SECONDS, outside_of_the_system,
};
use crate::process::FIELD_MANAGER;
use crate::process::answer::ApiAnswer;
use crate::process::backoff::RetryBackoff;
use crate::process::metrics::Metrics;
use crate::process::term::Term;

/// Longest time for one request.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often a request is tried that was not answered, and how long after each.
const TRIES: usize = 3;
const RETRY: Duration = Duration::from_secs(2);
/// How long after a pod could not be labelled all that lack the label are listed again.
const LIST_AGAIN: Duration = Duration::from_secs(30);
/// Pods that are looked at together, so that one that can't be marked does not hold up the others.
const CONCURRENCY: usize = 16;

/// What the search depends on.
#[derive(Clone)]
pub struct SearchBasis {
    /// The labels that name a queue.
    pub queue_labels: Vec<String>,
    /// Where Sluice runs: nobody waits in a queue there.
    pub namespace: String,
    /// Nothing is written after it.
    pub term: Arc<Term>,
}

/// Searches until `stop`.
pub fn keep(
    clients: &Clients,
    basis: &SearchBasis,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) {
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

/// Waits until that time; without one for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// The pods with one label.
struct Search {
    basis: SearchBasis,
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
        let api: Api<Stored<PartialObjectMeta<Pod>>> = Api::all(self.read.clone());
        let mut stream = pin!(watcher::watcher(api.clone(), config.clone()));
        let search = Arc::new(self);
        let mut looks = JoinSet::new();
        let mut backoff = RetryBackoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let mut list_again: Option<Instant> = None;
        loop {
            let event = tokio::select! {
                Some(look) = looks.join_next() => {
                    // One that panicked has not labelled its pod either.
                    if !look.unwrap_or(false) {
                        list_again.get_or_insert_with(|| Instant::now() + LIST_AGAIN);
                    }
                    continue;
                }
                () = until(list_again) => {
                    list_again = None;
                    stream.set(watcher::watcher(api.clone(), config.clone()));
                    continue;
                }
                event = stream.next(), if looks.len() < CONCURRENCY => event,
            };
            // Of a list that fails again and again the first page may come each time.
            if let Some(Ok(Event::Apply(_) | Event::InitDone)) = event {
                backoff.reset();
            }
            match event {
                Some(Ok(Event::InitApply(Stored(pod)) | Event::Apply(Stored(pod)))) => {
                    let search = search.clone();
                    looks.spawn(async move { search.look(&pod.metadata).await });
                }
                Some(Ok(Event::Init | Event::InitDone | Event::Delete(_))) => {}
                Some(Err(error)) => {
                    search.metrics.traffic.watch_error("pods");
                    warn!(%error, "the watch of labelled pods failed; trying again");
                    backoff.wait().await;
                }
                None => return,
            }
        }
    }

    /// Labels the pod. Returns whether there is nothing more to do.
    async fn look(&self, pod: &ObjectMeta) -> bool {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        if namespace == self.basis.namespace || pod.deletion_timestamp.is_some() {
            return true;
        }
        for _ in 0..TRIES {
            if self.mark(namespace, pod).await {
                return true;
            }
            sleep(RETRY).await;
        }
        self.metrics.traffic.pod_not_labelled();
        warn!(
            namespace,
            name = pod.name,
            "a running pod with a queue label could not be labelled: its usage does not count; trying again"
        );
        false
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
            Ok(Err(error)) if ApiAnswer::of(&error).is_gone() => true,
            Ok(Err(error)) => {
                debug!(%error, namespace, name, "a running pod could not be labelled");
                false
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Method, Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::process::clock::Moment;
    use crate::process::metrics::Exposition;

    /// An API server with one pod, which it does not label at the first `failures` requests. Its watches say nothing.
    fn server(failures: usize, patches: &Arc<AtomicUsize>) -> Client {
        let patches = patches.clone();
        let service = service_fn(move |request: Request<Body>| {
            let patches = patches.clone();
            async move {
                let metadata = json!({"name": "a", "namespace": "ns", "uid": "1"});
                let (code, object) = if request.method() == Method::PATCH {
                    let before = patches.fetch_add(1, Ordering::Relaxed);
                    let pod = json!({
                        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                        "metadata": metadata,
                    });
                    (if before < failures { 500 } else { 200 }, pod)
                } else if request
                    .uri()
                    .query()
                    .is_some_and(|query| query.contains("watch="))
                {
                    pending().await
                } else {
                    let items = json!([{ "metadata": metadata }]);
                    let list = json!({
                        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                        "metadata": {"resourceVersion": "1"}, "items": items,
                    });
                    (200, list)
                };
                let body = Body::from(serde_json::to_vec(&object).unwrap());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_could_not_be_labelled_is_looked_for_again() {
        let patches = Arc::new(AtomicUsize::new(0));
        let client = server(2 * TRIES, &patches);
        let term = Arc::new(Term::new());
        term.extend(Moment::from_millis(u64::MAX));
        let metrics = Arc::new(Metrics::new());
        let search = Search {
            basis: SearchBasis {
                queue_labels: Vec::new(),
                namespace: "sluice-system".to_owned(),
                term,
            },
            read: client.clone(),
            write: client,
            metrics: metrics.clone(),
            label: "queue".to_owned(),
        };
        // Two rounds fail; the third one labels the pod, and no other follows.
        let rounds = 10 * LIST_AGAIN;
        assert!(
            timeout(rounds, search.run()).await.is_err(),
            "it searches on"
        );
        assert_eq!(patches.load(Ordering::Relaxed), 2 * TRIES + 1);
        let told = metrics.text(Exposition::Text);
        assert!(told.contains("sluice_pods_not_labelled_total 2"), "{told}");
    }
}
