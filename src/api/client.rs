//! Clients of the API server. Two of them: watches stay open for long, writes don't. kube's default is to
//! repeat any verb on 429, 503 and 504, and a repeated POST makes two objects; ours send each request once.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::buffer::BufferLayer;

mod pages;

use pages::BoundedPages;

/// How long a watch may be silent: watches are renewed within [`crate::api::watch::WATCH_SECONDS`], and
/// a server that says nothing for longer is gone.
const READ_TIMEOUT: Duration = Duration::from_secs(25);

/// Requests of watches and lists that may wait to be sent: more than there are kinds.
const READS_WAITING_MAX: usize = 256;

/// The clients of one process.
#[derive(Clone)]
pub struct Clients {
    /// For lists and watches.
    pub read: Client,
    /// For everything else: sends each request exactly once.
    pub write: Client,
}

impl Clients {
    /// Connects as the environment says: `KUBECONFIG`, or the pod's service account.
    pub async fn infer() -> Result<Self> {
        let mut config = Config::infer()
            .await
            .context("read the connection to the API server")?;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(READ_TIMEOUT);
        // Watches have their own way to try again, which is quicker and is counted.
        config.default_retry = false;
        let read = ClientBuilder::try_from(config.clone())
            .context("set up the client for watches")?
            // A page that is too large is asked for again: that takes a service of which there can be two.
            .with_layer(&BufferLayer::new(READS_WAITING_MAX))
            .with_layer(&BoundedPages::default())
            .build();
        // Each write has a deadline of its own. A read timeout would close connections that are idle between writes.
        config.read_timeout = None;
        let write = ClientBuilder::try_from(config)
            .context("set up the client for writes")?
            .build();
        Ok(Self { read, write })
    }
}
