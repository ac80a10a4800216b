//! Waiting for a condition with a limit. Nothing in the test bed or in its tests sleeps for a
//! guessed time: it polls, and says on failure what it waited for and what it saw last.

use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Between the first two looks: short against a human's patience, long against the cost of one GET (~1 ms).
const POLL: Duration = Duration::from_millis(50);

/// Between two looks at what takes seconds: the waits of all tests that run at the same time share two cores.
const POLL_MAX: Duration = Duration::from_millis(400);

/// Polls `probe` until it gives a value; after `deadline` fails and says `what` was waited for.
///
/// # Errors
/// When the deadline passes first.
pub async fn wait_for<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    eventually(what, deadline, async || probe().await.ok_or("not yet")).await
}

/// Like [`wait_for`], for a probe that can say why not: the last reason is in the failure.
///
/// # Errors
/// When the deadline passes first.
pub async fn eventually<T, E: Display>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> std::result::Result<T, E>,
) -> Result<T> {
    let start = Instant::now();
    let mut poll = POLL;
    let mut seen: Option<E> = None;
    loop {
        let left = deadline.saturating_sub(start.elapsed());
        // The probe itself may hang, on a stopped API server for one.
        match tokio::time::timeout(left, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => seen = Some(reason),
            Err(_) => {}
        }
        if start.elapsed() >= deadline {
            match seen {
                Some(reason) => bail!("waited {deadline:?} for {what}; last seen: {reason:#}"),
                None => bail!("waited {deadline:?} for {what}; no look came back"),
            }
        }
        tokio::time::sleep(poll).await;
        poll = poll.mul_f32(1.3).min(POLL_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn gives_the_value_when_it_comes() {
        let mut looks = 0;
        let got = wait_for("the third look", Duration::from_secs(5), async || {
            looks += 1;
            (looks == 3).then_some(looks)
        })
        .await;
        assert_eq!(got.ok(), Some(3));
    }

    #[tokio::test]
    async fn a_failure_says_what_and_why() {
        let got: Result<()> = eventually("a miracle", Duration::from_millis(1), async || {
            Err("the sky is empty")
        })
        .await;
        let text = got.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            text.contains("a miracle") && text.contains("the sky is empty"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_hanging_probe_ends_with_the_deadline() {
        let got: Result<()> = wait_for("a reply", Duration::from_millis(20), async || {
            std::future::pending::<()>().await;
            None
        })
        .await;
        assert!(got.is_err());
    }
}
