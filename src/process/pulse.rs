//! Whether the controller's loop goes on. A process whose loop hangs must not keep the Lease, nor pass
//! the liveness check: nobody would decide, and nobody would take over.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The loop turns once a second at least. This is more than the longest turn that was ever measured
/// (100,000 jobs at a start), on a machine ten times as slow.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// The pulse of the controller's loop. While no controller runs there is nothing that could hang.
#[derive(Debug)]
pub struct Pulse {
    last: Mutex<Option<Instant>>,
    hangs_after: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new(HANGS_AFTER)
    }
}

impl Pulse {
    /// A pulse that is missed after this long.
    pub fn new(hangs_after: Duration) -> Self {
        Self {
            last: Mutex::new(None),
            hangs_after,
        }
    }

    /// The loop has begun another turn.
    pub fn beat(&self) {
        self.set(Some(Instant::now()));
    }

    /// The loop has ended as it should.
    pub fn end(&self) {
        self.set(None);
    }

    /// How long ago the loop has begun its last turn; none if none runs.
    pub fn since_last(&self) -> Option<Duration> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.map(|last| last.elapsed())
    }

    /// Whether the loop goes on, or none runs. Counted by a clock that stops while the machine sleeps,
    /// as the loop does.
    pub fn is_beating(&self) -> bool {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_none_or(|last| last.elapsed() < self.hangs_after)
    }

    fn set(&self, last: Option<Instant>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_loop_that_has_begun_can_hang() {
        let pulse = Pulse::new(Duration::ZERO);
        assert!(pulse.is_beating(), "none runs");
        pulse.beat();
        assert!(!pulse.is_beating(), "it has not turned again");
        pulse.end();
        assert!(pulse.is_beating(), "it has ended");
        let pulse = Pulse::default();
        pulse.beat();
        assert!(pulse.is_beating());
    }
}
