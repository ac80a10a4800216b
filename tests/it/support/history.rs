//! Every revision of the objects of one kind in one namespace, in the order of the API server: what
//! was ever so, not only what a test happened to see.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use sluice_testbed::eventually;
use tokio::task::JoinHandle;

use super::DEADLINE;
use super::objects::revision_of;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its place in the history.
    pub number: u128,
    /// Whether the object is gone from here on.
    pub is_deleted: bool,
    /// The object; as it was last, if it is gone.
    pub object: Value,
}

/// What is recorded, from its start to its drop.
pub struct History {
    revisions: Arc<Mutex<Vec<Revision>>>,
    recorder: JoinHandle<()>,
}

impl History {
    /// Records what happens from now on.
    pub async fn start(api: Api<DynamicObject>) -> Result<Self> {
        let list = api.list(&ListParams::default().limit(1)).await?;
        let from = list
            .metadata
            .resource_version
            .context("a list without a version")?;
        let revisions = Arc::new(Mutex::new(Vec::new()));
        let recorder = tokio::spawn(record(api, from, revisions.clone()));
        Ok(Self {
            revisions,
            recorder,
        })
    }

    /// All revisions so far up to this one, once it is recorded. There must be one with the number.
    pub async fn until(&self, number: u128) -> Result<Vec<Revision>> {
        eventually(
            &format!("revision {number} in the history"),
            DEADLINE,
            async || {
                let all = self.so_far();
                let last = all.last().map_or(0, |r| r.number);
                if number <= last {
                    Ok(all)
                } else {
                    Err(format!("{last} is the last"))
                }
            },
        )
        .await
    }

    /// All that is recorded so far.
    pub fn so_far(&self) -> Vec<Revision> {
        self.revisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}

async fn record(api: Api<DynamicObject>, mut from: String, revisions: Arc<Mutex<Vec<Revision>>>) {
    loop {
        let params = WatchParams::default().timeout(60);
        let Ok(stream) = api.watch(&params, &from).await else {
            continue;
        };
        let mut stream = std::pin::pin!(stream);
        while let Ok(Some(event)) = stream.try_next().await {
            let (object, is_deleted) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(bookmark) => {
                    from = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(_) => break,
            };
            let object = serde_json::to_value(object).unwrap();
            let number = revision_of(&object);
            from = number.to_string();
            let revision = Revision {
                number,
                is_deleted,
                object,
            };
            revisions
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(revision);
        }
    }
}
