//! A leader's term: for how long it may write, and the name by which its admissions are told from those of
//! the leaders before it. Whether an admission of another term counts is `plan/workload/ended_term_admissions.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::process::clock::Moment;
use crate::process::invariants::violated;

/// Longest time for a write of a leader. One that was sent at the last moment of a term has ended before the Lease
/// has: [`crate::process::lease`] is held to that.
pub const WRITE_DEADLINE: Duration = Duration::from_secs(5);

/// The name of a term: `leaseTransitions` of the Lease and the Lease's UID, as in `7.0f8fad5b-…`. Each
/// acquisition has another one, also by a process that comes back under its old name, and also after the
/// Lease was deleted: then its UID is another.
pub type TermName = Arc<str>;

/// For how long this process may write: until some time after the last renewal that is known. It ends by
/// itself, whoever is asleep.
pub struct Term {
    ends_ms: AtomicU64,
    name: OnceLock<TermName>,
}

impl Term {
    /// A term that has not begun.
    pub fn new() -> Self {
        Self {
            ends_ms: AtomicU64::new(0),
            name: OnceLock::new(),
        }
    }

    /// Whether it lasts.
    pub fn is_valid(&self) -> bool {
        Moment::now() < self.ends()
    }

    /// When it ends, if it is not extended.
    pub fn ends(&self) -> Moment {
        Moment::from_millis(self.ends_ms.load(Ordering::Acquire))
    }

    /// Its name; empty before it begins.
    pub fn name(&self) -> TermName {
        self.name.get().cloned().unwrap_or_default()
    }

    /// It begins. A process has one term at most: it ends with it.
    pub fn begin(&self, name: &str) {
        if self.name.set(name.into()).is_err() {
            violated("a process has one term at most");
        }
    }

    /// It lasts until then.
    pub fn extend(&self, until: Moment) {
        self.ends_ms.store(until.as_millis(), Ordering::Release);
    }

    /// It is over.
    pub fn end(&self) {
        self.ends_ms.store(0, Ordering::Release);
    }
}
