//! The plan of a job, and what it depends on.

use std::time::Duration;

use crate::cache::{JobKey, JobRecord, Subject, Uid, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::wakes::Wake;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::plan::children::lineage::Lineage;
use crate::plan::engine_state::time;
use crate::plan::evictions::unused_quota;
use crate::plan::job::{is_restored, plan};
use crate::plan::situation::{ChildWithPods, JobSituation};
use crate::plan::{Note, Plan, Write};
use crate::process::invariants::violated;

impl Controller {
    pub(in crate::controller) fn plan_job(&mut self, uid: &Uid) {
        let subject = &Subject::Job(uid.clone());
        if self.writes.is_busy(subject) {
            return;
        }
        let Some(key) = self.objects.job_key(uid).cloned() else {
            return self.plan_orphan(uid);
        };
        let Some(job) = self.objects.job(&key) else {
            return violated("what an index of the cache names is there");
        };
        // A JobKind that was edited may be invalid now.
        let Some(kind) = self.kinds.compiled(&key.kind) else {
            return;
        };
        if !self.may_plan(subject, &key, job) {
            return;
        }
        let workload = self.objects.workload_of(subject);
        let is_unqueued = workload.is_none();
        let child = kind.has_pods_of_children();
        let child = child.then(|| self.child_with_pods(&key, uid)).flatten();
        let unseen_for = workload.and_then(|(_, record)| self.unseen_in_deletion_for(job, record));
        let situation = JobSituation {
            key: &key,
            job,
            kind: &kind,
            child: child
                .as_ref()
                .map(|(key, job, kind)| ChildWithPods { key, job, kind }),
            workload,
            placed_by: self.objects.placed_by(subject),
            namespace_is_terminating: self.cluster.is_terminating(&key.namespace),
            still_in_use: self.is_still_in_use(subject),
            lost_pods: self.lost_pods(subject).count(),
            live_pods: self.live_pods(subject),
            shows_pods: self.shows_pods(&key, job),
            lacks_pods: self.unused.is_told_empty(subject),
            may_have_unseen_pods: unseen_for.is_some()
                || self.orphans.may_have_unseen_pods(uid, self.now.moment)
                || self.writes.may_be_unsuspended(subject, self.now.moment),
            lasting_pods: self.lasting_pods(subject).count(),
            live_pods_of_set: &|pod_set| self.live_pods_of_set(subject, pod_set),
            backoff: &|record| self.backoff(record),
            gate: &|gate| self.gate_now(gate, subject, &key.namespace, &job.gate_record),
            priority: &|| self.priority(&key.namespace, job),
            now: self.now.wall,
        };
        let Plan { write, notes } = plan(&situation);
        let is_restored = is_restored(&situation);
        // After a write it is planned again anyway.
        if let (Some(wait), None) = (unseen_for, &write) {
            self.wake_after(wait, Wake::Plan(subject.clone()));
        }
        if is_restored {
            self.objects.forget_placed(subject);
        }
        let reports = &mut self.reports;
        let is_held_back = reports.hold_back(subject, write.as_ref(), self.now.moment);
        match write.filter(|_| !is_held_back) {
            Some(write) => self.send_for_job(subject, &key, write, notes),
            None if is_unqueued => self.tell_unqueued(subject, notes),
            None => {
                for note in notes {
                    self.tell(&key, uid, note);
                }
            }
        }
    }

    /// Whether what is known of a job is ground for a plan.
    pub(in crate::controller) fn may_plan(
        &self,
        subject: &Subject,
        key: &JobKey,
        job: &JobRecord,
    ) -> bool {
        // What a JobKind read that was another one is no ground for a write.
        if !self.kinds.has_listed(&key.kind) {
            return false;
        }
        // Of a JobKind that is deleted, what has a place at a gate is only counted.
        if self.kinds.is_retiring(&key.kind) && !self.holds_quota(subject) {
            return false;
        }
        self.objects.workload_of(subject).is_some() || self.lineage(key, job) != Lineage::Child
    }

    /// For how long an admitted job that is being deleted may have pods that no watch has shown. Its controller may have
    /// made some until it saw the deletion, however long ago the job was admitted.
    fn unseen_in_deletion_for(&self, job: &JobRecord, record: &WorkloadRecord) -> Option<Duration> {
        if !job.deleting || record.status.admission.is_none() {
            return None;
        }
        let since = unused_quota::usage_since(record).max(job.deleted_at)?;
        unused_quota::unseen_pods_for(time(since), time(self.now.wall))
    }

    /// Sends a write for a job. A patch may be of a child.
    fn send_for_job(&mut self, subject: &Subject, key: &JobKey, write: Write, notes: Vec<Note>) {
        let kind = match &write {
            Write::PatchJob { key: patched, .. } => &patched.kind,
            _ => &key.kind,
        };
        let Some(resource) = self.kinds.resource(kind) else {
            return violated("a kind whose objects are listed has a resource");
        };
        self.send(InFlightWrite {
            subject: subject.clone(),
            write,
            resource,
            notes,
        });
    }
}
