//! How heads of different ClusterQueues compare, and so which workload a cycle processes next: first by borrowing
//! (with fair sharing by shares), then by priority and time. With fair sharing the ranks are compared cohort by cohort,
//! which is `fair_ordering.rs`.
//!
//! Which workload is the head of a ClusterQueue is `heads.rs`, and the order within it `queue/admission_order.rs` and
//! `workload/queue_order.rs`.

use crate::api::settings::Settings;
use crate::api::share::Share;
use crate::cohort::reopening::ClassRef;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{Levels, NodeId, View};
use crate::workload::queue_order::QueueOrder;

/// The rank of a head among the heads of a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeadRank {
    pub(super) path: BorrowingPath,
    pub(super) order: HeadOrder,
}

/// The place of a head among those with the same path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeadOrder {
    /// Whether it can only reserve a part of its nominal quota. Whoever can be admitted comes first: it would else have to
    /// preempt for its own quota.
    pub(super) reserves_nominal: bool,
    pub(super) queue_order: QueueOrder,
}

impl From<QueueOrder> for HeadOrder {
    fn from(queue_order: QueueOrder) -> Self {
        Self {
            reserves_nominal: false,
            queue_order,
        }
    }
}

/// From where a head borrows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BorrowingPath {
    /// The height of the lowest node above it, its queue included, that would stay within its quota of a resource: the
    /// largest of those of all resources. It is counted from below, so that a queue gains nothing by its depth alone. Kueue
    /// has the same order.
    Plain(usize),
    /// With fair sharing: whether the cohorts below the root and the queue, from the root down, would be above their quota,
    /// and their shares. Only paths of the same length are compared.
    Fair(Vec<(bool, Share)>),
}

/// The workload that a ClusterQueue offers next.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) class: ClassRef,
    pub(super) order: QueueOrder,
}

impl BorrowingPath {
    /// From where `node` borrows if the levels `above_quota` of its path would be above their quota.
    pub(super) fn of(
        settings: &Settings,
        quota: &QuotaTree,
        node: NodeId,
        above_quota: Levels,
    ) -> Self {
        if settings.fair_sharing.is_none() {
            return Self::Plain(quota.height_of_lender(node, above_quota));
        }
        let below_root = quota.below_root(node);
        let standing = |(level, id)| (above_quota.contains(level), quota.share(View::Planned, id));
        let mut path: Vec<(bool, Share)> = below_root.enumerate().map(standing).collect();
        path.reverse();
        Self::Fair(path)
    }

    /// The same with this usage added.
    pub(super) fn with_usage(
        settings: &Settings,
        quota: &mut QuotaTree,
        node: NodeId,
        requested: &RequestedUsage,
    ) -> Self {
        let levels =
            (requested.iter()).map(|(cell, amount)| quota.levels_above_quota(node, *cell, *amount));
        if settings.fair_sharing.is_none() {
            let heights = levels.map(|above_quota| quota.height_of_lender(node, above_quota));
            return Self::Plain(heights.max().unwrap_or(0));
        }
        let above_quota = levels.fold(Levels::default(), Levels::or);
        for (cell, amount) in requested {
            quota.add_usage(View::Planned, node, *cell, *amount);
        }
        let path = Self::of(settings, quota, node, above_quota);
        for (cell, amount) in requested {
            quota.remove_usage(View::Planned, node, *cell, *amount);
        }
        path
    }
}
