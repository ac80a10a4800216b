//! The one rule for what watches tell: an object never becomes older, and one that a reply has shown to be gone
//! stays gone. Each kind of objects has one of these beside its records.

use std::collections::BTreeSet;

use kube::api::DynamicObject;

use super::subject::Uid;

/// A point in an object's history. Resource versions are compared as numbers (KEP-5504).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u128);

impl Revision {
    /// The revision of `object`; one that can't be read is older than all others.
    pub fn of(object: &DynamicObject) -> Self {
        Self(
            object
                .metadata
                .resource_version
                .as_deref()
                .and_then(|v| v.parse().ok())
                .unwrap_or(0),
        )
    }
}

/// What watches of one kind of objects may still tell though it is over.
#[derive(Debug, Default)]
pub struct Staleness {
    /// What a reply has shown to be gone, until the watch shows it too: what it tells of them until then is old.
    gone: BTreeSet<Uid>,
}

impl Staleness {
    /// Whether what is told of the object `uid` is over, if the object that is known by its name is of the
    /// revision `known`. That may be its successor: then the watch lags behind the reply that has shown it.
    pub fn is_stale(&self, known: Option<Revision>, uid: &Uid, told: Revision) -> bool {
        self.gone.contains(uid) || known.is_some_and(|known| told < known)
    }

    /// A reply has shown that an object is gone.
    pub fn bury(&mut self, uid: Uid) {
        self.gone.insert(uid);
    }

    /// The watch has shown it too.
    pub fn deleted(&mut self, uid: &str) {
        self.gone.remove(uid);
    }

    /// Everything is about to be listed: the list has nothing that replies have shown to be gone by now.
    pub fn relisting(&mut self) {
        self.gone.clear();
    }
}
