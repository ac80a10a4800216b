//! Watches a few objects by their names, and gives notice when one has changed.

use futures::StreamExt;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::api::watch::{BACKOFF_MAX, BACKOFF_MIN, WATCH_SECONDS};
use crate::process::backoff::RetryBackoff;
use crate::process::notices::Notices;

/// Notices of the objects of these resources with one of these names, as long as anybody waits for them.
pub fn watch_names(client: &Client, resources: &[ApiResource], names: &[&str]) -> Notices {
    let (sender, receiver) = watch::channel(());
    for resource in resources {
        for name in names {
            let api = Api::all_with(client.clone(), resource);
            tokio::spawn(follow(api, (*name).to_owned(), sender.clone()));
        }
    }
    Notices::new(receiver)
}

/// Watches the object of this name. RBAC allows that by the name: the API server takes it from the field selector.
async fn follow(api: Api<DynamicObject>, name: String, sender: watch::Sender<()>) {
    let config = watcher::Config::default()
        .timeout(WATCH_SECONDS)
        .fields(&format!("metadata.name={name}"));
    let mut events = watcher::watcher(api, config).boxed();
    let mut backoff = RetryBackoff::new(BACKOFF_MIN, BACKOFF_MAX);
    loop {
        let event = tokio::select! {
            biased;
            () = sender.closed() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                // A list that is begun, again and again, has not come.
                if !matches!(event, Event::Init | Event::InitApply(_)) {
                    backoff.reset();
                    sender.send_replace(());
                }
            }
            Some(Err(error)) => {
                if backoff.is_first() {
                    warn!(name, %error, "a watch failed; trying again");
                } else {
                    debug!(name, %error, "a watch failed again");
                }
                backoff.wait().await;
            }
            None => return,
        }
    }
}
