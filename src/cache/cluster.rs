//! The cluster-wide settings that jobs are judged by: flavors, queues, cohorts, priority classes,
//! namespaces and what namespaces add to pods. Turns each change into engine events. How quota is counted
//! is not known here: that is the engine's, and `sluice_translate`'s.

mod kept;
mod read;
mod settings_effect;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::DynamicObject;
use kube::core::{Selector, SelectorExt};
use sluice_crds::{
    ClusterQueue, ClusterQueueStatus, Cohort, CohortStatus, LocalQueue, LocalQueueStatus,
    QueuePriorityClasses, Reservation, ResourceFlavor, ResourceFlavorSpec, WorkloadPriorityClass,
};
use sluice_engine::{Event, LocalQueueKey};
use sluice_gates::{Enforced, ManagedNamespaces};
use sluice_kinds::gates::Gate;
use sluice_kinds::priority_classes::PriorityClasses;
use sluice_kinds::problem::summarize;
use sluice_kinds::requests::{container_requests, overhead};
use sluice_translate as translate;

use super::additions::{Added, PodAdditions, set};
use super::devices::Devices;
use super::gates::Gates;
use super::gates::dependencies::Dependencies;
use crate::cache::source::Source;
use kept::note_unreadable;
pub use kept::{Fault, Kept, unknown};
pub use read::text;
use read::{first_flavors, held_cohort, held_local_queue, held_queue, parse};
pub use settings_effect::{Effect, Unreadable};

/// The settings.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Flavors by name.
    pub flavors: BTreeMap<String, ResourceFlavorSpec>,
    /// ClusterQueues by name.
    pub queues: BTreeMap<String, Kept<ClusterQueueStatus>>,
    /// Cohorts by name.
    pub cohorts: BTreeMap<String, Kept<CohortStatus>>,
    /// LocalQueues.
    pub local_queues: BTreeMap<LocalQueueKey, Kept<LocalQueueStatus>>,
    /// WorkloadPriorityClasses by name.
    pub workload_priorities: BTreeMap<String, i32>,
    /// PriorityClasses by name.
    pub priority_classes: PriorityClasses,
    /// How long quota may be held without being used, by ClusterQueue.
    pub reservations: BTreeMap<String, Reservation>,
    /// What ClusterQueues say of the priority classes of their jobs.
    classes: BTreeMap<String, QueuePriorityClasses>,
    /// ClusterQueues that keep pods which nobody would make again (`whenNotRestartable: Keep`).
    keepers: BTreeSet<String>,
    /// The Gates.
    pub gates: Gates,
    /// The objects that gates wait for.
    pub dependencies: Dependencies,
    /// What namespaces and RuntimeClasses add to pods.
    pub additions: PodAdditions,
    /// What the devices are counted by that pods claim.
    pub devices: Devices,
    /// LocalQueues as the engine is told, but for whether their namespace is selected.
    local_queue_specs: BTreeMap<LocalQueueKey, sluice_engine::LocalQueue>,
    /// The flavor that each resource of a ClusterQueue is taken from first.
    first_flavors: BTreeMap<String, BTreeMap<String, String>>,
    /// Which namespaces each ClusterQueue takes. None: the selector can't be read and selects none.
    selectors: BTreeMap<String, Option<Selector>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    managed_namespaces: Arc<ManagedNamespaces>,
    /// Namespaces that are being deleted: the API server takes no new object for them.
    terminating: BTreeSet<String>,
}

impl Cluster {
    /// Nothing but what the configuration says is known.
    pub fn new(devices: Devices, managed_namespaces: Arc<ManagedNamespaces>) -> Self {
        Self {
            devices,
            managed_namespaces,
            ..Self::default()
        }
    }

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
        changed.map_err(|error| match object {
            Some(object) => self.unreadable(source, (namespace, name), object, error),
            None => Unreadable::gone(error),
        })
    }

    fn take_in(
        &mut self,
        source: &Source,
        namespace: &str,
        name: &str,
        object: Option<&DynamicObject>,
    ) -> Result<Effect, String> {
        let mut effect = Effect::default();
        effect.events = match source {
            Source::ResourceFlavor => self.flavor(name, parse(object)?),
            Source::ClusterQueue => {
                let queue: Option<ClusterQueue> = parse(object)?;
                let flavors = queue
                    .as_ref()
                    .map(|q| first_flavors(&q.spec.resource_groups));
                effect.first_choice = set(&mut self.first_flavors, name.to_owned(), flavors);
                let classes = queue.as_ref().and_then(|q| q.spec.priority_classes.clone());
                effect.priorities = set(&mut self.classes, name.to_owned(), classes);
                let keeps = queue.as_ref().is_some_and(|q| {
                    q.spec.when_not_restartable == sluice_crds::WhenNotRestartable::Keep
                });
                effect.keeps = if keeps {
                    self.keepers.insert(name.to_owned())
                } else {
                    self.keepers.remove(name)
                };
                self.cluster_queue(name, queue)
            }
            Source::Cohort => self.cohort(name, parse(object)?),
            Source::LocalQueue => {
                let key = LocalQueueKey::new(namespace, name);
                let queue: Option<LocalQueue> = parse(object)?;
                let known = self
                    .local_queue_specs
                    .get(&key)
                    .map(|local_queue| local_queue.cluster_queue.as_str());
                let new = queue.as_ref().map(|q| q.spec.cluster_queue.as_str());
                effect.first_choice = known != new;
                // What is queued there is allowed other priority classes now.
                let classes = |queue: Option<&str>| queue.and_then(|queue| self.classes.get(queue));
                effect.priorities = classes(known) != classes(new);
                self.local_queue(key, queue)
            }
            Source::Namespace => {
                let labels = object.map(|o| o.metadata.labels.clone().unwrap_or_default());
                let before = self.enforced(name);
                set(&mut self.namespaces, name.to_owned(), labels);
                effect.gate = (self.enforced(name) != before).then(Gate::queue_required);
                if object.is_some_and(|o| o.metadata.deletion_timestamp.is_some()) {
                    self.terminating.insert(name.to_owned());
                } else {
                    self.terminating.remove(name);
                }
                self.select(|key, _| &*key.namespace == name)
            }
            Source::WorkloadPriorityClass => {
                let class: Option<WorkloadPriorityClass> = parse(object)?;
                let value = class.map(|c| c.spec.value);
                effect.priorities = set(&mut self.workload_priorities, name.to_owned(), value);
                Vec::new()
            }
            Source::PriorityClass => {
                let class = object.map(|object| &object.data);
                effect.priorities = self.priority_classes.put(name, class);
                Vec::new()
            }
            Source::LimitRange => {
                let range: Option<LimitRange> = parse(object)?;
                let amounts = range.map(|range| container_requests(&range));
                let is_other = self.additions.set_limit_range(namespace, name, amounts);
                effect.added = is_other.then(|| Added::To(namespace.into()));
                Vec::new()
            }
            Source::ResourceClaimTemplate => {
                let template = object.map(|object| &object.data);
                let is_other = self.devices.put(namespace, name, template);
                effect.template = is_other.then(|| (namespace.into(), name.into()));
                Vec::new()
            }
            Source::RuntimeClass => {
                let class: Option<RuntimeClass> = parse(object)?;
                let amounts = class.as_ref().and_then(overhead);
                let is_other = self.additions.set_overhead(name, amounts);
                effect.added = is_other.then_some(Added::ToAny);
                Vec::new()
            }
            Source::Gate => {
                let Some(gate) = Gate::of_object(name) else {
                    return Err("its name must be <path>.<domain>".to_owned());
                };
                let is_other = self.gates.set(gate.clone(), parse(object)?);
                if is_other {
                    self.dependencies.gates_changed();
                }
                effect.gate = is_other.then_some(gate);
                Vec::new()
            }
            Source::JobKind
            | Source::Workload
            | Source::Pod
            | Source::Jobs(..)
            | Source::Dependencies(..) => Vec::new(),
        };
        Ok(effect)
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

    fn flavor(&mut self, name: &str, flavor: Option<ResourceFlavor>) -> Vec<Event> {
        let event = match &flavor {
            Some(flavor) => Event::UpsertFlavor(translate::flavor(name, &flavor.spec)),
            None => Event::RemoveFlavor(name.into()),
        };
        set(&mut self.flavors, name.to_owned(), flavor.map(|f| f.spec));
        vec![event]
    }

    fn cluster_queue(&mut self, name: &str, queue: Option<ClusterQueue>) -> Vec<Event> {
        let Some(queue) = queue else {
            self.queues.remove(name);
            self.selectors.remove(name);
            self.reservations.remove(name);
            let mut events = vec![Event::RemoveClusterQueue(name.into())];
            events.extend(self.select(|_, queue| queue == name));
            return events;
        };
        let translated = translate::cluster_queue(name, &queue.spec);
        let reservation = queue.spec.reservation.clone();
        set(&mut self.reservations, name.to_owned(), reservation);
        let selector = queue.spec.namespace_selector.clone();
        let selector = selector.map(Selector::try_from);
        let mut broken = translated
            .as_ref()
            .err()
            .map(|problems| summarize(problems));
        if let Some(Err(error)) = &selector {
            broken.get_or_insert_with(|| format!("spec.namespaceSelector: Invalid value: {error}"));
        }
        self.selectors
            .insert(name.to_owned(), selector.and_then(Result::ok));
        let kept = Kept::new(&queue.metadata, queue.status, broken);
        self.queues.insert(name.to_owned(), kept);
        let queue =
            translated.unwrap_or_else(|_| translate::uncountable_cluster_queue(name, &queue.spec));
        let mut events = vec![Event::UpsertClusterQueue(queue)];
        events.extend(self.select(|_, queue| queue == name));
        events
    }

    fn cohort(&mut self, name: &str, cohort: Option<Cohort>) -> Vec<Event> {
        let Some(cohort) = cohort else {
            self.cohorts.remove(name);
            return vec![Event::RemoveCohort(name.into())];
        };
        let translated = translate::cohort(name, &cohort.spec);
        let broken = (translated.as_ref().err()).map(|problems| summarize(problems));
        let kept = Kept::new(&cohort.metadata, cohort.status, broken);
        self.cohorts.insert(name.to_owned(), kept);
        let cohort = translated.unwrap_or_else(|_| sluice_engine::Cohort {
            parent: cohort.spec.parent_name.as_deref().map(Into::into),
            ..sluice_engine::Cohort::new(name.into())
        });
        vec![Event::UpsertCohort(cohort)]
    }

    fn local_queue(&mut self, key: LocalQueueKey, queue: Option<LocalQueue>) -> Vec<Event> {
        let Some(queue) = queue else {
            self.local_queues.remove(&key);
            self.local_queue_specs.remove(&key);
            return vec![Event::RemoveLocalQueue(key)];
        };
        let status = queue.status.unwrap_or_default();
        let translated = translate::local_queue(&key, &queue.spec, &status);
        let broken = (translated.as_ref().err()).map(|problems| summarize(problems));
        let kept = Kept::new(&queue.metadata, Some(status), broken);
        self.local_queues.insert(key.clone(), kept);
        // As a ClusterQueue that can't be counted.
        let local_queue = translated.unwrap_or_else(|_| sluice_engine::LocalQueue {
            stop: sluice_engine::StopPolicy::Hold,
            ..sluice_engine::LocalQueue::new(key.clone(), queue.spec.cluster_queue.as_str().into())
        });
        let event = self.local_event(&local_queue);
        self.local_queue_specs.insert(key, local_queue);
        vec![event]
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
