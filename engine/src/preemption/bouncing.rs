//! Targets whose eviction would be undone, because they would be admitted again before the preemptor.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::event::PreemptionRight;
use crate::api::queues::AdmissionScope;
use crate::api::quota::Borrowing;
use crate::preemption::candidates::own_candidates;
use crate::preemption::preemptor::Preemptor;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::{Target, uses_any};
use crate::queue::cluster_queue::ClusterQueueId;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::workload::info::{WorkloadInfo, WorkloadPhase};
use crate::workload::preemption_order::PreemptionOrder;

/// Finds a target whose eviction would be undone: if it alone returned, its queue would be within nominal
/// quota, so it would be admitted before the preemptor. What it could preempt in its own queue counts as
/// free. Only targets evicted to let the preemptor *borrow* are checked.
pub(crate) fn find_bouncing_target<'a>(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    scarce: &BTreeSet<FlavorResourceId>,
    found: &'a [Target],
) -> Option<&'a Target> {
    for target in found {
        target.remove_usage(quota);
    }
    let borrows = |right| match right {
        PreemptionRight::InCohortReclaimWhileBorrowing | PreemptionRight::InCohortFairSharing => {
            true
        }
        PreemptionRight::InClusterQueue | PreemptionRight::InCohortReclamation => false,
    };
    let mut evicted = found.iter().rev();
    let bouncing = evicted.find(|target| {
        let Some(common_ancestor) = target
            .candidate
            .common_ancestor
            .filter(|_| borrows(target.candidate.right))
        else {
            return false;
        };
        let mut evictable_by_target = snapshot.evictable_by_target(quota, target, scarce);
        evictable_by_target.retain(|own| {
            found
                .iter()
                .all(|evicted| evicted.candidate.key != own.candidate.key)
        });
        target.restore_usage(quota);
        for own in &evictable_by_target {
            own.remove_usage(quota);
        }
        let is_within = !target.uses_borrowed_quota(quota, scarce, common_ancestor);
        for own in &evictable_by_target {
            own.restore_usage(quota);
        }
        target.remove_usage(quota);
        is_within
    });
    for target in found {
        target.restore_usage(quota);
    }
    bouncing
}

impl<'a> PreemptionSnapshot<'a> {
    /// The workloads of its queue that a target could preempt once it is pending.
    pub(crate) fn evictable_by_target(
        self,
        quota: &mut QuotaTree,
        target: &Target,
        scarce: &BTreeSet<FlavorResourceId>,
    ) -> Vec<Target> {
        let key = &target.candidate.key;
        let (Some(node), Some(info), Some(order)) = (
            self.queues.at(target.candidate.node),
            self.workloads.get(key.id()),
            self.order(key),
        ) else {
            quota.check(false, "a target is of a queue of the tree, and known");
            return Vec::new();
        };
        let by_usage = node.config.admission_scope == AdmissionScope::ByUsage;
        let preemptor = Preemptor {
            cluster_queue: node.cluster_queue,
            node: node.id,
            policy: node.config.preemption,
            order: &order,
            local_queue: by_usage.then_some(&info.local_queue),
            requested: &BTreeMap::new(),
            borrowing: Borrowing::Allowed,
        };
        let evictable_by_target = own_candidates(self, &preemptor, scarce).into_iter();
        // Their admission will be confirmed by the time that the target is pending.
        let assumed_workloads = self
            .assumed_workloads(node.cluster_queue)
            .filter(|(_, info)| preemptor.may_preempt_in_queue(info) && uses_any(info, scarce))
            .map(|(key, _)| preemptor.own_candidate(key));
        let evictable_by_target = evictable_by_target.chain(assumed_workloads);
        evictable_by_target
            .map(|candidate| self.target(quota, candidate))
            .collect()
    }

    /// The workloads of a queue that become preemptible once their admission is confirmed.
    fn assumed_workloads(
        self,
        cluster_queue: ClusterQueueId,
    ) -> impl Iterator<Item = (PreemptionOrder, &'a WorkloadInfo)> {
        let cluster_queue = self.cluster_queues.at(cluster_queue);
        let used = cluster_queue
            .into_iter()
            .flat_map(|cluster_queue| &cluster_queue.with_usage);
        used.filter_map(move |id| {
            let info = self.workloads.get(id)?;
            match &info.state {
                WorkloadPhase::Assumed(admitted) if info.evictable && !self.round.protects(id) => {
                    let since = admitted.admission.since;
                    Some((PreemptionOrder::new(info.priority, since, id.clone()), info))
                }
                _ => None,
            }
        })
    }
}
