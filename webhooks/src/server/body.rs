//! Reads request bodies within limits. What bodies under way may hold together is bounded too: it is
//! counted as bytes arrive, so that a caller pays for what it sends, not for what it announces.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, header::CONTENT_LENGTH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest body: an old and a new object, each as large as the API server takes one in a request, and what stands around
/// them. What is stored is smaller (1.5 MiB), but objects of Kubernetes are stored in another form than JSON.
pub(crate) const BODY_BYTES_MAX: usize = 2 * OBJECT_BYTES_MAX + (64 << 10);
/// The API server's own limit for a request.
const OBJECT_BYTES_MAX: usize = 3 << 20;
/// Most bytes that bodies under way hold together: five of the largest, thousands of usual ones.
const BUDGET_BYTES: usize = 32 << 20;
/// The unit in which the budget is counted.
const CHUNK_BYTES: usize = 1 << 10;

const _: () = assert!(BODY_BYTES_MAX < BUDGET_BYTES);

/// A body, and the part of the budget that it holds.
pub(crate) struct Content {
    bytes: Vec<u8>,
    held: Option<OwnedSemaphorePermit>,
}

impl Content {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is larger than [`BODY_BYTES_MAX`].
    TooLarge,
    /// The connection broke.
    Broken,
}

/// What bodies under way may hold together.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_BYTES / CHUNK_BYTES)))
    }

    /// Reads `body`. Waits while the budget is used up; the caller sets a time limit.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Content, Unread> {
        let announced = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: usize| BODY_BYTES_MAX < length) {
            return Err(Unread::TooLarge);
        }
        let mut body = body;
        let mut content = Content {
            bytes: Vec::new(),
            held: None,
        };
        let mut chunksheld = 0;
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            let data = match frame {
                None => return Ok(content),
                Some(Err(_)) => return Err(Unread::Broken),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            let size = content.bytes.len() + data.len();
            if BODY_BYTES_MAX < size {
                return Err(Unread::TooLarge);
            }
            let chunks = size.div_ceil(CHUNK_BYTES);
            content.held = self
                .take(content.held.take(), chunks - chunksheld)
                .await?
                .into();
            chunksheld = chunks;
            content.bytes.extend_from_slice(&data);
        }
    }

    async fn take(
        &self,
        held: Option<OwnedSemaphorePermit>,
        chunks: usize,
    ) -> Result<OwnedSemaphorePermit, Unread> {
        let chunks = u32::try_from(chunks).map_err(|_| Unread::TooLarge)?;
        let more = self
            .0
            .clone()
            .acquire_many_owned(chunks)
            .await
            .map_err(|_| Unread::Broken)?;
        Ok(match held {
            None => more,
            Some(mut held) => {
                held.merge(more);
                held
            }
        })
    }
}
