//! States that must not occur, and what a leader does about them. The engine counts its own. All others are counted in
//! the crate of the webhooks, as these find some too. What webhooks find ends no term: they keep no state that new lists
//! could put right.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use sluice_webhooks::invariants::found as found_with_webhooks;

use crate::process::clock::{Moment, Now};

/// Those that neither the engine nor a webhook has found.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// A term that is shorter than this is not ended by a violation: what violates an invariant at every start must not keep
/// the replicas from leading.
const TERM_MIN: Duration = Duration::from_mins(10);

/// A state has been found that `invariant` rules out.
pub fn violated(invariant: &str) {
    FOUND.fetch_add(1, Ordering::Relaxed);
    sluice_webhooks::invariants::violated(invariant);
}

/// How many such states have been found outside of the engine and the webhooks.
pub fn found() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// What a leader does about the violations of its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing is wrong.
    None,
    /// Go on for so long, as the term is too short to be ended.
    Wait(Duration),
    /// End the term. The next leader builds its state anew, from its lists.
    EndTerm,
}

/// The violations of one term. From the first one on usage may be wrong, and only new lists put it right.
#[derive(Debug)]
pub struct TermViolations {
    began: Moment,
    /// Those that this process had found outside of the engine and the webhooks before the term.
    earlier: u64,
    remedy: Remedy,
}

impl TermViolations {
    /// A term that begins now, in a process that has [`found`] so many.
    pub fn new(found: u64, now: Now) -> Self {
        Self {
            began: now.moment,
            earlier: found,
            remedy: Remedy::None,
        }
    }

    /// What is to be done, now that the process has [`found`] so many, and the engine so many.
    pub fn judge(&mut self, found: u64, by_engine: u64, now: Now) -> Remedy {
        let left = TERM_MIN.saturating_sub(now.since(self.began));
        self.remedy = if found <= self.earlier && by_engine == 0 {
            Remedy::None
        } else if left.is_zero() {
            Remedy::EndTerm
        } else {
            Remedy::Wait(left)
        };
        self.remedy
    }

    /// Whether the term is to end.
    pub fn end_term(&self) -> bool {
        self.remedy == Remedy::EndTerm
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn what_a_webhook_finds_ends_no_term() {
        let (own, all) = (found(), found_with_webhooks());
        // Builds with debug assertions panic.
        let _ = catch_unwind(|| sluice_webhooks::invariants::violated("planted"));
        assert_eq!(found(), own);
        assert_eq!(found_with_webhooks(), all + 1);
    }

    #[test]
    fn a_violation_ends_a_term_that_lasts_ten_minutes() {
        let began = Now {
            moment: Moment::from_millis(5_000),
            wall: "2026-11-23T12:00:00Z".parse().unwrap(),
        };
        let cases = [
            ("nothing is wrong", 0, (2, 0), Remedy::None),
            ("nor ever was", 86_400, (2, 0), Remedy::None),
            (
                "a young term",
                30,
                (3, 0),
                Remedy::Wait(Duration::from_secs(570)),
            ),
            (
                "by the engine",
                30,
                (2, 1),
                Remedy::Wait(Duration::from_secs(570)),
            ),
            ("almost", 599, (3, 1), Remedy::Wait(Duration::from_secs(1))),
            ("long enough", 600, (3, 0), Remedy::EndTerm),
            ("by the engine", 600, (2, 1), Remedy::EndTerm),
            ("after a day", 86_400, (3, 7), Remedy::EndTerm),
        ];
        for (case, seconds, (found, by_engine), expected) in cases {
            // Two were found before the term began: in an earlier one, for instance.
            let mut violations = TermViolations::new(2, began);
            let now = Now {
                moment: began.moment.after(Duration::from_secs(seconds)),
                ..began
            };
            assert_eq!(violations.judge(found, by_engine, now), expected, "{case}");
            assert_eq!(violations.end_term(), expected == Remedy::EndTerm, "{case}");
        }
    }
}
