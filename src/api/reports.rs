//! What the webhooks do and report: counted, and told by events on the objects that would have been held or refused. In
//! the background, and a bounded number in a second: no request waits for it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use sluice_crds::reasons::event;
use sluice_gates::Enforced;
use sluice_webhooks::{Answered, Observer, Report};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::events::{Events, reference};
use crate::plan::Note;
use crate::process::answer::ApiAnswer;
use crate::process::metrics::Metrics;

/// Reports that may wait. Of more than that, the warnings and the metric tell.
const WAITING_MAX: usize = 256;
/// The API server has stored an object so long after it asked about it, or does not.
const STORED_AFTER: Duration = Duration::from_secs(2);
/// The time between two reports: each costs the API server two requests.
const BETWEEN: Duration = Duration::from_millis(100);
/// Longest time for one question.
const DEADLINE: Duration = Duration::from_secs(5);

/// Counts and tells what the webhooks do.
pub struct Reporter {
    metrics: Arc<Metrics>,
    sender: mpsc::Sender<(Instant, Report)>,
}

impl Reporter {
    /// Tells in the background, until this is dropped.
    pub fn start(client: Client, instance: String, metrics: Arc<Metrics>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let events = Events::start(client.clone(), instance, metrics.clone());
        tokio::spawn(tell_all(client, events, receiver));
        Self { metrics, sender }
    }
}

impl Observer for Reporter {
    fn answered(&self, answered: Answered) {
        self.metrics.traffic.answered(answered);
    }

    fn enforced(&self, enforced: Enforced) {
        self.metrics.traffic.enforced(enforced);
    }

    fn reported(&self, report: Report) {
        if self.sender.try_send((Instant::now(), report)).is_err() {
            self.metrics.traffic.event_dropped();
        }
    }
}

async fn tell_all(client: Client, events: Events, mut receiver: mpsc::Receiver<(Instant, Report)>) {
    while let Some((received, report)) = receiver.recv().await {
        sleep_until(received + STORED_AFTER).await;
        if is_stored(&client, &report).await {
            let (object, note) = event(report);
            events.tell(object, note);
        }
        sleep(BETWEEN).await;
    }
}

/// Whether the object is there: another plugin of the API server may have refused it since. Of what may not be read, it
/// is taken to be there.
async fn is_stored(client: &Client, report: &Report) -> bool {
    let kind = &report.kind;
    let kind = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &report.namespace, &resource);
    match timeout(DEADLINE, api.get_metadata(&report.name)).await {
        Ok(Ok(found)) => found.metadata.uid.as_deref() == Some(&*report.uid),
        Ok(Err(error)) => ApiAnswer::of(&error) == ApiAnswer::Forbidden,
        Err(_) => false,
    }
}

fn event(report: Report) -> (ObjectReference, Note) {
    let Report {
        kind,
        namespace,
        name,
        uid,
        message,
    } = report;
    let api_version = if kind.group.is_empty() {
        kind.version
    } else {
        format!("{}/{}", kind.group, kind.version)
    };
    let object = reference((&api_version, &kind.kind), &namespace, &name, &uid);
    (
        object,
        Note::warning(event::QUEUE_WILL_BE_REQUIRED, message),
    )
}
