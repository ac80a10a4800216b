//! When a job or pod is planned again after a write: at once, or after a backoff. How long that is follows from
//! `attempts.rs`.

use std::time::Duration;

use crate::cache::{Subject, Uid};
use crate::controller::Controller;
use crate::controller::wakes::Wake;
use crate::plan::{Write, WriteKind};
use crate::process::invariants::violated;

impl Controller {
    /// Plans a job or pod again at once.
    pub(super) fn again(&mut self, subject: &Subject) {
        if let Subject::Pod(uid) = subject {
            return self.pod_changed(uid);
        }
        self.agenda.plan(subject.clone());
        self.sync_workload(subject);
    }

    /// Plans a job again after a while, and lets nothing be decided about it until then, as this write has failed.
    pub(super) fn later(&mut self, subject: &Subject, write: &Write) {
        self.not_before(subject, write, Duration::ZERO);
    }

    /// The same, and later by `more` than the backoff alone.
    pub(super) fn not_before(&mut self, subject: &Subject, write: &Write, more: Duration) {
        let wait = self.writes.back_off(subject, write).saturating_add(more);
        self.wake_after(wait, Wake::Retry(subject.clone()));
        self.sync(subject);
    }

    /// A write has not happened. An admission is tried again at once when it fails for the first time: while a workload backs
    /// off, others may be admitted in its place, also with quota that was freed by preemption for it.
    pub(super) fn not_done(&mut self, subject: &Subject, write: &Write) {
        if write.kind() == WriteKind::Admission && self.writes.failures(subject) == 0 {
            self.writes.note_failure(subject);
            self.again(subject);
        } else {
            self.later(subject, write);
        }
    }

    /// A wait is over.
    pub(in crate::controller) fn awake(&mut self, wake: Wake) {
        match wake {
            Wake::Retry(subject) => self.retry(&subject),
            Wake::Plan(subject) => {
                self.prune(&subject);
                self.again(&subject);
            }
            Wake::PodsOf(owner) => self.pods_awake(&owner),
        }
    }

    /// The pods of a controller have backed off.
    fn pods_awake(&mut self, owner: &Uid) {
        if let Some(namespace) = self.unused.namespace_of(owner) {
            for pod in self.objects.pods.children(namespace, owner) {
                self.pod_changed(&pod);
            }
        }
    }

    /// The backoff after a failed write is over.
    fn retry(&mut self, subject: &Subject) {
        self.prune(subject);
        let unanswered = self.writes.unanswered(subject);
        if unanswered.is_some_and(|sent| !self.is_still_wanted(sent)) {
            return self.await_outcome(subject);
        }
        if !self.writes.retry(subject) {
            self.again(subject);
        }
    }

    /// A write that nobody has answered is not sent again. Its subject is not written to until the write can't take effect
    /// any more: then it has failed.
    fn await_outcome(&mut self, subject: &Subject) {
        if let Some(left) = self.writes.in_doubt_for(subject, self.now.moment) {
            return self.wake_after(left, Wake::Retry(subject.clone()));
        }
        let Some(sent) = self.writes.settle_unanswered(subject) else {
            return violated("only a write that nobody has answered is waited for");
        };
        self.take_back(&sent);
        if sent.kind() == WriteKind::Admission {
            self.later(subject, &sent.write);
        } else {
            self.again(subject);
        }
    }
}
