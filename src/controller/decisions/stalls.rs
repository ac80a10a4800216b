//! Evictions and deletions that should have had an effect by now. What is overdue is told once, and no workload waits
//! for it any longer. The Workload says since when a job is evicted, so a restart forgets nothing. Releases are in
//! `unreleased.rs`.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::cache::{JobRecord, Subject, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::plan::evictions::stall::{self, Remains};
use crate::plan::{StatusPurpose, Write};
use crate::process::hashing::HashMap;
use crate::process::invariants::violated;

/// Jobs and groups that something is expected of.
#[derive(Debug, Default)]
pub struct Expected {
    /// Those that are to stop.
    evicted: HashMap<Subject, Stopping>,
    /// What is being deleted and has no Workload: pods with usage of their own, and jobs that are deleted after
    /// what belongs to them.
    terminating: HashMap<Subject, Terminating>,
    /// Jobs that have finished and hold quota, as their pods are not gone.
    finished: HashMap<Subject, Outlasting>,
}

/// What is told of pods that outlast their job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Outlasting {
    /// Nothing yet: since when that is so is not noted.
    #[default]
    New,
    /// Nothing before that time.
    ToldAt(Timestamp),
    /// It was told.
    Told,
}

/// What is being deleted.
#[derive(Debug)]
struct Terminating {
    /// The ClusterQueue whose quota it holds.
    queue: Arc<str>,
    /// Until when others wait for it.
    until: Timestamp,
    /// Whether it was told of that it is overdue.
    is_stalled: bool,
}

/// A job that is to stop.
#[derive(Debug)]
struct Stopping {
    /// The ClusterQueue whose quota it holds.
    queue: Arc<str>,
    /// Whether that is overdue.
    is_stalled: bool,
}

impl Expected {
    /// Notes what is expected of a job or group with a Workload.
    pub fn note(&mut self, subject: &Subject, record: &WorkloadRecord, job: Option<&JobRecord>) {
        let admission = record.status.admission.as_ref();
        let holds = admission.filter(|_| !record.is_finished());
        let Some(admission) = holds else {
            return self.forget(subject);
        };
        if job.is_some_and(|job| job.finished().is_some()) {
            self.finished.entry(subject.clone()).or_default();
        } else {
            self.finished.remove(subject);
        }
        if record.is_evicting() || job.is_some_and(|job| job.deletes_pods) {
            let stopping = Stopping {
                queue: admission.cluster_queue.as_str().into(),
                is_stalled: record.is_stalled(),
            };
            self.evicted.insert(subject.clone(), stopping);
            return;
        }
        self.evicted.remove(subject);
    }

    /// Notes that what has no Workload is to be gone, and until when others wait for that.
    pub fn note_terminating(&mut self, subject: &Subject, queue: &str, until: Timestamp) {
        let known = self.terminating.entry(subject.clone());
        let known = known.or_insert_with(|| Terminating {
            queue: queue.into(),
            until,
            is_stalled: false,
        });
        known.until = until;
    }

    /// How many are overdue.
    #[cfg(test)]
    pub fn overdue(&self) -> usize {
        let evicted = self.evicted.values().filter(|stopping| stopping.is_stalled);
        let terminating = self.terminating.values().filter(|left| left.is_stalled);
        evicted.count() + terminating.count()
    }

    /// Nothing is expected of a job, group or pod any more.
    pub fn forget(&mut self, subject: &Subject) {
        self.forget_workload(subject);
        self.terminating.remove(subject);
    }

    /// Nothing is expected of a Workload any more.
    pub fn forget_workload(&mut self, subject: &Subject) {
        self.evicted.remove(subject);
        self.finished.remove(subject);
    }
}

impl Controller {
    /// Once a second: looks after evictions and deletions that have not ended.
    pub(in crate::controller) fn look_after_stalls(&mut self) {
        self.tell_stalled();
        self.tell_stalled_deletions();
        self.tell_outlasting_pods();
        let evicted = self.expected.evicted.values();
        let jobs = evicted.filter(|stopping| stopping.is_stalled);
        let terminating = self.expected.terminating.values();
        let others = terminating.filter(|left| left.is_stalled);
        let jobs = jobs.map(|stopping| stopping.queue.as_ref());
        self.metrics
            .workloads
            .stalled(jobs.chain(others.map(|left| left.queue.as_ref())));
    }

    /// Tells of what has no Workload, is deleted and does not go.
    fn tell_stalled_deletions(&mut self) {
        let now = self.now.wall;
        let terminating = self.expected.terminating.iter_mut();
        let overdue = terminating.filter(|(_, left)| !left.is_stalled && left.until <= now);
        let overdue: Vec<Subject> = overdue
            .map(|(subject, left)| {
                left.is_stalled = true;
                subject.clone()
            })
            .collect();
        for subject in overdue {
            if let Subject::Pod(uid) = &subject {
                self.tell_about(&subject, stall::pod_overdue());
                self.sync_pod(uid);
            } else {
                let note = stall::deletion_overdue(&self.remains(&subject));
                self.tell_about(&subject, note);
                self.hold_up_nobody(&subject);
            }
        }
    }

    /// Tells of pods that have not ended a while after their job, whose controller usually ends them.
    fn tell_outlasting_pods(&mut self) {
        let now = self.now.wall;
        let mut due = Vec::new();
        for (subject, state) in self.expected.finished.iter_mut() {
            match *state {
                Outlasting::New => *state = Outlasting::ToldAt(stall::in_time_until(now, None)),
                Outlasting::ToldAt(at) if at <= now => {
                    *state = Outlasting::Told;
                    due.push(subject.clone());
                }
                Outlasting::ToldAt(_) | Outlasting::Told => {}
            }
        }
        for subject in due {
            let pods = self.lasting_pods(&subject);
            let mut pods: Vec<String> = pods.map(|key| key.name.to_string()).collect();
            pods.sort_unstable();
            if !pods.is_empty() {
                self.tell_about(&subject, stall::pods_run_on(&pods));
            }
        }
    }

    /// Until when others wait for a job that is deleted after what belongs to it, its Workload among that.
    pub(in crate::controller) fn deleted_in_time_until(
        &self,
        subject: &Subject,
    ) -> Option<Timestamp> {
        let remains = self.remains(subject);
        let since = remains.deleted_at?;
        Some(stall::in_time_until(since, remains.terminate_until))
    }

    /// Tells of evictions that are overdue.
    fn tell_stalled(&mut self) {
        let evicted = self.expected.evicted.iter();
        let subjects: Vec<Subject> = evicted
            .filter(|(subject, stopping)| {
                !stopping.is_stalled && self.writes.may_tell_stalled(subject)
            })
            .map(|(subject, _)| subject.clone())
            .collect();
        let now = self.now.wall;
        for subject in subjects {
            let Some((key, record)) = self.objects.workload_of(&subject) else {
                violated("only what has a Workload is expected to stop");
                continue;
            };
            let Some((status, note)) = stall::overdue(record, &self.remains(&subject), now) else {
                continue;
            };
            let write = Write::SetWorkloadStatus {
                key: key.clone(),
                revision: record.revision,
                status: Box::new(status),
                purpose: StatusPurpose::Stall,
            };
            self.send(InFlightWrite {
                resource: self.resource_for_status(&subject),
                subject,
                write,
                notes: vec![note],
            });
        }
    }

    /// What is left of an evicted job or group.
    fn remains(&self, subject: &Subject) -> Remains {
        let pods = self.objects.pods_of(subject).into_iter();
        let live: Vec<_> = pods.filter(|(_, pod)| pod.is_released()).collect();
        let mut names: Vec<_> = live.iter().map(|(key, _)| key.name.to_string()).collect();
        names.sort_unstable();
        let job = self.objects.job_of(subject).map(|(_, job)| job);
        Remains {
            pods: names,
            terminate_until: live.iter().filter_map(|(_, pod)| pod.terminate_until).max(),
            deleted_at: job
                .filter(|job| job.deletes_pods)
                .and_then(|job| job.deleted_at),
            is_unsuspended: job.is_some_and(|job| job.suspended == Some(false))
                && self.can_be_suspended(subject),
        }
    }

    fn can_be_suspended(&self, subject: &Subject) -> bool {
        let job = self.objects.job_of(subject);
        let kind = job.and_then(|(key, _)| self.kinds.compiled(&key.kind));
        kind.is_some_and(|kind| kind.suspend_path().is_some())
    }
}
