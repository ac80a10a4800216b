//! Evictions: what the engine evicts is marked as evicted, with the reason. A Workload by its
//! conditions: its plan does the rest. A pod that is admitted by itself by its deletion, if somebody
//! makes it again. The pods of an evicted group, or of a job that can't be suspended, are deleted, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_crds::reasons::event;
use sluice_engine::{Event, EvictReason, LocalQueueKey};
use sluice_kinds::CompiledKind;
use sluice_kinds::hold::Hold;
use sluice_kinds::view::LabelledQueue;

use crate::cache::pods::Root;
use crate::cache::{PodKey, PodRecord, Subject, Uid, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::plan::evictions::cause::{Cause, Preemptor, Replacement, preempting};
use crate::plan::group::LostPods;
use crate::plan::pod::{self as plan, queue_of};
use crate::plan::{Note, PodPurpose, StatusPurpose, Write, workload};

/// What becomes of an evicted subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// It is being told, or deleted.
    Begun,
    /// Something else is under way: to be tried again.
    Busy,
    /// It can't be taken back.
    Stays,
}

/// For each preemptor, how many of its targets are being evicted.
pub type Preempting = BTreeMap<Subject, usize>;

impl Controller {
    /// Does what the engine has decided, and notes for whom.
    pub(in crate::controller) fn evict(
        &mut self,
        subject: &Subject,
        reason: EvictReason,
        for_whom: &mut Preempting,
    ) {
        let cause = self.cause(subject, &reason);
        let eviction = match subject {
            _ if !self.writes.may_evict(subject) => Eviction::Busy,
            Subject::Pod(uid) => self.evict_pod(uid, &cause),
            Subject::Job(_) | Subject::Group(_) => self.evict_workload(subject, &cause),
        };
        if eviction == Eviction::Begun {
            // Whatever failed before, such as its release: its plan is another one now.
            self.writes.end_backoff(subject);
        }
        match (eviction, reason, subject) {
            (Eviction::Busy, ..) => self.engine.apply(Event::EvictionFailed(subject.id())),
            (Eviction::Begun, EvictReason::Preempted { by, .. }, _) => {
                *for_whom.entry(Subject::from(&by)).or_default() += 1;
            }
            (Eviction::Begun, EvictReason::ReservationTimedOut, Subject::Pod(uid)) => {
                self.note_pod_timeout(uid);
            }
            (Eviction::Begun | Eviction::Stays, ..) => {}
        }
    }

    /// Sends the events of preemptors.
    pub(in crate::controller) fn tell_preempting(&mut self, for_whom: Preempting) {
        for (subject, targets) in for_whom {
            self.tell_about(&subject, preempting(targets));
        }
    }

    /// Why the engine evicts it, as its owner may know it.
    fn cause(&self, subject: &Subject, reason: &EvictReason) -> Cause {
        match reason {
            EvictReason::ClusterQueueStopped => Cause::cluster_queue_stopped(),
            EvictReason::LocalQueueStopped => Cause::local_queue_stopped(),
            EvictReason::ReservationTimedOut => match subject {
                Subject::Pod(_) => Cause::pod_timed_out(),
                _ if self.unused.has_had_nodes(subject) => Cause::recovery_timed_out(),
                Subject::Job(_) | Subject::Group(_) => Cause::timed_out(),
            },
            EvictReason::Preempted { by, right } => {
                let by = self.preemptor(&Subject::from(by), self.namespace_of(subject).as_deref());
                Cause::preempted(&by, *right)
            }
        }
    }

    /// The name of a preemptor, as it may be told in `namespace`.
    fn preemptor(&self, subject: &Subject, namespace: Option<&str>) -> Preemptor {
        let own = self.namespace_of(subject);
        let is_known = own.is_some() && own.as_deref() == namespace;
        let (priority, local_queue) = self.place_in_queue(subject).unwrap_or_default();
        let key = own.map(|own| LocalQueueKey::new(own, local_queue.as_str()));
        let queue = key.as_ref().and_then(|key| self.cluster.first_choice(key));
        Preemptor {
            // The name of a pod group is for its own namespace.
            subject: match subject {
                Subject::Group(_) if !is_known => None,
                Subject::Group(_) | Subject::Job(_) | Subject::Pod(_) => Some(subject.clone()),
            },
            name: self.name_in(subject, namespace),
            priority,
            queue: queue.map_or_else(String::new, |(queue, _)| queue.to_owned()),
        }
    }

    /// The priority and the LocalQueue of something that waits.
    fn place_in_queue(&self, subject: &Subject) -> Option<(i32, String)> {
        let Subject::Pod(uid) = subject else {
            let (_, record) = self.objects.workload_of(subject)?;
            return Some((record.spec.priority, record.spec.queue_name.clone()));
        };
        let (key, pod) = self.objects.pods.of(uid)?;
        let LabelledQueue::Named(queue) = &pod.queue else {
            return None;
        };
        let priority = self.pod_priority_value(&key.namespace, pod);
        Some((priority, queue.clone()))
    }

    /// The kind and name of a job, group or pod, if it is of this namespace.
    pub(in crate::controller) fn name_in(
        &self,
        subject: &Subject,
        namespace: Option<&str>,
    ) -> Option<String> {
        let own = self.namespace_of(subject);
        let is_known = own.is_some() && own.as_deref() == namespace;
        is_known.then(|| self.display_name(subject)).flatten()
    }

    fn namespace_of(&self, subject: &Subject) -> Option<Arc<str>> {
        let namespace = match subject {
            Subject::Pod(uid) => &self.objects.pods.key(uid)?.namespace,
            Subject::Job(_) | Subject::Group(_) => &self.objects.workload_of(subject)?.0.namespace,
        };
        Some(namespace.clone())
    }

    /// The kind and name of a job, group or pod.
    pub(in crate::controller) fn display_name(&self, subject: &Subject) -> Option<String> {
        let (kind, name) = match subject {
            Subject::Group(group) => ("pod group".to_owned(), &group.name),
            Subject::Job(uid) => {
                let key = self.objects.job_key(uid)?;
                (self.kinds.resource(&key.kind)?.kind, &key.name)
            }
            Subject::Pod(uid) => ("Pod".to_owned(), &self.objects.pods.key(uid)?.name),
        };
        Some(format!("{kind} {:?}", &**name))
    }

    /// Tells a job or group to go. What does it is its plan, once its Workload says so.
    pub(in crate::controller) fn evict_workload(
        &mut self,
        subject: &Subject,
        cause: &Cause,
    ) -> Eviction {
        if self.group_stays(subject, &cause.message) {
            return Eviction::Stays;
        }
        if !self.can_be_evicted(subject) {
            return Eviction::Stays;
        }
        let (Some((key, record)), Some(resource)) =
            (self.objects.workload_of(subject), self.resource_of(subject))
        else {
            return Eviction::Stays;
        };
        // It has been told, and does not stop.
        if record.is_evicting() {
            return Eviction::Stays;
        }
        if self.writes.of(subject).is_some() {
            return Eviction::Busy;
        }
        let status = workload::evicted(record, cause, self.now.wall);
        let note = if self.is_not_made_again(subject) {
            cause.note_for_bare_group()
        } else {
            cause.note()
        };
        let write = Write::SetWorkloadStatus {
            key: key.clone(),
            revision: record.revision,
            status: Box::new(status),
            purpose: StatusPurpose::Evict,
        };
        self.send(InFlightWrite {
            subject: subject.clone(),
            write,
            resource,
            notes: vec![note],
        });
        Eviction::Begun
    }

    /// Takes back a pod that was admitted by itself. Gates can't be put back: it is deleted, unless
    /// nobody would make another one in its place and its ClusterQueue keeps such pods.
    pub(in crate::controller) fn evict_pod(&mut self, uid: &Uid, cause: &Cause) -> Eviction {
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return Eviction::Stays;
        };
        // It is on its way, and may take its time.
        if pod.deleting {
            return Eviction::Stays;
        }
        if self.stays(key, pod) {
            let text = format!(
                "{}, but no controller would recreate this pod, and its ClusterQueue keeps such pods (whenNotRestartable: Keep): it stays and holds its quota; delete it to free the quota",
                cause.message
            );
            self.tell_about(
                &Subject::Pod(uid.clone()),
                Note::warning(event::NOT_EVICTED, text),
            );
            return Eviction::Stays;
        }
        let purpose = if cause.is_own_failure() {
            PodPurpose::TimeOut
        } else {
            PodPurpose::Evict
        };
        let write = plan::delete(key, pod, purpose);
        let note = cause.note_for_pod(&self.replacement(pod, &key.namespace));
        let subject = Subject::Pod(uid.clone());
        // One that failed before is counted already.
        if !self.writes.is_eviction_failing(&subject, self.now.moment) {
            self.pod_evicted(uid, cause);
        }
        self.send_for_pods(subject, write, vec![note]);
        Eviction::Begun
    }

    /// Who makes another pod in place of one that is deleted.
    pub(in crate::controller) fn replacement(
        &self,
        pod: &PodRecord,
        namespace: &Arc<str>,
    ) -> Replacement {
        let Some(owner) = &pod.owner else {
            return Replacement::Nobody;
        };
        // The driver of Spark, a pod, owns the executors.
        let root = match self.root_of(pod, namespace) {
            Root::Uid(uid) => self.objects.job_key(&uid),
            Root::None | Root::Unknown(_) => None,
        };
        let root = root.and_then(|key| self.kinds.compiled(&key.kind));
        let mut kinds = self.declared(owner).into_iter().chain(root);
        // Of an opaque kind only the pods tell what they ask for: each does work of its own.
        if let Some(kind) = kinds.find(|kind| kind.is_opaque()) {
            return Replacement::OnRetry(kind.kind.clone());
        }
        let (group, _) = owner.group_version();
        // The Job controller counts each pod that is deleted before it has succeeded as failed (`backoffLimit`).
        if (group, owner.kind.as_str()) == ("batch", "Job") {
            return Replacement::OnRetry(owner.kind.clone());
        }
        Replacement::Another
    }

    /// Tells an evicted group why it stays, if it does. Returns whether it stays.
    fn group_stays(&mut self, subject: &Subject, message: &str) -> bool {
        let stays = self.is_kept_group(subject);
        if stays {
            let text = format!(
                "{message}, but no controller would recreate the pods of this group, and its ClusterQueue keeps such pods (whenNotRestartable: Keep): they stay and hold their quota; delete them to free the quota"
            );
            self.tell_about(subject, Note::warning(event::NOT_EVICTED, text));
        }
        stays
    }

    /// Whether a job or group that holds quota gives it back when it is evicted: the engine counts on that, and nothing
    /// else is evicted. Its Workload says that it is evicted. What its JobKind reads must be known as it is: nobody
    /// stops the pods of a job that is gone, or that Sluice can't read or write to. They hold its quota until they are
    /// gone.
    pub(in crate::controller) fn can_be_evicted(&self, subject: &Subject) -> bool {
        if self.objects.workload_of(subject).is_none() {
            return false;
        }
        if let Subject::Group(_) = subject {
            return !self.is_kept_group(subject);
        }
        self.objects
            .job_of(subject)
            .is_some_and(|(key, job)| self.kinds.is_watched(&key.kind) && job.reading.is_ok())
    }

    /// Whether this is a group whose pods may run and are kept: nobody would make them again, and its
    /// ClusterQueue keeps such pods.
    fn is_kept_group(&self, subject: &Subject) -> bool {
        let workload = self.objects.workload_of(subject).map(|(_, record)| record);
        let admission = workload.and_then(|record| record.status.admission.as_ref());
        let is_kept = admission
            .is_some_and(|admission| self.cluster.keeps_not_restartable(&admission.cluster_queue));
        is_kept && self.is_not_made_again(subject) && 0 < self.live_pods(subject)
    }

    /// Whether this is a group whose pods no controller would make again. Its record says so: whoever adds a bare pod to a
    /// group changes nothing about the others.
    pub(in crate::controller) fn is_not_made_again(&self, subject: &Subject) -> bool {
        let workload = self.objects.workload_of(subject);
        matches!(subject, Subject::Group(_))
            && workload.is_some_and(|(_, record)| !record.is_made_again)
    }

    /// Deletes the pods of a job that is evicted and can't be suspended: its controller makes new ones,
    /// which are born behind the gate. Those of an evicted group. And those of a job that has finished, or that is being
    /// deleted and is suspended: its controller does nothing more for it. What another controller makes anew is born behind
    /// the gate. Once the eviction is overdue, those that its controller has left though it is suspended; of a kind whose
    /// controller makes objects, as these may make others at once, those that Sluice has released.
    pub(super) fn take_back_pods(&mut self, subject: &Subject) {
        let job = self.objects.job_of(subject);
        let kind = job.and_then(|(key, _)| self.kinds.compiled(&key.kind));
        let reading = job.and_then(|(_, job)| job.reading.as_ref().ok());
        let has_finished = reading.is_some_and(|reading| reading.finished.is_some());
        let is_left_alone = |kind: &CompiledKind| {
            job.is_some_and(|(_, job)| job.deleting && job.suspended == Some(true))
                && !kind.makes_objects()
        };
        let is_taken_by_deletion = match &kind {
            Some(kind) => kind.suspend_path().is_none() || has_finished || is_left_alone(kind),
            None => matches!(subject, Subject::Group(_)),
        };
        let record = self.objects.workload_of(subject).map(|(_, record)| record);
        let is_overdue = record.is_some_and(WorkloadRecord::is_stalled)
            && job.is_some_and(|(_, job)| job.suspended == Some(true));
        if !is_taken_by_deletion && !is_overdue {
            return;
        }
        let may_come_again = kind.is_some_and(|kind| kind.makes_objects());
        let is_left =
            |pod: &PodRecord| is_taken_by_deletion || !may_come_again || pod.admitted.is_some();
        let writes: Vec<(Uid, Write)> = self
            .objects
            .pods_of(subject)
            .into_iter()
            .filter(|(_, pod)| pod.is_released() && !pod.deleting && is_left(pod))
            .filter(|(_, pod)| !self.is_pod_busy(pod))
            .map(|(key, pod)| (pod.uid.clone(), plan::delete(key, pod, PodPurpose::Evict)))
            .collect();
        for (pod, write) in writes {
            self.send_for_pods(Subject::Pod(pod), write, Vec::new());
        }
    }

    /// The pods of a job or group that run and were admitted by a Workload which somebody has deleted. What was recorded on
    /// them at their release says so to the next leader, too; the record of what only counts by itself names nothing that it
    /// was released with.
    pub(in crate::controller) fn lost_pods(
        &self,
        subject: &Subject,
    ) -> impl Iterator<Item = (&PodKey, &PodRecord)> {
        let is_lost = self.objects.workload_of(subject).is_none();
        let is_in_use = self.is_still_in_use(subject);
        let was_admitted = move |pod: &PodRecord| match (subject, pod.recorded_admission()) {
            (_, None) => is_in_use,
            (Subject::Job(uid), Some(recorded)) => recorded.job.as_deref() == Some(&**uid),
            (Subject::Group(group), Some(recorded)) => {
                recorded.group.as_deref() == Some(&*group.name)
            }
            (Subject::Pod(_), Some(_)) => false,
        };
        let pods = is_lost.then(|| self.objects.pods_of(subject));
        let pods = pods.into_iter().flatten();
        pods.filter(move |(_, pod)| pod.is_released() && was_admitted(pod))
    }

    /// The same of a group.
    pub(in crate::controller) fn lost_members(&self, group: &Subject) -> LostPods {
        LostPods {
            count: self.lost_pods(group).count(),
            are_kept: self.lost_pods(group).any(|(key, pod)| self.stays(key, pod)),
        }
    }

    /// Whether nobody would make a pod again, and its ClusterQueue keeps such pods.
    fn stays(&self, key: &PodKey, pod: &PodRecord) -> bool {
        let queue = queue_of(pod).unwrap_or_default();
        let queue = || LocalQueueKey::new(key.namespace.clone(), queue);
        pod.owner.is_none() && self.keeps_pod(&queue(), pod)
    }

    /// Deletes the pods that have lost their admission with the Workload of their job or group, if nothing else stops them:
    /// those of a group, and of a job that can't be suspended.
    pub(super) fn take_back_lost_pods(&mut self, subject: &Subject) {
        let is_taken_by_deletion = match subject {
            Subject::Group(group) => !self.cluster.is_terminating(&group.namespace),
            Subject::Job(uid) => self.loses_pods_with_its_workload(subject, uid),
            Subject::Pod(_) => false,
        };
        if !is_taken_by_deletion {
            return;
        }
        let lost = self.lost_pods(subject);
        let lost = lost.filter(|(key, pod)| !pod.deleting && !self.stays(key, pod));
        let lost = lost.filter(|(_, pod)| !self.is_pod_busy(pod));
        let writes: Vec<(Uid, Write)> = lost
            .map(|(key, pod)| (pod.uid.clone(), plan::delete(key, pod, PodPurpose::Evict)))
            .collect();
        for (pod, write) in writes {
            self.send_for_pods(Subject::Pod(pod), write, Vec::new());
        }
    }

    /// Whether a job in a queue has to be admitted before its pods run, and nothing but their deletion stops them.
    fn loses_pods_with_its_workload(&self, subject: &Subject, uid: &Uid) -> bool {
        let key = self.objects.job_key(uid);
        let found = key.and_then(|key| Some((key, self.objects.job(key)?)));
        found.is_some_and(|(key, job)| {
            let kind = self.kinds.compiled(&key.kind);
            kind.is_some_and(|kind| kind.suspend_path().is_none())
                && job.hold == Hold::Pods
                && matches!(job.queue, LabelledQueue::Named(_))
                && !job.deleting
                && job.finished().is_none()
                && !self.cluster.is_terminating(&key.namespace)
                && self.may_plan(subject, key, job)
        })
    }
}
