//! Evictions: what the engine evicts is marked as evicted, with the reason. A Workload by its
//! conditions: its plan does the rest. A pod that is admitted by itself by its deletion, if somebody
//! makes it again.

use std::collections::BTreeMap;

use sluice_engine::{Event, EvictReason, LocalQueueKey, WorkloadId};
use sluice_kinds::view::QueueName;

use crate::cache::conditions::{self, Type};
use crate::cache::workload::group_key;
use crate::cache::{Uid, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::account::queue_of;
use crate::controller::writes::flights::Flight;
use crate::plan::cause::{Cause, PREEMPTED, Preemptor, Replacement, preempting};
use crate::plan::{Note, PodPurpose, StatusPurpose, Write, pod as plan, workload};
use crate::process::clock;

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

/// For each preemptor, how many workloads are being preempted for it.
pub type Preempting = BTreeMap<WorkloadId, usize>;

impl Controller {
    /// Does what the engine has decided, and notes for whom.
    pub(in crate::controller) fn evict(
        &mut self,
        id: &WorkloadId,
        reason: EvictReason,
        for_whom: &mut Preempting,
    ) {
        let uid = Uid::from(id.as_str());
        let is_pod = self.objects.pods.key(&uid).is_some();
        let cause = self.cause(&uid, &reason);
        let is_busy = self.flights.of(&uid).is_some() || self.resting.contains(&uid);
        let eviction = match is_pod {
            _ if is_busy => Eviction::Busy,
            true => self.evict_pod(&uid, &cause),
            false => self.evict_workload(&uid, &cause),
        };
        match (eviction, reason) {
            (Eviction::Busy, _) => self.engine.apply(Event::EvictionFailed(id.clone())),
            (Eviction::Begun, EvictReason::Preempted { by, .. }) => {
                *for_whom.entry(by).or_default() += 1;
            }
            (Eviction::Begun, EvictReason::ReservationTimedOut) if is_pod => {
                self.pod_times_out(&uid);
            }
            (Eviction::Begun | Eviction::Stays, _) => {}
        }
    }

    /// Sends the events of preemptors.
    pub(in crate::controller) fn tell_preempting(&mut self, for_whom: Preempting) {
        for (id, targets) in for_whom {
            self.tell_about(&Uid::from(id.as_str()), preempting(targets));
        }
    }

    /// Why the engine evicts it, as its owner may know it.
    fn cause(&self, uid: &Uid, reason: &EvictReason) -> Cause {
        match reason {
            EvictReason::ClusterQueueStopped => Cause::cluster_queue_stopped(),
            EvictReason::LocalQueueStopped => Cause::local_queue_stopped(),
            EvictReason::ReservationTimedOut if self.objects.pods.key(uid).is_some() => {
                Cause::pod_timed_out()
            }
            EvictReason::ReservationTimedOut => Cause::timed_out(),
            EvictReason::Preempted { by, right } => {
                let by = self.preemptor(&Uid::from(by.as_str()), self.namespace_of(uid).as_deref());
                Cause::preempted(&by, *right)
            }
        }
    }

    /// A preemptor, as it is named in messages to `namespace`.
    fn preemptor(&self, uid: &Uid, namespace: Option<&str>) -> Preemptor {
        let own = self.namespace_of(uid);
        let is_known = own.is_some() && own.as_deref() == namespace;
        let (priority, local_queue) = self.place_in_queue(uid).unwrap_or_default();
        let key = own.map(|own| LocalQueueKey::new(own, local_queue.as_str()));
        let queue = key.as_ref().and_then(|key| self.cluster.first_choice(key));
        Preemptor {
            // The name of a pod group is for its own namespace.
            uid: (is_known || group_key(uid).is_none()).then(|| uid.to_string()),
            name: self.name_in(uid, namespace),
            priority,
            queue: queue.map_or_else(String::new, |(queue, _)| queue.to_owned()),
        }
    }

    /// The priority and the LocalQueue of something that waits.
    fn place_in_queue(&self, uid: &Uid) -> Option<(i32, String)> {
        if let Some((_, record)) = self.objects.workload_of(uid) {
            return Some((record.spec.priority, record.spec.queue_name.clone()));
        }
        let (_, pod) = self.objects.pods.of(uid)?;
        let QueueName::Named(queue) = &pod.queue else {
            return None;
        };
        let priority = self.pod_priority(pod).map_or(pod.priority, |p| p.value);
        Some((priority, queue.clone()))
    }

    /// The kind and name of a job, group or pod, if it is of this namespace.
    pub(in crate::controller) fn name_in(
        &self,
        uid: &Uid,
        namespace: Option<&str>,
    ) -> Option<String> {
        let own = self.namespace_of(uid);
        let is_known = own.is_some() && own.as_deref() == namespace;
        is_known.then(|| self.display_name(uid)).flatten()
    }

    fn namespace_of(&self, uid: &Uid) -> Option<std::sync::Arc<str>> {
        let workload = self.objects.workload_of(uid).map(|(key, _)| &key.namespace);
        let pod = || self.objects.pods.of(uid).map(|(key, _)| &key.namespace);
        workload.or_else(pod).cloned()
    }

    /// The kind and name of a job, group or pod.
    pub(in crate::controller) fn display_name(&self, uid: &Uid) -> Option<String> {
        if let Some((_, group)) = group_key(uid) {
            return Some(format!("pod group {:?}", &*group));
        }
        if let Some(key) = self.objects.job_key(uid) {
            return Some(format!(
                "{} {:?}",
                self.kinds.resource(&key.kind)?.kind,
                &*key.name
            ));
        }
        let (key, _) = self.objects.pods.of(uid)?;
        Some(format!("Pod {:?}", &*key.name))
    }

    /// Tells a job or group to go. What does it is its plan, once its Workload says so.
    pub(in crate::controller) fn evict_workload(&mut self, uid: &Uid, cause: &Cause) -> Eviction {
        if self.group_stays(uid, &cause.message) {
            return Eviction::Stays;
        }
        // It has been told, and does not stop.
        let known = self.objects.workload_of(uid);
        if known.is_some_and(|(_, record)| record.is_evicting()) {
            return Eviction::Stays;
        }
        let found = self.objects.workload_of(uid).zip(self.resource_of(uid));
        let (Some(((key, record), resource)), None) = (found, self.flights.of(uid)) else {
            return Eviction::Busy;
        };
        let status = workload::evicted(record, cause, clock::now());
        let write = Write::SetWorkloadStatus {
            key: key.clone(),
            revision: record.revision,
            status: Box::new(status),
            purpose: StatusPurpose::Evict,
        };
        self.send(Flight {
            subject: uid.clone(),
            write,
            resource,
            notes: vec![cause.note()],
        });
        Eviction::Begun
    }

    /// Takes back a pod that was admitted by itself. Gates can't be put back: it is deleted, unless
    /// nobody would make another one in its place and its ClusterQueue keeps such pods.
    pub(in crate::controller) fn evict_pod(&mut self, uid: &Uid, cause: &Cause) -> Eviction {
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return Eviction::Stays;
        };
        if pod.deleting {
            return Eviction::Busy;
        }
        let is_kept = pod.owner.is_none() && {
            let queue = queue_of(pod).unwrap_or_default();
            self.keeps_pod(&LocalQueueKey::new(key.namespace.clone(), queue), pod)
        };
        if is_kept {
            let text = format!(
                "{}, but no controller would recreate this pod, and its ClusterQueue keeps such pods (whenNotRestartable: Keep): it stays and holds its quota; delete it to free the quota",
                cause.message
            );
            self.tell_about(uid, Note::warning("NotEvicted", text));
            return Eviction::Stays;
        }
        let purpose = if cause.is_own_failure() {
            PodPurpose::TimeOut
        } else {
            PodPurpose::Evict
        };
        let write = plan::delete(key, pod, purpose);
        // Of an opaque kind only the pods tell what they ask for: each does work of its own.
        let replacement = match &pod.owner {
            None => Replacement::Nobody,
            Some(owner) => match self.declared(owner).filter(|kind| kind.is_opaque()) {
                Some(kind) => Replacement::OnRetry(kind.kind.clone()),
                None => Replacement::Another,
            },
        };
        let note = cause.note_for_pod(&replacement);
        self.count_pod_eviction(uid, cause);
        self.send_for_pod(uid.clone(), write, vec![note]);
        Eviction::Begun
    }

    /// Tells an evicted group why it stays, if it does. Returns whether it stays.
    fn group_stays(&mut self, uid: &Uid, message: &str) -> bool {
        let stays = self.is_kept_group(uid);
        if stays {
            let text = format!(
                "{message}, but no controller would recreate the pods of this group, and its ClusterQueue keeps such pods (whenNotRestartable: Keep): they stay and hold their quota; delete them to free the quota"
            );
            self.tell_about(uid, Note::warning("NotEvicted", text));
        }
        stays
    }

    /// Whether a job or group that holds quota gives it back after an eviction.
    pub(in crate::controller) fn can_be_evicted(&self, uid: &Uid) -> bool {
        if group_key(uid).is_some() {
            return !self.is_kept_group(uid);
        }
        let key = self.objects.job_key(uid);
        let kind = key.and_then(|key| self.kinds.compiled(&key.kind));
        let job = key.and_then(|key| self.objects.job(key));
        kind.is_some() && job.is_some_and(|job| job.reading.is_ok())
    }

    /// Whether this is a group whose pods may run and are kept: nobody would make them again, and its
    /// ClusterQueue keeps such pods.
    fn is_kept_group(&self, uid: &Uid) -> bool {
        let workload = self.objects.workload_of(uid).map(|(_, record)| record);
        let admission = workload.and_then(|record| record.status.admission.as_ref());
        let is_kept = admission
            .is_some_and(|admission| self.cluster.keeps_not_restartable(&admission.cluster_queue));
        is_kept && self.is_not_made_again(uid) && 0 < self.live_pods(uid)
    }

    /// Whether this is a group of which no controller would make a pod again.
    pub(in crate::controller) fn is_not_made_again(&self, uid: &Uid) -> bool {
        let is_bare = || {
            let pods = self.objects.pods_of(uid);
            pods.iter().any(|(_, pod)| pod.owner.is_none())
        };
        group_key(uid).is_some() && is_bare()
    }

    /// Counts the eviction of a job or group whose Workload says so since it was seen last: whoever
    /// decided it, and whether or not there was an answer to the write.
    pub(in crate::controller) fn count_eviction(
        &self,
        before: Option<bool>,
        record: &WorkloadRecord,
    ) {
        let conditions = &record.status.conditions;
        let (Some(false), true, Some(evicted), Some(admission)) = (
            before,
            record.is_evicting(),
            conditions::find(conditions, Type::Evicted),
            &record.status.admission,
        ) else {
            return;
        };
        self.metrics
            .evicted(&admission.cluster_queue, &evicted.reason);
        if evicted.reason == PREEMPTED
            && let Some(preempted) = conditions::find(conditions, Type::Preempted)
        {
            self.metrics
                .preempted(&admission.cluster_queue, &preempted.reason);
        }
    }

    fn count_pod_eviction(&self, uid: &Uid, cause: &Cause) {
        let admission = self.engine.admission(&WorkloadId::new(uid.clone()));
        let queue = admission.map_or("", |admission| admission.queue.as_str());
        self.metrics.evicted(queue, cause.reason);
        if let Some(right) = cause.preempted {
            self.metrics.preempted(queue, right.reason());
        }
    }
}
