//! Writes of one sort that nobody knows the outcome of: until when they may still turn out to have happened.

use std::time::Duration;

use crate::cache::Subject;
use crate::controller::expiring::Expiring;
use crate::process::clock::Moment;

/// Writes that nobody has answered, by subject: since when none is answered, for as long as the last one may turn out to
/// have happened.
#[derive(Debug, Default)]
pub struct Doubts {
    since: Expiring<Subject, Moment>,
}

impl Doubts {
    /// Nobody has answered a write: for so long it may turn out to have happened.
    pub(super) fn note(&mut self, subject: &Subject, now: Moment, lasting: Duration) {
        self.since.keep(subject.clone(), now, lasting, now);
    }

    /// Whether one may yet turn out to have happened.
    pub(super) fn contains(&self, subject: &Subject, now: Moment) -> bool {
        self.left(subject, now).is_some()
    }

    /// For how long one may yet turn out to have happened; none if it can't.
    pub(super) fn left(&self, subject: &Subject, now: Moment) -> Option<Duration> {
        self.since.left(subject, now)
    }

    /// For how long none has been answered.
    pub(super) fn lasting(&self, subject: &Subject, now: Moment) -> Duration {
        let since = self.since.get(subject);
        since.map_or(Duration::ZERO, |since| now.since(*since))
    }

    /// It is known how it has ended, or nothing is left of the subject.
    pub(super) fn forget(&mut self, subject: &Subject) {
        self.since.remove(subject);
    }
}
