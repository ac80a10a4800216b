//! A map that is only asked for single keys. It has no iterator, so hash order can influence no decision.

#[allow(clippy::disallowed_types, reason = "its order is shown to nobody")]
use std::collections::HashMap;

use std::borrow::Borrow;
use std::hash::Hash;

/// The capacity that a map keeps anyway.
const CAPACITY_MIN: usize = 256;

/// Values by key.
#[derive(Clone, Debug)]
#[allow(clippy::disallowed_types, reason = "its order is shown to nobody")]
pub(crate) struct Lookup<K, V>(HashMap<K, V>);

#[allow(clippy::disallowed_types, reason = "its order is shown to nobody")]
impl<K, V> Default for Lookup<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Eq + Hash, V> Lookup<K, V> {
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// The key as it was inserted.
    pub(crate) fn key(&self, key: &K) -> Option<&K> {
        self.0.get_key_value(key).map(|(key, _)| key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    /// Gives memory back once most of the keys are gone: the map of the standard library keeps it for ever.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.0.remove(key);
        let (len, capacity) = (self.0.len(), self.0.capacity());
        if CAPACITY_MIN < capacity && len < capacity / 8 {
            self.0.shrink_to(len.saturating_mul(2).max(CAPACITY_MIN));
        }
        removed
    }
}

impl<K: Eq + Hash, V: Default> Lookup<K, V> {
    /// The value; a new one if there was none.
    pub(crate) fn open(&mut self, key: K) -> &mut V {
        self.0.entry(key).or_default()
    }
}
