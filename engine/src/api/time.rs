//! Time, as the caller measures it. The engine has no clock: each decision is made at a time that the
//! caller names. [`crate::Engine::next_wake`] says when the next one is due without any event.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// A time, in milliseconds on the clock of the caller. Only differences have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The time `millis` milliseconds after zero.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since zero.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// So much later, saturating.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// The duration since `earlier`; zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_stay_in_range() {
        let (first, last) = (Time(i64::MIN), Time(i64::MAX));
        assert_eq!(last.after(Duration::from_secs(1)), last);
        assert_eq!(Time(5).after(Duration::MAX), last);
        assert_eq!(first.since(last), Duration::ZERO);
        assert_eq!(last.since(first), Duration::from_millis(u64::MAX));
    }
}
