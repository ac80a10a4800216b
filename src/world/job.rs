//! What is kept of a Job-like object: the checked view of it, and no JSON.

use std::sync::Arc;

use kube::api::DynamicObject;
use sluice_crds::{
    ADMISSION_ANNOTATION, HELD_ANNOTATION, PRIORITY_CLASS_LABEL, RELEASED_ANNOTATION,
};
use sluice_kinds::gates::{self, GateState};
use sluice_kinds::hold::{Hold, Holding};
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::{Finished, PodSetView, QueueLabels, QueueName};
use sluice_kinds::{CompiledKind, Problem};

use super::additions::PodAdditions;
use super::pod::OwnerRef;
use super::{Revision, Uid};

/// Where a job is: its JobKind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// The name of the JobKind.
    pub kind: Arc<str>,
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// What is kept of a job.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says what one mark on the object says"
)]
pub struct JobRecord {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The controller that owns it.
    pub owner: Option<Arc<OwnerRef>>,
    /// The LocalQueue that it names.
    pub queue: QueueName,
    /// Its gates.
    pub gates: GateState,
    /// Its WorkloadPriorityClass.
    pub priority_class: Option<String>,
    /// Whether it carries the mark of an object held without a queue.
    pub held: bool,
    /// Whether it carries the mark of an object let go without a queue.
    pub released: bool,
    /// How it is held.
    pub hold: Hold,
    /// Whether its pods are born with Sluice's gate.
    pub is_gated: bool,
    /// Whether any of its pods may carry gates that are Sluice's to lift.
    pub gates_pods: bool,
    /// Whether it asks for its pods to be admitted by themselves.
    pub wants_each_pod: bool,
    /// Whether it is suspended, where that can be read.
    pub suspended: Option<bool>,
    /// What its JobKind reads in it, or why it can't be read.
    pub reading: Result<Reading, Vec<Problem>>,
}

/// What a JobKind reads in an object.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Whether it is suspended.
    pub suspended: bool,
    /// How it ended, if it has.
    pub finished: Option<Finished>,
    /// Whether pods of it run or may still be made.
    pub active: bool,
    /// Whether all its pods do their work, where its kind says that, or why it can't be read.
    pub ready: Result<Option<bool>, Problem>,
    /// Its pod sets, or why they can't be counted.
    pub pod_sets: Result<Arc<[PodSetView]>, Vec<Problem>>,
}

/// Reads the objects of one JobKind.
#[derive(Debug, Clone)]
pub struct JobReader {
    /// The name of the JobKind.
    pub name: Arc<str>,
    /// The JobKind.
    pub kind: Arc<CompiledKind>,
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// What namespaces and RuntimeClasses add to pods.
    pub additions: PodAdditions,
}

impl JobReader {
    /// Where `object` is, and what is kept of it.
    pub fn read(&self, object: &DynamicObject) -> (JobKey, JobRecord) {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let key = JobKey {
            kind: self.name.clone(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let defaults = self.additions.of(namespace);
        let record = JobRecord::read(object, &self.kind, &self.queue_labels, &defaults);
        (key, record)
    }
}

impl JobRecord {
    /// Reads `object`.
    pub fn read(
        object: &DynamicObject,
        kind: &CompiledKind,
        labels: &QueueLabels,
        defaults: &PodDefaults,
    ) -> Self {
        let metadata = &object.metadata;
        let own_labels = metadata.labels.clone().unwrap_or_default();
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let asked = annotations.get(ADMISSION_ANNOTATION).map(String::as_str);
        let Holding {
            hold,
            is_gated,
            gates_pods,
        } = kind.holding(&object.data, asked);
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            revision: Revision::of(object),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            owner: OwnerRef::of(metadata),
            queue: labels.read(&own_labels),
            gates: gates::read(&annotations),
            priority_class: own_labels.get(PRIORITY_CLASS_LABEL).cloned(),
            held: annotations.contains_key(HELD_ANNOTATION),
            released: annotations.contains_key(RELEASED_ANNOTATION),
            hold,
            is_gated,
            gates_pods,
            wants_each_pod: asked == Some("PerPod"),
            suspended: kind.suspended(&object.data).ok(),
            reading: Reading::read(object, kind, hold, defaults),
        }
    }

    /// Whether Sluice has anything to do with the object by what it carries.
    pub fn is_managed(&self) -> bool {
        self.queue != QueueName::None || self.gates.is_held() || self.held || self.gates_pods
    }

    /// The queue that counts this job as gated.
    pub fn gated_queue(&self) -> Option<&str> {
        match &self.queue {
            QueueName::Named(queue) if self.gates.is_held() && !self.released => match self.hold {
                Hold::Suspend => (self.suspended == Some(true)).then_some(queue),
                Hold::Pods => Some(queue),
                // Its pods are counted, if it may have any.
                Hold::EachPod => (self.held && self.suspended == Some(true)).then_some(queue),
            },
            _ => None,
        }
    }

    /// How it ended, if it has.
    pub fn finished(&self) -> Option<&Finished> {
        self.reading.as_ref().ok()?.finished.as_ref()
    }
}

impl Reading {
    fn read(
        object: &DynamicObject,
        kind: &CompiledKind,
        hold: Hold,
        defaults: &PodDefaults,
    ) -> Result<Self, Vec<Problem>> {
        let data = &object.data;
        let annotations = object.metadata.annotations.as_ref();
        // Only what waits suspended can be told how many pods it gets.
        let annotations = annotations.filter(|_| hold == Hold::Suspend);
        let annotation = |key: &str| annotations?.get(key).map(String::as_str);
        let pod_sets = kind.pod_sets_by(data, &annotation, defaults);
        Ok(Self {
            suspended: kind.suspended(data).map_err(|p| vec![p])?,
            finished: kind.finished(data).map_err(|p| vec![p])?,
            active: kind.active(data).map_err(|p| vec![p])?,
            ready: kind.ready(data),
            pod_sets: pod_sets.map(Into::into),
        })
    }
}
