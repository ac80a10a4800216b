//! Jobs and groups that have no Workload though they name a queue: nothing that is stored says why, so the event that does
//! is told again before the API server forgets it, and readers of `visibility.sluice.dev` are told the same.

use sluice_crds::reasons::event;
use sluice_kinds::hold::Hold;
use sluice_kinds::view::LabelledQueue;

use crate::cache::{JobKey, JobRecord, Subject};
use crate::controller::Controller;
use crate::plan::Note;
use crate::plan::children::lineage::Lineage;
use crate::plan::job::uncountable;
use crate::visibility::State;

/// What is no warning, and lasts until somebody does something: until the missing pod or object is created.
const WAITS: [&str; 2] = [event::WAITS_FOR_CHILD, event::GROUP_INCOMPLETE];

impl Controller {
    /// Tells why a job or group has no Workload, and again as long as that is so.
    pub(in crate::controller) fn tell_unqueued(&mut self, subject: &Subject, notes: Vec<Note>) {
        let is_lasting = |note: &Note| note.is_warning || WAITS.contains(&note.reason);
        let lasts = notes.iter().any(is_lasting);
        for note in notes {
            self.tell_about(subject, note);
        }
        if lasts {
            self.recorder.note_lasting(subject);
            self.pending_reasons.insert(subject, self.now);
        }
    }

    /// Has something without a Workload planned anew whose event is about to be forgotten: its plan tells it again, if it is
    /// still so. Returns whether there may be something to tell later.
    pub(super) fn tell_unqueued_again(&mut self, subject: &Subject) -> bool {
        if !self.recorder.is_lasting(subject) {
            return false;
        }
        if self.recorder.is_forgotten_soon(subject, self.now) && self.pending_reasons.take_event() {
            self.recorder.forget(subject);
            self.agenda.plan(subject.clone());
        }
        true
    }

    /// How a job stands that has no Workload, and that no gate holds: as its plan tells it. None if it gets one, or needs
    /// none.
    pub(super) fn how_unqueued_stands(
        &self,
        key: &JobKey,
        job: &JobRecord,
    ) -> Option<(State, Note)> {
        let is_queued = job.queue != LabelledQueue::None && job.hold != Hold::EachPod;
        let is_over = job.deleting || job.finished().is_some();
        if !is_queued || is_over || self.lineage(key, job) == Lineage::Child {
            return None;
        }
        let subject = Subject::Job(job.uid.clone());
        if let Some((reason, message)) = self.paused(&subject) {
            return Some((State::OnHold, reason.note(message)));
        }
        let note = self
            .without_child(key, job)
            .or_else(|| {
                let (reason, message) = self.uncountable(&subject)?;
                Some(reason.note(message))
            })
            .or_else(|| {
                let refusals = &job.reading.as_ref().ok()?.refusals;
                (!refusals.is_empty()).then(|| uncountable::never_runs(refusals))
            })
            .or_else(|| Some(self.priority(&key.namespace, job).err()?.note()))?;
        Some((State::Pending, note))
    }

    /// That the object is missing that has the pods of a job.
    fn without_child(&self, key: &JobKey, job: &JobRecord) -> Option<Note> {
        let kind = self.kinds.compiled(&key.kind)?;
        let is_missing =
            kind.has_pods_of_children() && self.child_with_pods(key, &job.uid).is_none();
        is_missing.then(uncountable::waits_for_child)
    }
}
