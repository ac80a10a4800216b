//! What the API server publishes of kinds: read afresh each time, within limits of size and number. The
//! webhook that judges JobKinds has a limit of time too.

use std::pin::Pin;
use std::time::Duration;

use futures::AsyncReadExt;
use http::Request;
use http::header::ACCEPT;
use kube::Client;
use serde_json::Value;
use sluice_webhooks::{Published, Schemas};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::api::allowance::Allowance;
use crate::process::answer::ApiAnswer;

/// Longest time for one answer: whoever has sent the JobKind waits, and the webhook has 3 s for all.
const DEADLINE: Duration = Duration::from_secs(1);
/// Largest document. The largest known, of API groups with ten kinds that embed pod templates, have
/// some 5 MiB.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
/// A document that is parsed without a thread of its own. A large one takes tens of milliseconds.
const PARSED_HERE_MAX: usize = 64 << 10;
/// Documents that are read at the same time: each takes several times its size.
const CONCURRENCY: usize = 1;

/// Questions of the webhook that may come at once: all shipped JobKinds, and some.
const ALLOWED_AT_ONCE: u32 = 32;
/// After this long one more may come. Whoever reaches the webhook can ask: all of them together cost no more
/// than this.
const ALLOWED_EVERY: Duration = Duration::from_secs(10);

/// Where it is said what is published where.
pub const INDEX: &str = "/openapi/v3";

/// The place of a group and version in the index, and below it.
pub fn place(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

/// Why a document is not there.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// It can't be read.
    #[error("{0}")]
    Unreadable(Box<dyn std::error::Error + Send + Sync>),
    /// It is too large.
    #[error("it has more than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    /// Nothing is published of this group and version.
    #[error("{0} is not published yet")]
    NotListed(String),
    /// Nothing is published there.
    #[error("nothing is published at {0}")]
    NotThere(String),
}

fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SchemaError {
    SchemaError::Unreadable(error.into())
}

/// Reads schemas from the API server.
pub struct OpenApi {
    client: Client,
    turns: Semaphore,
    allowance: Allowance,
}

impl OpenApi {
    /// Reads by `client`, which must not repeat requests by itself.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            turns: Semaphore::new(CONCURRENCY),
            allowance: Allowance::new(ALLOWED_AT_ONCE, ALLOWED_EVERY, Instant::now()),
        }
    }

    /// What is published at `path`, if anything is.
    ///
    /// # Errors
    /// It can't be read, or is too large.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, SchemaError> {
        let _turn = self.turns.acquire().await.map_err(unreadable)?;
        let request = Request::get(path).header(ACCEPT, "application/json");
        let request = request.body(Vec::new()).map_err(unreadable)?;
        let body = match self.client.request_stream(request).await {
            Ok(body) => body,
            Err(error) if ApiAnswer::of(&error) == ApiAnswer::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mut text = Vec::new();
        // One byte more tells too large from just large enough.
        let mut body = Box::pin(body).take(DOCUMENT_BYTES_MAX + 1);
        let size = body.read_to_end(&mut text).await;
        let size = size.map_err(unreadable)?;
        if DOCUMENT_BYTES_MAX < size as u64 {
            return Err(SchemaError::TooLarge);
        }
        let parsed = if text.len() < PARSED_HERE_MAX {
            serde_json::from_slice::<Value>(&text)
        } else {
            let parse = move || serde_json::from_slice::<Value>(&text);
            let parsed = tokio::task::spawn_blocking(parse).await;
            parsed.map_err(unreadable)?
        };
        Ok(Some(parsed.map_err(unreadable)?))
    }
}

impl Schemas for OpenApi {
    fn published<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> Pin<Box<dyn Future<Output = Published> + Send + 'a>> {
        Box::pin(async move {
            if !self.allowance.take(Instant::now()) {
                return Published::Unreadable("too many JobKinds came at once".to_owned());
            }
            let path = format!("{INDEX}/{}", place(group, version));
            match timeout(DEADLINE, self.get(&path)).await {
                Ok(Ok(Some(document))) => Published::Document(document),
                Ok(Ok(None)) => Published::NotServed,
                Ok(Err(why)) => Published::Unreadable(why.to_string()),
                Err(_) => {
                    Published::Unreadable(format!("no reply within {} s", DEADLINE.as_secs()))
                }
            }
        })
    }
}
