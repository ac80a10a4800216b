//! Lists that are under way: what each has shown so far, and which of the first ones are not complete. What follows
//! from a complete list lies in `observe.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cache::Source;
use crate::process::hashing::{HashMap, HashSet};

/// The namespace and name of an object.
pub type Place = (Arc<str>, Arc<str>);

/// All lists.
pub struct Lists {
    under_way: HashMap<Source, HashSet<Place>>,
    /// Fixed kinds whose first list is not complete.
    awaited: BTreeSet<Source>,
}

impl Lists {
    /// The start waits for the first lists of these fixed kinds.
    pub fn new(awaited: BTreeSet<Source>) -> Self {
        Self {
            under_way: HashMap::default(),
            awaited,
        }
    }

    /// The fixed kinds whose first list is not complete.
    pub fn awaited(&self) -> impl Iterator<Item = &Source> {
        self.awaited.iter()
    }

    /// A list begins.
    pub fn begin(&mut self, source: Source) {
        self.under_way.insert(source, HashSet::default());
    }

    /// Notes that a list has this object, if one is under way.
    pub fn note(&mut self, source: &Source, namespace: &Arc<str>, name: &Arc<str>) {
        if let Some(seen) = self.under_way.get_mut(source) {
            seen.insert((namespace.clone(), name.clone()));
        }
    }

    /// A list is complete. What it has shown; none, if it had not begun.
    pub fn end(&mut self, source: &Source) -> Option<HashSet<Place>> {
        self.under_way.remove(source)
    }

    /// The first list of a fixed kind is complete. Returns whether it was the last one.
    pub fn end_first(&mut self, source: &Source) -> bool {
        self.awaited.remove(source) && self.awaited.is_empty()
    }

    /// Drops what lists of other watches have shown.
    pub fn retain(&mut self, is_current: impl Fn(&Source) -> bool) {
        self.under_way.retain(|source, _| is_current(source));
    }
}
