//! What Gates are told of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sluice_crds::PRIORITY_CLASS_LABEL;
use sluice_gates::{Applicant, NotKnown, Totals};
use sluice_kinds::aliases::MetadataKey;
use sluice_kinds::metadata::{controller, label};
use sluice_kinds::priority_classes::NoPriorityClass;
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::PodSetView;
use sluice_kinds::{CompiledKind, PodView, gates};

use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::queue_label::{queue_of, queue_of_pods};

/// An object of a request: as it was, or as it shall be. With the queue by which it is judged.
pub(crate) struct RequestedObject<'a> {
    request: &'a Request,
    object: &'a Value,
    policy: &'a Policy,
    queue: Option<&'a str>,
}

impl<'a> RequestedObject<'a> {
    /// The object in this queue, if any.
    pub(crate) fn new(
        request: &'a Request,
        object: &'a Value,
        policy: &'a Policy,
        queue: Option<&'a str>,
    ) -> Self {
        Self {
            request,
            object,
            policy,
            queue,
        }
    }

    /// The object in each of its queues: in the one that it names, and in those that its pod templates name, as its pods
    /// may be queued there by themselves; or in none.
    pub(crate) fn each(
        request: &'a Request,
        object: &'a Value,
        policy: &'a Policy,
    ) -> impl Iterator<Item = Self> {
        let mut queues = queues_of_pods(request, object, policy);
        queues.extend(queue_of(object, policy.queue_labels()).map(|own| own.queue));
        let none = queues.is_empty().then_some(None);
        let queues = queues.into_iter().map(Some).chain(none);
        queues.map(move |queue| Self::new(request, object, policy, queue))
    }

    fn job_kind(&self) -> Option<&'a CompiledKind> {
        let kind = &self.request.kind;
        self.policy.kind(&kind.group, &kind.kind)
    }

    /// The WorkloadPriorityClasses that the object names, and those that its templates name: pods that are queued by
    /// themselves have the latter.
    fn classes(&self) -> impl Iterator<Item = &'a str> {
        let metadata = pod_metadata(self.request, self.object, self.policy);
        let of_templates = metadata.into_iter().filter_map(|metadata| {
            let own = MetadataKey::Label(PRIORITY_CLASS_LABEL.to_owned());
            let aliases = self.policy.key_aliases().of(&own).iter();
            // Where Sluice's own is there, that one counts.
            std::iter::once(&own)
                .chain(aliases)
                .find_map(|key| key.value_in(metadata))
        });
        label(self.object, PRIORITY_CLASS_LABEL)
            .into_iter()
            .chain(of_templates)
    }

    /// What the object itself says of its pods: what its namespace adds is not known here.
    fn pod_sets(&self) -> Result<Vec<PodSetView>, NotKnown> {
        if self.request.is_pod() {
            let (labels, gates) = (self.policy.queue_labels(), self.policy.queue_gates());
            let pod = PodView::read(self.object, labels, gates);
            return pod.asks.map(|set| vec![set]).map_err(NotKnown::Unreadable);
        }
        let kind = self.job_kind().ok_or(NotKnown::NoJobKind)?;
        if kind.is_opaque() || kind.has_pods_of_children() {
            return Err(NotKnown::NoRequests(kind.kind.clone()));
        }
        let sets = kind.pod_sets(self.object, &PodDefaults::default());
        sets.map_err(NotKnown::Unreadable)
    }

    /// The WorkloadPriorityClass that objects of its queue have which name none.
    fn default_class(&self) -> Result<Option<String>, NotKnown> {
        let Some(queue) = self.queue else {
            return Ok(None);
        };
        let states = self.policy.queue_states().load();
        if let Some(why) = states.not_known(&self.request.namespace, queue) {
            return Err(NotKnown::NoQueue(why));
        }
        let found = states.cluster_queue(&self.request.namespace, queue);
        let classes = found.and_then(|(_, state)| state.priority_classes.as_ref());
        Ok(classes.and_then(|classes| classes.default.clone()))
    }

    /// The PriorityClass of its pods: of the first ones that name one. The global default counts as none.
    fn priority_class(&self) -> Result<Option<String>, NotKnown> {
        if self.request.is_pod() {
            let class = self.object.pointer("/spec/priorityClassName");
            return Ok(class.and_then(Value::as_str).map(str::to_owned));
        }
        let has_no_sets = |kind: &CompiledKind| kind.is_opaque() || kind.has_pods_of_children();
        if self.job_kind().is_some_and(has_no_sets) {
            return Ok(None);
        }
        let known = &self.policy.surroundings().priority_classes;
        let classes = self.pod_sets()?.into_iter();
        let mut classes = classes.filter_map(|set| set.priority_class);
        Ok(classes.find(|class| !known.is_default(class)))
    }
}

/// The queues that the templates of an object name for its pods.
fn queues_of_pods<'a>(request: &Request, object: &'a Value, policy: &Policy) -> BTreeSet<&'a str> {
    let metadata = pod_metadata(request, object, policy).into_iter();
    metadata
        .filter_map(|metadata| Some(queue_of_pods(metadata, policy)?.1))
        .collect()
}

/// The metadata of pods in the templates of an object.
fn pod_metadata<'a>(request: &Request, object: &'a Value, policy: &Policy) -> Vec<&'a Value> {
    let kind = policy.kind(&request.kind.group, &request.kind.kind);
    let places = kind.map(CompiledKind::pod_metadata).unwrap_or_default();
    places.iter().flat_map(|at| at.find(object)).collect()
}

/// The gate annotations of `object`. Those of a pod with a controller are its owner's.
pub(super) fn own_gates(request: &Request, object: &Value) -> BTreeMap<String, String> {
    if is_owned_pod(request, object) {
        return BTreeMap::new();
    }
    gates::gate_annotations(object)
}

/// Whether `object` is a pod with a controller: its gates hold nothing by themselves.
pub(super) fn is_owned_pod(request: &Request, object: &Value) -> bool {
    request.is_pod() && controller(object).is_some()
}

impl Applicant for RequestedObject<'_> {
    fn group(&self) -> &str {
        &self.request.kind.group
    }

    fn kind(&self) -> &str {
        &self.request.kind.kind
    }

    fn namespace_labels(&self) -> Option<&BTreeMap<String, String>> {
        let namespaces = &self.policy.surroundings().namespaces;
        namespaces.get(&self.request.namespace).map(AsRef::as_ref)
    }

    fn queue(&self) -> Option<&str> {
        self.queue
    }

    fn asks_for_sluice(&self) -> bool {
        self.queue().is_some() || !own_gates(self.request, self.object).is_empty()
    }

    fn object(&self) -> &Value {
        self.object
    }

    fn totals(&self) -> Result<Totals, NotKnown> {
        Totals::of(&self.pod_sets()?)
    }

    fn priority(&self) -> Result<i32, NotKnown> {
        let known = self.policy.surroundings();
        let value_of = |class: &str| {
            let value = known.workload_priorities.get(class).copied();
            value.ok_or_else(|| NotKnown::NoWorkloadPriorityClass(class.to_owned()))
        };
        let named: Result<Vec<i32>, NotKnown> = self.classes().map(value_of).collect();
        if let Some(highest) = named?.into_iter().max() {
            return Ok(highest);
        }
        let class = self.priority_class()?;
        let named = class.as_deref();
        if named.is_none_or(|class| known.priority_classes.is_default(class))
            && let Some(default) = self.default_class()?
        {
            return value_of(&default);
        }
        // The API server writes it to pods, and not to their templates.
        if self.request.is_pod() {
            let value = self
                .object
                .pointer("/spec/priority")
                .and_then(Value::as_i64);
            if let Some(value) = value.and_then(|value| value.try_into().ok()) {
                return Ok(value);
            }
        }
        let found = known.priority_classes.of_template(class.as_deref());
        let missing = |NoPriorityClass(class)| NotKnown::NoPriorityClass(class);
        found.map(|(_, value)| value).map_err(missing)
    }

    fn user(&self) -> &str {
        &self.request.user_info.username
    }

    fn groups(&self) -> &[String] {
        &self.request.user_info.groups
    }
}
