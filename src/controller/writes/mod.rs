//! Writes: at most one in flight for each subject, and what follows from how they end. What is written is planned
//! elsewhere (`crate::plan`) and sent by `crate::api::write`. A reply goes the way of an observation: it calls
//! `observe.rs`, `intake` and `engine_sync.rs`.
//!
//! Must not know why anything is written, nor clients.

mod attempts;
mod doubts;
pub(super) mod in_flight;
mod reply;
mod retries;
pub(super) mod send;

use std::time::Duration;

use crate::cache::{Subject, Uid};
use crate::controller::expiring::Expiring;
use crate::plan::{Write, WriteKind};
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;
use attempts::{Attempts, IN_DOUBT_FOR};
use doubts::Doubts;
use in_flight::{InFlightWrite, InFlightWrites, WriteFailure};

/// An eviction that is refused, or not answered, for so long fails: what lasts only a moment has nobody else evicted.
const EVICTION_REFUSED_FOR: Duration = Duration::from_secs(10);
const EVICTION_UNANSWERED_FOR: Duration = Duration::from_mins(1);
/// An eviction that has not failed for so long is another one.
const EVICTION_FORGOTTEN_AFTER: Duration = Duration::from_mins(2);
/// For so long others are evicted instead of what can't be.
const RESISTS_FOR: Duration = Duration::from_mins(1);

/// All writes for subjects: those in flight, those that failed, those that nobody has answered.
#[derive(Default)]
pub struct Writes {
    in_flight: InFlightWrites,
    attempts: Attempts,
    /// Subjects whose last write has failed, and which one, until they are written to again.
    backing_off: HashMap<Subject, WriteKind>,
    /// Writes that happen once at most and that nobody knows the outcome of, to be sent again.
    unanswered: HashMap<Subject, InFlightWrite>,
    /// Releases of jobs that nobody knows the outcome of.
    doubtful_releases: Doubts,
    /// The same of gates that were to be lifted.
    doubtful_lifts: Doubts,
    /// What can't be evicted.
    failing_evictions: Expiring<Subject, FailingEviction>,
}

/// An eviction that the API server refuses, or does not answer.
#[derive(Debug)]
struct FailingEviction {
    /// Since when it fails.
    since: Moment,
    /// Until then others are evicted instead.
    until: Option<Moment>,
}

impl Writes {
    /// What is in flight for a subject.
    pub fn of(&self, subject: &Subject) -> Option<WriteKind> {
        self.in_flight.of(subject)
    }

    /// Whether a write of the subject has failed, and it is not written to for a while.
    pub fn is_backing_off(&self, subject: &Subject) -> bool {
        self.backing_off.contains_key(subject)
    }

    /// Whether nothing may be written for the subject now.
    pub fn is_busy(&self, subject: &Subject) -> bool {
        self.of(subject).is_some() || self.is_backing_off(subject)
    }

    /// Whether the outcome of every write for the subject is known. It may still back off after a failed one.
    pub fn is_answered(&self, subject: &Subject) -> bool {
        self.of(subject).is_none() && !self.unanswered.contains_key(subject)
    }

    /// Whether the subject can be evicted now. A failed write of another kind, such as its release, is no protection
    /// from that.
    pub fn may_evict(&self, subject: &Subject) -> bool {
        self.is_answered(subject) && self.backing_off.get(subject) != Some(&WriteKind::Eviction)
    }

    /// Whether it can be told now that the subject does not stop. A failed write of another kind, such as its suspension,
    /// may be why it does not.
    pub fn may_tell_stalled(&self, subject: &Subject) -> bool {
        self.of(subject).is_none() && self.backing_off.get(subject) != Some(&WriteKind::Stall)
    }

    /// Whether its eviction has failed before, a short while ago.
    pub fn is_eviction_failing(&self, subject: &Subject, now: Moment) -> bool {
        self.failing_evictions.left(subject, now).is_some()
    }

    /// Whether its eviction fails for so long that others are evicted instead.
    pub fn resists_eviction(&self, subject: &Subject, now: Moment) -> bool {
        let failing = self.failing_evictions.get(subject);
        failing.is_some_and(|failing| failing.until.is_some_and(|until| now < until))
    }

    /// Whether the subject may have been admitted: the engine assumes that.
    pub fn admission_in_flight(&self, subject: &Subject) -> bool {
        self.of(subject) == Some(WriteKind::Admission) || self.unanswered.contains_key(subject)
    }

    /// Whether a job may have been released although no watch shows that.
    pub fn may_be_unsuspended(&self, subject: &Subject, now: Moment) -> bool {
        self.of(subject) == Some(WriteKind::Release)
            || self.doubtful_releases.contains(subject, now)
    }

    /// Whether a gate may yet turn out to be lifted from the subject.
    pub fn may_be_lifted(&self, subject: &Subject, now: Moment) -> bool {
        self.is_busy(subject) || self.is_lift_in_doubt(subject, now)
    }

    /// Whether nobody has answered a write that lifts gates from the subject, and it may still take effect.
    fn is_lift_in_doubt(&self, subject: &Subject, now: Moment) -> bool {
        self.doubtful_lifts.contains(subject, now)
    }

    /// Whether a pod of a job or group may have been released.
    pub fn may_be_released(&self, pod: &Uid) -> bool {
        let subject = Subject::Pod(pod.clone());
        self.of(&subject) == Some(WriteKind::PodRelease) || self.unanswered.contains_key(&subject)
    }

    /// The jobs and groups whose way into their queue is being written.
    pub fn queueing(&self) -> impl Iterator<Item = &Subject> {
        self.in_flight.queueing()
    }

    /// Sends a write as soon as it is its turn. Its subject must have none.
    pub fn send(&mut self, write: InFlightWrite) {
        self.in_flight.send(write);
    }

    /// Drops an explanation that has not been sent: there is something better to say.
    pub fn withdraw_explanation(&mut self, subject: &Subject) {
        self.in_flight.withdraw_explanation(subject);
    }

    /// Whether anything but explanations was sent since this was last asked, or is to be.
    pub fn take_moved(&mut self) -> bool {
        self.in_flight.take_moved()
    }

    /// The next write to be sent, if there may be one more at the same time.
    pub fn start(&mut self) -> Option<InFlightWrite> {
        self.in_flight.start()
    }

    /// A write has ended.
    fn ended(&mut self, write: &InFlightWrite) {
        self.in_flight.ended(write);
    }

    /// Lets the subject be written to again, and sends again what nobody has answered. Returns whether there was
    /// such a write.
    pub fn retry(&mut self, subject: &Subject) -> bool {
        self.end_backoff(subject);
        let unanswered = self.unanswered.remove(subject);
        let is_sent_again = unanswered.is_some();
        if let Some(write) = unanswered {
            self.in_flight.send(write);
        }
        is_sent_again
    }

    /// The write for the subject that is to be sent again, as nobody has answered it.
    fn unanswered(&self, subject: &Subject) -> Option<&InFlightWrite> {
        self.unanswered.get(subject)
    }

    /// For how long nobody has answered a write for the subject that happens once at most, however often it was sent.
    pub fn unanswered_for(&self, subject: &Subject, now: Moment) -> Duration {
        self.attempts.unanswered_for(subject, now)
    }

    /// Takes out the write for the subject that nobody has answered: it is known how it ended. Lets the subject be
    /// written to again.
    fn settle_unanswered(&mut self, subject: &Subject) -> Option<InFlightWrite> {
        self.attempts.answered(subject);
        self.end_backoff(subject);
        self.unanswered.remove(subject)
    }

    /// A pod is seen ungated: nobody has to answer its release any more.
    pub fn seen_ungated(&mut self, pod: &Subject) {
        let unanswered = self.unanswered.get(pod);
        if unanswered.is_some_and(|sent| sent.kind().ends_release()) {
            self.settle_unanswered(pod);
        }
    }

    /// Lets the subject be written to again.
    pub fn end_backoff(&mut self, subject: &Subject) {
        self.backing_off.remove(subject);
    }

    /// Forgets a subject of which nothing is left.
    pub fn forget(&mut self, subject: &Subject) {
        self.attempts.forget(subject);
        self.unanswered.remove(subject);
        self.doubtful_releases.forget(subject);
        self.doubtful_lifts.forget(subject);
        self.failing_evictions.remove(subject);
    }

    /// An eviction was refused, or not answered. Returns until when others are evicted instead.
    fn eviction_failed(
        &mut self,
        subject: &Subject,
        failure: WriteFailure,
        now: Moment,
    ) -> Option<Moment> {
        let first = FailingEviction {
            since: now,
            until: None,
        };
        let failing =
            (self.failing_evictions).keep(subject.clone(), now, EVICTION_FORGOTTEN_AFTER, first);
        let for_most = match failure {
            WriteFailure::Refused => EVICTION_REFUSED_FOR,
            WriteFailure::Throttled | WriteFailure::Unanswered => EVICTION_UNANSWERED_FOR,
        };
        let is_lasting = for_most <= now.since(failing.since);
        failing.until = is_lasting.then(|| now.after(RESISTS_FOR));
        failing.until
    }

    /// A write has succeeded. Returns whether it may be expected to last.
    fn succeeded(&mut self, subject: &Subject, write: &Write, now: Moment) -> bool {
        if write.kind() == WriteKind::Eviction {
            self.failing_evictions.remove(subject);
        }
        self.attempts.succeeded(subject, write, now)
    }

    /// A write has failed, or was in vain. Returns how long its subject is not written to.
    fn back_off(&mut self, subject: &Subject, write: &Write) -> Duration {
        self.backing_off.insert(subject.clone(), write.kind());
        self.attempts.wait(subject)
    }

    /// A write has failed, and is tried again at once.
    fn note_failure(&mut self, subject: &Subject) {
        self.attempts.note_failure(subject);
    }

    /// How often writes for the subject have failed in a row.
    fn failures(&self, subject: &Subject) -> u32 {
        self.attempts.failures(subject)
    }

    /// It is known how the last write of the subject ended.
    fn answered(&mut self, subject: &Subject) {
        self.attempts.answered(subject);
    }

    /// Whether a write that happens once at most was sent before, and may yet turn out to have happened then.
    fn is_in_doubt(&self, subject: &Subject, now: Moment) -> bool {
        self.attempts.is_in_doubt(subject, now)
    }

    /// For how long a write that happens once at most may yet turn out to have happened; none if it can't.
    fn in_doubt_for(&self, subject: &Subject, now: Moment) -> Option<Duration> {
        self.attempts.in_doubt_for(subject, now)
    }

    /// A write that happens once at most was sent, and nobody knows whether it has happened.
    fn doubt(&mut self, subject: &Subject, now: Moment) {
        self.attempts.doubt(subject, now);
    }

    /// Nobody knows whether a job was released. Returns for how long that is so at most.
    fn doubt_release(&mut self, subject: &Subject, now: Moment) -> Duration {
        self.doubtful_releases.note(subject, now, IN_DOUBT_FOR);
        IN_DOUBT_FOR
    }

    /// A job is seen unsuspended. A release from before fails from now on, as the spec has changed.
    pub fn seen_unsuspended(&mut self, subject: &Subject) {
        self.doubtful_releases.forget(subject);
    }

    /// Nobody knows whether gates were lifted.
    fn doubt_lift(&mut self, subject: &Subject, now: Moment) {
        self.doubtful_lifts.note(subject, now, IN_DOUBT_FOR);
    }

    /// Keeps a write that nobody has answered, to send it again as it was.
    fn keep_unanswered(&mut self, write: InFlightWrite) {
        self.unanswered.insert(write.subject.clone(), write);
    }
}
