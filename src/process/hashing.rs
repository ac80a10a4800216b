//! Maps that tenants can't slow down, as their keys are hashed with a secret; and that are gone through in the
//! same order each time in a simulation, so that a seed always shows the same.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};

use crate::process::clock;

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
