//! A text that is sent, with what its sender holds until it is: his turn, and the memory that answers may take. A reader who takes
//! it too slowly does not get the rest.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use thiserror::Error;
use tokio::time::sleep;

/// How long a reader may take.
const SENDING_TIME_MAX: Duration = Duration::from_secs(30);
/// What is handed on at a time; the rest can be taken back.
const PART: usize = 64 << 10;

/// The rest of a text, and what is held for it.
struct Rest<T> {
    text: Bytes,
    _held: T,
}

/// A text on its way.
struct Sent<T> {
    rest: Arc<Mutex<Option<Rest<T>>>>,
    /// How much is to come.
    length: usize,
}

/// The reader was too slow.
#[derive(Debug, Error)]
#[error("the reader takes the answer too slowly")]
struct TooSlow;

/// A body that holds `held` until all of it is taken, or no longer than [`SENDING_TIME_MAX`].
pub async fn sent<T: Send + 'static>(body: Body, held: T) -> Body {
    sent_within(SENDING_TIME_MAX, body, held).await
}

async fn sent_within<T: Send + 'static>(limit: Duration, body: Body, held: T) -> Body {
    // It is there as a whole: nothing streams.
    let text = match body.collect().await {
        Ok(text) => text.to_bytes(),
        Err(_) => return Body::empty(),
    };
    let length = text.len();
    let rest = Rest { text, _held: held };
    let rest = Arc::new(Mutex::new(Some(rest)));
    let late = Arc::downgrade(&rest);
    tokio::spawn(async move {
        sleep(limit).await;
        if let Some(rest) = late.upgrade() {
            drop(rest.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    });
    Body::new(Sent { rest, length })
}

impl<T> HttpBody for Sent<T> {
    type Data = Bytes;
    type Error = TooSlow;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TooSlow>>> {
        let sent = self.get_mut();
        if sent.length == 0 {
            return Poll::Ready(None);
        }
        let mut rest = sent.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Rest { text, .. }) = rest.as_mut() else {
            return Poll::Ready(Some(Err(TooSlow)));
        };
        // A copy, so that a part on its way does not keep the whole.
        let part = Bytes::copy_from_slice(&text.split_to(PART.min(text.len())));
        sent.length = text.len();
        if text.is_empty() {
            drop(rest.take());
        }
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.length == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.length).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn what_is_held_is_given_back_when_all_is_sent_or_nobody_takes_it() {
        let slots = Arc::new(Semaphore::new(1));
        let held = || slots.clone().try_acquire_owned().ok();
        let text = vec![b'x'; 3 * PART + 1];
        let mut body = sent(Body::from(text.clone()), held()).await;
        assert_eq!(body.size_hint().exact(), u64::try_from(text.len()).ok());
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() == PART && held().is_none());
        let rest = body.collect().await.unwrap().to_bytes();
        assert_eq!(first.len() + rest.len(), text.len());
        assert!(held().is_some());
        // A reader who takes no more.
        let soon = Duration::from_millis(20);
        let mut body = sent_within(soon, Body::from(text), held()).await;
        body.frame().await.unwrap().unwrap();
        while held().is_none() {
            sleep(soon).await;
        }
        assert!(body.frame().await.unwrap().is_err());
        // One who has gone.
        drop(sent(Body::from("x"), held()).await);
        assert!(held().is_some());
    }
}
