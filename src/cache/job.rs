//! What is kept of a Job-like object: the checked view of it, and no JSON.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;
use sluice_crds::{
    ADMISSION_ANNOTATION, HELD_ANNOTATION, PRIORITY_CLASS_LABEL, RELEASED_ANNOTATION,
};
use sluice_kinds::aliases::KeyAliases;
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::gates::labels::stale_labels;
use sluice_kinds::gates::{self, GateState};
use sluice_kinds::hold::{Hold, Holding};
use sluice_kinds::metadata::api_version;
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::{Finished, LabelledQueue, PodSetView, QueueLabels};
use sluice_kinds::{CompiledKind, HeldMark, Problem, Suspension};

use super::additions::PodAdditions;
use super::kept_gates::KeptGates;
use super::pod::OwnerRef;
use super::revisions::Revision;
use super::subject::Uid;
use crate::process::hashing::HashMap;
use crate::process::invariants::violated;
use crate::process::recorded_times::{RecordedTimes, Sight};

/// The finalizer of an object whose deletion waits until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";

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

/// What the creation times of objects of managed kinds say on this process's clock, also of those of which no record is
/// kept. Whoever changes such an object does not make it young again.
#[derive(Debug, Default)]
pub struct CreationTimes(HashMap<JobKey, (Uid, RecordedTimes)>);

impl CreationTimes {
    /// Notes since when an object exists.
    pub fn see(&mut self, key: &JobKey, job: &mut JobRecord, now: Timestamp) {
        let Some(created) = job.created else {
            return;
        };
        let known = self.0.remove(key);
        let known = known.filter(|(uid, _)| *uid == job.uid);
        let known = known.as_ref().map(|(_, times)| times);
        let times = RecordedTimes::see([created], known, Sight::of_server(now));
        let since = times.since(created);
        job.exists_since = Some(since);
        // Nearly all are as old as they say.
        if since != created {
            self.0.insert(key.clone(), (job.uid.clone(), times));
        }
    }

    /// Forgets an object that is gone; without a UID, whichever is known.
    pub fn forget(&mut self, key: &JobKey, uid: Option<&str>) {
        let known = self.0.get(key);
        if known.is_some_and(|(known, _)| uid.is_none_or(|uid| **known == *uid)) {
            self.0.remove(key);
        }
    }

    /// Forgets the objects of a kind that are not there any more.
    pub fn listed(&mut self, kind: &str, is_there: impl Fn(&JobKey) -> bool) {
        self.0.retain(|key, _| *key.kind != *kind || is_there(key));
    }
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
    /// `metadata.creationTimestamp`: its place in the queue, unless a gate says otherwise.
    pub created: Option<Timestamp>,
    /// Since when it exists, on this process's clock.
    pub exists_since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is being deleted after its pods are (foreground deletion): the garbage collector
    /// deletes these, whatever else keeps the object.
    pub deletes_pods: bool,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// The controller that owns it.
    pub owner: Option<Arc<OwnerRef>>,
    /// The LocalQueue that it names.
    pub queue: LabelledQueue,
    /// Its gates.
    pub gates: GateState,
    /// What it keeps of its gates.
    pub gate_record: KeptGates,
    /// Its labels that tell of gates which it does not have.
    pub stale_labels: Box<[String]>,
    /// Its WorkloadPriorityClass.
    pub priority_class: Option<String>,
    /// What Sluice last did to its suspend field.
    pub held_mark: Option<HeldMark>,
    /// Whether it carries any annotation.
    pub has_annotations: bool,
    /// Whether it carries the mark of an object released without a queue.
    pub released: bool,
    /// How it is held.
    pub hold: Hold,
    /// Whether its pods are born with Sluice's gate.
    pub is_gated: bool,
    /// Whether its pods are born behind all of its gates.
    pub brings_gates: bool,
    /// Whether any of its pods may carry gates that are Sluice's to lift.
    pub gates_pods: bool,
    /// Whether it asks for its pods to be admitted by themselves.
    pub wants_each_pod: bool,
    /// Whether it is suspended, where that can be read.
    pub suspended: Option<bool>,
    /// Whether its pods have been born with the label by which they are watched since it was last released, as far as this
    /// process has seen. The CRDs of some kinds drop that label from templates.
    pub was_labelled: bool,
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
    /// Whether anybody has written a status of it.
    pub has_status: bool,
    /// Whether its start time must be cleared before its templates can be written to, or why that can't be read: then
    /// it is not, and the write to the templates shows whether that was needed.
    pub clears_start_time: Result<bool, Problem>,
    /// Whether all its pods do their work, where its kind says that, or why it can't be read.
    pub ready: Result<Option<bool>, Problem>,
    /// Its pod sets, or why they can't be counted.
    pub pod_sets: Result<Arc<[PodSetView]>, Vec<Problem>>,
    /// Why its kind's controller would never run it, by what the JobKind says; nothing, if it would.
    pub refusals: Box<[Problem]>,
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
    /// The other keys for keys of Sluice's own.
    pub key_aliases: Arc<KeyAliases>,
    /// The classes of devices that are counted.
    pub device_classes: Arc<DeviceClasses>,
    /// What namespaces and RuntimeClasses add to pods.
    pub additions: PodAdditions,
}

impl JobReader {
    /// Where `object` is, and what is kept of it.
    pub fn read(&self, mut object: DynamicObject) -> (JobKey, JobRecord) {
        let key = JobKey {
            kind: self.name.clone(),
            namespace: object
                .metadata
                .namespace
                .as_deref()
                .unwrap_or_default()
                .into(),
            name: object.metadata.name.as_deref().unwrap_or_default().into(),
        };
        let defaults = self.additions.of(&key.namespace);
        // Where a webhook has seen the object, it has Sluice's own keys.
        let labels = object.metadata.labels.get_or_insert_default();
        let annotations = object.metadata.annotations.get_or_insert_default();
        self.key_aliases.complete(labels, annotations);
        let mut record = JobRecord::read(object, &self.kind, &self.queue_labels, &defaults);
        record.count_requested_devices(&self.device_classes);
        (key, record)
    }
}

impl JobRecord {
    /// Reads `object`.
    pub fn read(
        mut object: DynamicObject,
        kind: &CompiledKind,
        labels: &QueueLabels,
        defaults: &PodDefaults,
    ) -> Self {
        if kind.reads_metadata() {
            put_metadata_into_data(&mut object, kind);
        }
        let metadata = &object.metadata;
        let own_labels = metadata.labels.clone().unwrap_or_default();
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let asked = annotations.get(ADMISSION_ANNOTATION).map(String::as_str);
        let gates = gates::read(&annotations);
        let Holding {
            hold,
            is_gated,
            brings_gates,
            gates_pods,
        } = kind.holding(&object.data, &gates, asked);
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            revision: Revision::of(&object),
            generation: metadata.generation,
            created: metadata.creation_timestamp.as_ref().map(|t| t.0),
            exists_since: metadata.creation_timestamp.as_ref().map(|t| t.0),
            deleting: metadata.deletion_timestamp.is_some(),
            deletes_pods: metadata.deletion_timestamp.is_some()
                && metadata
                    .finalizers
                    .iter()
                    .flatten()
                    .any(|f| f == FOREGROUND),
            deleted_at: metadata.deletion_timestamp.as_ref().map(|t| t.0),
            owner: OwnerRef::of(metadata),
            queue: labels.read(&own_labels),
            gates,
            gate_record: KeptGates::read(&annotations),
            stale_labels: stale_labels(own_labels.keys(), &annotations).into(),
            priority_class: own_labels.get(PRIORITY_CLASS_LABEL).cloned(),
            held_mark: HeldMark::read(annotations.get(HELD_ANNOTATION).map(String::as_str)),
            has_annotations: !annotations.is_empty(),
            released: metadata.uid.is_some()
                && annotations.get(RELEASED_ANNOTATION) == metadata.uid.as_ref(),
            hold,
            is_gated,
            brings_gates,
            gates_pods,
            wants_each_pod: asked == Some("PerPod"),
            suspended: kind.suspended(&object.data).ok(),
            was_labelled: false,
            reading: Reading::read(&object, kind, hold, defaults),
        }
    }

    /// Counts devices that its pods request by the name of their class.
    fn count_requested_devices(&mut self, classes: &DeviceClasses) {
        let Ok(Reading {
            pod_sets: Ok(pod_sets),
            ..
        }) = &mut self.reading
        else {
            return;
        };
        for set in Arc::make_mut(pod_sets) {
            set.count_requested_devices(classes);
        }
    }

    /// The same object as it was known before: what that says of its label.
    pub fn see_labels(&mut self, known: Option<&Self>) {
        let was_labelled = known.is_some_and(|known| known.uid == self.uid && known.was_labelled);
        let is_labelled = || self.is_labelled() == Some(true);
        self.was_labelled = self.suspended == Some(false) && (was_labelled || is_labelled());
    }

    /// Whether all its pods are born with the label by which they are watched, as far as its templates can be read.
    pub fn is_labelled(&self) -> Option<bool> {
        let reading = self.reading.as_ref().ok()?;
        let pod_sets = reading.pod_sets.as_ref().ok()?;
        Some(!pod_sets.iter().any(PodSetView::lacks_label))
    }

    /// Whether Sluice has anything to do with the object by what it carries.
    pub fn is_managed(&self) -> bool {
        self.queue != LabelledQueue::None
            || self.gates.is_held()
            || self.gate_record.is_deactivated()
            || self.has_passed_gates()
            || self.is_marked_held()
            || self.gates_pods
    }

    /// Whether it carries the mark of an object that Sluice suspended: Sluice has to start it when
    /// nothing holds it any more, or to take the mark away.
    pub fn is_marked_held(&self) -> bool {
        self.held_mark == Some(HeldMark::Held)
    }

    /// Whose suspension it is under. One that can't be read is nobody's.
    pub fn suspension(&self) -> Suspension {
        Suspension::of(self.suspended == Some(true), self.held_mark)
    }

    /// Whether its user has suspended it since Sluice released it: it waits for its user. Pods that are
    /// queued by themselves say all there is to say.
    pub fn is_paused(&self) -> bool {
        self.hold != Hold::EachPod && self.suspension() == Suspension::ByUser
    }

    /// Whether a gate holds it, or it is deactivated as one was not lifted in time.
    pub fn is_held(&self) -> bool {
        (self.gates.is_held() || self.gate_record.is_deactivated()) && !self.released
    }

    /// Whether it waited for its queue or gates when its deletion began, whatever its labels say since.
    pub fn was_held(&self, has_workload: bool) -> bool {
        self.deleting && (self.is_marked_held() || has_workload)
    }

    /// Whether its gates hold it, rather than having come too late. What has ended behind them waits for nothing.
    pub fn is_held_by_gates(&self) -> bool {
        let is_left = self.released || self.deleting || self.finished().is_some();
        self.gates.is_held() && !is_left && !self.runs_before_gates()
    }

    /// Whether its pods wait for its gates though it is not suspended: behind gates for each of them, or behind the
    /// queue gate, which is lifted after them if all its pods are released together.
    fn is_born_behind_gates(&self) -> bool {
        let is_queued = matches!(self.queue, LabelledQueue::Named(_));
        match self.hold {
            Hold::Suspend => false,
            Hold::Pods => self.brings_gates || (self.is_gated && is_queued),
            Hold::EachPod => self.brings_gates,
        }
    }

    /// Whether its pods run, or would run, in spite of its gates.
    pub fn runs_before_gates(&self) -> bool {
        !self.is_born_behind_gates() && self.suspended != Some(true)
    }

    /// Whether Sluice lifted a gate from it and it has not finished: it may have one of the places
    /// that the gate counts.
    pub fn has_passed_gates(&self) -> bool {
        let mut lifted = self.gate_record.lifted_by_sluice(&self.uid);
        lifted.next().is_some() && self.finished().is_none()
    }

    /// The queue that counts this job as gated.
    pub fn gated_queue(&self) -> Option<&str> {
        let LabelledQueue::Named(queue) = &self.queue else {
            return None;
        };
        if !self.is_held() || self.finished().is_some() {
            return None;
        }
        match self.hold {
            Hold::Suspend | Hold::Pods => (!self.runs_before_gates()).then_some(queue),
            // Its pods are counted, if it may have any.
            Hold::EachPod => (self.suspension() == Suspension::BySluice).then_some(queue),
        }
    }

    /// How it ended, if it has.
    pub fn finished(&self) -> Option<&Finished> {
        self.reading.as_ref().ok()?.finished.as_ref()
    }
}

/// Puts type and metadata where the expressions of a JobKind find them: a `DynamicObject` keeps them apart. They are as
/// the webhooks see them: without maps that are empty, as the API server stores none. Who wrote which field is left out.
fn put_metadata_into_data(object: &mut DynamicObject, kind: &CompiledKind) {
    object.metadata.managed_fields = None;
    let Ok(Value::Object(mut metadata)) = serde_json::to_value(&object.metadata) else {
        return violated("metadata can be written as JSON");
    };
    metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    let Value::Object(data) = &mut object.data else {
        return violated("an object has fields");
    };
    let api_version = api_version(&kind.group, &kind.version);
    data.insert("apiVersion".to_owned(), api_version.into());
    data.insert("kind".to_owned(), kind.kind.clone().into());
    data.insert("metadata".to_owned(), metadata.into());
}

impl Reading {
    /// Whether pods of it run or may still be made. Its controller does nothing about an object that
    /// it would never run, so that only the pods that are there count.
    pub fn may_have_pods(&self) -> bool {
        self.active && self.refusals.is_empty()
    }

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
            has_status: data
                .get("status")
                .and_then(Value::as_object)
                .is_some_and(|s| !s.is_empty()),
            clears_start_time: kind.clears_start_time(data),
            ready: kind.ready(data),
            pod_sets: pod_sets.map(Into::into),
            refusals: kind.refusals(data, hold).into(),
        })
    }
}
