//! JobKinds that are deleted while their objects hold quota, or places at gates with a counter. Nothing of theirs is
//! queued any more, but what runs keeps its usage and its place: its objects are watched until they have ended, given
//! their quota back, or are gone.

use std::sync::Arc;

use tracing::info;

use crate::cache::{JobKey, JobRecord, Subject};
use crate::controller::Controller;
use crate::process::invariants::violated;

impl Controller {
    /// A JobKind is deleted.
    pub(in crate::controller) fn job_kind_gone(&mut self, name: &Arc<str>) {
        if !self.kinds.retire(name) {
            return;
        }
        info!(jobkind = %name, "JobKind was deleted: its objects are no longer queued");
        self.end_if_retired(name);
        self.kinds_changed();
    }

    /// Looks whether anything is left of JobKinds that are deleted.
    pub(in crate::controller) fn end_retired(&mut self) {
        for name in self.kinds.retiring() {
            self.end_if_retired(&name);
        }
    }

    /// The CRD took its objects with it, and the watch may have ended before it said so; or that was
    /// while no controller ran, and only Workloads are left.
    pub(in crate::controller) fn forget_unserved(&mut self) {
        for name in self.kinds.take_unserved(self.now.moment) {
            for key in self.keys_of_kind(&name) {
                self.job_gone(&key, None);
            }
            let Some(group_kind) = self.kinds.group_kind(&name) else {
                violated("a JobKind that is not served is there");
                continue;
            };
            let owners = self
                .objects
                .workloads()
                .filter_map(|(_, record)| record.owner.as_ref());
            let left = owners.filter(|owner| owner.group_kind == group_kind);
            self.agenda
                .plan_all(left.map(|owner| owner.subject.clone()));
        }
    }

    fn end_if_retired(&mut self, name: &Arc<str>) {
        let mut is_needed = false;
        for key in self.keys_of_kind(name) {
            let job = self.objects.job(&key);
            if job.is_some_and(|job| self.is_counted(job)) {
                is_needed = true;
            } else {
                self.drop_object(&key);
            }
        }
        if !is_needed {
            self.forget_kind(name);
        }
    }

    /// Whether a job takes what others wait for: quota, or a place at a gate.
    pub(in crate::controller) fn is_counted(&self, job: &JobRecord) -> bool {
        self.holds_quota(&Subject::Job(job.uid.clone())) || self.has_place_at_gate(job)
    }

    /// Ends the watch of a JobKind, and forgets what is known of its objects. What Workloads say is
    /// usage keeps it.
    pub(in crate::controller) fn forget_kind(&mut self, name: &Arc<str>) {
        let passed = self.passed_by_gate();
        for key in self.keys_of_kind(name) {
            self.drop_object(&key);
        }
        self.count_forgotten(passed);
        self.kinds.remove(name);
        self.objects.forget_kind(name);
        self.pod_labels.forget_kind(name);
        self.excess_children.listed(name, |_| false);
        self.forget_listings();
    }

    fn keys_of_kind(&self, name: &Arc<str>) -> Vec<JobKey> {
        let jobs = self.objects.jobs().map(|(key, _)| key);
        let all = jobs.chain(self.objects.children.keys());
        all.filter(|key| key.kind == *name).cloned().collect()
    }

    fn drop_object(&mut self, key: &JobKey) {
        self.forget_child(key);
        if let Some(uid) = self.objects.job(key).map(|job| job.uid.clone()) {
            self.leave(key, &uid);
        }
    }
}
