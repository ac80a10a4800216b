//! The search for targets by fair shares (Kueue's `fairSharing.preemptionStrategies`): queues with the
//! largest share are preempted first, as long as that is fair.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::api::event::PreemptionRight;
use crate::api::settings::FairPreemption;
use crate::api::share::Share;
use crate::preemption::bouncing::find_bouncing_target;
use crate::preemption::candidate_ordering::{Candidate, CommonAncestor};
use crate::preemption::fill_back::{fill_back, restore_all};
use crate::preemption::preemptor::Preemptor;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::{Target, uses_any};
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{NodeId, View};
use crate::workload::preemption_order::PreemptionOrder;

/// Candidates by queue, in order; no list is empty.
type CandidateLists = BTreeMap<NodeId, VecDeque<Candidate>>;

/// Finds targets by one test of fairness.
pub(super) fn search_by_shares(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    preemptor: Preemptor<'_>,
    scarce: &BTreeSet<FlavorResourceId>,
    own: &[Candidate],
    test: FairPreemption,
) -> Option<Vec<Target>> {
    let mut cohort_candidates = find_cohort_candidates(snapshot, quota, &preemptor, scarce);
    while !cohort_candidates.is_empty() {
        let mut lists = cohort_candidates.clone();
        if !own.is_empty() {
            lists.insert(preemptor.node, own.iter().cloned().collect());
        }
        let found = search(snapshot, quota, &preemptor, scarce, lists, test)?;
        let Some(bouncing) = find_bouncing_target(snapshot, quota, scarce, &found) else {
            return Some(found);
        };
        let key = &bouncing.candidate.key;
        cohort_candidates.retain(|_, list| {
            list.retain(|candidate| candidate.key != *key);
            !list.is_empty()
        });
    }
    None
}

/// Takes candidates, always where the share is largest, until the preemptor fits, then fills back.
/// Candidates that were skipped as unfair are tried again after a target nearer to the preemptor was taken:
/// its share is smaller then, or its nodes stay within their quota.
fn search(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    preemptor: &Preemptor<'_>,
    scarce: &BTreeSet<FlavorResourceId>,
    mut lists: CandidateLists,
    test: FairPreemption,
) -> Option<Vec<Target>> {
    let fairness = FairnessCheck {
        preemptor,
        scarce,
        test,
    };
    let mut taken: Vec<Target> = Vec::new();
    let mut skipped = CandidateLists::new();
    let mut fits = false;
    while let Some(candidate) = next(quota, preemptor, &mut lists) {
        let mut target = snapshot.target(quota, candidate);
        let node = target.candidate.node;
        match fairness.right(quota, &target) {
            Ok(right) => target.candidate.right = right,
            Err(unfair) => {
                let skipped = skipped.entry(node).or_default();
                skipped.push_back(target.candidate);
                if unfair == Unfair::Queue {
                    skipped.extend(lists.remove(&node).into_iter().flatten());
                }
                continue;
            }
        }
        target.remove_usage(quota);
        let is_nearer = target
            .candidate
            .common_ancestor
            .is_none_or(|common_ancestor| {
                // Next to the root all targets are equally near.
                let above = quota.parent(common_ancestor.preemptor_side);
                above.is_some_and(|above| quota.parent(above).is_some())
            });
        taken.push(target);
        if preemptor.fits(quota) {
            fits = true;
            break;
        }
        if is_nearer {
            for (node, mut list) in std::mem::take(&mut skipped) {
                list.extend(lists.remove(&node).into_iter().flatten());
                lists.insert(node, list);
            }
        }
    }
    if !fits {
        restore_all(quota, &taken);
        return None;
    }
    fill_back(quota, &mut taken, |quota, restored, rest| {
        preemptor.fits(quota) && fairness.remain_fair(quota, restored, rest)
    });
    fairness.set_reasons(quota, &mut taken);
    Some(taken)
}

fn find_cohort_candidates(
    snapshot: PreemptionSnapshot<'_>,
    quota: &QuotaTree,
    preemptor: &Preemptor<'_>,
    scarce: &BTreeSet<FlavorResourceId>,
) -> CandidateLists {
    let mut lists = CandidateLists::new();
    for (cluster_queue, node, common_ancestor) in snapshot.other_queues(quota, preemptor) {
        let named = snapshot
            .evictable(cluster_queue)
            .filter(|(_, info)| preemptor.may_reclaim(info.priority) && uses_any(info, scarce));
        let candidates: VecDeque<Candidate> = named
            .map(|(key, _)| Candidate {
                key: key.clone(),
                node,
                right: PreemptionRight::InCohortFairSharing,
                common_ancestor: Some(common_ancestor),
            })
            .collect();
        if !candidates.is_empty() {
            lists.insert(node, candidates);
        }
    }
    lists
}

/// The next candidate: from the root down, always where the share is largest. The preemptor's queue, and the cohorts above
/// it, have the share that they would have with its request. Equal shares are decided by the order of preemption.
fn next(
    quota: &mut QuotaTree,
    preemptor: &Preemptor<'_>,
    lists: &mut CandidateLists,
) -> Option<Candidate> {
    // All nodes with candidates below them, by parent, each with the first candidate.
    let mut below: BTreeMap<NodeId, BTreeMap<NodeId, &PreemptionOrder>> = BTreeMap::new();
    let mut root = None;
    for (queue, list) in &*lists {
        let Some(first) = list.front() else { continue };
        for node in quota.path(*queue) {
            let Some(parent) = quota.parent(node) else {
                root = Some(node);
                continue;
            };
            let known = below.entry(parent).or_default().entry(node);
            let known = known.or_insert(&first.key);
            *known = (*known).min(&first.key);
        }
    }
    let path: BTreeSet<NodeId> = quota.path(preemptor.node).collect();
    let view_of = |node| {
        if path.contains(&node) {
            View::Planned
        } else {
            View::WithoutReservations
        }
    };
    let queue = with_request(quota, preemptor, |quota| {
        let mut node = root?;
        while let Some(children) = below.get(&node) {
            let shares = children.iter().map(|(child, first)| {
                let share = quota.share(view_of(*child), *child);
                (share, Reverse(*first), *child)
            });
            (_, _, node) = shares.max()?;
        }
        Some(node)
    })?;
    let list = lists.get_mut(&queue)?;
    let candidate = list.pop_front();
    if list.is_empty() {
        lists.remove(&queue);
    }
    candidate
}

/// What is so while the preemptor's request counts as used.
fn with_request<T>(
    quota: &mut QuotaTree,
    preemptor: &Preemptor<'_>,
    find: impl FnOnce(&QuotaTree) -> T,
) -> T {
    for (cell, amount) in preemptor.requested {
        quota.add_usage(View::Planned, preemptor.node, *cell, *amount);
    }
    let found = find(quota);
    for (cell, amount) in preemptor.requested {
        quota.remove_usage(View::Planned, preemptor.node, *cell, *amount);
    }
    found
}

/// Whether preemption of a candidate is fair, by one test.
struct FairnessCheck<'a> {
    preemptor: &'a Preemptor<'a>,
    scarce: &'a BTreeSet<FlavorResourceId>,
    test: FairPreemption,
}

/// What is skipped as unfair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfair {
    /// This candidate.
    Candidate,
    /// All candidates of its queue.
    Queue,
}

impl FairnessCheck<'_> {
    /// The reason for which a candidate may be preempted.
    fn right(&self, quota: &mut QuotaTree, target: &Target) -> Result<PreemptionRight, Unfair> {
        let Some(common_ancestor) = target.candidate.common_ancestor else {
            return Ok(PreemptionRight::InClusterQueue);
        };
        if !target.uses_borrowed_quota(quota, self.scarce, common_ancestor) {
            return Err(Unfair::Candidate);
        }
        let at = common_ancestor.preemptor_side;
        if (self.preemptor).may_reclaim_scarce_beyond(quota, at, self.scarce) {
            return Ok(PreemptionRight::InCohortReclamation);
        }
        let (preemptor_side, before) = self.shares(quota, common_ancestor);
        if preemptor_side > before {
            return Err(Unfair::Queue);
        }
        let is_fair = match self.test {
            FairPreemption::LessThanInitialShare => preemptor_side < before,
            FairPreemption::LessThanOrEqualToFinalShare => {
                target.remove_usage(quota);
                let target_side =
                    quota.share(View::WithoutReservations, common_ancestor.target_side);
                target.restore_usage(quota);
                preemptor_side <= target_side
            }
        };
        if is_fair {
            Ok(PreemptionRight::InCohortFairSharing)
        } else {
            Err(Unfair::Candidate)
        }
    }

    /// The share that the preemptor's side of the common ancestor would have, and the share of the target's
    /// side.
    fn shares(&self, quota: &mut QuotaTree, common_ancestor: CommonAncestor) -> (Share, Share) {
        with_request(quota, self.preemptor, |quota| {
            let (preemptor_side, target_side) =
                (common_ancestor.preemptor_side, common_ancestor.target_side);
            (
                quota.share(View::Planned, preemptor_side),
                quota.share(View::WithoutReservations, target_side),
            )
        })
    }

    /// Whether the remaining targets, taken in the same order, would still be fair without the restored
    /// one. The usage of all remaining targets is removed when this is called.
    fn remain_fair(&self, quota: &mut QuotaTree, restored: &Target, rest: &[Target]) -> bool {
        let preemptor_side = |target: &Target| {
            target
                .candidate
                .common_ancestor
                .map(|common_ancestor| common_ancestor.preemptor_side)
        };
        let mut cohort_candidates = rest.iter().filter_map(preemptor_side);
        // A target that is restored below a common ancestor does not affect the fairness of others below
        // the same one.
        if cohort_candidates.all(|other| preemptor_side(restored) == Some(other)) {
            return true;
        }
        for target in rest {
            target.restore_usage(quota);
        }
        let mut are_fair = true;
        for target in rest {
            are_fair = are_fair && self.right(quota, target).is_ok();
            target.remove_usage(quota);
        }
        are_fair
    }

    /// Sets the reason of each remaining target. Their usage is restored when this is called.
    fn set_reasons(&self, quota: &mut QuotaTree, taken: &mut [Target]) {
        for target in &mut *taken {
            let right = self.right(quota, target);
            quota.check(right.is_ok(), "there is a right to evict each target");
            target.candidate.right = right.unwrap_or(target.candidate.right);
            target.remove_usage(quota);
        }
        for target in &*taken {
            target.restore_usage(quota);
        }
    }
}
