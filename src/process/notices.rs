//! Says that one of a few objects has changed. What they are is read by whoever is told: a notice may come late, twice or
//! never, so whoever waits for one looks from time to time all the same. Who gives notice lives in `crate::api::notices`.

use std::future::pending;

use tokio::sync::watch;

/// Notices of changes. Those that come together are one.
#[derive(Debug, Clone)]
pub struct Notices(watch::Receiver<()>);

impl Default for Notices {
    /// None ever comes.
    fn default() -> Self {
        Self::new(watch::channel(()).1)
    }
}

impl Notices {
    /// Those that come through this channel.
    pub fn new(receiver: watch::Receiver<()>) -> Self {
        Self(receiver)
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}
