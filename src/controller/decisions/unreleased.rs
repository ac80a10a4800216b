//! Admitted jobs and groups that are not released in time: they give their quota back (`ReleaseBlocked`). Their release
//! is refused, or reverted by another client, or the job is still suspended although nothing holds it. And writes that
//! nobody answers: for how long they are sent again.
//!
//! The engine decides on reservation timeouts (`unused_quota.rs`). It can't know of releases that fail: only the outcome
//! of writes shows them.

use std::time::Duration;

use sluice_crds::Reservation;

use super::evictions::Eviction;
use crate::cache::{JobRecord, Subject, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::plan::WriteKind;
use crate::plan::evictions::cause::Cause;
use crate::plan::evictions::unused_quota::{REFUSAL_NEWS, recovery_timeout, release_timeout};
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// What is told of a job whose release has had no effect, although it was not refused.
const STILL_SUSPENDED: &str = "it is still suspended, although nothing holds it";

/// Admitted jobs and groups that are to be released, as far as that has not happened.
#[derive(Debug, Default)]
pub struct Unreleased {
    /// Those whose release is refused.
    refused: HashMap<Subject, RefusedRelease>,
    /// Those that are suspended, and since when this process has seen that.
    suspended: HashMap<Subject, Moment>,
}

/// A release that is refused.
#[derive(Debug)]
struct RefusedRelease {
    since: Moment,
    last: Moment,
    message: String,
}

impl Unreleased {
    /// Notes whether a job with this Workload is suspended although it should be running.
    pub fn note(
        &mut self,
        subject: &Subject,
        record: &WorkloadRecord,
        job: Option<&JobRecord>,
        now: Moment,
    ) {
        let is_kept = record.holds_quota();
        if is_kept && !record.is_evicting() && job.is_some_and(is_to_be_released) {
            self.suspended.entry(subject.clone()).or_insert(now);
        } else {
            self.forget_suspended(subject);
        }
    }

    /// Nothing is known to suspend a job any more.
    pub fn forget_suspended(&mut self, subject: &Subject) {
        self.suspended.remove(subject);
    }

    /// A job or group is released.
    pub fn forget_refusal(&mut self, subject: &Subject) {
        self.refused.remove(subject);
    }

    /// Forgets a subject of which nothing is left.
    pub fn forget(&mut self, subject: &Subject) {
        self.refused.remove(subject);
        self.suspended.remove(subject);
    }
}

/// Whether an admitted job should be running by now, as far as that is for Sluice to do.
fn is_to_be_released(job: &JobRecord) -> bool {
    !job.deleting && job.finished().is_none() && job.suspension().ends_by_admission()
}

impl Controller {
    /// Notes that a job or group, or one of its pods, can't be released.
    pub(in crate::controller) fn note_release_refused(&mut self, subject: &Subject, why: &str) {
        let now = self.now.moment;
        let refused = self.unreleased.refused.entry(subject.clone());
        let refused = refused.or_insert_with(|| RefusedRelease {
            since: now,
            last: now,
            message: String::new(),
        });
        refused.last = now;
        why.clone_into(&mut refused.message);
    }

    /// Once a second: takes quota back from what has not been released in time.
    pub(in crate::controller) fn evict_unreleased(&mut self) {
        let now = self.now.moment;
        (self.unreleased.refused).retain(|_, refused| now.since(refused.last) < REFUSAL_NEWS);
        let refused = self.unreleased.refused.iter();
        let refused = refused.map(|(subject, by)| (subject, by.since, by.message.as_str()));
        let suspended = self.unreleased.suspended.iter();
        let suspended = suspended.map(|(subject, since)| (subject, *since, STILL_SUSPENDED));
        let overdue: Vec<(Subject, Cause)> = refused
            .chain(suspended)
            .filter(|(subject, since, _)| self.is_release_overdue(subject, *since))
            .map(|(subject, _, why)| (subject.clone(), Cause::blocked(why)))
            .collect();
        for (subject, cause) in overdue {
            if self.evict_workload(&subject, &cause) == Eviction::Begun {
                self.unreleased.forget(&subject);
                self.writes.end_backoff(&subject);
            }
        }
    }

    /// Whether a write that nobody has answered is to be sent again: an admission until it is overdue, as it keeps quota
    /// from others, and the release of a pod as long as its job or group keeps its quota.
    pub(in crate::controller) fn is_still_wanted(&self, sent: &InFlightWrite) -> bool {
        let subject = &sent.subject;
        if sent.kind() == WriteKind::Admission {
            // What is seen admitted can't be admitted by it any more: a conflict says so at once.
            let record = self.objects.workload_of(subject).map(|(_, record)| record);
            if record.is_some_and(|record| record.status.admission.is_some()) {
                return true;
            }
            let admission = self.engine.admission(&subject.id());
            let queue = admission.map(|admission| admission.queue.as_str());
            let reservation = queue.and_then(|queue| self.cluster.reservations.get(queue));
            let waited = self.writes.unanswered_for(subject, self.now.moment);
            return waited < release_timeout(reservation);
        }
        let Some(root) = self.released_by(&sent.write, subject) else {
            return true;
        };
        if let Some((_, record)) = self.objects.workload_of(&root) {
            return !record.is_evicting() && !record.is_finished();
        }
        let pod = subject.pod().and_then(|uid| self.objects.pods.of(uid));
        let is_unqueued = pod.is_some_and(|(key, pod)| self.is_unqueued(pod, &key.namespace));
        is_unqueued || !self.is_still_in_use(&root)
    }

    /// Whether a release that was to happen at `since` is overdue, and nothing is under way.
    fn is_release_overdue(&self, subject: &Subject, since: Moment) -> bool {
        let record = self.objects.workload_of(subject).map(|(_, record)| record);
        let timeout = record
            .filter(|record| !record.is_finished() && !record.is_evicting())
            .and_then(|record| self.release_timeout(subject, record));
        timeout.is_some_and(|timeout| timeout <= self.now.since(since))
            && self.writes.may_evict(subject)
    }

    /// How long the release may fail of what is admitted. Once all pods have had nodes, it is a pod in place of another
    /// that can't be released: the others run on, as if that pod had found no node.
    fn release_timeout(&self, subject: &Subject, record: &WorkloadRecord) -> Option<Duration> {
        let admission = record.status.admission.as_ref()?;
        let reservation: Option<&Reservation> =
            self.cluster.reservations.get(&admission.cluster_queue);
        if self.unused.has_had_nodes(subject) && 0 < self.live_pods(subject) {
            return reservation.and_then(recovery_timeout);
        }
        Some(release_timeout(reservation))
    }
}
