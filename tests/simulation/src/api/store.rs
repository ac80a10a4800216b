//! The objects of the model, and every change of them in order: what etcd is to a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::resource::{Place, Resource};

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its revision.
    pub number: u64,
    /// Which object.
    pub place: Place,
    /// The object before; none if there was none.
    pub before: Option<Arc<Value>>,
    /// The object from here on; none: it is gone.
    pub after: Option<Arc<Value>>,
    /// Who made it.
    pub author: String,
}

/// All objects.
#[derive(Debug)]
pub struct Store {
    objects: BTreeMap<Place, Arc<Value>>,
    changes: Vec<Change>,
    /// Changes up to this one are forgotten by watches.
    compacted: u64,
    last: Arc<Last>,
    rng: Rng,
}

/// The last revision, and who waits for another one. Tokio's own channel for this wakes those who wait in a
/// random order.
#[derive(Debug)]
struct Last {
    revision: AtomicU64,
    changed: Notify,
}

/// Hears of each change.
#[derive(Debug)]
pub struct Follower {
    last: Arc<Last>,
    seen: u64,
}

impl Follower {
    /// Until there are changes that were not seen.
    pub async fn changed(&mut self) {
        loop {
            let changed = self.last.changed.notified();
            let now = self.last.revision.load(Ordering::Relaxed);
            if now != self.seen {
                self.seen = now;
                return;
            }
            changed.await;
        }
    }

    /// All changes so far are seen.
    pub fn mark_seen(&mut self) {
        self.seen = self.last.revision.load(Ordering::Relaxed);
    }
}

impl Store {
    /// An empty store, whose UIDs follow from a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            changes: Vec::new(),
            compacted: 0,
            last: Arc::new(Last {
                // A revision of 0 means any to those who list.
                revision: AtomicU64::new(1),
                changed: Notify::new(),
            }),
            rng: Rng::with_seed(seed),
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.last.revision.load(Ordering::Relaxed)
    }

    /// Tells of each change.
    pub fn follow(&self) -> Follower {
        Follower {
            last: self.last.clone(),
            seen: self.revision(),
        }
    }

    /// An object.
    pub fn get(&self, place: &Place) -> Option<&Arc<Value>> {
        self.objects.get(place)
    }

    /// All objects of a resource, in one namespace or, if it is empty, in all, by namespace and name.
    pub fn list<'a>(
        &'a self,
        resource: &'static Resource,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Place, &'a Arc<Value>)> {
        let from = Place {
            resource,
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        self.objects.range(from..).take_while(move |(place, _)| {
            place.resource == resource && (namespace.is_empty() || place.namespace == namespace)
        })
    }

    /// The changes after a revision; none if they are forgotten.
    pub fn since(&self, revision: u64) -> Option<&[Change]> {
        if revision < self.compacted {
            return None;
        }
        let from = self
            .changes
            .partition_point(|change| change.number <= revision);
        self.changes.get(from..)
    }

    /// Every change there ever was.
    pub fn history(&self) -> &[Change] {
        &self.changes
    }

    /// Makes watches forget what has been up to now.
    pub fn compact(&mut self) {
        self.compacted = self.revision();
    }

    /// A new UID.
    pub fn uid(&mut self) -> String {
        let (a, b) = (self.rng.u64(..), self.rng.u64(..));
        let (high, low) = (a >> 32, a & 0xffff);
        let (third, fourth) = ((b >> 48) & 0xfff, b & 0xffff_ffff_ffff);
        format!("{high:08x}-{low:04x}-4{third:03x}-8000-{fourth:012x}")
    }

    /// Five letters, for generated names.
    pub fn suffix(&mut self) -> String {
        (0..5).map(|_| self.rng.lowercase()).collect()
    }

    /// Writes an object, with a new revision. What stays the same is not written.
    pub fn put(&mut self, place: &Place, mut object: Value, author: &str) -> Arc<Value> {
        let before = self.objects.get(place).cloned();
        if let Some(before) = &before
            && **before == object
        {
            return before.clone();
        }
        let number = self.revision() + 1;
        object["metadata"]["resourceVersion"] = json!(number.to_string());
        let object = Arc::new(object);
        self.objects.insert(place.clone(), object.clone());
        self.note(number, place, before, Some(object.clone()), author);
        object
    }

    /// Takes an object away. It is told as it was, with the revision of its deletion.
    pub fn remove(&mut self, place: &Place, author: &str) -> Option<Arc<Value>> {
        let before = self.objects.remove(place)?;
        let number = self.revision() + 1;
        self.note(number, place, Some(before.clone()), None, author);
        let mut last = (*before).clone();
        last["metadata"]["resourceVersion"] = json!(number.to_string());
        Some(Arc::new(last))
    }

    fn note(
        &mut self,
        number: u64,
        place: &Place,
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
        author: &str,
    ) {
        self.changes.push(Change {
            number,
            place: place.clone(),
            before,
            after,
            author: author.to_owned(),
        });
        self.last.revision.store(number, Ordering::Relaxed);
        self.last.changed.notify_waiters();
    }
}

/// A time as objects have it: whole seconds.
pub fn in_seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
