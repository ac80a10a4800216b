//! The order of heads with fair sharing. The queues and cohorts of one cohort are compared with each other,
//! and the best of them represents the cohort in its parent, as in Kueue's fair sharing iterator. So of two
//! queues of a branch the one with the smaller share comes first, whatever that does to the share of the
//! branch.
//!
//! The rank of a head is an estimate that is never too bad. Which queue represents a cohort is not known
//! before the best queue in it was assigned. Until then the rank of the cohort is as good as any of its
//! queues could make it.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::share::Share;
use crate::cycle::head_ordering::{Head, HeadOrder};
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{NodeId, View};

/// The rank of a queue or cohort within its cohort.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FairRank {
    /// Whether it would be above its quota.
    above_quota: bool,
    share: Share,
    order: HeadOrder,
}

/// The head of a queue, and the state of the nodes from below the root down to it.
#[derive(Debug)]
struct FairHead {
    head: Head,
    path: Vec<(bool, Share)>,
    order: HeadOrder,
}

/// The heads below a cohort.
#[derive(Debug, Default)]
struct HeadsBelow {
    orders: BTreeSet<HeadOrder>,
    /// The number of heads that may leave the cohort within its quota.
    within: usize,
}

/// The heads of all queues, cohort by cohort.
#[derive(Debug, Default)]
pub(super) struct FairOrdering {
    entries: BTreeMap<NodeId, FairHead>,
    below: BTreeMap<NodeId, HeadsBelow>,
    fair_ranks: BTreeMap<NodeId, FairRank>,
    /// The nodes with heads in each cohort, the best one first. `None` is the key of the root.
    ranked: BTreeMap<Option<NodeId>, BTreeMap<FairRank, NodeId>>,
    /// Cohorts whose rank is that of the queue that represents them.
    decided: BTreeSet<NodeId>,
    /// The node below which the last two are compared.
    top: Option<NodeId>,
}

impl FairOrdering {
    /// Adds the head of a queue.
    pub(super) fn insert(
        &mut self,
        quota: &QuotaTree,
        queue: NodeId,
        head: Head,
        (path, order): (Vec<(bool, Share)>, HeadOrder),
    ) {
        self.remove(quota, queue);
        self.top = quota.path(queue).skip(1).last();
        for (cohort, (above_quota, _)) in cohorts(quota, queue).zip(path.iter().rev().skip(1)) {
            let below = self.below.entry(cohort).or_default();
            below.orders.insert(order.clone());
            below.within = below.within.saturating_add(usize::from(!above_quota));
        }
        let (above_quota, share) = path.last().copied().unwrap_or_default();
        let fair_rank = FairRank {
            above_quota,
            share,
            order: order.clone(),
        };
        self.set_rank(quota, queue, Some(fair_rank));
        let entry = FairHead { head, path, order };
        self.entries.insert(queue, entry);
        self.reset_ranks_above(quota, queue);
    }

    /// Removes the head of a queue.
    pub(super) fn remove(&mut self, quota: &QuotaTree, queue: NodeId) -> Option<Head> {
        let entry = self.entries.remove(&queue)?;
        for (cohort, (above_quota, _)) in cohorts(quota, queue).zip(entry.path.iter().rev().skip(1))
        {
            if let Some(below) = self.below.get_mut(&cohort) {
                below.orders.remove(&entry.order);
                below.within = below.within.saturating_sub(usize::from(!above_quota));
            }
        }
        self.set_rank(quota, queue, None);
        self.reset_ranks_above(quota, queue);
        Some(entry.head)
    }

    /// The best queue, by what is known.
    pub(super) fn best_queue(&self) -> Option<NodeId> {
        let mut at = self.top;
        loop {
            let (_, node) = self.ranked.get(&at)?.first_key_value()?;
            if self.entries.contains_key(node) {
                return Some(*node);
            }
            at = Some(*node);
        }
    }

    /// Whether a queue is the best one. Its head was just added with this exact rank. If it is the best one
    /// of its cohort, the cohort gets that rank.
    pub(super) fn comes_first(
        &mut self,
        quota: &QuotaTree,
        queue: NodeId,
        (path, order): (&[(bool, Share)], &HeadOrder),
    ) -> bool {
        let standing = path.iter().rev().skip(1).copied();
        let mut node = queue;
        for ((above_quota, share), cohort) in standing.zip(cohorts(quota, queue)) {
            if !self.is_first(quota, node) {
                return false;
            }
            let order = order.clone();
            let fair_rank = FairRank {
                above_quota,
                share,
                order,
            };
            self.set_rank(quota, cohort, Some(fair_rank));
            self.decided.insert(cohort);
            node = cohort;
        }
        self.is_first(quota, node)
    }

    /// The usage of a queue has changed, so ranks above it are estimates again.
    pub(super) fn note_usage_of(&mut self, quota: &QuotaTree, queue: NodeId) {
        for cohort in std::mem::take(&mut self.decided) {
            self.reset_rank(quota, cohort);
        }
        self.reset_ranks_above(quota, queue);
    }

    fn is_first(&self, quota: &QuotaTree, node: NodeId) -> bool {
        let ranked = self.ranked.get(&quota.parent(node));
        let first = ranked.and_then(BTreeMap::first_key_value);
        first.is_some_and(|(_, first)| *first == node)
    }

    fn reset_ranks_above(&mut self, quota: &QuotaTree, queue: NodeId) {
        for cohort in cohorts(quota, queue) {
            self.reset_rank(quota, cohort);
        }
    }

    /// Gives a cohort the best rank that any of its queues could give it.
    fn reset_rank(&mut self, quota: &QuotaTree, cohort: NodeId) {
        self.decided.remove(&cohort);
        let below = self.below.get(&cohort);
        let fair_rank = below.and_then(|below| {
            Some(FairRank {
                above_quota: below.within == 0,
                share: quota.share(View::Planned, cohort),
                order: below.orders.first()?.clone(),
            })
        });
        self.set_rank(quota, cohort, fair_rank);
    }

    fn set_rank(&mut self, quota: &QuotaTree, node: NodeId, fair_rank: Option<FairRank>) {
        let ranked = self.ranked.entry(quota.parent(node)).or_default();
        if let Some(known) = self.fair_ranks.remove(&node) {
            ranked.remove(&known);
        }
        if let Some(fair_rank) = fair_rank {
            ranked.insert(fair_rank.clone(), node);
            self.fair_ranks.insert(node, fair_rank);
        }
    }
}

/// The cohorts above a queue and below the root, the nearest first.
fn cohorts(quota: &QuotaTree, queue: NodeId) -> impl Iterator<Item = NodeId> {
    quota.below_root(queue).skip(1)
}
