//! The wall to whoever counts what is done about requests and objects.

use std::time::Duration;

use sluice_gates::Enforced;

/// How an admission request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// `mutate` or `validate`.
    pub webhook: &'static str,
    /// `allowed`, `refused`, `retry` if it can't be judged yet, or `unreadable`.
    pub verdict: &'static str,
    /// The time from the headers to the answer.
    pub took: Duration,
}

/// Counts what is done.
pub trait Observer: Send + Sync {
    /// A request was answered.
    fn answered(&self, answered: Answered);

    /// An object that names no queue was created where one is required, and this was done or reported.
    fn enforced(&self, enforced: Enforced);
}
