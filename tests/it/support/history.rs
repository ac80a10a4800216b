//! Every revision of the objects of one kind in one namespace, in the order of the API server: what
//! was ever so, not only what a test happened to see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use sluice_testbed::eventually;
use tokio::task::JoinHandle;

use super::DEADLINE;
use super::objects::revision_of;

/// How often a watch is tried that can't be had: the API server may be away.
const LOOK: Duration = Duration::from_millis(50);

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
    revisions: Shared,
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

    /// Waits until an object was so at some time, and returns it as it was: for what passes too soon to be looked at.
    pub async fn see(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually(what, DEADLINE, async || {
            let mut revisions = self.so_far().into_iter();
            let found = revisions.find(|r| !r.is_deleted && is_so(&r.object));
            found.map(|r| r.object).ok_or("it was not so yet")
        })
        .await
    }

    /// All that is recorded so far.
    pub fn so_far(&self) -> Vec<Revision> {
        lock(&self.revisions).clone()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}

/// Checks the conditions of every revision: one of each type, of a generation that there was, with a
/// message that fits, and a time that moves with the status and never back.
pub fn check_conditions(history: &[Revision]) -> Result<()> {
    let mut times: BTreeMap<(String, String), (String, String)> = BTreeMap::new();
    for revision in history {
        let object = &revision.object;
        let conditions = object["status"]["conditions"].as_array();
        let mut types = BTreeSet::new();
        for condition in conditions.into_iter().flatten() {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            ensure!(
                types.insert(text("type")),
                "twice in one revision: {condition}"
            );
            ensure!(text("message").len() <= 1024, "too long: {condition}");
            let observed = condition["observedGeneration"].as_i64();
            ensure!(
                observed <= object["metadata"]["generation"].as_i64(),
                "too new: {condition}"
            );
            let place = (uid_of(object).to_owned(), text("type"));
            let now = (text("status"), text("lastTransitionTime"));
            if let Some(before) = times.insert(place, now.clone()) {
                ensure!(
                    before.1 <= now.1,
                    "back in time: {before:?}, then {condition}"
                );
                ensure!(
                    before.0 != now.0 || before.1 == now.1,
                    "moved without a change: {condition}"
                );
            }
        }
    }
    Ok(())
}

type Shared = Arc<Mutex<Vec<Revision>>>;

async fn record(api: Api<DynamicObject>, mut from: String, revisions: Shared) {
    let mut looks = tokio::time::interval(LOOK);
    loop {
        let params = WatchParams::default().timeout(60);
        looks.tick().await;
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
                WatchEvent::Error(_) => {
                    from = catch_up(&api, &revisions).await.unwrap_or(from);
                    break;
                }
            };
            let object = serde_json::to_value(object).unwrap();
            let number = revision_of(&object);
            from = number.to_string();
            push(
                &revisions,
                Revision {
                    number,
                    is_deleted,
                    object,
                },
            );
        }
    }
}

/// After a gap that the API server has no history of, as when it was started again: what has changed
/// meanwhile, in the order of the last changes. Returns where to go on from.
async fn catch_up(api: &Api<DynamicObject>, revisions: &Shared) -> Option<String> {
    let list = api.list(&ListParams::default()).await.ok()?;
    let version = list.metadata.resource_version?;
    let objects = list
        .items
        .into_iter()
        .map(|o| serde_json::to_value(o).unwrap());
    let mut objects: Vec<Value> = objects.collect();
    objects.sort_by_key(revision_of);
    let known: BTreeMap<String, Revision> = lock(revisions)
        .iter()
        .map(|r| (uid_of(&r.object).to_owned(), r.clone()))
        .collect();
    let last = known.values().map(|r| r.number).max().unwrap_or_default();
    for object in objects.iter().filter(|o| last < revision_of(o)) {
        let number = revision_of(object);
        let object = object.clone();
        push(
            revisions,
            Revision {
                number,
                is_deleted: false,
                object,
            },
        );
    }
    let number = version.parse().ok()?;
    for (uid, revision) in known {
        let is_there = objects.iter().any(|o| uid_of(o) == uid);
        if !is_there && !revision.is_deleted {
            push(
                revisions,
                Revision {
                    number,
                    is_deleted: true,
                    object: revision.object,
                },
            );
        }
    }
    Some(version)
}

fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn push(revisions: &Shared, revision: Revision) {
    lock(revisions).push(revision);
}

fn lock(revisions: &Shared) -> MutexGuard<'_, Vec<Revision>> {
    revisions.lock().unwrap_or_else(PoisonError::into_inner)
}
