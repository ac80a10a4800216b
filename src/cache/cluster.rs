//! The cluster-wide settings that jobs are judged by: flavors, queues, cohorts, priority classes, namespaces and what
//! namespaces add to pods. `cluster/changes.rs` turns each change into engine events. How quota is counted is not known
//! here: that is the engine's, and `sluice_translate`'s.

mod changes;
mod kept;
mod read;
mod settings;
mod settings_effect;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use kube::core::SelectorExt;
use sluice_crds::QueuePriorityClasses;
use sluice_engine::{Event, LocalQueueKey};
use sluice_gates::Enforced;

use crate::cache::source::Source;
use kept::note_unreadable;
pub use kept::{Fault, Kept, unknown};
pub use read::text;
use read::{held_cohort, held_local_queue, held_queue};
pub use settings::Cluster;
pub use settings_effect::{Effect, Unreadable};

impl Cluster {
    /// Takes in the object `name` from `source`; `None` if it is gone.
    ///
    /// # Errors
    /// The object can't be read.
    pub fn change(
        &mut self,
        source: &Source,
        namespace: &str,
        name: &str,
        object: Option<&DynamicObject>,
    ) -> Result<Effect, Unreadable> {
        let changed = self.take_in(source, namespace, name, object);
        changed.map_err(|error| {
            let error = error.to_string();
            match object {
                Some(object) => self.unreadable(source, (namespace, name), object, error),
                None => Unreadable::gone(error),
            }
        })
    }

    /// Takes in that an object can't be read. What was known of it before stays in force. Where nothing is known, what
    /// depends on it waits.
    fn unreadable(
        &mut self,
        source: &Source,
        (namespace, name): (&str, &str),
        object: &DynamicObject,
        error: String,
    ) -> Unreadable {
        let mut known = self.known(source).into_iter();
        let is_in_force = known.any(|(of, known)| (&*of, &*known) == (namespace, name));
        let key = LocalQueueKey::new(namespace, name);
        let mut events = Vec::new();
        match source {
            Source::ClusterQueue if is_in_force => {
                note_unreadable(&mut self.queues, name, object, &error);
            }
            Source::Cohort if is_in_force => {
                note_unreadable(&mut self.cohorts, name, object, &error);
            }
            Source::LocalQueue if is_in_force => {
                note_unreadable(&mut self.local_queues, &key, object, &error);
            }
            Source::ClusterQueue => {
                self.queues.insert(name.to_owned(), unknown(object, &error));
                events.push(Event::UpsertClusterQueue(held_queue(name, object)));
                events.extend(self.select(|_, queue| queue == name));
            }
            Source::Cohort => {
                self.cohorts
                    .insert(name.to_owned(), unknown(object, &error));
                events.push(Event::UpsertCohort(held_cohort(name, object)));
            }
            Source::LocalQueue => {
                self.local_queues
                    .insert(key.clone(), unknown(object, &error));
                let local_queue = held_local_queue(&key, object);
                events.push(self.local_event(&local_queue));
                self.local_queue_specs.insert(key, local_queue);
            }
            _ => {}
        }
        Unreadable {
            error,
            is_in_force,
            events,
        }
    }

    /// What becomes of objects without a queue in this namespace, if it is known.
    pub fn enforced(&self, namespace: &str) -> Option<Enforced> {
        let labels = self.namespaces.get(namespace)?;
        Some(self.managed_namespaces.of_namespace(namespace, labels))
    }

    /// The namespace and name of every object from `source` that is known.
    pub fn known(&self, source: &Source) -> Vec<(Arc<str>, Arc<str>)> {
        let plain = |names: Vec<&String>| {
            names
                .into_iter()
                .map(|name| ("".into(), name.as_str().into()))
                .collect()
        };
        match source {
            Source::ResourceFlavor => plain(self.flavors.keys().collect()),
            Source::Cohort => plain(self.cohorts.keys().collect()),
            Source::ClusterQueue => plain(self.queues.keys().collect()),
            Source::LocalQueue => self
                .local_queues
                .keys()
                .map(|key| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::WorkloadPriorityClass => plain(self.workload_priorities.keys().collect()),
            Source::PriorityClass => plain(self.priority_classes.names().collect()),
            Source::Namespace => plain(self.namespaces.keys().collect()),
            Source::RuntimeClass => plain(self.additions.classes().iter().collect()),
            Source::Gate => {
                let names = self.gates.iter().filter_map(|(gate, _)| gate.object_name());
                names.map(|name| ("".into(), name.into())).collect()
            }
            Source::ResourceClaimTemplate => self.devices.names(),
            Source::LimitRange => self
                .additions
                .limit_ranges()
                .iter()
                .map(|(namespace, name)| (namespace.as_str().into(), name.as_str().into()))
                .collect(),
            Source::JobKind
            | Source::Workload
            | Source::Pod
            | Source::Jobs(..)
            | Source::Dependencies(..) => Vec::new(),
        }
    }

    /// The ClusterQueue that a LocalQueue points to, and the flavor that each of its resources is
    /// taken from first: the flavor of a pod that runs without having been admitted.
    pub fn first_choice(&self, key: &LocalQueueKey) -> Option<(&str, &BTreeMap<String, String>)> {
        let queue = self.local_queue_specs.get(key)?.cluster_queue.as_str();
        Some((queue, self.first_flavors.get(queue)?))
    }

    /// The ClusterQueue that a LocalQueue points to, whether or not it exists.
    pub fn cluster_queue_of(&self, key: &LocalQueueKey) -> Option<&str> {
        let spec = self.local_queue_specs.get(key)?;
        Some(spec.cluster_queue.as_str())
    }

    /// What the ClusterQueue of a LocalQueue says of the priority classes of its jobs, with its name; if anything.
    pub fn classes_of(&self, key: &LocalQueueKey) -> Option<(&str, &QueuePriorityClasses)> {
        let queue = self.cluster_queue_of(key)?;
        Some((queue, self.classes.get(queue)?))
    }

    /// Whether a namespace is being deleted, so that nothing can be created in it any more.
    pub fn is_terminating(&self, namespace: &str) -> bool {
        self.terminating.contains(namespace)
    }

    /// Whether a ClusterQueue keeps pods that nobody would make again. If so they may not borrow.
    pub fn keeps_not_restartable(&self, cluster_queue: &str) -> bool {
        self.keepers.contains(cluster_queue)
    }

    /// The same of the ClusterQueue that a LocalQueue points to.
    pub fn local_queue_keeps_not_restartable(&self, key: &LocalQueueKey) -> bool {
        let local_queue = self.local_queue_specs.get(key);
        local_queue.is_some_and(|local_queue| {
            self.keeps_not_restartable(local_queue.cluster_queue.as_str())
        })
    }

    /// Tells the engine again about the LocalQueues that `affected` picks, by their own names and
    /// their ClusterQueue's: whether their namespace is selected may have changed.
    fn select(&self, affected: impl Fn(&LocalQueueKey, &str) -> bool) -> Vec<Event> {
        self.local_queue_specs
            .iter()
            .filter(|(key, local_queue)| affected(key, local_queue.cluster_queue.as_str()))
            .map(|(_, local_queue)| self.local_event(local_queue))
            .collect()
    }

    fn local_event(&self, local_queue: &sluice_engine::LocalQueue) -> Event {
        let labels = self.namespaces.get(&*local_queue.key.namespace);
        let selector = self
            .selectors
            .get(local_queue.cluster_queue.as_str())
            .and_then(Option::as_ref);
        let is_selected = match (labels, selector) {
            (Some(labels), Some(selector)) => selector.matches(labels),
            _ => false,
        };
        Event::UpsertLocalQueue(sluice_engine::LocalQueue {
            namespace_selected: is_selected,
            ..local_queue.clone()
        })
    }
}
