//! Watches: one for each kind, turned into [`Observation`]s on one bounded channel. What an object
//! means is not known here: it is handed to who can read it as JSON, so that one that can't be read
//! hurts only itself. Watches take turns on the channel: none waits behind all that another one has.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use sluice_kinds::stored::Stored;
use sluice_webhooks::manifests::SYSTEM_NAMESPACES;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use crate::cache::Source;
use crate::process::answer::ApiAnswer;
use crate::process::backoff::RetryBackoff;
use crate::process::invariants::violated;
use crate::process::metrics::Metrics;

/// A watch is renewed after this long, so that a dead one is noticed: see [`crate::process::watch_freshness`].
pub const WATCH_SECONDS: u32 = 20;
/// Most objects in a page of a list. How many they are follows from their size: see `client/pages.rs`.
pub const PAGE_SIZE: u32 = 500;
/// Shortest and longest wait after a failed watch.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Something that a watch has seen.
#[derive(Debug)]
pub struct Observation<T> {
    /// Where.
    pub source: Source,
    /// What.
    pub change: Change<T>,
}

/// What a watch has seen.
#[derive(Debug)]
pub enum Change<T> {
    /// A list begins: what is not in it by [`Change::Listed`] is gone. It is asked for when this
    /// was taken in.
    Listing(oneshot::Sender<()>),
    /// An object is part of the list.
    InList(T),
    /// The list is complete.
    Listed,
    /// An object was made or changed.
    Applied(T),
    /// An object is gone.
    Deleted(Box<DynamicObject>),
}

/// Selects by fields what is outside of the system's namespaces. Nothing there is queued, gated or counted,
/// whatever its labels say: Sluice's account may write nothing there (`config/jail`).
pub fn outside_of_the_system() -> String {
    SYSTEM_NAMESPACES
        .map(|namespace| format!("metadata.namespace!={namespace}"))
        .join(",")
}

/// Watches all objects of these resources as they are, until the receiver is gone. So many observations may wait.
pub fn watch_all(
    client: &Client,
    sources: impl IntoIterator<Item = (Source, ApiResource)>,
    waiting_max: usize,
    metrics: &Arc<Metrics>,
) -> mpsc::Receiver<Observation<DynamicObject>> {
    let (sender, receiver) = mpsc::channel(waiting_max);
    for (source, resource) in sources {
        tokio::spawn(watch(
            client.clone(),
            resource,
            source,
            |object| object,
            sender.clone(),
            metrics.clone(),
        ));
    }
    receiver
}

/// Watches all objects of `resource` until the receiver is gone, and hands on what `read` sees in them.
/// The watch of a JobKind's objects, of what gates wait for, or of ResourceClaimTemplates, ends
/// too when they can't be listed, or are not served any more, or not to Sluice: then this says why.
pub async fn watch<T>(
    client: Client,
    resource: ApiResource,
    source: Source,
    read: impl Fn(DynamicObject) -> T,
    sender: mpsc::Sender<Observation<T>>,
    metrics: Arc<Metrics>,
) -> Option<kube::Error> {
    let heartbeat = metrics.freshness().register(&resource.plural);
    let api: Api<Stored<DynamicObject>> = Api::all_with(heartbeat.client(client), &resource);
    let mut config = watcher::Config::default()
        .timeout(WATCH_SECONDS)
        .page_size(PAGE_SIZE);
    if source.is_outside_of_the_system() {
        config = config.fields(&outside_of_the_system());
    }
    if source == Source::Pod {
        config = config.labels(&format!("{}=true", sluice_crds::MANAGED_LABEL));
    }
    let open = || {
        let stream = watcher::watcher(api.clone(), config.clone());
        stream.into_stream().boxed()
    };
    let mut stream = open();
    let mut backoff = RetryBackoff::new(BACKOFF_MIN, BACKOFF_MAX);
    loop {
        // Of a list that fails again and again the first page may come each time: only what is more than a part of a
        // list resets the backoff.
        let change = match stream.try_next().await {
            Ok(Some(Event::Init)) => {
                if announce_list(&sender, &source).await.is_break() {
                    break;
                }
                continue;
            }
            Ok(Some(Event::InitApply(Stored(object)))) => Change::InList(read(object)),
            Ok(Some(Event::InitDone)) => {
                backoff.reset();
                Change::Listed
            }
            Ok(Some(Event::Apply(Stored(object)))) => {
                backoff.reset();
                Change::Applied(read(object))
            }
            Ok(Some(Event::Delete(Stored(object)))) => {
                backoff.reset();
                Change::Deleted(Box::new(object))
            }
            Ok(None) => {
                violated("a watch goes on until it is dropped");
                backoff.wait().await;
                stream = open();
                continue;
            }
            Err(error) => {
                metrics.traffic.watch_error(&resource.plural);
                if backoff.is_first() {
                    warn!(resource = %resource.plural, %error, "a watch failed; trying again");
                } else {
                    debug!(resource = %resource.plural, %error, "a watch failed again");
                }
                if source.may_be_refused()
                    && let Some(refusal) = refusal(error)
                {
                    return Some(refusal);
                }
                backoff.wait().await;
                continue;
            }
        };
        if send(&sender, &source, change).await.is_break() {
            break;
        }
    }
    debug!(resource = %resource.plural, "the watch ends: nothing receives its events");
    None
}

/// Says that a list begins, and waits until that was taken in. Ends the watch if nothing receives its events.
async fn announce_list<T>(
    sender: &mpsc::Sender<Observation<T>>,
    source: &Source,
) -> ControlFlow<()> {
    let (ack, taken) = oneshot::channel();
    send(sender, source, Change::Listing(ack)).await?;
    // An error says that the receiver does not care.
    let _ = taken.await;
    ControlFlow::Continue(())
}

/// Hands on what was seen. Ends the watch if nothing receives its events.
async fn send<T>(
    sender: &mpsc::Sender<Observation<T>>,
    source: &Source,
    change: Change<T>,
) -> ControlFlow<()> {
    let source = source.clone();
    match sender.send(Observation { source, change }).await {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// Why objects can't be seen, if trying again by itself is not enough.
fn refusal(error: watcher::Error) -> Option<kube::Error> {
    match error {
        watcher::Error::InitialListFailed(error) => Some(error),
        watcher::Error::WatchStartFailed(error) => {
            let is_refused = matches!(
                ApiAnswer::of(&error),
                ApiAnswer::Forbidden | ApiAnswer::NotFound
            );
            is_refused.then_some(error)
        }
        _ => None,
    }
}
