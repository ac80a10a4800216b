//! The plans of pods and of pod groups. Which pods of an admitted job are ungated is decided in
//! `decisions/ungating.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_crds::reasons::event;
use sluice_kinds::gates::Gate;
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodMode;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::LabelledQueue;

use crate::cache::pods::Root;
use crate::cache::{GroupKey, JobRecord, PodRecord, Subject, Uid};
use crate::controller::Controller;
use crate::controller::decisions::evictions::Eviction;
use crate::controller::wakes::Wake;
use crate::plan::evictions::cause::Cause;
use crate::plan::gates::held_note;
use crate::plan::pod::{self as plan, HeldBy};
use crate::plan::{Note, Plan, group};
use crate::process::invariants::violated;

impl Controller {
    /// Plans a pod: its gates, and what is to be told about it.
    pub(in crate::controller) fn plan_pod(&mut self, uid: &Uid) {
        let subject = Subject::Pod(uid.clone());
        if self.writes.is_busy(&subject) {
            return;
        }
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return violated("only a known pod is planned");
        };
        if self.pod_labels.are_lost(uid) {
            let write = plan::relabel(key, pod);
            return self.send_for_pods(subject, write, Vec::new());
        }
        if !pod.is_live() || pod.deleting {
            return;
        }
        let (key, pod) = (key.clone(), pod.clone());
        let gate = |gate: &Gate| self.gate_now(gate, &subject, &key.namespace, &pod.gate_record);
        if let Some((write, notes)) = plan::act_on_gates(&key, &pod, &gate, self.now.wall) {
            return self.send_for_pods(subject, write, notes);
        }
        if pod.is_gated_elsewhere() && !pod.propagated.is_empty() {
            let held_by = self.held_by(&pod, &key.namespace);
            if let Some(write) = plan::lift(&key, &pod, &held_by) {
                return self.send_for_pods(subject, write, Vec::new());
            }
        }
        if pod.mode == PodMode::Child
            && pod.waits_for_quota_alone()
            && self.is_unqueued(&pod, &key.namespace)
            && let Some(write) = plan::release_unqueued(&key, &pod)
        {
            return self.send_for_pods(subject, write, Vec::new());
        }
        if pod.mode != PodMode::Child
            && pod.waits_for_quota_alone()
            && self.needs_no_queue(&pod, &key.namespace)
            && let Some(write) = plan::release_unqueued(&key, &pod)
        {
            return self.send_for_pods(subject, write, Vec::new());
        }
        if let Some((record, note)) = self.own_record(&key, &pod) {
            let write = plan::take_over(&key, &pod, &record);
            return self.send_for_pods(subject, write, vec![note]);
        }
        let note = self
            .gates_left(&pod, &key.namespace)
            .or_else(|| self.held_by_gates(&subject, &key.namespace, &pod))
            .or_else(|| self.complaint(&key.namespace, &pod));
        if let Some(note) = note {
            self.tell_about(&subject, note);
        }
    }

    /// The gates that hold a pod by an annotation.
    fn held_by(&mut self, pod: &PodRecord, namespace: &Arc<str>) -> HeldBy {
        if pod.owner.is_none() {
            return plan::held_by_itself(pod);
        }
        self.ask_for_owner(pod, namespace);
        match self.job_of_pod(pod, namespace) {
            // Edits of what is being deleted are not judged: that a gate has gone from it says nothing.
            Some(job) if job.deleting || job.gate_record.is_deactivated() => HeldBy::All,
            Some(job) if job.released => HeldBy::Gates(BTreeSet::new()),
            Some(job) => plan::held_by_job(pod, job, self.waits_by_pods(pod, namespace)),
            None => HeldBy::Unknown,
        }
    }

    /// Whether the object of a pod has only the metadata of its pods, and its gates hold these.
    fn waits_by_pods(&self, pod: &PodRecord, namespace: &Arc<str>) -> bool {
        let Root::Uid(uid) = self.root_of(pod, namespace) else {
            return false;
        };
        let kind = self.objects.job_key(&uid).map(|key| &key.kind);
        let kind = kind.and_then(|kind| self.kinds.compiled(kind));
        kind.is_some_and(|kind| kind.is_opaque() && !kind.is_suspended_by_gates())
    }

    /// Why a pod waits for gates that nobody lifts, if so.
    pub(in crate::controller) fn gates_left(
        &self,
        pod: &PodRecord,
        namespace: &Arc<str>,
    ) -> Option<Note> {
        if pod.owner.is_none() || !pod.is_gated_elsewhere() || pod.propagated.is_empty() {
            return plan::left_gated(pod);
        }
        let job = self.job_of_pod(pod, namespace)?;
        let is_settled = job.deleting || job.released || job.gate_record.is_deactivated();
        let waits_by_pods = self.waits_by_pods(pod, namespace);
        (!is_settled).then(|| plan::forged_gates(pod, job, waits_by_pods))?
    }

    /// Why its own gates hold a pod, if they do. That of an object holds its pods, the object is told.
    fn held_by_gates(&self, subject: &Subject, namespace: &str, pod: &PodRecord) -> Option<Note> {
        let is_deactivated = pod.gate_record.is_deactivated() && pod.is_gated_elsewhere();
        let is_held = pod.is_held_by_gates() || pod.owner.is_none() && is_deactivated;
        if !is_held {
            return None;
        }
        let gate = |gate: &Gate| self.gate_now(gate, subject, namespace, &pod.gate_record);
        Some(held_note::of(pod.into(), &gate))
    }

    /// Whether the pod's job needs no quota any more: its queue label is gone, and it has no gates. Edits of what is
    /// being deleted are not judged, and say nothing.
    pub(in crate::controller) fn is_unqueued(&self, pod: &PodRecord, namespace: &Arc<str>) -> bool {
        self.job_of_pod(pod, namespace).is_some_and(|job| {
            let needs_none = job.queue == LabelledQueue::None && !job.is_held();
            job.hold == Hold::Pods && needs_none && !job.deleting
        })
    }

    pub(in crate::controller) fn job_of_pod(
        &self,
        pod: &PodRecord,
        namespace: &Arc<str>,
    ) -> Option<&JobRecord> {
        let Root::Uid(uid) = self.root_of(pod, namespace) else {
            return None;
        };
        self.objects.job(self.objects.job_key(&uid)?)
    }

    /// Why a pod can't be queued, if so.
    pub(in crate::controller) fn complaint(
        &self,
        namespace: &Arc<str>,
        pod: &PodRecord,
    ) -> Option<Note> {
        match &pod.mode {
            PodMode::Group(Err(problem)) => {
                return Some(Note::warning(event::INVALID_POD_GROUP, problem.to_string()));
            }
            PodMode::Child | PodMode::Group(Ok(_)) => return None,
            PodMode::Single => {}
        }
        pod.queue_gate.as_ref()?;
        match (&pod.queue, pod.asks.as_ref()) {
            (LabelledQueue::None, _) => Some(Note::warning(
                event::NO_QUEUE,
                "This pod waits for queue capacity and names no queue: add the label sluice.dev/queue-name",
            )),
            (LabelledQueue::Invalid(problem), _) => Some(Note::warning(
                event::INVALID_QUEUE_NAME,
                problem.to_string(),
            )),
            (_, Err(problems)) => Some(Note::warning(
                event::INVALID_POD_SETS,
                format!("Can't be queued: {}", summarize(problems)),
            )),
            (LabelledQueue::Named(_), Ok(_)) => {
                let priority = self.pod_priority(namespace, pod);
                priority.err().map(|refused| refused.note())
            }
        }
    }

    /// Plans a group of pods.
    pub(in crate::controller) fn plan_group(&mut self, key: &GroupKey) {
        let subject = Subject::Group(key.clone());
        if self.writes.is_busy(&subject) {
            return;
        }
        let is_deactivated = self
            .objects
            .workload_of(&subject)
            .is_some_and(|(_, record)| {
                record.holds_quota() && !record.is_evicting() && !record.spec.active
            });
        if is_deactivated && self.evict_workload(&subject, &Cause::deactivated()) == Eviction::Begun
        {
            return;
        }
        let absence = self.note_absence(&subject, &key.namespace);
        let mut pods = self.objects.pods_by_age(&subject);
        let id = subject.id();
        let workload = self.objects.workload_of(&subject);
        let is_unqueued = workload.is_none();
        if self.holds_quota(&subject) {
            // What came to the group from another job, and is counted beside it, is none of its members.
            pods.retain(|(_, pod)| !self.has_own_usage(&pod.uid));
        }
        if workload.is_none_or(|(_, record)| record.status.admission.is_none()) {
            self.gone_members.forget(&subject);
        }
        let situation = group::GroupSituation {
            key,
            pods: &pods,
            workload,
            namespace_is_terminating: self.cluster.is_terminating(&key.namespace),
            still_in_use: workload.is_none() && self.engine.admission(&id).is_some(),
            lost: self.lost_members(&subject),
            live_pods: self.live_pods(&subject),
            succeeded_and_gone: &self.gone_members.of(&subject),
            absence,
            priority: &|oldest| self.group_priority(&key.namespace, oldest, &pods),
            place_of: &|gate| self.place_of(gate),
            backoff: &|record| self.backoff(record),
            now: self.now.wall,
        };
        let Plan { write, notes } = group::plan(&situation);
        let kept_for = workload.and_then(|(_, record)| {
            let keeps_quota = group::keeps_quota_for(record, absence.lasted);
            keeps_quota.or_else(|| group::kept_for(record, situation.now))
        });
        if let Some(wait) = kept_for.filter(|_| pods.is_empty()) {
            self.wake_after(wait, Wake::Plan(subject.clone()));
        }
        match write {
            Some(write) => self.send_for_pods(subject, write, notes),
            None if is_unqueued => self.tell_unqueued(&subject, notes),
            None => notes
                .into_iter()
                .for_each(|note| self.tell_about(&subject, note)),
        }
    }
}
