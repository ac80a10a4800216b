//! What follows from how a write ended. A reply is an observation: it goes the same way as what a
//! watch shows, so that the next plan is made from it. When it is tried again is in `retries.rs`.

use std::time::Duration;

use kube::api::DynamicObject;
use sluice_crds::reasons::event;
use sluice_engine::Event;
use tracing::warn;

use super::in_flight::{EndedWrite, InFlightWrite, WriteFailure};
use crate::api::events::pod_reference;
use crate::api::write::Reply;
use crate::cache::{Source, Subject};
use crate::controller::Controller;
use crate::controller::wakes::Wake;
use crate::plan::{JobPurpose, Note, PodPurpose, Write, WriteKind};
use crate::process::invariants::violated;

/// So many writes in a row that nobody answers, or that are throttled, are not told of: an API server that restarts
/// is no news.
const UNANSWERED_IN_SILENCE: u32 = 3;

/// When the API server is asked again that has too much to do: its `Retry-After`, which kube does not show.
const THROTTLED_FOR: Duration = Duration::from_secs(1);
/// So often in a row a throttled admission keeps its quota: about a minute. A webhook of others may throttle for good.
const THROTTLED_MAX: u32 = 9;

impl Controller {
    pub(in crate::controller) fn write_ended(&mut self, ended: EndedWrite) {
        let EndedWrite { sent, reply } = ended;
        self.writes.ended(&sent);
        match reply {
            Reply::Done(object) => self.done(sent, object.map(|o| *o)),
            Reply::Conflict(object) => self.conflict(&sent, object.map(|o| *o)),
            Reply::Refused(message) => self.refused(sent, &message, WriteFailure::Refused),
            Reply::Throttled(message) => self.refused(sent, &message, WriteFailure::Throttled),
            Reply::Unknown(why) => self.unknown(sent, &why),
        }
    }

    fn done(&mut self, sent: InFlightWrite, object: Option<DynamicObject>) {
        let (subject, kind) = (sent.subject.clone(), sent.kind());
        self.writes.answered(&subject);
        let lasts = self
            .writes
            .succeeded(&subject, &sent.write, self.now.moment);
        self.observe_reply(&subject, &sent.write, object);
        let notes = if lasts {
            sent.notes
        } else {
            let text = "What Sluice writes is undone at once, by another client or by its own next write: trying again less often";
            vec![Note::warning(event::CHANGED_BACK, text)]
        };
        self.told_of(&sent.write, &subject, notes);
        if let Some(root) = self.released_by(&sent.write, &subject) {
            if lasts {
                if kind.ends_release() {
                    self.unreleased.forget_refusal(&root);
                }
            } else {
                let why = "each write of Sluice is undone at once";
                self.note_release_refused(&root, why);
            }
        }
        self.prune(&subject);
        if lasts {
            self.again(&subject);
        } else {
            self.later(&subject, &sent.write);
        }
    }

    /// The object has changed: what it is now has been read, and the job is planned again.
    fn conflict(&mut self, sent: &InFlightWrite, object: Option<DynamicObject>) {
        let subject = sent.subject.clone();
        self.writes.answered(&subject);
        self.take_back(sent);
        let is_there = object.is_some();
        if is_there && let Some(root) = self.released_by(&sent.write, &subject) {
            self.note_release_refused(&root, "it changes each time that it is to be released");
        }
        self.observe_reply(&subject, &sent.write, object);
        if let Write::CreateWorkload(_) = &sent.write
            && is_there
            && self.objects.workload_of(&subject).is_none()
        {
            let text = "The Workload of this job can't be created: another object has its name, and is not Sluice's; delete that object";
            self.tell_about(&subject, Note::warning(event::WORKLOAD_NAME_CONFLICT, text));
        }
        self.not_done(&subject, &sent.write);
    }

    /// The write has not happened. If the API server had too much to do, an event would only add to that, and its
    /// `Retry-After` counts. An admission is kept and sent again then: whoever is next would be throttled too, or take quota
    /// out of turn that was freed by preemption.
    fn refused(&mut self, sent: InFlightWrite, message: &str, failure: WriteFailure) {
        // It was sent before, and may have happened then: that it may not now says nothing of that.
        let now = self.now.moment;
        if sent.kind().happens_once() && self.writes.is_in_doubt(&sent.subject, now) {
            return self.undecided(sent, message);
        }
        self.writes.answered(&sent.subject);
        let is_throttled = failure == WriteFailure::Throttled;
        let is_kept = is_throttled
            && sent.kind() == WriteKind::Admission
            && self.writes.failures(&sent.subject) < THROTTLED_MAX
            && self.is_there(&sent.subject);
        if !is_kept {
            self.take_back(&sent);
        }
        self.note_failed_eviction(&sent, failure);
        if sent.kind() == WriteKind::GateLift && !self.writes.is_lift_in_doubt(&sent.subject, now) {
            self.counters.give_back(&sent.subject);
        }
        warn!(subject = %sent.subject, refusal = message, "the API server refuses a write");
        if !is_throttled || UNANSWERED_IN_SILENCE <= self.writes.failures(&sent.subject) {
            let text = format!("The API server refuses a write of Sluice: {message}; trying again");
            let note = Note::warning(event::WRITE_REFUSED, text);
            self.told_of(&sent.write, &sent.subject, vec![note]);
        }
        if let Some(root) = self.released_by(&sent.write, &sent.subject) {
            self.note_release_refused(&root, message);
        }
        let (subject, write) = (sent.subject.clone(), sent.write.clone());
        if is_kept {
            self.writes.keep_unanswered(sent);
        }
        if is_throttled {
            self.not_before(&subject, &write, THROTTLED_FOR);
        } else {
            self.not_done(&subject, &write);
        }
    }

    /// Whether a subject is known still. A group may get its first pod again at any time.
    fn is_there(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Job(uid) => self.objects.job_key(uid).is_some(),
            Subject::Group(_) => true,
            Subject::Pod(uid) => self.objects.pods.key(uid).is_some(),
        }
    }

    /// Nobody has answered, so the write may have happened.
    fn unknown(&mut self, sent: InFlightWrite, why: &str) {
        if sent.kind().happens_once() {
            self.writes.doubt(&sent.subject, self.now.moment);
        }
        if sent.kind() == WriteKind::GateLift {
            self.writes.doubt_lift(&sent.subject, self.now.moment);
        }
        self.note_failed_eviction(&sent, WriteFailure::Unanswered);
        if UNANSWERED_IN_SILENCE <= self.writes.failures(&sent.subject) {
            let text = format!("A write of Sluice gets no answer: {why}; trying again");
            let note = Note::warning(event::WRITE_UNANSWERED, text);
            self.told_of(&sent.write, &sent.subject, vec![note]);
        }
        self.undecided(sent, why);
    }

    /// Nobody knows whether the write has happened. An admission, or the release of a pod, is sent again
    /// as it was while it is wanted: it happens once at most, and until it is known its quota or its place stays taken.
    /// An eviction is decided again, everything else is planned again.
    fn undecided(&mut self, sent: InFlightWrite, why: &str) {
        warn!(subject = %sent.subject, why, "the outcome of a write is unknown");
        let subject = sent.subject.clone();
        if let Some(root) = self.released_by(&sent.write, &subject) {
            self.note_release_refused(&root, why);
        }
        let is_there = self.is_there(&subject);
        let is_seen = self.is_seen_released(&sent);
        if sent.kind() == WriteKind::Release && !is_seen {
            // Its quota stays in use as long as a watch may show that it was released.
            let wait = self.writes.doubt_release(&subject, self.now.moment);
            self.wake_after(wait, Wake::Plan(subject.clone()));
        }
        let write = sent.write.clone();
        if !write.kind().happens_once() {
            self.take_back(&sent);
        } else if is_there && !is_seen {
            self.writes.keep_unanswered(sent);
        }
        self.later(&subject, &write);
    }

    /// Whether what a write releases is seen to be released, by whomever.
    fn is_seen_released(&self, sent: &InFlightWrite) -> bool {
        let is_released = match &sent.subject {
            Subject::Job(_) => {
                let job = self.objects.job_of(&sent.subject);
                job.is_some_and(|(_, job)| job.suspended == Some(false))
            }
            Subject::Pod(uid) => {
                let pod = self.objects.pods.of(uid);
                pod.is_some_and(|(_, pod)| pod.queue_gate.is_none())
            }
            Subject::Group(_) => false,
        };
        sent.kind().ends_release() && is_released
    }

    /// Lets others be evicted instead of what can't be, for a while.
    fn note_failed_eviction(&mut self, sent: &InFlightWrite, failure: WriteFailure) {
        let subject = &sent.subject;
        if sent.kind() != WriteKind::Eviction {
            return;
        }
        let now = self.now.moment;
        if let Some(until) = self.writes.eviction_failed(subject, failure, now) {
            self.wake_after(until.since(now), Wake::Plan(subject.clone()));
        }
    }

    /// Undoes what was assumed when the write was sent.
    pub(super) fn take_back(&mut self, sent: &InFlightWrite) {
        let id = sent.subject.id();
        match sent.kind() {
            WriteKind::Admission => {
                self.engine.apply(Event::AdmissionFailed(id));
            }
            WriteKind::Eviction => {
                self.engine.apply(Event::EvictionFailed(id));
            }
            _ => {}
        }
    }

    /// What a reply shows. An object that a watch has shown to be gone since stays gone: no watch
    /// would ever take it back.
    fn observe_reply(&mut self, subject: &Subject, write: &Write, object: Option<DynamicObject>) {
        match (write, object) {
            (Write::PatchJob { key, .. }, Some(object)) => {
                let is_child = self.objects.children.get(key).is_some();
                if (is_child || self.objects.job(key).is_some())
                    && let Some(life) = self.kinds.life(&key.kind)
                {
                    self.applied(&Source::Jobs(key.kind.clone(), life), object);
                }
            }
            (Write::PatchJob { key, .. }, None) => match subject {
                Subject::Job(uid) => self.job_not_found(key, uid),
                Subject::Group(_) | Subject::Pod(_) => violated("only a job is patched as one"),
            },
            (Write::PatchPod { key, .. }, Some(object)) => {
                if self.objects.pods.get(key).is_some() {
                    self.applied(&Source::Pod, object);
                }
            }
            (Write::PatchPod { key, .. }, None) => match subject {
                Subject::Pod(uid) => self.pod_not_found(key, uid),
                Subject::Job(_) | Subject::Group(_) => violated("only a pod is patched as one"),
            },
            // The watch shows how a deleted pod ends. Until then there is nothing to decide about it.
            (Write::DeletePod { .. }, _) => self.ended_terms.forget(subject),
            (Write::CreateWorkload(_), None) => {}
            (
                Write::UpdateWorkloadSpec { key, .. } | Write::SetWorkloadStatus { key, .. },
                Some(_),
            ) if self.objects.workload(key).is_none() => {}
            (_, Some(object)) => self.applied(&Source::Workload, object),
            (Write::DeleteWorkload { key, uid, .. }, None) => self.workload_gone(key, Some(uid)),
            (
                Write::UpdateWorkloadSpec { key, revision, .. }
                | Write::SetWorkloadStatus { key, revision, .. },
                None,
            ) => {
                self.workload_not_found(key, *revision);
            }
        }
    }

    /// The job or group that a write releases, or a pod of it.
    pub(in crate::controller) fn released_by(
        &self,
        write: &Write,
        subject: &Subject,
    ) -> Option<Subject> {
        match write {
            Write::PatchJob {
                purpose: JobPurpose::Release | JobPurpose::Prepare,
                ..
            } => Some(subject.clone()),
            // Before its templates are written to: when it is released, or when it gives its quota back.
            Write::PatchJob {
                purpose: JobPurpose::ClearStartTime,
                ..
            } => {
                let (_, record) = self.objects.workload_of(subject)?;
                let is_kept = record.status.admission.is_some() && !record.is_evicting();
                is_kept.then(|| subject.clone())
            }
            Write::PatchPod {
                purpose: PodPurpose::Release,
                ..
            } => {
                let (key, pod) = self.objects.pods.of(subject.pod()?)?;
                self.belongs_to(pod, &key.namespace)
            }
            _ => None,
        }
    }

    /// Tells about the object that a write was for. A job that was released without a queue is not
    /// looked after any more, so it may be known by the write alone.
    fn told_of(&mut self, write: &Write, subject: &Subject, notes: Vec<Note>) {
        for note in notes {
            match (write, subject) {
                (
                    Write::PatchJob {
                        purpose: JobPurpose::Prepare,
                        ..
                    },
                    _,
                ) => self.tell_about(subject, note),
                (Write::PatchJob { key, .. }, Subject::Job(uid)) => self.tell(key, uid, note),
                (Write::PatchPod { key, .. } | Write::DeletePod { key, .. }, Subject::Pod(uid)) => {
                    let object = pod_reference(&key.namespace, &key.name, uid);
                    self.tell_object(object, subject, note);
                }
                _ => self.tell_about(subject, note),
            }
        }
    }
}
