//! Keeps what the webhooks know of queues, for warnings: on every replica, and nothing waits for it. What queues could
//! provide is worked out in `quota_limits.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use serde_json::Value;
use sluice_crds::{ClusterQueue, Cohort, LocalQueue};
use sluice_engine::Settings;
use sluice_webhooks::{ClusterQueueState, LocalQueueState, QueueStates};
use tokio::sync::watch;

use super::quota_limits::QuotaBook;
use crate::api::client::Clients;
use crate::api::watch::{Change, Observation, watch_all};
use crate::cache::Source;
use crate::process::metrics::Metrics;

/// Observations that may wait.
const OBSERVATIONS_MAX: usize = 64;

/// Follows the queues until the process ends.
pub async fn follow(
    clients: Clients,
    metrics: Arc<Metrics>,
    mut settings: watch::Receiver<Settings>,
    states: Arc<ArcSwap<QueueStates>>,
) {
    let sources = [
        (Source::LocalQueue, ApiResource::erase::<LocalQueue>(&())),
        (
            Source::ClusterQueue,
            ApiResource::erase::<ClusterQueue>(&()),
        ),
        (Source::Cohort, ApiResource::erase::<Cohort>(&())),
    ];
    let mut receiver = watch_all(&clients.read, sources.clone(), OBSERVATIONS_MAX, &metrics);
    let now = settings.borrow_and_update().clone();
    let mut known = Known::new(sources.map(|(source, _)| source), now);
    loop {
        let has_changed = tokio::select! {
            observation = receiver.recv() => match observation {
                Some(Observation { source, change }) => known.take_in(&source, change),
                None => return,
            },
            Ok(()) = settings.changed() => {
                known.quotas.set_settings(settings.borrow_and_update().clone());
                known.look_at_limits();
                true
            }
        };
        if has_changed {
            states.store(Arc::new(known.states.clone()));
        }
    }
}

/// What is known of queues.
struct Known {
    states: QueueStates,
    queues: BTreeMap<String, ClusterQueueState>,
    quotas: QuotaBook,
    /// What is not listed, with the names that its list has shown.
    unlisted: BTreeMap<Source, BTreeSet<String>>,
}

impl Known {
    fn new(sources: impl IntoIterator<Item = Source>, settings: Settings) -> Self {
        let unlisted = sources.into_iter().map(|of| (of, BTreeSet::new()));
        Self {
            states: QueueStates::default(),
            queues: BTreeMap::new(),
            quotas: QuotaBook::new(settings),
            unlisted: unlisted.collect(),
        }
    }

    /// Takes in what was observed. Returns whether the webhooks are to know.
    fn take_in(&mut self, source: &Source, change: Change<DynamicObject>) -> bool {
        match change {
            Change::Listing(_) => {
                if *source == Source::LocalQueue {
                    self.states.forget_local_queues();
                }
                self.unlisted.insert(source.clone(), BTreeSet::new());
                self.states.set_complete(false);
                true
            }
            Change::InList(object) => {
                if let Some(listed) = self.unlisted.get_mut(source) {
                    listed.insert(object.name_any());
                }
                self.put(source, &object, true);
                false
            }
            Change::Applied(object) => self.put(source, &object, true),
            Change::Deleted(object) => self.put(source, &object, false),
            Change::Listed => {
                let listed = self.unlisted.remove(source).unwrap_or_default();
                match source {
                    Source::ClusterQueue => {
                        self.queues.retain(|name, _| listed.contains(name));
                        self.quotas.keep_queues(&listed);
                    }
                    Source::Cohort => self.quotas.keep_cohorts(&listed),
                    _ => {}
                }
                self.look_at_limits();
                self.states.set_complete(self.unlisted.is_empty());
                true
            }
        }
    }

    /// Takes in a queue or cohort that is there, or is gone. Returns whether that says anything new.
    fn put(&mut self, source: &Source, object: &DynamicObject, is_there: bool) -> bool {
        let name = object.name_any();
        let present = is_there.then_some(object);
        match source {
            Source::Cohort => {
                let is_other = self.quotas.set_cohort(&name, present);
                is_other && self.look_at_limits()
            }
            Source::ClusterQueue => {
                let is_other = self.quotas.set_queue(&name, present);
                let state = present.map(|queue| ClusterQueueState {
                    limits: self
                        .queues
                        .get(&name)
                        .and_then(|known| known.limits.clone()),
                    ..cluster_queue(queue)
                });
                let is_new = self.queues.get(&name) != state.as_ref();
                match state {
                    Some(state) => self.queues.insert(name, state),
                    None => self.queues.remove(&name),
                };
                (is_other || is_new) && self.look_at_limits()
            }
            _ => {
                let state = present.map(|queue| LocalQueueState {
                    cluster_queue: text(queue, "clusterQueue").to_owned(),
                    is_stopped: is_stopped(queue),
                });
                let namespace = object.namespace().unwrap_or_default();
                let is_new = self.states.set_local_queue(&namespace, &name, state);
                is_new && self.unlisted.is_empty()
            }
        }
    }

    /// Works out what queues could provide, once all is listed. Returns whether it is.
    fn look_at_limits(&mut self) -> bool {
        if !self.unlisted.is_empty() {
            return false;
        }
        let mut limits = self.quotas.limits();
        self.states.forget_cluster_queues();
        for (name, state) in &mut self.queues {
            state.limits = limits.remove(name);
            self.states.set_cluster_queue(name, state.clone());
        }
        true
    }
}

fn cluster_queue(queue: &DynamicObject) -> ClusterQueueState {
    let classes = queue.data.pointer("/spec/priorityClasses").cloned();
    ClusterQueueState {
        is_stopped: is_stopped(queue),
        counts_pods: counts_pods(queue),
        priority_classes: classes.and_then(|classes| serde_json::from_value(classes).ok()),
        limits: None,
    }
}

fn is_stopped(queue: &DynamicObject) -> bool {
    !matches!(text(queue, "stopPolicy"), "" | "None")
}

fn text<'a>(queue: &'a DynamicObject, field: &str) -> &'a str {
    let value = queue.data.pointer(&format!("/spec/{field}"));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Whether a ClusterQueue has quota for pods.
fn counts_pods(cluster_queue: &DynamicObject) -> bool {
    let groups = cluster_queue.data.pointer("/spec/resourceGroups");
    let groups = groups.and_then(Value::as_array).into_iter().flatten();
    let covered = groups.filter_map(|group| group.get("coveredResources")?.as_array());
    covered.flatten().any(|resource| resource == "pods")
}
