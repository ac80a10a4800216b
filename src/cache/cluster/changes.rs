//! Takes in each change of the settings: what is kept of it, what the engine is told, and what it means for others.

use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::DynamicObject;
use kube::core::Selector;
use sluice_crds::{
    ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WhenNotRestartable, WorkloadPriorityClass,
};
use sluice_engine::{Event, LocalQueueKey};
use sluice_kinds::gates::Gate;
use sluice_kinds::problem::summarize;
use sluice_kinds::requests::{ClassAdditions, container_requests};
use sluice_translate as translate;

use super::kept::Kept;
use super::read::{ReadError, parse};
use super::settings::Cluster;
use super::settings_effect::Effect;
use crate::cache::additions::{Added, set};
use crate::cache::source::Source;

impl Cluster {
    /// Takes in an object, or that it is gone.
    pub(super) fn take_in(
        &mut self,
        source: &Source,
        namespace: &str,
        name: &str,
        object: Option<&DynamicObject>,
    ) -> Result<Effect, ReadError> {
        match source {
            Source::ResourceFlavor => Ok(self.flavor_changed(name, parse(object)?)),
            Source::ClusterQueue => Ok(self.cluster_queue_changed(name, parse(object)?)),
            Source::Cohort => Ok(self.cohort_changed(name, parse(object)?)),
            Source::LocalQueue => {
                let key = LocalQueueKey::new(namespace, name);
                Ok(self.local_queue_changed(key, parse(object)?))
            }
            Source::Namespace => Ok(self.namespace_changed(name, object)),
            Source::WorkloadPriorityClass => {
                Ok(self.workload_priority_class_changed(name, parse(object)?))
            }
            Source::PriorityClass => Ok(self.priority_class_changed(name, object)),
            Source::LimitRange => Ok(self.limit_range_changed(namespace, name, parse(object)?)),
            Source::ResourceClaimTemplate => {
                Ok(self.claim_template_changed(namespace, name, object))
            }
            Source::RuntimeClass => {
                let class: Option<RuntimeClass> = parse(object)?;
                Ok(self.runtime_class_changed(name, class.as_ref()))
            }
            Source::Gate => self.gate_changed(name, object),
            Source::JobKind
            | Source::Workload
            | Source::Pod
            | Source::Jobs(..)
            | Source::Dependencies(..) => Ok(Effect::default()),
        }
    }

    fn flavor_changed(&mut self, name: &str, flavor: Option<ResourceFlavor>) -> Effect {
        let event = match &flavor {
            Some(flavor) => Event::UpsertFlavor(translate::flavor(name, &flavor.spec)),
            None => Event::RemoveFlavor(name.into()),
        };
        set(&mut self.flavors, name.to_owned(), flavor.map(|f| f.spec));
        Effect {
            events: vec![event],
            ..Effect::default()
        }
    }

    fn cluster_queue_changed(&mut self, name: &str, queue: Option<ClusterQueue>) -> Effect {
        let spec = queue.as_ref().map(|queue| &queue.spec);
        let flavors = spec.map(|spec| translate::first_flavors(&spec.resource_groups));
        let classes = spec.and_then(|spec| spec.priority_classes.clone());
        let keeps = spec.is_some_and(|spec| spec.when_not_restartable == WhenNotRestartable::Keep);
        Effect {
            first_choice: set(&mut self.first_flavors, name.to_owned(), flavors),
            priorities: set(&mut self.classes, name.to_owned(), classes),
            keeps: if keeps {
                self.keepers.insert(name.to_owned())
            } else {
                self.keepers.remove(name)
            },
            events: self.cluster_queue(name, queue),
            ..Effect::default()
        }
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

    fn cohort_changed(&mut self, name: &str, cohort: Option<Cohort>) -> Effect {
        Effect {
            events: vec![self.cohort(name, cohort)],
            ..Effect::default()
        }
    }

    fn cohort(&mut self, name: &str, cohort: Option<Cohort>) -> Event {
        let Some(cohort) = cohort else {
            self.cohorts.remove(name);
            return Event::RemoveCohort(name.into());
        };
        let translated = translate::cohort(name, &cohort.spec);
        let broken = (translated.as_ref().err()).map(|problems| summarize(problems));
        let kept = Kept::new(&cohort.metadata, cohort.status, broken);
        self.cohorts.insert(name.to_owned(), kept);
        let cohort = translated.unwrap_or_else(|_| sluice_engine::Cohort {
            parent: cohort.spec.parent_name.as_deref().map(Into::into),
            ..sluice_engine::Cohort::new(name.into())
        });
        Event::UpsertCohort(cohort)
    }

    fn local_queue_changed(&mut self, key: LocalQueueKey, queue: Option<LocalQueue>) -> Effect {
        let known = self
            .local_queue_specs
            .get(&key)
            .map(|local_queue| local_queue.cluster_queue.as_str());
        let new = queue.as_ref().map(|q| q.spec.cluster_queue.as_str());
        // What is queued there is allowed other priority classes now.
        let classes = |queue: Option<&str>| queue.and_then(|queue| self.classes.get(queue));
        Effect {
            first_choice: known != new,
            priorities: classes(known) != classes(new),
            events: vec![self.local_queue(key, queue)],
            ..Effect::default()
        }
    }

    fn local_queue(&mut self, key: LocalQueueKey, queue: Option<LocalQueue>) -> Event {
        let Some(queue) = queue else {
            self.local_queues.remove(&key);
            self.local_queue_specs.remove(&key);
            return Event::RemoveLocalQueue(key);
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
        event
    }

    fn namespace_changed(&mut self, name: &str, object: Option<&DynamicObject>) -> Effect {
        let labels = object.map(|o| o.metadata.labels.clone().unwrap_or_default());
        let before = self.enforced(name);
        set(&mut self.namespaces, name.to_owned(), labels);
        if object.is_some_and(|o| o.metadata.deletion_timestamp.is_some()) {
            self.terminating.insert(name.to_owned());
        } else {
            self.terminating.remove(name);
        }
        Effect {
            gate: (self.enforced(name) != before).then(Gate::queue_required),
            events: self.select(|key, _| &*key.namespace == name),
            ..Effect::default()
        }
    }

    fn workload_priority_class_changed(
        &mut self,
        name: &str,
        class: Option<WorkloadPriorityClass>,
    ) -> Effect {
        let value = class.map(|c| c.spec.value);
        Effect {
            priorities: set(&mut self.workload_priorities, name.to_owned(), value),
            ..Effect::default()
        }
    }

    fn priority_class_changed(&mut self, name: &str, object: Option<&DynamicObject>) -> Effect {
        let class = object.map(|object| &object.data);
        Effect {
            priorities: self.priority_classes.put(name, class),
            ..Effect::default()
        }
    }

    fn limit_range_changed(
        &mut self,
        namespace: &str,
        name: &str,
        range: Option<LimitRange>,
    ) -> Effect {
        let amounts = range.map(|range| container_requests(&range));
        let is_other = self.additions.set_limit_range(namespace, name, amounts);
        Effect {
            added: is_other.then(|| Added::To(namespace.into())),
            ..Effect::default()
        }
    }

    fn claim_template_changed(
        &mut self,
        namespace: &str,
        name: &str,
        object: Option<&DynamicObject>,
    ) -> Effect {
        let template = object.map(|object| &object.data);
        let is_other = self.devices.put(namespace, name, template);
        Effect {
            template: is_other.then(|| (namespace.into(), name.into())),
            ..Effect::default()
        }
    }

    fn runtime_class_changed(&mut self, name: &str, class: Option<&RuntimeClass>) -> Effect {
        let adds = class.map(ClassAdditions::of);
        let is_other = self.additions.set_runtime_class(name, adds);
        Effect {
            added: is_other.then(|| Added::OfClass(name.into())),
            ..Effect::default()
        }
    }

    fn gate_changed(
        &mut self,
        name: &str,
        object: Option<&DynamicObject>,
    ) -> Result<Effect, ReadError> {
        let Some(gate) = Gate::of_object(name) else {
            return Err(ReadError::GateName);
        };
        let is_other = self.gates.set(gate.clone(), parse(object)?);
        if is_other {
            self.dependencies.gates_changed();
        }
        Ok(Effect {
            gate: is_other.then_some(gate),
            ..Effect::default()
        })
    }
}
