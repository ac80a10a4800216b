//! Maps that tenants can't slow down, as their keys are hashed with a secret; and that are gone through in the
//! same order each time in a simulation, so that a seed always shows the same.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, RandomState};

use crate::process::clock;
use crate::process::invariants::violated;

/// A map with unordered keys.
pub type HashMap<K, V> = std::collections::HashMap<K, V, Hashing>;
/// A set with unordered keys.
pub type HashSet<K> = std::collections::HashSet<K, Hashing>;

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
