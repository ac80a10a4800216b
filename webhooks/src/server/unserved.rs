//! Tells the log of connections that are closed without an answer, and of failed accepts. Anybody can cause those, so there
//! is at most one line a minute. Which connections these are is not decided here.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

/// Shortest time between two lines.
const LINE_EVERY: Duration = Duration::from_mins(1);

/// The connections of one server that it didn't serve.
#[derive(Debug, Default)]
pub(crate) struct Unserved {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    /// How many there have been since.
    untold: u64,
}

impl Unserved {
    /// Logs why there is one more, unless a line was written within the last minute.
    pub(crate) fn add(&self, why: &dyn Display) {
        if let Some(more) = self.due(Instant::now()) {
            warn!(%why, more, "closed a connection without an answer");
        }
    }

    /// How many were not told since the last line, if there is to be one now.
    fn due(&self, now: Instant) -> Option<u64> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told
            .at
            .is_some_and(|at| now.duration_since(at) < LINE_EVERY)
        {
            told.untold = told.untold.saturating_add(1);
            return None;
        }
        told.at = Some(now);
        Some(std::mem::take(&mut told.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_line_a_minute_that_counts_the_others() {
        let unserved = Unserved::default();
        let start = Instant::now();
        let at = |seconds| unserved.due(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Some(0));
        assert_eq!(at(1), None);
        assert_eq!(at(59), None);
        assert_eq!(at(60), Some(2));
        assert_eq!(at(130), Some(0));
    }
}
