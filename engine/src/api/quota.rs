//! Quotas as they are configured: resource groups, their flavors, and the amounts of each.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::amount::Amount;
use crate::api::names::{FlavorName, ResourceName};

/// Resources that always come from one flavor together, and the flavors in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceGroup {
    /// The resources of this group.
    pub covered_resources: BTreeSet<ResourceName>,
    /// The flavors, in the order in which they are tried.
    pub flavors: Vec<FlavorQuotas>,
}

/// Whether usage may be above the nominal quota of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Borrowing {
    /// Only the nominal quota of the queue may be used.
    Forbidden,
    /// Whatever the tree has available may be used.
    Allowed,
}

impl Borrowing {
    /// Allowed where this is so.
    pub fn allowed_if(is_allowed: bool) -> Self {
        if is_allowed {
            Self::Allowed
        } else {
            Self::Forbidden
        }
    }
}

/// The quota of one flavor. A covered resource that is not listed is not available in this flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorQuotas {
    /// The flavor.
    pub name: FlavorName,
    /// Its quota for each resource.
    pub resources: BTreeMap<ResourceName, Quota>,
}

/// The quota of one resource in one flavor. Amounts below zero count as zero, amounts above
/// [`Amount::LIMIT`] as that limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The nominal quota.
    pub nominal: Amount,
    /// How much more than its own quota (for a cohort: than that of its subtree) may be used; none means no
    /// limit. Has no effect without a parent.
    pub borrowing_limit: Option<Amount>,
    /// How much of its quota others may use; none means all of it.
    pub lending_limit: Option<Amount>,
}
