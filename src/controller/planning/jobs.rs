//! The plan of a job, and what it depends on.

use crate::cache::{Subject, Uid};
use crate::controller::Controller;
use crate::controller::wakes::Wake;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::plan::children::lineage::Lineage;
use crate::plan::engine_state::time;
use crate::plan::evictions::unused_quota;
use crate::plan::job::plan;
use crate::plan::situation::{Child, JobSituation};
use crate::plan::{Plan, Write};
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
        // What a JobKind read that was another one is no ground for a write.
        if !self.kinds.has_listed(&key.kind) {
            return;
        }
        // Of a JobKind that is deleted, what has a place at a gate is only counted.
        if self.kinds.is_retiring(&key.kind) && !self.holds_quota(subject) {
            return;
        }
        let workload = self.objects.workload_of(subject);
        if workload.is_none() && self.lineage(&key, job) == Lineage::Child {
            return;
        }
        let is_unqueued = workload.is_none();
        let still_in_use = self.is_still_in_use(subject);
        let child = kind.has_pods_of_children();
        let child = child.then(|| self.child_with_pods(&key, uid)).flatten();
        let record = workload.map(|(_, record)| record);
        let record = record.filter(|record| job.deleting && record.status.admission.is_some());
        // Its controller may have made pods until it saw that the job is being deleted, however long ago it was admitted.
        let since = record.and_then(|record| {
            let admitted = unused_quota::usage_since(record);
            admitted.max(job.deleted_at)
        });
        let unseen_for =
            since.and_then(|at| unused_quota::unseen_pods_for(time(at), time(self.now.wall)));
        let situation = JobSituation {
            key: &key,
            job,
            kind: &kind,
            child: child
                .as_ref()
                .map(|(key, job, kind)| Child { key, job, kind }),
            workload,
            namespace_is_terminating: self.cluster.is_terminating(&key.namespace),
            still_in_use,
            live_pods: self.live_pods(subject),
            shows_pods: self.shows_pods(&key, job),
            may_have_unseen_pods: unseen_for.is_some()
                || self.orphans.may_have_unseen_pods(uid, self.now.moment)
                || self.writes.may_be_unsuspended(subject, self.now.moment),
            lasting_pods: self.lasting_pods(subject),
            live_pods_of_set: &|pod_set| self.live_pods_of_set(subject, pod_set),
            backoff: &|record| self.backoff(record),
            gate: &|gate| self.gate_now(gate, subject, &key.namespace, &job.gate_record),
            priority: &|| self.priority(&key.namespace, job),
            now: self.now.wall,
        };
        let Plan { mut write, notes } = plan(&situation);
        // After a write it is planned again anyway.
        if let (Some(wait), None) = (unseen_for, &write) {
            self.wake_after(wait, Wake::Plan(subject.clone()));
        }
        if self
            .reports
            .hold_back(subject, write.as_ref(), self.now.moment)
        {
            write = None;
        }
        match write {
            None if is_unqueued => self.tell_unqueued(subject, notes),
            None => {
                for note in notes {
                    self.tell(&key, uid, note);
                }
            }
            Some(write) => {
                // A patch may be of a child.
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
    }
}
