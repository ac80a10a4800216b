//! ResourceFlavors, and the rules by which a ClusterQueue chooses among them (Kueue's
//! `flavorFungibility`).

use std::collections::BTreeMap;

use crate::api::names::FlavorName;
use crate::api::node_selection::{Taint, Toleration};

/// A kind of node with a quota of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// Its name.
    pub name: FlavorName,
    /// The labels that nodes of this flavor have.
    pub node_labels: BTreeMap<String, String>,
    /// The taints that nodes of this flavor have.
    pub node_taints: Vec<Taint>,
    /// Tolerations that pods get when they are admitted to this flavor.
    pub tolerations: Vec<Toleration>,
}

/// Which flavor ends the search: Kueue's `flavorFungibility`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlavorFungibility {
    /// Whether a flavor that fits only by borrowing ends the search.
    pub when_can_borrow: WhenCanBorrow,
    /// Whether a flavor that fits only by preemption ends the search.
    pub when_can_preempt: WhenCanPreempt,
    /// Which of both is better, if neither ended the search.
    pub preference: FlavorPreference,
}

/// What to do when a flavor fits only by borrowing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanBorrow {
    /// Take it.
    #[default]
    MayStopSearch,
    /// Search for a later flavor that fits without borrowing; if there is none, take the first that fits by
    /// borrowing.
    TryNextFlavor,
}

/// What to do when a flavor fits only by preemption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCanPreempt {
    /// Search for a later flavor that fits without preemption; if there is none, come back to this one.
    #[default]
    TryNextFlavor,
    /// Take it.
    MayStopSearch,
}

/// Which is better, when one flavor fits by borrowing and another by preemption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlavorPreference {
    /// Borrowing.
    #[default]
    BorrowingOverPreemption,
    /// Preemption.
    PreemptionOverBorrowing,
}
