//! Watches: one for each kind, turned into [`Observation`]s on one bounded channel. What an object
//! means is not known here: objects stay JSON, so that one that can't be read hurts only itself.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::Status;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::metrics::Metrics;

/// A watch is renewed after this long, so that a dead one is noticed.
pub const WATCH_SECONDS: u32 = 50;
/// Objects in a page of a list: bounds the memory that a list takes.
const PAGE_SIZE: u32 = 500;
/// Longest wait after a failed watch.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Which watch an observation comes from: a fixed kind, or the objects of a JobKind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// `ResourceFlavor`.
    ResourceFlavor,
    /// `Cohort`.
    Cohort,
    /// `ClusterQueue`.
    ClusterQueue,
    /// `LocalQueue`.
    LocalQueue,
    /// `WorkloadPriorityClass`.
    WorkloadPriorityClass,
    /// `JobKind`.
    JobKind,
    /// `Workload`.
    Workload,
    /// `Namespace`.
    Namespace,
    /// `LimitRange`.
    LimitRange,
    /// `RuntimeClass`.
    RuntimeClass,
    /// `PriorityClass`.
    PriorityClass,
    /// The objects of the JobKind with this name. The number tells one life of a watch from the
    /// next, so that late observations of an ended watch can be told apart.
    Jobs(Arc<str>, u64),
}

/// Something that a watch has seen.
#[derive(Debug)]
pub struct Observation {
    /// Where.
    pub source: Source,
    /// What.
    pub change: Change,
}

/// What a watch has seen.
#[derive(Debug)]
pub enum Change {
    /// A list begins: what is not in it by [`Change::Listed`] is gone.
    Listing,
    /// An object is part of the list.
    InList(Box<DynamicObject>),
    /// The list is complete.
    Listed,
    /// An object was made or changed.
    Applied(Box<DynamicObject>),
    /// An object is gone.
    Deleted(Box<DynamicObject>),
}

/// Watches all objects of `resource` until the receiver is gone. The watch of a JobKind's objects ends
/// too when the API server does not serve them, or not to Sluice: then this is what it said.
pub async fn watch(
    client: Client,
    resource: ApiResource,
    source: Source,
    sender: mpsc::Sender<Observation>,
    metrics: Arc<Metrics>,
) -> Option<Box<Status>> {
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let config = watcher::Config::default()
        .timeout(WATCH_SECONDS)
        .page_size(PAGE_SIZE);
    let mut stream = watcher::watcher(api, config).into_stream().boxed();
    let mut backoff = Duration::from_millis(100);
    loop {
        let change = match stream.try_next().await {
            Ok(Some(event)) => {
                backoff = Duration::from_millis(100);
                match event {
                    Event::Init => Change::Listing,
                    Event::InitApply(object) => Change::InList(Box::new(object)),
                    Event::InitDone => Change::Listed,
                    Event::Apply(object) => Change::Applied(Box::new(object)),
                    Event::Delete(object) => Change::Deleted(Box::new(object)),
                }
            }
            Ok(None) => return None,
            Err(error) => {
                metrics.watch_error(&resource.plural);
                warn!(resource = %resource.plural, %error, "watch failed, trying again");
                if let (Source::Jobs(..), Some(status)) = (&source, refusal(error)) {
                    return Some(status);
                }
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
                continue;
            }
        };
        let observation = Observation {
            source: source.clone(),
            change,
        };
        if sender.send(observation).await.is_err() {
            debug!(resource = %resource.plural, "nobody listens, watch ends");
            return None;
        }
    }
}

/// What the API server said, if it was that there are no such objects or that Sluice may not see them.
fn refusal(error: watcher::Error) -> Option<Box<Status>> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            if matches!(status.code, 403 | 404) =>
        {
            Some(status)
        }
        _ => None,
    }
}
