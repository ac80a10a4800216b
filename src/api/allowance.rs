//! How many questions of the webhooks are passed on to the API server. Whoever reaches a webhook can ask: all of them
//! together cost no more than this.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many questions at once, and one more each time that so long has passed.
#[derive(Debug)]
pub struct Allowance {
    at_once: u32,
    every: Duration,
    /// Written by whoever asks.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    left: u32,
    counted: Instant,
}

impl Allowance {
    /// An allowance that is not used yet.
    pub fn new(at_once: u32, every: Duration, now: Instant) -> Self {
        Self {
            at_once,
            every,
            state: Mutex::new(State {
                left: at_once,
                counted: now,
            }),
        }
    }

    /// Takes one. Whether there was one.
    pub fn take(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(state.counted);
        let more = since.as_millis() / self.every.as_millis().max(1);
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            state.left = state.left.saturating_add(more).min(self.at_once);
            state.counted = now;
        }
        let left = state.left.checked_sub(1);
        state.left = left.unwrap_or_default();
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_again_and_again_is_answered_now_and_then() {
        let start = Instant::now();
        let allowance = Allowance::new(32, Duration::from_secs(10), start);
        let answered = |now| (0..10_000).filter(|_| allowance.take(now)).count();
        assert_eq!(answered(start), 32);
        assert_eq!(answered(start + Duration::from_secs(9)), 0);
        assert_eq!(answered(start + Duration::from_secs(10)), 1);
        assert_eq!(answered(start + Duration::from_secs(41)), 3);
        assert_eq!(answered(start + Duration::from_secs(9_999)), 32);
    }
}
