//! Counts states that must not occur. Whoever finds one goes on as safely as possible: it rather admits nothing.

/// How often a state was found that must not occur.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Violations(u64);

impl Violations {
    /// Counts a violation if an invariant is not met. Panics in builds with debug assertions.
    pub(crate) fn check(&mut self, is_met: bool, invariant: &str) {
        debug_assert!(is_met, "violated: {invariant}");
        self.0 = self.0.saturating_add(u64::from(!is_met));
    }

    /// Adds what somebody else has found.
    pub(crate) fn add(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }

    pub(crate) fn count(self) -> u64 {
        self.0
    }
}
