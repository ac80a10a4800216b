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
    /// A client for this watch alone: what it is answered is heard.
    pub fn client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let heard = self.heard.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, heard) = (client.clone(), heard.clone());
            async move {
                let response: Response<Body> = client.send(request).await?;
                if response.status().is_success() {
                    hear(&heard);
                }
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        hear(&heard);
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
    use super::*;

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
