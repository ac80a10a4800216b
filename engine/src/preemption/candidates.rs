//! Which workloads are candidates by the policy of the preemptor, without a look at shares. In which order they
//! are chosen is `candidate_ordering.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::event::PreemptionRight;
use crate::api::quota::Borrowing;
use crate::preemption::candidate_ordering::Candidate;
use crate::preemption::preemptor::Preemptor;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::{Target, uses_any};
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{NodeId, View};
use crate::workload::info::WorkloadInfo;

/// The candidates of the preemptor's own queue, in order.
pub(crate) fn own_candidates(
    snapshot: PreemptionSnapshot<'_>,
    preemptor: &Preemptor<'_>,
    scarce: &BTreeSet<FlavorResourceId>,
) -> Vec<Candidate> {
    let own = snapshot.evictable(preemptor.cluster_queue);
    own.take_while(|(_, info)| info.priority <= preemptor.order.priority())
        .filter(|(_, info)| preemptor.may_preempt_in_queue(info) && uses_any(info, scarce))
        .map(|(key, _)| preemptor.own_candidate(key.clone()))
        .collect()
}

/// For each queue that borrows, its candidates in order. If `at` is given, that node is assumed to stay
/// within its quota.
pub(crate) fn find_cohort_candidates(
    snapshot: PreemptionSnapshot<'_>,
    quota: &QuotaTree,
    preemptor: &Preemptor<'_>,
    scarce: &BTreeSet<FlavorResourceId>,
    at: Option<NodeId>,
) -> Vec<Vec<Candidate>> {
    let mut is_within = preemptor.borrowing == Borrowing::Forbidden;
    let mut reclaims: BTreeMap<NodeId, bool> = BTreeMap::new();
    for node in quota.below_root(preemptor.node) {
        is_within |= Some(node) == at || !preemptor.would_borrow(quota, node);
        reclaims.insert(node, is_within);
    }
    if !preemptor.policy.may_borrow_in_cohort() && !is_within {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (cluster_queue, node, common_ancestor) in snapshot.other_queues(quota, preemptor) {
        let mut requested = scarce.iter();
        if !requested.any(|cell| quota.is_borrowing(View::WithoutReservations, node, *cell)) {
            continue;
        }
        let reclaims = reclaims
            .get(&common_ancestor.preemptor_side)
            .copied()
            .unwrap_or_default();
        let right = |info: &WorkloadInfo| {
            let is_named = preemptor.may_reclaim(info.priority);
            let right = if reclaims {
                PreemptionRight::InCohortReclamation
            } else {
                PreemptionRight::InCohortReclaimWhileBorrowing
            };
            (is_named && (reclaims || preemptor.may_preempt_while_borrowing(info.priority)))
                .then_some(right)
        };
        let candidates: Vec<Candidate> = snapshot
            .evictable(cluster_queue)
            .filter(|(_, info)| uses_any(info, scarce))
            .filter_map(|(key, info)| {
                Some(Candidate {
                    key: key.clone(),
                    node,
                    right: right(info)?,
                    common_ancestor: Some(common_ancestor),
                })
            })
            .collect();
        if !candidates.is_empty() {
            all.push(candidates);
        }
    }
    all
}

/// Whether `at` would stay within its quota only without all candidates of the preemptor's own queue, while
/// no node below it stays within its quota anyway.
pub(crate) fn could_reclaim_beyond(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    preemptor: &Preemptor<'_>,
    at: NodeId,
    own: &[Candidate],
) -> bool {
    if preemptor.may_reclaim_beyond(quota, at) {
        return false;
    }
    let own: Vec<Target> = (own.iter().cloned())
        .map(|candidate| snapshot.target(quota, candidate))
        .collect();
    for target in &own {
        target.remove_usage(quota);
    }
    let is_within = !preemptor.would_borrow(quota, at);
    for target in &own {
        target.restore_usage(quota);
    }
    is_within
}
