//! The search for targets: tries the strategies that the policy allows, and takes the one that costs the
//! own queue least.

use crate::api::event::PreemptionRight;
use crate::preemption::candidate_ordering::Candidate;
use crate::preemption::candidates::{could_reclaim_beyond, own_candidates};
use crate::preemption::classical::{search_by_priority, search_in_order};
use crate::preemption::fair_sharing::search_by_shares;
use crate::preemption::fill_back::fill_back;
use crate::preemption::preemptor::Preemptor;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::Target;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::NodeId;
use crate::workload::preemption_order::PreemptionOrder;

/// How targets are searched.
#[derive(Clone, Copy, Debug)]
enum SearchStrategy {
    /// In the preemptor's own queue only.
    Own,
    /// In all other queues, by fair shares.
    OthersByShares,
    /// In all queues, by fair shares.
    ByShares,
    /// In all queues, by priority. If a node is given, enough of the own queue is preempted that this node
    /// stays within its quota: then more may be reclaimed from other queues.
    ByPriority(Option<NodeId>),
}

/// Targets whose eviction lets the preemptor fit; none if evicting all candidates would not suffice. No
/// target is superfluous. Of several strategies the first with the cheapest targets in the own queue wins.
pub(crate) fn find_targets(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    preemptor: Preemptor<'_>,
) -> Option<Vec<Target>> {
    let scarce = preemptor.scarce(quota);
    let own = own_candidates(snapshot, &preemptor, &scarce);
    let mut best: Option<Vec<Target>> = None;
    for strategy in strategies(snapshot, quota, &preemptor, &own) {
        let found = match strategy {
            SearchStrategy::Own => search_in_order(
                snapshot,
                quota,
                &preemptor,
                &scarce,
                own.iter().cloned(),
                None,
            ),
            SearchStrategy::OthersByShares | SearchStrategy::ByShares => {
                let is_with_own = matches!(strategy, SearchStrategy::ByShares);
                let own = if is_with_own { own.as_slice() } else { &[] };
                let mut tests = snapshot.settings.fair_sharing.iter().flatten();
                tests.find_map(|test| {
                    search_by_shares(snapshot, quota, preemptor, &scarce, own, *test)
                })
            }
            SearchStrategy::ByPriority(at) => {
                search_by_priority(snapshot, quota, preemptor, &scarce, &own, at)
            }
        };
        let Some(found) = found else { continue };
        let known = best.as_deref().map(own_targets);
        if known.is_none_or(|known| own_targets(&found) < known) {
            best = Some(found);
        }
        if best
            .as_deref()
            .map(own_targets)
            .is_some_and(|cost| cost.is_empty())
        {
            break;
        }
    }
    best.map(|found| spare_own(quota, &preemptor, found))
}

/// Drops the own targets beside which the preemptor fits once the others are gone. They were only to go for the right to
/// reclaim, and would return at once: so own workloads that it may preempt do not count against that right. Against the
/// right by shares they do.
fn spare_own(
    quota: &mut QuotaTree,
    preemptor: &Preemptor<'_>,
    mut found: Vec<Target>,
) -> Vec<Target> {
    let by_shares =
        |target: &Target| target.candidate.right == PreemptionRight::InCohortFairSharing;
    if found.iter().any(by_shares) {
        return found;
    }
    for target in &found {
        target.remove_usage(quota);
    }
    fill_back(quota, &mut found, |quota, restored, _| {
        restored.is_own() && preemptor.fits(quota)
    });
    found
}

fn strategies(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    preemptor: &Preemptor<'_>,
    own: &[Candidate],
) -> Vec<SearchStrategy> {
    if !preemptor.policy.may_reclaim_in_cohort() {
        return vec![SearchStrategy::Own];
    }
    if snapshot.settings.fair_sharing.is_some() {
        // A queue that borrows something else may have the largest share: by shares, its own would go first.
        let mut strategies = vec![SearchStrategy::OthersByShares];
        if !own.is_empty() {
            strategies.extend([SearchStrategy::Own, SearchStrategy::ByShares]);
        }
        return strategies;
    }
    let mut strategies = vec![SearchStrategy::ByPriority(None)];
    for at in quota.below_root(preemptor.node).collect::<Vec<_>>() {
        if could_reclaim_beyond(snapshot, quota, preemptor, at, own) {
            strategies.push(SearchStrategy::ByPriority(Some(at)));
        }
    }
    strategies
}

/// The targets in the preemptor's own queue, the most important first.
fn own_targets(found: &[Target]) -> Vec<&PreemptionOrder> {
    let own = found.iter().filter(|target| target.is_own());
    let mut own: Vec<&PreemptionOrder> = own.map(|target| &target.candidate.key).collect();
    own.sort_by(|one, other| other.cmp(one));
    own
}
