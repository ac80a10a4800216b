//! Why the workloads that use what a pending workload lacks are not preempted for it. It asks the rules that decide
//! (`preemption`), for the flavors that come first.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::names::{LocalQueueKey, WorkloadId};
use crate::api::outlook::NotPreempted;
use crate::api::preemption::{ReclaimWithinCohort, WithinClusterQueue};
use crate::api::quota::Borrowing;
use crate::cohort::preemption_round::PreemptionRound;
use crate::cohort::tree::{CohortTree, QueueNode};
use crate::flavor::options::Slots;
use crate::preemption::candidate_ordering::CommonAncestor;
use crate::preemption::preemptor::Preemptor;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::{uses_any, uses_borrowed_quota};
use crate::preemption::target_search::find_targets;
use crate::queue::cluster_queue::ClusterQueueId;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::NodeId;
use crate::state::engine::Engine;
use crate::workload::info::{AdmissionUsage, WorkloadInfo};
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::{ClassId, Shape};

/// A pending workload as a preemptor.
pub(super) struct PreemptionQuery<'a> {
    pub(super) engine: &'a Engine,
    pub(super) tree: &'a CohortTree,
    pub(super) node: &'a QueueNode,
    pub(super) order: &'a QueueOrder,
    pub(super) class: &'a ClassId,
    /// What its fewest pods request: if these fitted, a part would be admitted.
    requested: RequestedUsage,
    borrowing: Borrowing,
}

impl<'a> PreemptionQuery<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        (tree, node): (&'a CohortTree, &'a QueueNode),
        (order, class): (&'a QueueOrder, &'a ClassId),
        (slots, shape): (&Slots, &Shape),
    ) -> Self {
        Self {
            engine,
            tree,
            node,
            order,
            class,
            requested: slots.first_choice(shape),
            borrowing: slots.borrowing,
        }
    }

    fn preemptor(&self) -> Preemptor<'_> {
        Preemptor {
            cluster_queue: self.node.cluster_queue,
            node: self.node.id,
            policy: self.node.config.preemption,
            order: self.order,
            local_queue: self.class.local_queue.as_deref(),
            requested: &self.requested,
            borrowing: self.borrowing,
        }
    }

    fn snapshot<'b>(&'b self, round: &'b PreemptionRound) -> PreemptionSnapshot<'b> {
        PreemptionSnapshot {
            queues: &self.tree.queues,
            cluster_queues: &self.engine.cluster_queues,
            workloads: &self.engine.workloads,
            settings: &self.engine.settings,
            round,
        }
    }

    /// Whether it could preempt others if the preemption round protected none.
    pub(super) fn are_targets_protected(&self) -> bool {
        let round = &self.tree.preemption_round;
        if !round.protects_any() || !self.node.config.preemption.is_enabled() {
            return false;
        }
        let has_targets = |round| {
            let mut quota = self.tree.quota.clone();
            find_targets(self.snapshot(round), &mut quota, self.preemptor()).is_some()
        };
        !has_targets(round) && has_targets(&PreemptionRound::default())
    }

    /// The reasons why workloads with scarce resources are not preempted, with their numbers.
    pub(super) fn not_preempted(&self) -> BTreeMap<NotPreempted, usize> {
        let (preemptor, quota) = (self.preemptor(), &self.tree.quota);
        let scarce = preemptor.scarce(quota);
        let own = (self.node.cluster_queue, self.node.id, None);
        let others = self
            .snapshot(&self.tree.preemption_round)
            .other_queues(quota, &preemptor);
        let others = others
            .into_iter()
            .map(|(queue, node, common_ancestor)| (queue, node, Some(common_ancestor)));
        let mut not_preempted: BTreeMap<NotPreempted, usize> = BTreeMap::new();
        for (queue, node, common_ancestor) in std::iter::once(own).chain(others) {
            for (id, info) in self.workloads_with_usage(queue, &scarce) {
                let is_protected =
                    preemptor.policy.is_enabled() && self.tree.preemption_round.protects(id);
                let reason = if !info.evictable {
                    NotPreempted::NotEvictable
                } else if is_protected {
                    NotPreempted::PreemptedBefore
                } else if let Some(common_ancestor) = common_ancestor {
                    self.reason_in_cohort(info, node, common_ancestor, &scarce)
                } else {
                    self.reason_in_queue(info)
                };
                let count = not_preempted.entry(reason).or_default();
                *count = count.saturating_add(1);
            }
        }
        not_preempted
    }

    /// The workloads of a queue with scarce resources that are not evicted.
    fn workloads_with_usage<'b>(
        &'b self,
        queue: ClusterQueueId,
        scarce: &'b BTreeSet<FlavorResourceId>,
    ) -> impl Iterator<Item = (&'b WorkloadId, &'b WorkloadInfo)> {
        let cluster_queue = self.engine.cluster_queues.at(queue);
        let used = cluster_queue
            .into_iter()
            .flat_map(|cluster_queue| &cluster_queue.with_usage);
        let infos = used.filter_map(|id| Some((id, self.engine.workloads.get(id)?)));
        infos.filter(move |(_, info)| !info.is_evicting() && uses_any(info, scarce))
    }

    fn reason_in_queue(&self, info: &WorkloadInfo) -> NotPreempted {
        let preemptor = self.preemptor();
        let is_other = |key: &LocalQueueKey| *key != info.local_queue;
        if preemptor.policy.within_cluster_queue == WithinClusterQueue::Never {
            NotPreempted::OwnQueueNever
        } else if preemptor.local_queue.is_some_and(is_other) {
            NotPreempted::OtherLocalQueue
        } else if preemptor.may_preempt_in_queue(info) {
            NotPreempted::NotEnough
        } else {
            NotPreempted::OwnQueueOrder
        }
    }

    fn reason_in_cohort(
        &self,
        info: &WorkloadInfo,
        node: NodeId,
        common_ancestor: CommonAncestor,
        scarce: &BTreeSet<FlavorResourceId>,
    ) -> NotPreempted {
        let (preemptor, quota) = (self.preemptor(), &self.tree.quota);
        let admitted = info.state.admission_usage();
        let borrows = |AdmissionUsage { usage, .. }: &AdmissionUsage| {
            uses_borrowed_quota(quota, (node, usage), scarce, common_ancestor)
        };
        if preemptor.policy.reclaim_within_cohort == ReclaimWithinCohort::Never {
            NotPreempted::CohortNever
        } else if !admitted.is_some_and(borrows) {
            NotPreempted::WithinItsQuota
        } else if !preemptor.may_reclaim(info.priority) {
            NotPreempted::CohortPriority
        } else if self.engine.settings.fair_sharing.is_some()
            || preemptor.may_reclaim_beyond(quota, common_ancestor.preemptor_side)
            || preemptor.may_preempt_while_borrowing(info.priority)
        {
            NotPreempted::NotEnough
        } else {
            NotPreempted::WouldBorrow
        }
    }
}
