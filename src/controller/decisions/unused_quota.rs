//! Quota that is held and not used (`ClusterQueue.spec.reservation`): since when, and how long the pods of a controller
//! back off that gave it back. That the time is up is decided by the engine. What can't be released is in
//! `unreleased.rs`.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::{ConditionType, Reservation};
use sluice_kinds::manageable_groups::OF_KUBERNETES;

use crate::cache::{JobKey, JobRecord, PodRecord, Subject, Uid, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::wakes::Wake;
use crate::plan::engine_state::Unused;
use crate::plan::evictions::requeue_backoff::{self, Backoff};
use crate::plan::evictions::unused_quota;
use crate::plan::group::REPLACED_WITHIN;
use crate::plan::progress::were_ready;
use crate::process::clock::{Moment, Now};
use crate::process::hashing::HashMap;
use crate::process::invariants::violated;

/// For how long an admitted job has no pods before that is told.
const NO_PODS_TOLD_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Quota that is held and not used, and what follows from it.
#[derive(Debug)]
pub struct UnusedQuota {
    /// When this process began to look.
    begun: Timestamp,
    /// Controllers whose pods have timed out.
    pod_backoffs: HashMap<Uid, PodBackoff>,
    /// Admitted jobs without pods that should have some.
    empty: HashMap<Subject, Empty>,
    /// Jobs and groups all of whose pods have had nodes, and since when those are admitted.
    had_nodes: HashMap<Subject, Timestamp>,
}

impl UnusedQuota {
    /// Nothing is known before `begun`.
    pub fn new(begun: Timestamp) -> Self {
        Self {
            begun,
            pod_backoffs: HashMap::default(),
            empty: HashMap::default(),
            had_nodes: HashMap::default(),
        }
    }

    /// Until when a pod backs off, if it does, as others of its controller have timed out.
    pub fn backs_off_until(&self, pod: &PodRecord, now: Now) -> Option<Timestamp> {
        let backoff = self.pod_backoffs.get(&pod.owner.as_ref()?.uid)?;
        let left = backoff.until.since(now.moment);
        (!left.is_zero()).then(|| now.wall.saturating_add(left).unwrap_or(Timestamp::MAX))
    }

    /// Where the pods of a controller are that have timed out.
    pub fn namespace_of(&self, owner: &Uid) -> Option<&Arc<str>> {
        self.pod_backoffs
            .get(owner)
            .map(|backoff| &backoff.namespace)
    }

    /// Whether all pods of a job or group that is admitted have had nodes.
    pub fn has_had_nodes(&self, subject: &Subject) -> bool {
        self.had_nodes.contains_key(subject)
    }

    /// Whether it is told that an admitted job has no pods.
    pub fn is_told_empty(&self, subject: &Subject) -> bool {
        self.empty.get(subject).is_some_and(|empty| empty.is_told)
    }

    /// Forgets a subject of which nothing is left.
    pub fn forget(&mut self, subject: &Subject) {
        self.empty.remove(subject);
        self.had_nodes.remove(subject);
    }
}

/// An admitted job without pods.
#[derive(Debug)]
struct Empty {
    since: Timestamp,
    /// Whether that is told.
    is_told: bool,
}

/// How long the pods of a controller back off, and how often they had to so far.
#[derive(Debug)]
struct PodBackoff {
    /// Where its pods are.
    namespace: Arc<str>,
    count: i32,
    /// Until then none of its pods is admitted.
    until: Moment,
}

impl Controller {
    /// What an admitted job or group does not use of its quota. Notes since when it has no pods, and whether all
    /// have had nodes.
    pub(in crate::controller) fn note_unused(&mut self, subject: &Subject) -> Unused {
        let since = self.note_unused_since(subject);
        Unused {
            since,
            had_nodes: self.note_had_nodes(subject, since),
        }
    }

    /// Whether all pods of a job or group have had nodes since it was admitted.
    fn note_had_nodes(&mut self, subject: &Subject, unused_since: Option<Timestamp>) -> bool {
        let workload = self.objects.workload_of(subject).map(|(_, record)| record);
        let admitted =
            workload.and_then(|record| Some((record, record.true_since(ConditionType::Admitted)?)));
        let Some((record, admitted)) = admitted else {
            self.unused.had_nodes.remove(subject);
            return false;
        };
        if self.unused.had_nodes.get(subject) == Some(&admitted) {
            return true;
        }
        let admission = record.status.admission.as_ref();
        let reservation = admission.and_then(|of| self.cluster.reservations.get(&of.cluster_queue));
        let pods = self.objects.pods_of(subject);
        // Some pods are counted and never seen by their label, as the submitter of a RayJob.
        let all_have = were_ready(&record.status.conditions)
            || unused_quota::all_have_nodes(record, pods.iter().map(|(_, pod)| *pod));
        // What this process has not seen: without nodes it would have been evicted before. Since when there are no pods
        // at all is no record of before: this process has only just looked.
        let must_have_had = || {
            let since = unused_since.zip(reservation);
            !pods.is_empty()
                && admitted < self.unused.begun
                && since.is_some_and(|(since, reservation)| {
                    unused_quota::is_later(since, admitted, reservation)
                })
        };
        let had_nodes = all_have || must_have_had();
        if had_nodes {
            self.unused.had_nodes.insert(subject.clone(), admitted);
        }
        had_nodes
    }

    fn note_unused_since(&mut self, subject: &Subject) -> Option<Timestamp> {
        let is_empty = self.lacks_pods(subject);
        let empty_since = is_empty.then(|| {
            let empty = self.unused.empty.entry(subject.clone());
            let now = self.now.wall;
            let new = || Empty {
                since: now,
                is_told: false,
            };
            empty.or_insert_with(new).since
        });
        if !is_empty && let Some(Empty { is_told: true, .. }) = self.unused.empty.remove(subject) {
            self.agenda.plan(subject.clone());
        }
        let empty_since = empty_since.filter(|_| self.expects_pods(subject));
        let (_, record) = self.objects.workload_of(subject)?;
        let pods = self.objects.pods_of(subject);
        unused_quota::unused_since(record, pods.iter().map(|(_, pod)| *pod), empty_since)
    }

    /// Whether an admitted job has no pods that should have some.
    fn lacks_pods(&self, subject: &Subject) -> bool {
        let Some((_, record)) = self.objects.workload_of(subject) else {
            return false;
        };
        let admission = record.status.admission.as_ref();
        let wants_pods = admission.is_some_and(|admission| {
            let mut sets = admission.pod_set_assignments.iter();
            sets.any(|set| record.reclaimed(&set.name) < u32::try_from(set.count).unwrap_or(0))
        });
        wants_pods
            && (self.expects_pods(subject) || self.is_ignored(subject))
            && self.objects.pods_of(subject).is_empty()
    }

    /// Whether no controller has said anything of a job yet. It may have none.
    fn is_ignored(&self, subject: &Subject) -> bool {
        let reading = self.objects.job_of(subject);
        let reading = reading.and_then(|(_, job)| job.reading.as_ref().ok());
        reading.is_some_and(|reading| !reading.has_status)
    }

    /// Once a second: tells of admitted jobs that should have pods and have had none for long.
    pub(in crate::controller) fn look_for_missing_pods(&mut self) {
        let now = self.now.wall;
        let for_long = |empty: &Empty| NO_PODS_TOLD_AFTER <= now.duration_since(empty.since);
        let empty = self.unused.empty.iter();
        let changed = empty.filter(|(subject, empty)| {
            empty.is_told != (for_long(empty) && self.is_to_have_pods(subject))
        });
        let changed: Vec<Subject> = changed.map(|(subject, _)| subject.clone()).collect();
        for subject in changed {
            if let Some(empty) = self.unused.empty.get_mut(&subject) {
                empty.is_told = !empty.is_told;
                self.agenda.plan(subject);
            }
        }
        let told = self.unused.empty.iter().filter(|(_, empty)| empty.is_told);
        let workloads = told.filter_map(|(subject, _)| self.objects.workload_of(subject));
        let admissions = workloads.filter_map(|(_, record)| record.status.admission.as_ref());
        let queues = admissions.map(|admission| admission.cluster_queue.as_str());
        self.metrics.workloads.without_pods(queues);
    }

    /// Whether an admitted job is released, and asks for pods now.
    fn is_to_have_pods(&self, subject: &Subject) -> bool {
        let is_kept = (self.objects.workload_of(subject))
            .is_some_and(|(_, record)| record.holds_quota() && !record.is_evicting());
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        let job = job.filter(|job| !job.deleting && job.finished().is_none());
        let reading = job.and_then(|job| job.reading.as_ref().ok());
        let reading = reading.filter(|reading| is_kept && !reading.suspended);
        let sets = reading.and_then(|reading| reading.pod_sets.as_ref().ok());
        sets.is_some_and(|sets| sets.iter().any(|set| set.reclaimable < set.count))
    }

    /// Whether an admitted job without pods is one whose pods were not made, rather than one whose
    /// pods can't be seen, as its kind drops the label that they are found by.
    fn expects_pods(&self, subject: &Subject) -> bool {
        let Some((key, job)) = self.objects.job_of(subject) else {
            return false;
        };
        let reading = job.reading.as_ref().ok();
        let is_active = reading.is_none_or(|reading| reading.active);
        self.shows_pods(key, job) || !is_active
    }

    /// Whether the pods of a job are found by their label: one of its kind was, or Kubernetes itself makes them, which
    /// leaves nothing of a template out.
    pub(in crate::controller) fn shows_pods(&self, key: &JobKey, job: &JobRecord) -> bool {
        let kind = self.kinds.group_kind(&key.kind);
        let is_built_in = kind.is_some_and(|kind| OF_KUBERNETES.contains(&&*kind.group));
        let sets = job.reading.as_ref().ok();
        let sets = sets.and_then(|reading| reading.pod_sets.as_ref().ok());
        let is_labelled = sets.is_some_and(|sets| sets.iter().all(|set| set.marks.are_watched()));
        self.pod_labels.show(&key.kind) || is_built_in && is_labelled
    }

    fn reservation_of_pod(&self, uid: &Uid) -> Option<&Reservation> {
        let admission = self.engine.admission(&Subject::Pod(uid.clone()).id())?;
        self.cluster.reservations.get(admission.queue.as_str())
    }

    /// A pod is deleted because it had no node in time: those that come in its place back off. Noted
    /// before the reply: the next pod may be there sooner.
    pub(in crate::controller) fn note_pod_timeout(&mut self, uid: &Uid) {
        // Its ClusterQueue may have none any more.
        let Some(reservation) = self.reservation_of_pod(uid).cloned() else {
            return;
        };
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return violated("a pod that is being deleted is known");
        };
        let namespace = key.namespace.clone();
        // Nobody makes another one in place of a bare pod.
        let Some(owner) = pod.owner.as_ref().map(|owner| owner.uid.clone()) else {
            return;
        };
        let now = self.now.moment;
        let backoff = self
            .unused
            .pod_backoffs
            .entry(owner.clone())
            .or_insert(PodBackoff {
                namespace,
                count: 0,
                until: now,
            });
        // Pods that time out together are one failure.
        if backoff.until <= now {
            backoff.count = backoff.count.saturating_add(1);
            let wait = requeue_backoff::pod_backoff(backoff.count, &reservation);
            backoff.until = now.after(wait);
            self.wake_after(wait, Wake::PodsOf(owner));
        }
    }

    /// Forgets controllers whose pods are gone, have backed off long enough, and do not come again.
    pub(in crate::controller) fn forget_backoffs(&mut self) {
        let (pods, now) = (&self.objects.pods, self.now.moment);
        self.unused.pod_backoffs.retain(|owner, backoff| {
            now < backoff.until.after(REPLACED_WITHIN) || pods.is_owner(&backoff.namespace, owner)
        });
    }

    /// A pod has found a node: those of its controller need not back off any more.
    pub(in crate::controller) fn end_pod_backoff(&mut self, pod: &PodRecord) {
        let Some(owner) = &pod.owner else {
            return;
        };
        if let Some(backoff) = self.unused.pod_backoffs.remove(&owner.uid) {
            for pod in self.objects.pods.children(&backoff.namespace, &owner.uid) {
                self.pod_changed(&pod);
            }
        }
    }

    /// When a Workload that backs off waits in its queue again.
    pub(in crate::controller) fn requeue_at(
        &self,
        key: &WorkloadKey,
        record: &WorkloadRecord,
    ) -> Option<Timestamp> {
        let queue = self.cluster_queue_of(key, record);
        let reservation = queue.and_then(|queue| self.cluster.reservations.get(queue));
        requeue_backoff::requeue_at(record, reservation)
    }

    /// How long an evicted Workload will back off.
    pub(in crate::controller) fn backoff(&self, record: &WorkloadRecord) -> Backoff {
        let queue = record.status.admission.as_ref().map(|a| &a.cluster_queue);
        let reservation = queue.and_then(|queue| self.cluster.reservations.get(queue));
        requeue_backoff::backoff(record, reservation)
    }
}
