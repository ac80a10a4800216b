//! Pods behind gates: taking in what is seen of them, to whom they belong, and the plans for pods and
//! groups. What the engine is told of them is `account.rs`, who goes and who comes back `releases.rs`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use sluice_crds::MANAGED_LABEL;
use sluice_engine::{Event, WorkloadId};
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodMode;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::QueueName;

use super::Controller;
use super::flights::Flight;
use crate::plan::pod::{self as plan, HeldBy};
use crate::plan::{Note, Write, group};
use crate::world::pods::Root;
use crate::world::workload::group_uid;
use crate::world::{PodKey, PodRecord, Uid};

impl Controller {
    pub(super) fn pod_applied(&mut self, key: &PodKey, object: DynamicObject) {
        let labels = object.metadata.labels.as_ref();
        if labels.is_none_or(|labels| labels.get(MANAGED_LABEL).is_none_or(|v| v != "true")) {
            // Read after a conflict: it is another pod by this name, or not Sluice's any more.
            return self.pod_gone(key, None);
        }
        let options = &self.options;
        let record = PodRecord::read(object, &options.queue_labels, &options.queue_gates);
        if let Some(before) = self.world.pods.get(key)
            && before.uid != record.uid
        {
            if record.revision < before.revision {
                return;
            }
            self.pod_gone(key, None);
        }
        let uid = record.uid.clone();
        if self.world.pods.put(key.clone(), record) {
            self.pod_changed(&uid);
        }
    }

    /// A watch by label shows pods as deleted that have only lost the label. One that is charged is
    /// given its label back: if it is gone, that says so.
    pub(super) fn pod_deleted(&mut self, key: &PodKey, object: &DynamicObject) {
        let is_charged = self.world.pods.get(key).is_some_and(|pod| {
            Some(&*pod.uid) == object.metadata.uid.as_deref() && pod.is_let_go() && !pod.deleting
        });
        if !is_charged || object.metadata.deletion_timestamp.is_some() {
            return self.pod_gone(key, object.metadata.uid.as_deref());
        }
        let Some(pod) = self.world.pods.get(key) else {
            return;
        };
        let (uid, write) = (pod.uid.clone(), plan::relabel(key, pod));
        if self.flights.of(&uid).is_none() {
            self.send_for_pod(uid, write, Vec::new());
        }
    }

    pub(super) fn pod_gone(&mut self, key: &PodKey, uid: Option<&str>) {
        let Some(known) = self.world.pods.get(key) else {
            return;
        };
        if uid.is_some_and(|uid| *known.uid != *uid) {
            return;
        }
        let uid = known.uid.clone();
        let record = known.clone();
        self.pod_belongs_changed(&record, &key.namespace);
        self.world.pods.remove(key);
        self.dirty.remove(&uid);
        self.engine
            .apply(Event::RemoveWorkload(WorkloadId::new(uid.clone())));
        self.prune(&uid);
    }

    /// Looks again at a pod and at what it belongs to.
    pub(super) fn pod_changed(&mut self, uid: &Uid) {
        let Some((key, record)) = self.world.pods.of(uid) else {
            return;
        };
        let (namespace, record) = (key.namespace.clone(), record.clone());
        if record.is_bound
            && let Some(owner) = &record.owner
        {
            self.pod_backoffs.remove(&owner.uid);
        }
        self.dirty.insert(uid.clone());
        if record.mode == PodMode::Single {
            self.sync_pod(uid);
        }
        self.pod_belongs_changed(&record, &namespace);
    }

    fn pod_belongs_changed(&mut self, record: &PodRecord, namespace: &Arc<str>) {
        let root = match &record.mode {
            PodMode::Group(Ok(group)) => Some(group_uid(namespace, &group.name)),
            PodMode::Child => self.root_of(record, namespace),
            PodMode::Group(Err(_)) | PodMode::Single => None,
        };
        if let Some(root) = root {
            if let Some(key) = self.world.job_key(&root) {
                self.shows_pods.insert(key.kind.clone());
            }
            self.dirty.insert(root.clone());
            self.recount.insert(root);
        }
    }

    /// The job that a pod belongs to. One that is not known is looked up.
    fn root_of(&mut self, record: &PodRecord, namespace: &Arc<str>) -> Option<Uid> {
        let world = &self.world;
        // A job that is gone stays charged while its pods run.
        let is_known = |uid: &str| match world.job_key(uid) {
            Some(key) => key.namespace == *namespace,
            None => self.engine.admission(&WorkloadId::new(uid)).is_some(),
        };
        match world.pods.root(record, is_known) {
            Root::Uid(uid) => Some(uid),
            Root::None => None,
            // Before everything is listed it may only not be known yet.
            Root::Unknown(_) if !self.started => None,
            Root::Unknown(uid) => {
                self.owners.ask(uid, record.owner.as_ref(), namespace);
                None
            }
        }
    }

    /// Plans a pod: its gates, and what is to be told about it.
    pub(super) fn plan_pod(&mut self, uid: &Uid) {
        if self.flights.of(uid).is_some() || self.resting.contains(uid) {
            return;
        }
        let Some((key, pod)) = self.world.pods.of(uid) else {
            return;
        };
        if !pod.is_live() || pod.deleting {
            return;
        }
        let (key, pod) = (key.clone(), pod.clone());
        if pod.is_gated_elsewhere() && !pod.propagated.is_empty() {
            let held_by = self.held_by(&pod, &key.namespace);
            if let Some(write) = plan::lift(&key, &pod, &held_by) {
                return self.send_for_pod(uid.clone(), write, Vec::new());
            }
        }
        if pod.mode == PodMode::Child
            && pod.is_candidate()
            && self.is_unqueued(&pod, &key.namespace)
            && let Some(write) = plan::release_unqueued(&key, &pod)
        {
            return self.send_for_pod(uid.clone(), write, Vec::new());
        }
        if let Some(note) = self.complaint(&pod) {
            self.tell_about(uid, note);
        }
    }

    /// The gates that hold a pod by an annotation.
    fn held_by(&mut self, pod: &PodRecord, namespace: &Arc<str>) -> HeldBy {
        if pod.owner.is_none() {
            return HeldBy::of(&pod.gates);
        }
        let root = self.root_of(pod, namespace);
        let key = root.and_then(|uid| self.world.job_key(&uid));
        match key.and_then(|key| self.world.job(key)) {
            Some(job) if job.released => HeldBy::Gates(std::collections::BTreeSet::new()),
            Some(job) => HeldBy::of(&job.gates),
            None => HeldBy::Unknown,
        }
    }

    /// Whether the pod's job needs no quota any more: its queue label is gone, and it has no gates.
    fn is_unqueued(&mut self, pod: &PodRecord, namespace: &Arc<str>) -> bool {
        let root = self.root_of(pod, namespace);
        let key = root.and_then(|uid| self.world.job_key(&uid));
        key.and_then(|key| self.world.job(key)).is_some_and(|job| {
            job.hold == Hold::Pods && job.queue == QueueName::None && !job.gates.is_held()
        })
    }

    /// Why a pod can't be queued, if so.
    fn complaint(&self, pod: &PodRecord) -> Option<Note> {
        match &pod.mode {
            PodMode::Group(Err(problem)) => {
                return Some(Note::warning("InvalidPodGroup", problem.to_string()));
            }
            PodMode::Child | PodMode::Group(Ok(_)) => return None,
            PodMode::Single => {}
        }
        pod.queue_gate.as_ref()?;
        match (&pod.queue, pod.asks.as_ref()) {
            (QueueName::None, _) => Some(Note::warning(
                "NoQueue",
                "It asks to wait for queue capacity and names no queue: give it the label sluice.dev/queue-name",
            )),
            (QueueName::Invalid(problem), _) => {
                Some(Note::warning("InvalidQueueName", problem.to_string()))
            }
            (_, Err(problems)) => Some(Note::warning(
                "InvalidPodSets",
                format!("Can't be queued: {}", summarize(problems)),
            )),
            (QueueName::Named(_), Ok(_)) => self.pod_priority(pod).err(),
        }
    }

    /// Plans a group of pods.
    pub(super) fn plan_group(&mut self, uid: &Uid, key: &crate::world::pods::GroupKey) {
        if self.flights.of(uid).is_some() || self.resting.contains(uid) {
            return;
        }
        let pods = self.world.pods_of(uid);
        let id = WorkloadId::new(uid.clone());
        let workload = self.world.workload_of(uid);
        let situation = group::Situation {
            key,
            pods: &pods,
            workload,
            still_charged: workload.is_none() && self.engine.admission(&id).is_some(),
            priority: &|pod| self.group_priority(pod),
            backoff: &|record| self.backoff(record),
            now: Timestamp::now(),
        };
        let crate::plan::Plan { write, notes } = group::plan(&situation);
        match write {
            Some(write) => self.send_for_pod(uid.clone(), write, notes),
            None => notes
                .into_iter()
                .for_each(|note| self.tell_about(uid, note)),
        }
    }

    /// Sends a write for a pod or a group.
    pub(super) fn send_for_pod(&mut self, uid: Uid, write: Write, notes: Vec<Note>) {
        self.send(Flight {
            subject: uid,
            write,
            resource: pods_resource(),
            notes,
        });
    }
}

/// The resource of pods.
pub(super) fn pods_resource() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

/// A pod, to tell something about.
pub(super) fn pod_reference(key: &PodKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
