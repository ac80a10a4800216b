//! Which watches are heard. A watch of objects that don't change says nothing for hours, and so does one
//! whose server hangs: what tells them apart is whether the server answers when the watch is renewed, and
//! whether bytes come, bookmarks among them. What is known by a silent watch may be old.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use tower::service_fn;

use crate::process::clock::Moment;

/// A watch that was not heard for so long is silent. Each is renewed within
/// [`crate::api::watch::WATCH_SECONDS`]; the rest is for the renewal.
const SILENT_AFTER: Duration = Duration::from_secs(30);

/// All watches of this process.
#[derive(Debug, Default)]
pub struct Freshness {
    watches: Mutex<Watches>,
}

#[derive(Debug, Default)]
struct Watches {
    by_number: BTreeMap<u64, Watch>,
    next: u64,
}

#[derive(Debug)]
struct Watch {
    resource: String,
    /// When it was heard last, in milliseconds.
    heard: Arc<AtomicU64>,
}

/// Notes when one watch is heard, until it is dropped.
#[derive(Debug)]
pub struct WatchHeartbeat {
    freshness: Arc<Freshness>,
    number: u64,
    heard: Arc<AtomicU64>,
}

impl Freshness {
    /// Registers another watch of `resource`. It counts as heard now.
    pub fn register(self: &Arc<Self>, resource: &str) -> WatchHeartbeat {
        let heard = Arc::new(AtomicU64::new(Moment::now().as_millis()));
        let mut watches = self.lock();
        let number = watches.next;
        watches.next = number.wrapping_add(1);
        let watch = Watch {
            resource: resource.to_owned(),
            heard: heard.clone(),
        };
        watches.by_number.insert(number, watch);
        WatchHeartbeat {
            freshness: self.clone(),
            number,
            heard,
        }
    }

    /// Whether no watch is silent.
    pub fn is_fresh(&self) -> bool {
        let mut silences = self.silences().into_iter();
        silences.all(|(_, silence)| silence < SILENT_AFTER)
    }

    /// How long each watch has been silent, with the resource that it watches.
    pub fn silences(&self) -> Vec<(String, Duration)> {
        let watches = self.lock();
        let watches = watches.by_number.values();
        let silence = |watch: &Watch| {
            let last = Moment::from_millis(watch.heard.load(Ordering::Relaxed));
            (watch.resource.clone(), last.elapsed())
        };
        watches.map(silence).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchHeartbeat {
    /// A client for this watch alone: what it is answered is heard. A refusal has a body too, and says nothing of objects:
    /// a watch that is refused again and again is as silent as one that nobody answers.
    pub fn client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let heard = self.heard.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, heard) = (client.clone(), heard.clone());
            async move {
                let response: Response<Body> = client.send(request).await?;
                let is_success = response.status().is_success();
                if is_success {
                    hear(&heard);
                }
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        if is_success {
                            hear(&heard);
                        }
                        frame
                    })
                }))
            }
        });
        ClientBuilder::new(service, namespace).build()
    }
}

impl Drop for WatchHeartbeat {
    fn drop(&mut self) {
        self.freshness.lock().by_number.remove(&self.number);
    }
}

fn hear(heard: &AtomicU64) {
    heard.store(Moment::now().as_millis(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A client of an API server that gives each request this answer.
    fn answering(status: u16, body: &'static str) -> Client {
        let service = service_fn(move |_: Request<Body>| async move {
            let response = Response::builder().status(status);
            let response = response.body(Body::from(body.as_bytes().to_vec()));
            Ok::<_, Infallible>(response.unwrap())
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_watch_that_is_refused_is_silent() {
        let freshness = Arc::new(Freshness::default());
        let watch = freshness.register("pods");
        let refused = r#"{"kind": "Status", "status": "Failure", "code": 403, "message": "no"}"#;
        for (status, body, is_heard) in [(403, refused, false), (500, "-", false), (200, "-", true)]
        {
            watch.heard.store(0, Ordering::Relaxed);
            let client = watch.client(answering(status, body));
            let request = Request::get("/api/v1/pods").body(Vec::new()).unwrap();
            let answer = client.request_text(request).await;
            assert_eq!(answer.is_ok(), is_heard, "{status}: {answer:?}");
            assert_eq!(freshness.is_fresh(), is_heard, "{status}");
        }
    }

    #[test]
    fn one_silent_watch_is_enough_until_it_ends() {
        let freshness = Arc::new(Freshness::default());
        assert!(freshness.is_fresh(), "there is none");
        let (one, other) = (freshness.register("pods"), freshness.register("jobs"));
        assert!(freshness.is_fresh(), "they have just begun");
        one.heard.store(0, Ordering::Relaxed);
        assert!(!freshness.is_fresh(), "one was never heard");
        hear(&one.heard);
        assert!(freshness.is_fresh(), "it is again");
        other.heard.store(0, Ordering::Relaxed);
        drop(other);
        assert!(freshness.is_fresh(), "the other has ended");
    }
}
