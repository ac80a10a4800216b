//! Writes of one sort that nobody knows the outcome of: until when they may still turn out to have happened.

use std::time::Duration;

use crate::cache::Subject;
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// Until when a write may have happened that nobody has answered, by subject.
#[derive(Debug, Default)]
pub struct Doubts {
    until: HashMap<Subject, Moment>,
}

impl Doubts {
    /// Nobody has answered a write: for so long it may turn out to have happened.
    pub(super) fn note(&mut self, subject: &Subject, now: Moment, lasting: Duration) {
        self.until.retain(|_, until| now < *until);
        self.until.insert(subject.clone(), now.after(lasting));
    }

    /// Whether one may yet turn out to have happened.
    pub(super) fn contains(&self, subject: &Subject, now: Moment) -> bool {
        self.until.get(subject).is_some_and(|until| now < *until)
    }

    /// It is known how it has ended, or nothing is left of the subject.
    pub(super) fn forget(&mut self, subject: &Subject) {
        self.until.remove(subject);
    }
}
