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
    times: Arc<Times>,
}

/// Of one watch, in milliseconds.
#[derive(Debug)]
struct Times {
    /// When it was heard last.
    heard: AtomicU64,
    /// When it was answered last, be it by a refusal.
    answered: AtomicU64,
}

/// Notes when one watch is heard, until it is dropped.
#[derive(Debug)]
pub struct WatchHeartbeat {
    freshness: Arc<Freshness>,
    number: u64,
    times: Arc<Times>,
}

impl Freshness {
    /// Registers another watch of `resource`. It counts as heard now.
    pub fn register(self: &Arc<Self>, resource: &str) -> WatchHeartbeat {
        let now = Moment::now().as_millis();
        let times = Arc::new(Times {
            heard: AtomicU64::new(now),
            answered: AtomicU64::new(now),
        });
        let mut watches = self.lock();
        let number = watches.next;
        watches.next = number.wrapping_add(1);
        let watch = Watch {
            resource: resource.to_owned(),
            times: times.clone(),
        };
        watches.by_number.insert(number, watch);
        WatchHeartbeat {
            freshness: self.clone(),
            number,
            times,
        }
    }

    /// Whether each watch is answered. One that is refused makes no replica unready: all of them are refused alike, and
    /// webhooks that judge by what was known before are better than none.
    pub fn is_fresh(&self) -> bool {
        let watches = self.lock();
        let mut watches = watches.by_number.values();
        watches.all(|watch| since(&watch.times.answered) < SILENT_AFTER)
    }

    /// How long each watch has been silent, with the resource that it watches.
    pub fn silences(&self) -> Vec<(String, Duration)> {
        let watches = self.lock();
        let watches = watches.by_number.values();
        let silence = |watch: &Watch| (watch.resource.clone(), since(&watch.times.heard));
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
        let times = self.times.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, times) = (client.clone(), times.clone());
            async move {
                let response: Response<Body> = client.send(request).await?;
                let is_success = response.status().is_success();
                times.note(is_success);
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        times.note(is_success);
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

impl Times {
    /// Notes an answer, or a part of one.
    fn note(&self, is_success: bool) {
        let now = Moment::now().as_millis();
        self.answered.store(now, Ordering::Relaxed);
        if is_success {
            self.heard.store(now, Ordering::Relaxed);
        }
    }
}

fn since(time: &AtomicU64) -> Duration {
    Moment::from_millis(time.load(Ordering::Relaxed)).elapsed()
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
            watch.times.heard.store(0, Ordering::Relaxed);
            watch.times.answered.store(0, Ordering::Relaxed);
            let client = watch.client(answering(status, body));
            let request = Request::get("/api/v1/pods").body(Vec::new()).unwrap();
            let answer = client.request_text(request).await;
            assert_eq!(answer.is_ok(), is_heard, "{status}: {answer:?}");
            let silences = freshness.silences();
            assert_eq!(silences[0].1 < SILENT_AFTER, is_heard, "{status}");
            assert!(freshness.is_fresh(), "{status}: it was answered");
        }
    }

    #[test]
    fn one_silent_watch_is_enough_until_it_ends() {
        let freshness = Arc::new(Freshness::default());
        assert!(freshness.is_fresh(), "there is none");
        let (one, other) = (freshness.register("pods"), freshness.register("jobs"));
        assert!(freshness.is_fresh(), "they have just begun");
        one.times.answered.store(0, Ordering::Relaxed);
        assert!(!freshness.is_fresh(), "one was never answered");
        one.times.note(true);
        assert!(freshness.is_fresh(), "it is again");
        other.times.answered.store(0, Ordering::Relaxed);
        drop(other);
        assert!(freshness.is_fresh(), "the other has ended");
    }
}
