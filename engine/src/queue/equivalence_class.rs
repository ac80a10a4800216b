//! Equal workloads of one ClusterQueue: a class. Only the head of a class needs a decision.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::api::amount::Amount;
use crate::flavor::flavor_assigner::CachedAssignment;
use crate::flavor::options::FlavorOptions;
use crate::queue::preemption_policy::PreemptionScope;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{Levels, NodeId, View};
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

/// Workloads in order, at least one. Most classes have a single member where workloads differ, so the head
/// needs no allocation.
#[derive(Clone, Debug)]
pub(super) struct ClassMembers {
    pub(super) head: QueueOrder,
    pub(super) rest: BTreeSet<QueueOrder>,
}

/// The workloads of one class. A later one never fits better than an earlier one.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) shape: Arc<Shape>,
    pub(super) members: ClassMembers,
    /// The flavor options, worked out when first needed. They are valid until the tree is built again.
    pub(crate) options: Option<Arc<FlavorOptions>>,
    /// The assignment of the last one that was admitted.
    pub(crate) cached_assignment: Option<Box<CachedAssignment>>,
    /// Whether the head is inadmissible until something is freed or changed. Only valid in the present
    /// generation of the queue.
    pub(super) inadmissible: bool,
    /// The generation in which `inadmissible` was set.
    pub(super) generation: u64,
    /// Whether it would fit without any usage; none if that is not known. It is valid until the tree is
    /// built again, and only worked out where workloads that never fit would block others.
    pub(super) ever_fits: Option<bool>,
    /// Requested usage that did not fit in the last cycle. Until one of these amounts fits, the class does
    /// not fit. Empty if nothing is known.
    pub(super) blocking_usage: Box<[(FlavorResourceId, Amount)]>,
}

impl ClassMembers {
    pub(super) fn of(head: QueueOrder) -> Self {
        Self {
            head,
            rest: BTreeSet::new(),
        }
    }

    pub(super) fn insert(&mut self, key: QueueOrder) {
        if key < self.head {
            self.rest.insert(std::mem::replace(&mut self.head, key));
        } else if key != self.head {
            self.rest.insert(key);
        }
    }

    /// Removes a member and says whether any is left. The last member stays.
    pub(super) fn remove(&mut self, key: &QueueOrder) -> bool {
        if *key != self.head {
            self.rest.remove(key);
            return true;
        }
        let next = self.rest.pop_first();
        let is_any_left = next.is_some();
        if let Some(next) = next {
            self.head = next;
        }
        is_any_left
    }

    pub(super) fn contains(&self, key: &QueueOrder) -> bool {
        *key == self.head || self.rest.contains(key)
    }

    /// The first member after this one; the head after none.
    pub(super) fn next(&self, after: Option<&QueueOrder>) -> Option<&QueueOrder> {
        match after {
            None => Some(&self.head),
            Some(key) if *key < self.head => Some(&self.head),
            Some(key) => {
                let after = (Bound::Excluded(key), Bound::Unbounded);
                self.rest.range::<QueueOrder, _>(after).next()
            }
        }
    }

    /// The last member before `key`.
    pub(super) fn previous(&self, key: &QueueOrder) -> Option<&QueueOrder> {
        let last = self.rest.range(..key).next_back();
        last.or((self.head < *key).then_some(&self.head))
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len().saturating_add(1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueueOrder> {
        std::iter::once(&self.head).chain(&self.rest)
    }

    /// The number of members before `key`.
    pub(super) fn before(&self, key: &QueueOrder) -> usize {
        if *key <= self.head {
            return 0;
        }
        self.rest.range(..key).count().saturating_add(1)
    }
}

impl Class {
    /// Notes whether its head is inadmissible, in this generation of the queue.
    pub(super) fn mark(&mut self, inadmissible: bool, generation: u64) {
        (self.inadmissible, self.generation) = (inadmissible, generation);
    }

    /// Whether the usage that blocked it still does, and it cannot preempt.
    pub(crate) fn is_blocked(
        &self,
        quota: &QuotaTree,
        node: NodeId,
        scope: &PreemptionScope,
    ) -> bool {
        let mut blocking_usage = self.blocking_usage.iter();
        let is_free = |(cell, amount): &(FlavorResourceId, Amount)| {
            quota.fits(View::Planned, node, *cell, *amount)
        };
        !self.blocking_usage.is_empty()
            && !blocking_usage.any(is_free)
            && !self.may_preempt(quota, node, scope)
    }

    /// Whether it may preempt. If usage blocks it and this says no, that stays so until something is freed
    /// or changed, or a workload of its own queue becomes preemptible.
    fn may_preempt(&self, quota: &QuotaTree, node: NodeId, scope: &PreemptionScope) -> bool {
        if scope.may_preempt_within_queue(self.members.head.priority()) {
            return true;
        }
        // Without targets in its own queue it can only reclaim within the nominal quota.
        scope.rules.may_reclaim_in_cohort()
            && !(scope.only_reclaims()
                && quota.are_all_below_root(node, self.min_levels_above_quota(quota, node)))
    }

    /// The levels, from the queue up, that a workload of this class would certainly take above their quota,
    /// whichever flavors it gets.
    pub(crate) fn min_levels_above_quota(&self, quota: &QuotaTree, node: NodeId) -> Levels {
        let blocking_usage = self.blocking_usage.iter();
        let above_quota =
            blocking_usage.map(|(cell, amount)| quota.levels_above_quota(node, *cell, *amount));
        above_quota.reduce(Levels::and).unwrap_or_default()
    }
}
