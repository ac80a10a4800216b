//! Pods behind gates: taking in what is seen of them, what the engine is told, and what follows. A pod
//! that is admitted by itself is its own record: Sluice's gate is gone and it has not ended, so it is
//! charged. Pods of a job or group are let go as far as its Workload was admitted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use sluice_crds::MANAGED_LABEL;
use sluice_engine::{Event, LocalQueueKey, WorkloadId, WorkloadState};
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::{PodAdmission, PodMode};
use sluice_kinds::problem::summarize;
use sluice_kinds::template::Placement;
use sluice_kinds::view::QueueName;
use tokio::time::Instant;

use super::Controller;
use super::flights::{Flight, Kind};
use crate::plan::pod::{self as plan, HeldBy, Member};
use crate::plan::{Note, PodPurpose, Write, explain, group};
use crate::translate;
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
        let is_known = |uid: &str| {
            let key = world.job_key(uid);
            key.is_some_and(|key| key.namespace == *namespace)
        };
        match world.pods.root(record, is_known) {
            Root::Uid(uid) => Some(uid),
            Root::None => None,
            Root::Unknown(uid) => {
                self.owners.ask(uid, record.owner.as_ref(), namespace);
                None
            }
        }
    }

    /// Makes the engine see a pod that is admitted by itself as it is recorded.
    pub(super) fn sync_pod(&mut self, uid: &Uid) {
        let id = WorkloadId::new(uid.clone());
        let Some((key, pod)) = self.world.pods.of(uid) else {
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        };
        let (QueueName::Named(queue), Ok(asks), true) =
            (&pod.queue, pod.asks.as_ref(), pod.is_live())
        else {
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        };
        if pod.mode != PodMode::Single {
            return;
        }
        let queue = LocalQueueKey::new(key.namespace.clone(), queue.as_str());
        let flight = self.flights.of(uid);
        let state = if pod.queue_gate.is_none() {
            let recorded = pod.admitted.as_ref().and_then(|found| found.as_ref().ok());
            let charged = recorded
                .map(|admitted| (admitted.cluster_queue.as_str(), &admitted.flavors))
                .or_else(|| self.cluster.first_choice(&queue));
            match charged {
                Some((queue, flavors)) => WorkloadState::Admitted(translate::pod_admission(
                    queue,
                    flavors,
                    asks,
                    pod.is_bound,
                )),
                None => WorkloadState::Inactive,
            }
        } else if flight == Some(Kind::Admission) || self.unanswered.contains_key(uid) {
            // The engine assumes an admission that is under way.
            return;
        } else if pod.is_candidate()
            && flight.is_none()
            && !self.resting.contains(uid)
            && !self.pod_stands_back(pod)
            && self.pod_priority(pod).is_ok()
        {
            WorkloadState::Pending
        } else {
            WorkloadState::Inactive
        };
        if state == WorkloadState::Pending && self.is_unexplained.insert(uid.clone()) {
            self.unexplained.push_back((Instant::now(), uid.clone()));
        }
        let created = pod.created.map_or(i64::MAX, Timestamp::as_second);
        let priority = self.pod_priority(pod).unwrap_or(pod.priority);
        self.engine
            .apply(Event::UpsertWorkload(sluice_engine::Workload {
                id,
                queue,
                priority,
                created,
                pod_sets: vec![translate::pod_set(asks)],
                state,
            }));
    }

    fn pod_stands_back(&self, pod: &PodRecord) -> bool {
        let owner = pod.owner.as_ref();
        owner.is_some_and(|owner| {
            let backoff = self.pod_backoffs.get(&owner.uid);
            backoff.is_some_and(|backoff| Instant::now() < backoff.until)
        })
    }

    /// The priority of a pod: its WorkloadPriorityClass, or what the API server gave it.
    pub(super) fn pod_priority(&self, pod: &PodRecord) -> Result<i32, Note> {
        match &pod.priority_class_label {
            None => Ok(pod.priority),
            Some(name) => match self.cluster.workload_priorities.get(name) {
                Some(value) => Ok(*value),
                None => Err(Note::warning(
                    "PriorityClassNotFound",
                    format!(
                        "Can't be queued: there is no WorkloadPriorityClass {name:?}; create it, or change the label {}",
                        sluice_crds::PRIORITY_CLASS_LABEL
                    ),
                )),
            },
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

    /// Lets go the pods of an admitted job or group, or takes them back when it has to go.
    pub(super) fn release_pods(&mut self, uid: &Uid) {
        let Some((_, record)) = self.world.workload_of(uid) else {
            return;
        };
        let (Some(admission), false) = (record.status.admission.clone(), record.is_finished())
        else {
            return;
        };
        if record.is_evicting() {
            return self.take_back_pods(uid);
        }
        let is_group = crate::world::workload::group_key(uid).is_some();
        let pods = self.world.pods_of(uid);
        let sets: Vec<Arc<str>> = pods
            .iter()
            .map(|(_, pod)| {
                if is_group {
                    group::role_of(pod).into()
                } else {
                    pod.pod_set.clone().unwrap_or_else(|| "".into())
                }
            })
            .collect();
        let members: Vec<Member<'_>> = pods
            .iter()
            .zip(&sets)
            .map(|((key, pod), pod_set)| Member {
                key,
                pod,
                pod_set,
                is_busy: self.flights.of(&pod.uid).is_some() || self.resting.contains(&pod.uid),
                is_leaving: self.leaving.contains(&pod.uid),
            })
            .collect();
        // What has succeeded in a group has done its part: nobody takes its place.
        let used_up = |set: &str| {
            let done = members.iter().filter(|member| {
                is_group
                    && member.pod_set == set
                    && member.pod.phase == sluice_kinds::pod::PodPhase::Succeeded
            });
            done.count()
        };
        let at = Time(Timestamp::now());
        let writes: Vec<(Uid, Write)> = plan::releases(&members, &admission, used_up)
            .into_iter()
            .filter_map(|(member, assignment)| {
                let record = PodAdmission {
                    cluster_queue: admission.cluster_queue.clone(),
                    flavors: assignment.flavors.clone(),
                    at: at.clone(),
                };
                let write = plan::release(member.key, member.pod, &record, assignment)?;
                Some((member.pod.uid.clone(), write))
            })
            .collect();
        for (pod, write) in writes {
            self.leaving.insert(pod.clone());
            self.send_for_pod(pod, write, Vec::new());
        }
    }

    /// Deletes the pods of a job that has to go and can't be suspended: its controller makes new
    /// ones, which are born behind the gate.
    fn take_back_pods(&mut self, uid: &Uid) {
        let kind = self.world.job_key(uid).map(|key| key.kind.clone());
        let Some(kind) = kind.and_then(|kind| self.kinds.compiled(&kind)) else {
            return;
        };
        if kind.suspend_path().is_some() {
            return;
        }
        let writes: Vec<(Uid, Write)> = self
            .world
            .pods_of(uid)
            .into_iter()
            .filter(|(_, pod)| pod.is_let_go() && !pod.deleting)
            .filter(|(_, pod)| {
                self.flights.of(&pod.uid).is_none() && !self.resting.contains(&pod.uid)
            })
            .map(|(key, pod)| (pod.uid.clone(), plan::delete(key, pod, PodPurpose::Evict)))
            .collect();
        for (pod, write) in writes {
            self.send_for_pod(pod, write, Vec::new());
        }
    }

    /// Admits a pod by itself, as the engine has decided.
    pub(super) fn admit_pod(&mut self, uid: &Uid, admission: &sluice_engine::Admission) {
        let failed = Event::AdmissionFailed(WorkloadId::new(uid.clone()));
        let Some((key, pod)) = self.world.pods.of(uid) else {
            self.engine.apply(failed);
            return;
        };
        let record = translate::admission_record(admission, &self.cluster.flavors);
        let assignment = record.pod_set_assignments.into_iter().next();
        let assignment = assignment.unwrap_or_default();
        let placement = Placement {
            node_selector: assignment.node_selector,
            tolerations: assignment.tolerations,
        };
        let admitted = PodAdmission {
            cluster_queue: record.cluster_queue,
            flavors: assignment.flavors,
            at: Time(Timestamp::now()),
        };
        match plan::admit(key, pod, &admitted, &placement) {
            Some(write) if self.flights.of(uid).is_none() => {
                self.flights.send(Flight {
                    subject: uid.clone(),
                    write,
                    resource: pods_resource(),
                    notes: Vec::new(),
                });
            }
            _ => {
                self.engine.apply(failed);
            }
        }
    }

    /// Counts a pod that was admitted by itself.
    pub(super) fn pod_admitted(&self, uid: &Uid) {
        let Some((_, pod)) = self.world.pods.of(uid) else {
            return;
        };
        if let Some(Ok(admitted)) = &pod.admitted {
            let waited = pod
                .created
                .map(|created| admitted.at.0.duration_since(created));
            let waited = waited.map_or(0.0, |waited| waited.as_secs_f64().max(0.0));
            self.metrics.admitted(&admitted.cluster_queue, waited);
        }
    }

    /// Tells a pod what it waits for. Returns whether it waits.
    pub(super) fn explain_pod(&mut self, uid: &Uid) -> bool {
        let Some((_, pod)) = self.world.pods.of(uid) else {
            return false;
        };
        if !pod.is_candidate() {
            return false;
        }
        if self.pod_notes == 0 || self.flights.of(uid).is_some() {
            return true;
        }
        let explanation = self.engine.explain(&WorkloadId::new(uid.clone()));
        let Some((reason, message)) = explanation.as_ref().and_then(explain::waiting) else {
            return true;
        };
        let note = if reason == "Inadmissible" {
            Note::warning("Inadmissible", message)
        } else {
            Note::normal("Pending", message)
        };
        if self.is_news(uid, &note) {
            self.pod_notes = self.pod_notes.saturating_sub(1);
            self.tell_about(uid, note);
        }
        true
    }

    /// Takes back a pod that was admitted by itself. Gates can't be put back: it is deleted if
    /// somebody makes another one in its place, and else it stays.
    pub(super) fn evict_pod(&mut self, uid: &Uid, purpose: PodPurpose, message: &str) {
        let Some((key, pod)) = self.world.pods.of(uid) else {
            return;
        };
        if pod.deleting || self.flights.of(uid).is_some() || self.resting.contains(uid) {
            return;
        }
        if pod.owner.is_none() {
            let text = format!(
                "{message}, but nobody would make this pod again: it stays, and so does its quota; delete it to free that"
            );
            self.tell_about(uid, Note::warning("NotEvicted", text));
            return;
        }
        let write = plan::delete(key, pod, purpose);
        let note = Note::warning(
            "Evicted",
            format!("{message}: deleted, so that another one takes its place in the queue"),
        );
        self.send_for_pod(uid.clone(), write, vec![note]);
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
