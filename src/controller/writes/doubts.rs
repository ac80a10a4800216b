//! Writes of one sort that nobody knows the outcome of: until when they may still turn out to have happened.

use std::time::Duration;

use crate::cache::Subject;
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// Writes that nobody has answered, by subject.
#[derive(Debug, Default)]
pub struct Doubts {
    by_subject: HashMap<Subject, Doubt>,
}

/// Writes for one subject that nobody has answered, one after the other.
#[derive(Debug)]
struct Doubt {
    /// Since when none is answered.
    since: Moment,
    /// Until when the last one may have happened.
    until: Moment,
}

impl Doubts {
    /// Nobody has answered a write: for so long it may turn out to have happened.
    pub(super) fn note(&mut self, subject: &Subject, now: Moment, lasting: Duration) {
        self.by_subject.retain(|_, doubt| now < doubt.until);
        let until = now.after(lasting);
        let doubt = self.by_subject.entry(subject.clone());
        doubt.or_insert(Doubt { since: now, until }).until = until;
    }

    /// Whether one may yet turn out to have happened.
    pub(super) fn contains(&self, subject: &Subject, now: Moment) -> bool {
        self.left(subject, now).is_some()
    }

    /// For how long one may yet turn out to have happened; none if it can't.
    pub(super) fn left(&self, subject: &Subject, now: Moment) -> Option<Duration> {
        let left = self.by_subject.get(subject)?.until.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// For how long none has been answered.
    pub(super) fn lasting(&self, subject: &Subject, now: Moment) -> Duration {
        let doubt = self.by_subject.get(subject);
        doubt.map_or(Duration::ZERO, |doubt| now.since(doubt.since))
    }

    /// It is known how it has ended, or nothing is left of the subject.
    pub(super) fn forget(&mut self, subject: &Subject) {
        self.by_subject.remove(subject);
    }
}
