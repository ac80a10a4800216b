//! Pods that go and pods that come back: those of admitted jobs and groups are released, those that the
//! engine admits by themselves too; and the pods of an evicted job are deleted, if it can't be
//! suspended. `evictions.rs` decides which.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use sluice_engine::{Event, WorkloadId};
use sluice_kinds::CompiledKind;
use sluice_kinds::pod::{PodAdmission, PodPhase};
use sluice_kinds::template::Placement;
use sluice_translate as translate;

use crate::cache::Uid;
use crate::cache::workload::group_key;
use crate::controller::Controller;
use crate::controller::account::pod_set_of;
use crate::controller::intake::pods::pods_resource;
use crate::controller::writes::flights::Flight;
use crate::plan::pod::{self as plan, Member};
use crate::plan::{Note, PodPurpose, Write, explain, workload};
use crate::process::clock;

impl Controller {
    /// Ungates the pods of an admitted job or group, or deletes the pods of an evicted one.
    pub(in crate::controller) fn release_pods(&mut self, uid: &Uid) {
        // What is being written may take the admission back.
        if self.flights.of(uid).is_some() {
            return;
        }
        let Some((_, record)) = self.objects.workload_of(uid) else {
            return;
        };
        let (Some(admission), false) = (record.status.admission.clone(), record.is_finished())
        else {
            return;
        };
        if record.is_evicting() {
            return self.take_back_pods(uid);
        }
        let is_group = group_key(uid).is_some();
        let job = self
            .objects
            .job_key(uid)
            .and_then(|key| self.objects.job(key));
        if !is_group && job.is_none_or(|job| job.deleting) {
            return;
        }
        // The admission covers no pod that requests more. Pods of a group are told apart by what they
        // ask for.
        let (pods, too_large): (Vec<_>, Vec<_>) =
            self.objects.pods_of(uid).into_iter().partition(|(_, pod)| {
                let set = pod.pod_set.as_deref().unwrap_or_default();
                let asks = pod.asks.as_ref().as_ref();
                is_group
                    || !pod.is_candidate()
                    || asks.is_ok_and(|asks| workload::covers_pod(record, set, asks))
            });
        let too_large: Vec<Uid> = too_large.iter().map(|(_, pod)| pod.uid.clone()).collect();
        let sets: Vec<Arc<str>> = pods
            .iter()
            .map(|(_, pod)| pod_set_of(pod, is_group).unwrap_or_else(|| "".into()))
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
        // What has succeeded in a group has done its part, and what a job says has ended for good has
        // given its quota away: nobody takes their place.
        let used_up = |set: &str| {
            let reclaimed = usize::try_from(record.reclaimed(set)).unwrap_or(usize::MAX);
            let done = members.iter().filter(|member| {
                is_group && member.pod_set == set && member.pod.phase == PodPhase::Succeeded
            });
            reclaimed.saturating_add(done.count())
        };
        let at = Time(clock::now());
        let writes: Vec<(Uid, Write)> = plan::releases(&members, &admission, used_up)
            .into_iter()
            .filter_map(|(member, assignment)| {
                let record = PodAdmission {
                    term: None,
                    cluster_queue: admission.cluster_queue.clone(),
                    flavors: assignment.flavors.clone(),
                    at: at.clone(),
                    priority: None,
                };
                let write = plan::release(member.key, member.pod, &record, assignment)?;
                Some((member.pod.uid.clone(), write))
            })
            .collect();
        for (pod, write) in writes {
            self.leaving.insert(pod.clone());
            self.send_for_pod(pod, write, Vec::new());
        }
        for pod in too_large {
            let text = "This pod requests more than the pods that its job was admitted with: it waits until the job is queued again with the new requests";
            self.tell_about(&pod, Note::warning("AsksForMore", text));
        }
    }

    /// Deletes the pods of a job that is evicted and can't be suspended: its controller makes new ones,
    /// which are born behind the gate. Those of an evicted group. And those of a job that is being
    /// deleted and is suspended: its controller does nothing more for it, neither deletes them nor makes
    /// new ones.
    fn take_back_pods(&mut self, uid: &Uid) {
        let key = self.objects.job_key(uid);
        let job = key.and_then(|key| self.objects.job(key));
        let kind = key.and_then(|key| self.kinds.compiled(&key.kind));
        let is_left_alone = |kind: &CompiledKind| {
            job.is_some_and(|job| job.deleting && job.suspended == Some(true))
                && !kind.makes_objects()
        };
        let is_taken_by_deletion = match kind {
            Some(kind) => kind.suspend_path().is_none() || is_left_alone(&kind),
            None => group_key(uid).is_some(),
        };
        if !is_taken_by_deletion {
            return;
        }
        let writes: Vec<(Uid, Write)> = self
            .objects
            .pods_of(uid)
            .into_iter()
            .filter(|(_, pod)| pod.is_released() && !pod.deleting)
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
    pub(in crate::controller) fn admit_pod(
        &mut self,
        uid: &Uid,
        admission: &sluice_engine::Admission,
    ) {
        let failed = Event::AdmissionFailed(WorkloadId::new(uid.clone()));
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            self.engine.apply(failed);
            return;
        };
        let record = translate::admission_record(admission, &self.cluster.flavors);
        let priority = self.pod_priority(pod).ok().map(|priority| priority.value);
        let assignment = record.pod_set_assignments.into_iter().next();
        let assignment = assignment.unwrap_or_default();
        let placement = Placement {
            node_selector: assignment.node_selector,
            tolerations: assignment.tolerations,
        };
        let admitted = PodAdmission {
            term: Some(self.term.to_string()),
            cluster_queue: record.cluster_queue,
            flavors: assignment.flavors,
            at: Time(clock::now()),
            priority: pod.priority_class_label.as_ref().and(priority),
        };
        let write = if self.late_pods.contains(uid) {
            // It runs where its first flavors say.
            let recorded = pod.admitted.as_ref().and_then(|found| found.as_ref().ok());
            let is_same = recorded.is_some_and(|recorded| {
                recorded.cluster_queue == admitted.cluster_queue
                    && recorded.flavors == admitted.flavors
            });
            is_same.then(|| plan::take_over(key, pod, &admitted))
        } else {
            plan::admit(key, pod, &admitted, &placement)
        };
        match write {
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

    /// Counts an admission, and how long it was waited for.
    pub(in crate::controller) fn count_admission(
        &self,
        queue: &str,
        created: Option<Timestamp>,
        at: Timestamp,
    ) {
        let waited = created.map_or(0.0, |created| at.duration_since(created).as_secs_f64());
        self.metrics.admitted(queue, waited.max(0.0));
    }

    /// Counts a pod that was admitted by itself.
    pub(in crate::controller) fn pod_admitted(&self, uid: &Uid) {
        let Some((_, pod)) = self.objects.pods.of(uid) else {
            return;
        };
        if let Some(Ok(admitted)) = &pod.admitted {
            self.count_admission(&admitted.cluster_queue, pod.created, admitted.at.0);
        }
    }

    /// Tells a pod what it waits for. Returns whether it waits.
    pub(in crate::controller) fn explain_pod(&mut self, uid: &Uid) -> bool {
        let Some((_, pod)) = self.objects.pods.of(uid) else {
            return false;
        };
        if !pod.is_candidate() {
            return false;
        }
        if self.pod_notes == 0 || self.flights.of(uid).is_some() {
            return true;
        }
        let explanation = self.engine.explain(&WorkloadId::new(uid.clone()));
        let namespace = self.objects.pods.key(uid).map(|key| &key.namespace);
        let said = explanation.as_ref().and_then(|explanation| {
            let head = self.name_of_head(explanation, namespace.map(|namespace| &**namespace));
            explain::waiting(explanation, head.as_deref())
        });
        let Some((reason, message)) = said else {
            return true;
        };
        let note = reason.note(message);
        if self.is_news(uid, &note) {
            self.pod_notes = self.pod_notes.saturating_sub(1);
            self.tell_about(uid, note);
        }
        true
    }
}
