//! Pods behind gates: taking in what is seen of them, to whom they belong, and the plans for pods and
//! groups. What the engine is told of them is `account.rs`, which pods are ungated and which jobs are
//! queued again `decisions/releases.rs`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject};
use sluice_crds::MANAGED_LABEL;
use sluice_engine::{Event, WorkloadId};
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodMode;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::QueueName;

use crate::cache::pods::Root;
use crate::cache::workload::group_uid;
use crate::cache::{JobRecord, PodKey, PodRecord, Uid};
use crate::controller::Controller;
use crate::controller::writes::flights::Flight;
use crate::plan::pod::{self as plan, HeldBy};
use crate::plan::{Note, Write, group};
use crate::process::clock;

impl Controller {
    pub(in crate::controller) fn pod_applied(&mut self, key: &PodKey, object: DynamicObject) {
        let labels = object.metadata.labels.as_ref();
        let is_labelled =
            labels.is_some_and(|labels| labels.get(MANAGED_LABEL).is_some_and(|v| v == "true"));
        let options = &self.options;
        let record = PodRecord::read(object, &options.queue_labels, &options.queue_gates);
        let uid = record.uid.clone();
        let before = self.objects.pods.get(key).cloned();
        if !is_labelled {
            // Read after a conflict: another pod by this name, or one that is not Sluice's any more.
            match before {
                Some(before) if before.uid == uid => self.pod_unlabelled(key, &before),
                _ => self.pod_gone(key, None),
            }
            return;
        }
        if let Some(before) = &before {
            if before.uid != uid {
                if record.revision < before.revision {
                    return;
                }
                self.pod_gone(key, None);
            } else if record.is_bound && record.is_live() && !before.is_bound {
                self.has_found_a_node(&record);
            }
        }
        self.note_late_pod(before.as_ref(), &record);
        if self.objects.pods.put(key.clone(), record) {
            self.unlabelled.remove(&uid);
            if let Some(before) = before.filter(|before| before.uid == uid) {
                self.pod_belongs_changed(&before, &key.namespace);
            }
            self.pod_changed(&uid);
        }
    }

    /// A watch by label shows pods as deleted that have only lost the label.
    pub(in crate::controller) fn pod_deleted(&mut self, key: &PodKey, object: &DynamicObject) {
        let known = self.objects.pods.get(key);
        let known = known.filter(|pod| Some(&*pod.uid) == object.metadata.uid.as_deref());
        match known.cloned() {
            Some(pod) if object.metadata.deletion_timestamp.is_none() => {
                self.pod_unlabelled(key, &pod);
            }
            _ => self.pod_gone(key, object.metadata.uid.as_deref()),
        }
    }

    /// A pod that may run is given back the label that it is watched by: if it is gone, that says so.
    fn pod_unlabelled(&mut self, key: &PodKey, pod: &PodRecord) {
        if pod.is_released() && !pod.deleting {
            self.unlabelled.insert(pod.uid.clone());
            self.dirty.insert(pod.uid.clone());
        } else {
            self.pod_gone(key, Some(&*pod.uid));
        }
    }

    pub(in crate::controller) fn pod_gone(&mut self, key: &PodKey, uid: Option<&str>) {
        let Some(known) = self.objects.pods.get(key) else {
            return;
        };
        if uid.is_some_and(|uid| *known.uid != *uid) {
            return;
        }
        let record = known.clone();
        let uid = record.uid.clone();
        self.pod_belongs_changed(&record, &key.namespace);
        self.objects.pods.remove(key);
        self.dirty.remove(&uid);
        self.unlabelled.remove(&uid);
        self.engine
            .apply(Event::RemoveWorkload(WorkloadId::new(uid.clone())));
        self.prune(&uid);
    }

    /// Looks again at a pod and at what it belongs to.
    pub(in crate::controller) fn pod_changed(&mut self, uid: &Uid) {
        let Some((key, record)) = self.objects.pods.of(uid) else {
            return;
        };
        let (namespace, record) = (key.namespace.clone(), record.clone());
        self.dirty.insert(uid.clone());
        self.sync_pod(uid);
        if record.mode == PodMode::Child
            && let Some(owner) = self.unknown_owner(&record, &namespace)
        {
            self.owners.ask(&owner, record.owner.as_ref(), &namespace);
        }
        self.pod_belongs_changed(&record, &namespace);
    }

    /// Marks the job or group of a pod to be looked at again.
    fn pod_belongs_changed(&mut self, record: &PodRecord, namespace: &Arc<str>) {
        if let Some(root) = self.belongs_to(record, namespace) {
            let kind = self.objects.job_key(&root).map(|key| key.kind.clone());
            if let Some(kind) = kind
                && self.shows_pods.insert(kind.clone())
            {
                // Jobs of this kind without pods have none: they would be seen.
                self.recount.extend(self.jobs_of(&kind));
            }
            self.dirty.insert(root.clone());
            self.recount.insert(root);
        }
    }

    /// The job or group that a pod is admitted with.
    pub(in crate::controller) fn belongs_to(
        &self,
        record: &PodRecord,
        namespace: &Arc<str>,
    ) -> Option<Uid> {
        match &record.mode {
            PodMode::Group(Ok(group)) => Some(group_uid(namespace, &group.name)),
            PodMode::Child => match self.root_of(record, namespace) {
                Root::Uid(uid) => Some(uid),
                Root::None | Root::Unknown(_) => None,
            },
            PodMode::Group(Err(_)) | PodMode::Single => None,
        }
    }

    /// The job that a pod belongs to.
    pub(in crate::controller) fn root_of(&self, record: &PodRecord, namespace: &Arc<str>) -> Root {
        // A job that is gone keeps its usage while its pods run.
        let is_known = |uid: &str| match self.objects.job_key(uid) {
            Some(key) => key.namespace == *namespace,
            None => self.engine.admission(&WorkloadId::new(uid)).is_some(),
        };
        self.objects.pods.root(namespace, record, is_known)
    }

    /// The owner that has to be looked up to tell whom a pod belongs to.
    fn unknown_owner(&self, record: &PodRecord, namespace: &Arc<str>) -> Option<Uid> {
        match self.root_of(record, namespace) {
            // Before everything is listed it may only not be known yet.
            Root::Unknown(uid) if self.started => Some(uid),
            Root::Unknown(_) | Root::Uid(_) | Root::None => None,
        }
    }

    /// Plans a pod: its gates, and what is to be told about it.
    pub(in crate::controller) fn plan_pod(&mut self, uid: &Uid) {
        if self.flights.of(uid).is_some() || self.resting.contains(uid) {
            return;
        }
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return;
        };
        if self.unlabelled.contains(uid) {
            let write = plan::relabel(key, pod);
            return self.send_for_pod(uid.clone(), write, Vec::new());
        }
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
        if let Some(owner) = self.unknown_owner(pod, namespace) {
            self.owners.ask(&owner, pod.owner.as_ref(), namespace);
        }
        match self.job_of(pod, namespace) {
            Some(job) if job.released => HeldBy::Gates(std::collections::BTreeSet::new()),
            Some(job) => HeldBy::of(&job.gates),
            None => HeldBy::Unknown,
        }
    }

    /// Whether the pod's job needs no quota any more: its queue label is gone, and it has no gates.
    fn is_unqueued(&self, pod: &PodRecord, namespace: &Arc<str>) -> bool {
        self.job_of(pod, namespace).is_some_and(|job| {
            job.hold == Hold::Pods && job.queue == QueueName::None && !job.gates.is_held()
        })
    }

    fn job_of(&self, pod: &PodRecord, namespace: &Arc<str>) -> Option<&JobRecord> {
        let Root::Uid(uid) = self.root_of(pod, namespace) else {
            return None;
        };
        self.objects.job(self.objects.job_key(&uid)?)
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
                "This pod waits for queue capacity and names no queue: add the label sluice.dev/queue-name",
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
    pub(in crate::controller) fn plan_group(
        &mut self,
        uid: &Uid,
        key: &crate::cache::pods::GroupKey,
    ) {
        if self.flights.of(uid).is_some() || self.resting.contains(uid) {
            return;
        }
        let pods = self.objects.pods_by_age(uid);
        let id = WorkloadId::new(uid.clone());
        let workload = self.objects.workload_of(uid);
        if workload.is_none() && self.cluster.is_terminating(&key.0) {
            return;
        }
        let situation = group::Situation {
            key,
            pods: &pods,
            workload,
            still_in_use: workload.is_none() && self.engine.admission(&id).is_some(),
            live_pods: self.live_pods(uid),
            priority: &|pod| self.pod_priority(pod),
            backoff: &|record| self.backoff(record),
            now: clock::now(),
        };
        let crate::plan::Plan { write, notes } = group::plan(&situation);
        let kept_for = workload.and_then(|(_, record)| group::kept_for(record, situation.now));
        if let Some(wait) = kept_for.filter(|_| pods.is_empty()) {
            self.wake.insert(uid.clone(), wait);
        }
        match write {
            Some(write) => self.send_for_pod(uid.clone(), write, notes),
            None => notes
                .into_iter()
                .for_each(|note| self.tell_about(uid, note)),
        }
    }

    /// Sends a write for a pod or a group.
    pub(in crate::controller) fn send_for_pod(&mut self, uid: Uid, write: Write, notes: Vec<Note>) {
        self.send(Flight {
            subject: uid,
            write,
            resource: pods_resource(),
            notes,
        });
    }
}

/// The resource of pods.
pub(in crate::controller) fn pods_resource() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}
