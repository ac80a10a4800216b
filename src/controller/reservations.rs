//! Quota that is held and not used: once a second, who has held it for too long gives it back
//! (`ClusterQueue.spec.reservation`), and so does a job that the API server does not let go.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::Reservation;
use sluice_kinds::pod::PodMode;
use tokio::time::Instant;

use super::Controller;
use super::releases::Eviction;
use crate::plan::reservation::{self, BLOCKED, BLOCKED_NEWS, Backoff, TIMED_OUT};
use crate::plan::{Note, PodPurpose, StatusPurpose, Write, workload};
use crate::world::{PodRecord, Uid, WorkloadRecord};

/// How long a controller may take to make a pod again that was deleted, on a busy machine.
const REPLACED_WITHIN: Duration = Duration::from_mins(1);

/// How long the pods of a controller stand back, and how often they had to so far.
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

/// A job that has to give its quota back.
struct Overdue {
    uid: Uid,
    reason: &'static str,
    message: String,
}

impl Controller {
    pub(super) fn check_reservations(&mut self) {
        if self.cluster.reservations.is_empty() && self.blocked.is_empty() {
            self.empty_since.clear();
            return;
        }
        self.blocked
            .retain(|_, blocked| blocked.told.elapsed() < BLOCKED_NEWS);
        self.note_empty();
        for Overdue {
            uid,
            reason,
            message,
        } in self.overdue_workloads()
        {
            self.give_back(&uid, reason, message);
        }
        for uid in self.overdue_pods() {
            let message = "No node had room for it in the time that its ClusterQueue allows (spec.reservation.timeoutSeconds)";
            let evicted = self.evict_pod(&uid, PodPurpose::TimeOut, TIMED_OUT, message);
            if evicted == Eviction::Begun {
                self.pod_times_out(&uid);
            }
        }
    }

    fn overdue_workloads(&self) -> Vec<Overdue> {
        let now = Timestamp::now();
        let mut overdue = Vec::new();
        for (_, record) in self.world.workloads() {
            let (Some(job), Some(admission)) = (&record.job, &record.status.admission) else {
                continue;
            };
            if record.is_finished() || record.is_evicting() {
                continue;
            }
            let uid = job.uid.clone();
            let terms = self.cluster.reservations.get(&admission.cluster_queue);
            if let Some(blocked) = self.blocked.get(&uid)
                && reservation::blocked_for_most(terms) <= blocked.since.elapsed()
            {
                overdue.push(Overdue {
                    message: format!("It can't be let go: {}", blocked.message),
                    uid,
                    reason: BLOCKED,
                });
            } else if terms.is_some_and(|terms| self.is_overdue(&uid, record, terms, now)) {
                let message = "Not all of its pods were bound to nodes in the time that its ClusterQueue allows (spec.reservation.timeoutSeconds)";
                overdue.push(Overdue {
                    uid,
                    reason: TIMED_OUT,
                    message: message.to_owned(),
                });
            }
        }
        overdue
    }

    fn is_overdue(
        &self,
        uid: &Uid,
        record: &WorkloadRecord,
        terms: &Reservation,
        now: Timestamp,
    ) -> bool {
        let pods = self.world.pods_of(uid);
        let pods = pods.iter().map(|(_, pod)| *pod);
        let empty_for = self.empty_since.get(uid).map(Instant::elapsed);
        reservation::is_overdue(record, pods, empty_for, terms, now)
    }

    /// Notes since when the admitted jobs have no pods that should have some.
    fn note_empty(&mut self) {
        let mut empty_since = std::mem::take(&mut self.empty_since);
        let admitted = self.world.workloads().filter_map(|(_, record)| {
            let admission = record.status.admission.as_ref()?;
            let wants_pods = admission
                .pod_set_assignments
                .iter()
                .any(|set| record.reclaimed(&set.name) < u32::try_from(set.count).unwrap_or(0));
            let is_timed = self
                .cluster
                .reservations
                .contains_key(&admission.cluster_queue);
            let is_on = is_timed && wants_pods && !record.is_finished() && !record.is_evicting();
            is_on.then_some(&record.job.as_ref()?.uid)
        });
        let empty: HashMap<Uid, Instant> = admitted
            .filter(|uid| self.world.pods_of(uid).is_empty() && self.expects_pods(uid))
            .map(|uid| {
                let since = empty_since.remove(uid).unwrap_or_else(Instant::now);
                (uid.clone(), since)
            })
            .collect();
        self.empty_since = empty;
    }

    /// Whether an admitted job without pods is one whose pods were not made, rather than one whose
    /// pods can't be seen, as its kind drops the label that they are found by.
    fn expects_pods(&self, uid: &Uid) -> bool {
        let Some(key) = self.world.job_key(uid) else {
            return false;
        };
        let reading = self
            .world
            .job(key)
            .and_then(|job| job.reading.as_ref().ok());
        let is_active = reading.is_none_or(|reading| reading.active);
        self.shows_pods.contains(&key.kind) || !is_active
    }

    fn give_back(&mut self, uid: &Uid, reason: &'static str, message: String) {
        if self.flights.of(uid).is_some() || self.resting.contains(uid) && reason != BLOCKED {
            return;
        }
        if self.group_stays(uid, &message) {
            return;
        }
        let Some((key, record)) = self.world.workload_of(uid) else {
            return;
        };
        let Some(resource) = self.resource_of(uid) else {
            return;
        };
        let queue = record.status.admission.as_ref();
        let queue = queue.map_or("", |admission| admission.cluster_queue.as_str());
        self.metrics.evicted(queue, reason);
        let requeue = Some(reservation::once_more(record));
        let write = Write::SetWorkloadStatus {
            key: key.clone(),
            revision: record.revision,
            status: Box::new(workload::evicted(
                record,
                reason,
                &message,
                requeue,
                Timestamp::now(),
            )),
            purpose: StatusPurpose::Evict,
        };
        self.blocked.remove(uid);
        self.resting.remove(uid);
        self.send(super::flights::Flight {
            subject: uid.clone(),
            write,
            resource,
            notes: vec![Note::warning("Evicted", message)],
        });
    }

    fn overdue_pods(&self) -> Vec<Uid> {
        let now = Timestamp::now();
        let single = self
            .world
            .pods
            .all()
            .filter(|(_, pod)| pod.mode == PodMode::Single && !pod.is_bound);
        single
            .filter(|(_, pod)| {
                let terms = self.reservation_of_pod(&pod.uid);
                terms.is_some_and(|terms| reservation::pod_is_overdue(pod, terms, now))
            })
            .map(|(_, pod)| pod.uid.clone())
            .collect()
    }

    fn reservation_of_pod(&self, uid: &Uid) -> Option<&Reservation> {
        let id = sluice_engine::WorkloadId::new(uid.clone());
        let admission = self.engine.admission(&id)?;
        self.cluster.reservations.get(admission.queue.as_str())
    }

    /// A pod is deleted because it had no node in time: those that come in its place stand back. Noted
    /// before the reply: the next pod may be there sooner.
    fn pod_times_out(&mut self, uid: &Uid) {
        let Some(terms) = self.reservation_of_pod(uid).cloned() else {
            return;
        };
        let Some((key, pod)) = self.world.pods.of(uid) else {
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

    /// Forgets controllers whose pods are gone, have stood back long enough, and do not come again.
    pub(super) fn forget_backoffs(&mut self) {
        let pods = &self.world.pods;
        self.pod_backoffs.retain(|owner, backoff| {
            Instant::now() < backoff.until + REPLACED_WITHIN
                || pods.is_owner(&backoff.namespace, owner)
        });
    }

    /// A pod has found a node: those of its controller need not stand back any more.
    pub(super) fn has_found_a_node(&mut self, pod: &PodRecord) {
        if let Some(owner) = &pod.owner {
            self.pod_backoffs.remove(&owner.uid);
        }
    }

    /// Notes that a job can't be let go.
    pub(super) fn is_blocked(&mut self, uid: &Uid, message: &str) {
        let blocked = self.blocked.entry(uid.clone()).or_insert_with(|| Blocked {
            since: Instant::now(),
            told: Instant::now(),
            message: String::new(),
        });
        blocked.told = Instant::now();
        message.clone_into(&mut blocked.message);
    }

    /// How long a Workload that has to go will stand back.
    pub(super) fn backoff(&self, record: &WorkloadRecord) -> Backoff {
        let queue = record.status.admission.as_ref().map(|a| &a.cluster_queue);
        let terms = queue.and_then(|queue| self.cluster.reservations.get(queue));
        reservation::backoff(record, terms)
    }
}
