//! Vocabulary of the quota tree: which usage is meant, and sets of nodes on a
//! path.

use crate::api::limits::TREE_DEPTH_MAX;

/// The number of a node within its tree.
pub(crate) type NodeId = usize;

/// Which usage is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The present usage.
    Now,
    /// The present usage, without that of evicted workloads and with reservations.
    Planned,
    /// The planned usage without reservations. Preemption compares against it, as a reservation is nothing
    /// that could be evicted.
    WithoutReservations,
}

/// Some of the nodes of a path, by their level above its first node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels(pub(super) u64);

const _: () = assert!(TREE_DEPTH_MAX <= 64);

impl Levels {
    pub(crate) fn contains(self, level: usize) -> bool {
        self.0 & Self::bit(level) != 0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn bit(level: usize) -> u64 {
        debug_assert!(
            level < TREE_DEPTH_MAX,
            "a path is no longer than trees are deep"
        );
        let level = u32::try_from(level).ok();
        level
            .and_then(|level| 1_u64.checked_shl(level))
            .unwrap_or_default()
    }
}
