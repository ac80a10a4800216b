//! One copy of what many pods have: what they ask for, and who owns them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use sluice_kinds::view::PodSetView;

use crate::cache::pod::{Asks, OwnerRef, PodRecord};
use crate::process::hashing::HashSet;

/// What pods have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    asks: HashSet<SameAsks>,
    owners: HashSet<Arc<OwnerRef>>,
}

impl Shared {
    /// Has a pod, one of so many, use the copies that there are.
    pub(super) fn share(&mut self, record: &mut PodRecord, pods: usize) {
        // What no pod has any more is cleared out when there may be as much of it again.
        let max = pods.saturating_mul(2).saturating_add(64);
        if let Some(owner) = &mut record.owner {
            let is_used = |known: &Arc<OwnerRef>| 1 < Arc::strong_count(known);
            *owner = one_copy(&mut self.owners, owner.clone(), max, is_used);
        }
        let is_used = |known: &SameAsks| 1 < Arc::strong_count(&known.0);
        let asks = SameAsks(record.asks.clone());
        record.asks = one_copy(&mut self.asks, asks, max, is_used).0;
    }
}

/// The one of `known` that is equal to `new`, which is one of them from now on.
fn one_copy<T: Clone + Eq + Hash>(
    known: &mut HashSet<T>,
    new: T,
    max: usize,
    is_used: impl Fn(&T) -> bool,
) -> T {
    if let Some(known) = known.get(&new) {
        return known.clone();
    }
    if max < known.len() {
        known.retain(is_used);
        known.shrink_to(known.len().saturating_mul(2));
    }
    known.insert(new.clone());
    new
}

/// What pods ask for, found by what it says.
#[derive(Debug, Clone, PartialEq)]
struct SameAsks(Arc<Asks>);

// There is nothing in it that is not equal to itself.
impl Eq for SameAsks {}

impl Hash for SameAsks {
    /// Takes in all that users can say, so that nobody can make many of the same hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &*self.0 {
            Ok(set) => hash_set(set, state),
            Err(problems) => problems.hash(state),
        }
    }
}

fn hash_set<H: Hasher>(set: &PodSetView, state: &mut H) {
    (&set.name, &set.requests, &set.priority_class).hash(state);
    set.claims.hash(state);
    set.placement.node_selector.hash(state);
    for toleration in &set.placement.tolerations {
        (&toleration.key, &toleration.operator, &toleration.value).hash(state);
        (&toleration.effect, toleration.toleration_seconds).hash(state);
    }
    for term in &set.required_affinity {
        let all = [&term.match_expressions, &term.match_fields];
        for required in all.into_iter().flatten().flatten() {
            (&required.key, &required.operator, &required.values).hash(state);
        }
    }
}
