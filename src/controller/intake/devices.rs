//! Devices that the pods of jobs claim: they are counted when a job is seen, and anew for jobs that wait when
//! a template is there, is another one, or is gone. What was admitted keeps its usage.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::GroupVersionKind;
use kube::{Client, Error, discovery};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::api::watch::{self, Change, Observation};
use crate::cache::Source;
use crate::cache::{JobKey, JobRecord};
use crate::controller::Controller;
use crate::controller::observe::Seen;
use crate::process::metrics::Metrics;

/// Shortest and longest wait before templates are looked for again that aren't served, or may not be read.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(15);

impl Controller {
    /// Counts the devices that the pods of a job claim.
    pub(in crate::controller) fn count_devices(&self, key: &JobKey, record: &mut JobRecord) {
        let Ok(reading) = &mut record.reading else {
            return;
        };
        let Ok(pod_sets) = &reading.pod_sets else {
            return;
        };
        if let Some(counted) = self.cluster.devices.count(&key.namespace, pod_sets) {
            reading.pod_sets = Ok(counted);
        }
    }

    /// Counts the devices of those jobs anew that claim by templates which have changed.
    pub(in crate::controller) fn recount_devices(&mut self) {
        let changed = std::mem::take(&mut self.changed_templates);
        let jobs: BTreeSet<JobKey> = (changed.iter())
            .flat_map(|template| self.objects.claimants(template))
            .cloned()
            .collect();
        for key in jobs {
            if let Some(record) = self.objects.job(&key).cloned() {
                self.job_seen(&key, record);
            }
        }
    }

    /// Watches the templates, where Kubernetes has them.
    pub(in crate::controller) fn watch_templates(&mut self) {
        if !self.cluster.devices.are_counted() {
            return;
        }
        self.unsynced.insert(Source::ResourceClaimTemplate);
        tokio::spawn(follow(
            self.clients.read.clone(),
            self.sender.clone(),
            self.metrics.clone(),
        ));
    }
}

/// Watches the templates until nobody listens any more. While they can't be watched it is as if there were
/// none: nobody else has to wait for them.
async fn follow(client: Client, sender: mpsc::Sender<Observation<Seen>>, metrics: Arc<Metrics>) {
    let wanted = GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceClaimTemplate");
    let has_seen = Arc::new(AtomicBool::new(false));
    let (mut is_told, mut wait) = (false, RETRY_MIN);
    loop {
        let begun = Instant::now();
        let refusal = match discovery::pinned_kind(&client, &wanted).await {
            Ok((resource, _)) => {
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
                refusal
            }
            Err(error) => error,
        };
        if let Some(why) = unavailable(&refusal)
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
        // They were watched for a while.
        if RETRY_MAX < begun.elapsed() {
            wait = RETRY_MIN;
        }
        sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// Why templates can't be watched, if trying again by itself is not enough.
fn unavailable(error: &Error) -> Option<String> {
    match error {
        Error::Api(status) if status.code == 403 => Some(status.message.clone()),
        Error::Api(status) if status.code == 404 => Some(not_served()),
        Error::Discovery(_) => Some(not_served()),
        _ => None,
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
