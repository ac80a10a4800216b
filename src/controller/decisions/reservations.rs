//! Quota that is held and not used (`ClusterQueue.spec.reservation`): since when, and how long the pods
//! of a controller back off that gave it back. A job that the API server does not release gives its
//! quota back too.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::Reservation;
use tokio::time::Instant;

use super::evictions::Eviction;
use crate::cache::{PodRecord, Uid, WorkloadRecord};
use crate::controller::Controller;
use crate::plan::cause::Cause;
use crate::plan::group::REPLACED_WITHIN;
use crate::plan::reservation::{self, BLOCKED_NEWS, Backoff};
use crate::process::clock;

/// How long the pods of a controller back off, and how often they had to so far.
#[derive(Debug)]
pub struct PodBackoff {
    /// Where its pods are.
    pub namespace: Arc<str>,
    count: i32,
    /// Until then none of its pods is admitted.
    pub until: Instant,
}

/// A release that is refused.
#[derive(Debug)]
pub struct Blocked {
    since: Instant,
    /// The last time.
    told: Instant,
    message: String,
}

impl Controller {
    /// Once a second: a job that has not been released for too long gives its quota back. Whom the engine
    /// gives up on, it says when it decides; this it can't know, as it is seen by writes alone.
    pub(in crate::controller) fn check_blocked(&mut self) {
        self.blocked
            .retain(|_, blocked| blocked.told.elapsed() < BLOCKED_NEWS);
        for (uid, cause) in self.overdue() {
            if self.flights.of(&uid).is_none()
                && self.evict_workload(&uid, &cause) == Eviction::Begun
            {
                self.blocked.remove(&uid);
                self.resting.remove(&uid);
            }
        }
    }

    fn overdue(&self) -> Vec<(Uid, Cause)> {
        let overdue = self.blocked.iter().filter(|(uid, blocked)| {
            let record = self.objects.workload_of(uid).map(|(_, record)| record);
            let record = record.filter(|record| !record.is_finished() && !record.is_evicting());
            let admission = record.and_then(|record| record.status.admission.as_ref());
            admission.is_some_and(|admission| {
                let terms = self.cluster.reservations.get(&admission.cluster_queue);
                reservation::blocked_for_most(terms) <= blocked.since.elapsed()
            })
        });
        overdue
            .map(|(uid, blocked)| (uid.clone(), Cause::blocked(&blocked.message)))
            .collect()
    }

    /// Since when a job or group holds quota that its pods don't use. Notes since when it has none.
    pub(in crate::controller) fn unused_since(&mut self, uid: &Uid) -> Option<Timestamp> {
        let is_empty = self.lacks_pods(uid);
        let empty_since = is_empty.then(|| {
            let since = self.empty_since.entry(uid.clone());
            *since.or_insert_with(clock::now)
        });
        if !is_empty {
            self.empty_since.remove(uid);
        }
        let (_, record) = self.objects.workload_of(uid)?;
        let pods = self.objects.pods_of(uid);
        reservation::unused_since(record, pods.iter().map(|(_, pod)| *pod), empty_since)
    }

    /// Whether an admitted job has no pods that should have some.
    fn lacks_pods(&self, uid: &Uid) -> bool {
        let Some((_, record)) = self.objects.workload_of(uid) else {
            return false;
        };
        let admission = record.status.admission.as_ref();
        let wants_pods = admission.is_some_and(|admission| {
            let mut sets = admission.pod_set_assignments.iter();
            sets.any(|set| record.reclaimed(&set.name) < u32::try_from(set.count).unwrap_or(0))
        });
        wants_pods && self.expects_pods(uid) && self.objects.pods_of(uid).is_empty()
    }

    /// Whether an admitted job without pods is one whose pods were not made, rather than one whose
    /// pods can't be seen, as its kind drops the label that they are found by.
    fn expects_pods(&self, uid: &Uid) -> bool {
        let Some(key) = self.objects.job_key(uid) else {
            return false;
        };
        let reading = self
            .objects
            .job(key)
            .and_then(|job| job.reading.as_ref().ok());
        let is_active = reading.is_none_or(|reading| reading.active);
        self.shows_pods.contains(&key.kind) || !is_active
    }

    fn reservation_of_pod(&self, uid: &Uid) -> Option<&Reservation> {
        let id = sluice_engine::WorkloadId::new(uid.clone());
        let admission = self.engine.admission(&id)?;
        self.cluster.reservations.get(admission.queue.as_str())
    }

    /// A pod is deleted because it had no node in time: those that come in its place back off. Noted
    /// before the reply: the next pod may be there sooner.
    pub(in crate::controller) fn pod_times_out(&mut self, uid: &Uid) {
        let Some(terms) = self.reservation_of_pod(uid).cloned() else {
            return;
        };
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return;
        };
        let namespace = key.namespace.clone();
        let Some(owner) = pod.owner.as_ref().map(|owner| owner.uid.clone()) else {
            return;
        };
        let now = Instant::now();
        let backoff = self
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
            let wait = reservation::pod_backoff(backoff.count, &terms);
            backoff.until = now + wait;
            self.wake.insert(owner, wait);
        }
    }

    /// Forgets controllers whose pods are gone, have backed off long enough, and do not come again.
    pub(in crate::controller) fn forget_backoffs(&mut self) {
        let pods = &self.objects.pods;
        self.pod_backoffs.retain(|owner, backoff| {
            Instant::now() < backoff.until + REPLACED_WITHIN
                || pods.is_owner(&backoff.namespace, owner)
        });
    }

    /// A pod has found a node: those of its controller need not back off any more.
    pub(in crate::controller) fn has_found_a_node(&mut self, pod: &PodRecord) {
        if let Some(owner) = &pod.owner {
            self.pod_backoffs.remove(&owner.uid);
        }
    }

    /// Notes that a job can't be released.
    pub(in crate::controller) fn is_blocked(&mut self, uid: &Uid, message: &str) {
        let blocked = self.blocked.entry(uid.clone()).or_insert_with(|| Blocked {
            since: Instant::now(),
            told: Instant::now(),
            message: String::new(),
        });
        blocked.told = Instant::now();
        message.clone_into(&mut blocked.message);
    }

    /// How long an evicted Workload will back off.
    pub(in crate::controller) fn backoff(&self, record: &WorkloadRecord) -> Backoff {
        let queue = record.status.admission.as_ref().map(|a| &a.cluster_queue);
        let terms = queue.and_then(|queue| self.cluster.reservations.get(queue));
        reservation::backoff(record, terms)
    }
}
