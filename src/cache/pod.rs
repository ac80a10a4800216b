//! What is kept of a pod that Sluice looks after: the checked view of it, and no JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ObjectMeta};
use sluice_kinds::Problem;
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::gates::GateState;
use sluice_kinds::gates::labels::stale_labels;
use sluice_kinds::metadata::group_version;
use sluice_kinds::pod::{PodAdmission, PodGroup, PodMode, PodPhase, PodView, QueueGates};
use sluice_kinds::view::{LabelledQueue, PodSetView, QueueLabels};

use super::kept_gates::KeptGates;
use super::revisions::Revision;
use super::subject::{GroupKey, Uid};
use crate::process::recorded_times::{RecordedTimes, Sight};

/// `terminationGracePeriodSeconds` of a pod that does not say.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Owners above an object or a pod that are looked at: a Job of a JobSet of a TrainJob has two, and so has a
/// pod of a Deployment. A longer chain is taken for a cycle.
pub const CHAIN_MAX: usize = 10;

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// The controller that owns an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerRef {
    /// Its API group and version, as in `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID. Names are not trusted: an object may be deleted, and another one made by its name.
    pub uid: Uid,
}

impl OwnerRef {
    /// The controller that `metadata` names. The API server takes no more than one.
    pub fn of(metadata: &ObjectMeta) -> Option<Arc<Self>> {
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        // No UID has a slash: the text of such a subject would be that of a pod or a group.
        if owner.uid.contains('/') {
            return None;
        }
        Some(Arc::new(Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.as_str().into(),
        }))
    }

    /// Its API group and version.
    pub fn group_version(&self) -> (&str, &str) {
        group_version(&self.api_version)
    }
}

/// The labels that tell of gates which a pod without a controller does not have.
fn own_stale_labels(metadata: &ObjectMeta) -> Box<[String]> {
    if OwnerRef::of(metadata).is_some() {
        return Box::default();
    }
    let labels = metadata.labels.iter().flat_map(|labels| labels.keys());
    let none = BTreeMap::new();
    stale_labels(labels, metadata.annotations.as_ref().unwrap_or(&none)).into()
}

/// The values of labels that look like a UID, other than that of the controller.
fn named_uids(metadata: &ObjectMeta) -> Vec<Uid> {
    let owner = OwnerRef::of(metadata);
    let owner = owner.as_ref().map(|owner| &*owner.uid);
    let values = metadata.labels.iter().flat_map(|labels| labels.values());
    let mut uids: Vec<Uid> = values
        .filter(|value| is_like_uid(value) && Some(value.as_str()) != owner)
        .map(|value| value.as_str().into())
        .collect();
    uids.sort();
    uids.dedup();
    uids
}

/// Since when a pod is being deleted: its deletion timestamp is when its grace period ends.
fn deleted_at(metadata: &ObjectMeta) -> Option<Timestamp> {
    let until = metadata.deletion_timestamp.as_ref()?.0;
    let grace = metadata.deletion_grace_period_seconds.unwrap_or_default();
    let since = until.checked_sub(SignedDuration::from_secs(grace.max(0)));
    Some(since.unwrap_or(until))
}

/// What was known of an object before its deletion is looked at.
#[derive(Debug, Clone, Copy)]
pub enum Before {
    /// Nothing.
    Unknown,
    /// It was not being deleted.
    Kept,
    /// It was, since then.
    DeletedAt(Timestamp),
}

impl Before {
    /// By what was known of it, if anything was: since when it was being deleted.
    pub fn of(known: Option<&Option<Timestamp>>) -> Self {
        match known {
            None => Self::Unknown,
            Some(None) => Self::Kept,
            Some(Some(at)) => Self::DeletedAt(*at),
        }
    }
}

/// When an object was deleted, by this process's clock: `at` by that of an API server.
pub fn deletion_seen(at: Timestamp, before: Before, now: Timestamp) -> Timestamp {
    match before {
        Before::DeletedAt(seen) => seen,
        Before::Kept => now,
        Before::Unknown => at.min(now),
    }
}

/// Whether this is written as the API server writes UIDs (RFC 9562).
pub fn is_like_uid(value: &str) -> bool {
    let groups: Vec<usize> = value.split('-').map(str::len).collect();
    let is_hex = |byte: u8| byte == b'-' || byte.is_ascii_hexdigit();
    groups == [8, 4, 4, 4, 12] && value.bytes().all(is_hex)
}

/// What a pod asks for, shared by all pods that ask for the same.
pub type Asks = Result<PodSetView, Vec<Problem>>;

/// What is kept of a pod.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct PodRecord {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// What the times of its creation and its admission say on this process's clock.
    pub times: RecordedTimes,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Until when it may take to terminate, if it is being deleted.
    pub terminate_until: Option<Timestamp>,
    /// Whether it is being deleted and gets no more time than pods do by default. One that gets more may
    /// use its node for as long.
    pub is_soon_gone: bool,
    /// The controller that owns it; shared by its pods.
    pub owner: Option<Arc<OwnerRef>>,
    /// What its labels name that may be the UID of its job, and is not its owner: that is taken from pods whose
    /// job is deleted with `--cascade=orphan`, and another job may adopt them.
    pub named_uids: Vec<Uid>,
    /// The LocalQueue that it names.
    pub queue: LabelledQueue,
    /// Whether it is admitted by itself, in a group, or with the object that owns it.
    pub mode: PodMode,
    /// The queue gate that it still carries.
    pub queue_gate: Option<Arc<str>>,
    /// All its other scheduling gates.
    pub other_gates: Vec<Arc<str>>,
    /// Those of its gates that stand for a gate annotation.
    pub propagated: Vec<Arc<str>>,
    /// Its own gate annotations.
    pub gates: GateState,
    /// What it keeps of its gates.
    pub gate_record: KeptGates,
    /// Its labels that tell of gates which it does not have, if no controller owns it.
    pub stale_labels: Box<[String]>,
    /// Its WorkloadPriorityClass.
    pub priority_class_label: Option<String>,
    /// The priority that the API server gave it.
    pub priority: i32,
    /// Whether it has ended.
    pub phase: PodPhase,
    /// Whether it never ends by itself.
    pub never_ends: bool,
    /// Whether it is bound to a node.
    pub is_bound: bool,
    /// The pod set of its owner that it belongs to.
    pub pod_set: Option<Arc<str>>,
    /// The record of its admission.
    pub admitted: Option<Result<PodAdmission, Problem>>,
    /// What it asks for.
    pub asks: Arc<Asks>,
}

impl PodRecord {
    /// Reads `object`.
    pub fn read(object: DynamicObject, labels: &QueueLabels, gates: &QueueGates) -> Self {
        let revision = Revision::of(&object);
        let metadata = object.metadata;
        // The view is read from JSON alone; the metadata of a DynamicObject lies beside it.
        let mut json = object.data;
        if let (Some(map), Ok(own)) = (json.as_object_mut(), serde_json::to_value(&metadata)) {
            map.insert("metadata".to_owned(), own);
        }
        let view = PodView::read(&json, labels, gates);
        let asks = view.usage();
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            revision,
            created: metadata.creation_timestamp.as_ref().map(|t| t.0),
            times: RecordedTimes::default(),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: deleted_at(&metadata),
            terminate_until: metadata.deletion_timestamp.as_ref().map(|t| t.0),
            is_soon_gone: metadata.deletion_timestamp.is_some()
                && metadata
                    .deletion_grace_period_seconds
                    .is_some_and(|seconds| seconds <= DEFAULT_GRACE_SECONDS),
            named_uids: named_uids(&metadata),
            owner: OwnerRef::of(&metadata),
            queue: view.queue,
            mode: view.mode,
            queue_gate: view.queue_gate,
            other_gates: view.other_gates,
            propagated: view.propagated,
            gates: view.gates,
            gate_record: metadata
                .annotations
                .as_ref()
                .map(KeptGates::read)
                .unwrap_or_default(),
            stale_labels: own_stale_labels(&metadata),
            priority_class_label: view.priority_class_label,
            priority: view.priority.unwrap_or_default(),
            phase: view.phase,
            never_ends: view.never_ends,
            is_bound: view.is_bound,
            pod_set: view.pod_set,
            admitted: view.admitted,
            asks: Arc::new(asks),
        }
    }

    /// Counts devices that it requests by the name of their class.
    pub fn count_requested_devices(&mut self, classes: &DeviceClasses) {
        if let Ok(asks) = Arc::make_mut(&mut self.asks) {
            asks.count_requested_devices(classes);
        }
    }

    /// What it was admitted with, if that is recorded and can be read.
    pub fn recorded_admission(&self) -> Option<&PodAdmission> {
        self.admitted.as_ref()?.as_ref().ok()
    }

    /// Notes what its times say on this process's clock; `known` is what was known of it before. What leaders recorded
    /// is seen as `sight` says.
    pub fn see_times(&mut self, known: Option<&Self>, sight: Sight) {
        let times = known.map(|known| &known.times);
        let admitted = self.recorded_admission().map(|admitted| admitted.at.0);
        let created = RecordedTimes::see(self.created, times, Sight::of_server(sight.now));
        self.times = RecordedTimes::see(admitted, times, sight).and(created);
        let before = Before::of(known.map(|known| &known.deleted_at));
        let deleted_at = self
            .deleted_at
            .map(|at| deletion_seen(at, before, sight.now));
        let late = deleted_at.zip(self.deleted_at);
        let late = late.map(|(seen, recorded)| seen.duration_since(recorded));
        let until = self.terminate_until.zip(late);
        self.terminate_until = until.and_then(|(until, late)| until.saturating_add(late).ok());
        self.deleted_at = deleted_at;
    }

    /// Since when it exists, on this process's clock.
    pub fn exists_since(&self) -> Option<Timestamp> {
        self.created.map(|created| self.times.since(created))
    }

    /// What it says of the group that it is in.
    pub fn group(&self) -> Option<&PodGroup> {
        match &self.mode {
            PodMode::Group(Ok(group)) => Some(group),
            PodMode::Group(Err(_)) | PodMode::Single | PodMode::Child => None,
        }
    }

    /// The group of its namespace that it is in.
    pub fn group_key(&self, namespace: &Arc<str>) -> Option<GroupKey> {
        let group = self.group()?;
        Some(GroupKey {
            namespace: namespace.clone(),
            name: group.name.clone(),
        })
    }

    /// Whether it has not ended.
    pub fn is_live(&self) -> bool {
        self.phase == PodPhase::Live
    }

    /// Whether it may run: it has not ended, and Sluice's gate is gone. It counts until it is gone.
    pub fn is_released(&self) -> bool {
        self.is_live() && self.queue_gate.is_none() && self.other_gates.is_empty()
    }

    /// Whether its own gate annotations hold it.
    pub fn is_held_by_gates(&self) -> bool {
        self.owner.is_none() && self.gates.is_held() && self.is_gated_elsewhere()
    }

    /// Whether it waits for nothing but queue capacity.
    pub fn waits_for_quota_alone(&self) -> bool {
        self.is_live() && self.queue_gate.is_some() && self.other_gates.is_empty() && !self.deleting
    }

    /// Whether a gate that is not for queue capacity holds it.
    pub fn is_gated_elsewhere(&self) -> bool {
        self.is_live() && !self.other_gates.is_empty() && !self.deleting
    }
}
