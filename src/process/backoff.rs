//! How long a task waits before it tries again what has failed: each time twice as long as before, up to a longest wait,
//! until it goes well. How long a write waits follows from what it is for (`controller/writes/attempts.rs`).

use std::time::Duration;

use tokio::time::sleep;

/// The waits of one task.
#[derive(Debug)]
pub struct RetryBackoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl RetryBackoff {
    /// Nothing has failed yet.
    pub fn new(min: Duration, max: Duration) -> Self {
        let next = min;
        Self { min, max, next }
    }

    /// It goes well.
    pub fn reset(&mut self) {
        self.next = self.min;
    }

    /// Whether it went well before: that it fails again is no news.
    pub fn is_first(&self) -> bool {
        self.next == self.min
    }

    /// How long to wait after this failure.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.max);
        wait
    }

    /// Waits after a failure.
    pub async fn wait(&mut self) {
        sleep(self.next_wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_until_it_goes_well() {
        let mut backoff = RetryBackoff::new(Duration::from_secs(1), Duration::from_secs(15));
        assert!(backoff.is_first());
        let waits: Vec<_> = (0..6).map(|_| backoff.next_wait().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 15, 15]);
        assert!(!backoff.is_first());
        backoff.reset();
        assert_eq!(backoff.next_wait(), Duration::from_secs(1));
    }
}
