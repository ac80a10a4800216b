//! Maps that tenants can't slow down, as their keys are hashed with a secret; that give memory back once what many
//! objects needed is gone; and that are gone through in the same order each time in a simulation, so that a seed always
//! shows the same.

use std::borrow::Borrow;
use std::collections::{BTreeSet, hash_map};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, RandomState};
use std::ops::{Deref, DerefMut};

use crate::process::clock;
use crate::process::invariants::violated;

/// A set with unordered keys.
pub type HashSet<K> = std::collections::HashSet<K, Hashing>;

/// The capacity that maps keep anyway.
const CAPACITY_MIN: usize = 256;

/// A map with unordered keys. Those of the standard library keep for ever what they have needed once: a cluster with
/// 100,000 jobs in the morning would pay for them all day.
#[derive(Clone, Debug)]
pub struct HashMap<K, V>(hash_map::HashMap<K, V, Hashing>);

impl<K: Eq + Hash, V> HashMap<K, V> {
    /// Takes out what is at `key`.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let removed = self.0.remove(key);
        self.give_back();
        removed
    }

    /// Keeps what is wanted.
    pub fn retain(&mut self, is_wanted: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain(is_wanted);
        self.give_back();
    }

    /// Where most of the capacity is free, it becomes twice of what is used: so that it rarely happens.
    fn give_back(&mut self) {
        let (len, capacity) = (self.0.len(), self.0.capacity());
        if CAPACITY_MIN < capacity && len < capacity / 8 {
            self.0.shrink_to(len.saturating_mul(2).max(CAPACITY_MIN));
        }
    }
}

impl<K, V> Default for HashMap<K, V> {
    fn default() -> Self {
        Self(hash_map::HashMap::default())
    }
}

impl<K, V> Deref for HashMap<K, V> {
    type Target = hash_map::HashMap<K, V, Hashing>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K, V> DerefMut for HashMap<K, V> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for HashMap<K, V> {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(entries: T) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<K, V> IntoIterator for HashMap<K, V> {
    type Item = (K, V);
    type IntoIter = hash_map::IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a HashMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = hash_map::Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// How keys are hashed.
#[derive(Clone, Debug)]
pub enum Hashing {
    /// With a secret of this process.
    Secret(RandomState),
    /// Always the same.
    Fixed(BuildHasherDefault<DefaultHasher>),
}

impl Default for Hashing {
    fn default() -> Self {
        if clock::is_simulated() {
            Self::Fixed(BuildHasherDefault::default())
        } else {
            Self::Secret(RandomState::default())
        }
    }
}

impl BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        match self {
            Self::Secret(state) => state.build_hasher(),
            Self::Fixed(state) => state.build_hasher(),
        }
    }
}

/// What is at `key`, which an index names: so it is there.
pub fn indexed<'a, K: Hash + Eq, V>(map: &'a HashMap<K, V>, key: &'a K) -> Option<(&'a K, &'a V)> {
    let found = map.get(key);
    if found.is_none() {
        violated("what an index of the cache names is there");
    }
    Some((key, found?))
}

/// Takes `value` out of the set of `key`, and an empty set out of the map.
pub fn remove_from<K: Hash + Eq, V: Ord>(map: &mut HashMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = map.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_gives_back_what_it_does_not_need_any_more() {
        const MANY: usize = 10_000;
        let mut map: HashMap<usize, usize> = (0..MANY).map(|n| (n, n)).collect();
        let capacity = map.capacity();
        for n in 0..MANY - 10 {
            assert_eq!(map.remove(&n), Some(n));
            let left = map.len();
            let has_capacity_of_many = capacity / 2 <= map.capacity();
            assert!(!has_capacity_of_many || capacity / 9 <= left, "{left}");
        }
        assert!(map.capacity() <= 2 * CAPACITY_MIN, "{}", map.capacity());
        map.extend((0..MANY).map(|n| (n, n)));
        map.retain(|n, _| *n < 10);
        assert!(map.capacity() <= 2 * CAPACITY_MIN, "{}", map.capacity());
        assert_eq!(map.len(), 10);
    }
}
