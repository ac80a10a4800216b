//! How long a task waits before it looks again for a resource that is not served, or may not be read, and how long one look
//! may take.

use std::time::Duration;

use tokio::time::Instant;

use crate::process::backoff::RetryBackoff;

/// Longest time for one look.
pub const LOOK_DEADLINE: Duration = Duration::from_secs(10);
/// Shortest and longest wait.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(15);

/// The waits of one task: each twice the one before.
#[derive(Debug)]
pub struct Retry {
    begun: Instant,
    backoff: RetryBackoff,
}

impl Retry {
    /// The first look begins.
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            backoff: RetryBackoff::new(WAIT_MIN, WAIT_MAX),
        }
    }

    /// Waits; then the next look begins. After a watch that went well for a while the wait is short again.
    pub async fn wait(&mut self) {
        if WAIT_MAX < self.begun.elapsed() {
            self.backoff.reset();
        }
        self.backoff.wait().await;
        self.begun = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_until_a_watch_goes_well() {
        let mut retry = Retry::new();
        let mut waits = Vec::new();
        for watched in [0, 0, 0, 0, 0, 0, 16, 0] {
            advance(Duration::from_secs(watched)).await;
            let begun = Instant::now();
            retry.wait().await;
            waits.push(begun.elapsed().as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 15, 15, 1, 2]);
    }
}
