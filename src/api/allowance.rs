//! How many questions of the webhooks are passed on to the API server. Whoever reaches a webhook can ask: all of them
//! together cost no more than this.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
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
        let mut state = self.refilled(now);
        let left = state.left.checked_sub(1);
        state.left = left.unwrap_or_default();
        left.is_some()
    }

    /// Whether nothing of it is used.
    fn is_whole(&self, now: Instant) -> bool {
        self.refilled(now).left == self.at_once
    }

    fn refilled(&self, now: Instant) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(state.counted);
        let more = since.as_millis() / self.every.as_millis().max(1);
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            state.left = state.left.saturating_add(more).min(self.at_once);
            // What has passed of the next one counts on.
            state.counted += self.every.saturating_mul(more).min(since);
        }
        state
    }
}

/// One allowance for each caller, so that no caller uses up what all share.
#[derive(Debug)]
pub struct Shares {
    at_once: u32,
    every: Duration,
    /// How many are told apart.
    most: usize,
    /// Written by whoever asks.
    by_name: Mutex<BTreeMap<String, Allowance>>,
}

impl Shares {
    /// So much for each; so many are told apart.
    pub fn new(at_once: u32, every: Duration, most: usize) -> Self {
        Self {
            at_once,
            every,
            most,
            by_name: Mutex::default(),
        }
    }

    /// Takes one of the share of `name`. Whether there was one. While too many names are in use to tell them apart,
    /// those that come new have no limit of their own.
    pub fn take(&self, name: &str, now: Instant) -> bool {
        let mut shares = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(name) {
            return share.take(now);
        }
        if self.most <= shares.len() {
            shares.retain(|_, share| !share.is_whole(now));
        }
        if self.most <= shares.len() {
            return true;
        }
        let share = Allowance::new(self.at_once, self.every, now);
        let is_taken = share.take(now);
        shares.insert(name.to_owned(), share);
        is_taken
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
        // What is left of the ten seconds before counts.
        assert_eq!(answered(start + Duration::from_secs(50)), 1);
        assert_eq!(answered(start + Duration::from_secs(9_999)), 32);
    }

    #[test]
    fn one_does_not_use_up_the_share_of_another() {
        let start = Instant::now();
        let shares = Shares::new(3, Duration::from_secs(1), 2);
        let answered = |name, now| (0..10).filter(|_| shares.take(name, now)).count();
        assert_eq!(answered("a", start), 3);
        assert_eq!(answered("b", start), 3);
        assert_eq!(answered("a", start), 0);
        // No more names than these are told apart, until one has its whole share again.
        assert_eq!(answered("c", start), 10);
        let later = start + Duration::from_secs(5);
        assert_eq!(answered("c", later), 3);
        assert_eq!(answered("a", later), 3);
    }
}
