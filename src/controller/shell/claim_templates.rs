//! The watch of ResourceClaimTemplates, which not every cluster serves. What follows from a template is
//! `intake/devices.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::api::GroupVersionKind;
use kube::{Client, Error, discovery};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::warn;

use super::retry::{LOOK_DEADLINE, Retry};
use crate::api::watch::{self, Change, Observation};
use crate::cache::Source;
use crate::controller::observe::Seen;
use crate::process::answer::{ApiAnswer, words};
use crate::process::metrics::Metrics;

/// Watches the templates until nobody listens any more. While they can't be watched it is as if there were
/// none: nobody else has to wait for them.
pub async fn follow(
    client: Client,
    sender: mpsc::Sender<Observation<Seen>>,
    metrics: Arc<Metrics>,
) {
    let wanted = GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceClaimTemplate");
    let has_seen = Arc::new(AtomicBool::new(false));
    let (mut is_told, mut retry) = (false, Retry::new());
    loop {
        let look = timeout(LOOK_DEADLINE, discovery::pinned_kind(&client, &wanted));
        let refusal = match look.await {
            // Trying again is all that helps.
            Err(_) => None,
            Ok(Ok((resource, _))) => {
                let has_seen = has_seen.clone();
                let read = move |object| {
                    has_seen.store(true, Ordering::Relaxed);
                    Seen::Object(Box::new(object))
                };
                let (client, sender, metrics) = (client.clone(), sender.clone(), metrics.clone());
                let source = Source::ResourceClaimTemplate;
                let ended = watch::watch(client, resource, source, read, sender, metrics).await;
                let Some(refusal) = ended else {
                    return;
                };
                Some(refusal)
            }
            Ok(Err(error)) => Some(error),
        };
        if let Some(why) = refusal.as_ref().and_then(unavailable)
            && !is_told
        {
            is_told = true;
            warn!(
                "jobs that claim devices are held until ResourceClaimTemplates can be read: {why}"
            );
            // What was known stays so: it may be but for a moment that it can't be read.
            if !has_seen.load(Ordering::Relaxed) && !send_none(&sender).await {
                return;
            }
        }
        retry.wait().await;
    }
}

/// Why templates can't be watched, if trying again by itself is not enough.
fn unavailable(error: &Error) -> Option<String> {
    match ApiAnswer::of(error) {
        ApiAnswer::Forbidden => Some(words(error)),
        ApiAnswer::NotFound => Some(not_served()),
        ApiAnswer::Conflict | ApiAnswer::Throttled | ApiAnswer::Refused | ApiAnswer::Unknown => {
            None
        }
    }
}

fn not_served() -> String {
    "ResourceClaimTemplate is not served in resource.k8s.io/v1, which Kubernetes has since 1.34"
        .to_owned()
}

/// Says that there are no templates. Returns whether anybody listens.
async fn send_none(sender: &mpsc::Sender<Observation<Seen>>) -> bool {
    let (ack, _taken) = oneshot::channel();
    for change in [Change::Listing(ack), Change::Listed] {
        let source = Source::ResourceClaimTemplate;
        if sender.send(Observation { source, change }).await.is_err() {
            return false;
        }
    }
    true
}
