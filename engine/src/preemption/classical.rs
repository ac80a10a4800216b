//! The search for targets by priority.

use std::collections::BTreeSet;

use crate::api::event::PreemptionRight;
use crate::preemption::bouncing::find_bouncing_target;
use crate::preemption::candidate_ordering::{Candidate, merged};
use crate::preemption::candidates::find_cohort_candidates;
use crate::preemption::fill_back::{fill_back, restore_all};
use crate::preemption::preemptor::Preemptor;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::Target;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::NodeId;

/// Finds targets by priority, as `SearchStrategy::ByPriority` says.
pub(super) fn search_by_priority(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    preemptor: Preemptor<'_>,
    scarce: &BTreeSet<FlavorResourceId>,
    own: &[Candidate],
    at: Option<NodeId>,
) -> Option<Vec<Target>> {
    let mut cohort_candidates = find_cohort_candidates(snapshot, quota, &preemptor, scarce, at);
    loop {
        let all = merged(&cohort_candidates).chain(own.iter().cloned());
        let found = search_in_order(snapshot, quota, &preemptor, scarce, all, at)?;
        let Some(bouncing) = find_bouncing_target(snapshot, quota, scarce, &found) else {
            return Some(found);
        };
        for candidates in &mut cohort_candidates {
            candidates.retain(|candidate| *candidate != bouncing.candidate);
        }
    }
}

/// Takes candidates in order until the preemptor fits, then fills back. If `at` is given, candidates are
/// taken until this node stays within its quota, too. If they do not suffice, those that were skipped come first in a
/// second search, and there is no third.
pub(super) fn search_in_order(
    snapshot: PreemptionSnapshot<'_>,
    quota: &mut QuotaTree,
    preemptor: &Preemptor<'_>,
    scarce: &BTreeSet<FlavorResourceId>,
    candidates: impl IntoIterator<Item = Candidate>,
    at: Option<NodeId>,
) -> Option<Vec<Target>> {
    let search = OrderedSearch {
        snapshot,
        preemptor,
        scarce,
        at,
    };
    let mut taken = match search.take_enough(quota, candidates) {
        Ok(taken) => taken,
        Err(Insufficient { taken, skipped }) if !skipped.is_empty() => {
            let taken = taken.into_iter().map(|target| target.candidate);
            let again = skipped.into_iter().chain(taken);
            let mut taken = search.take_enough(quota, again).ok()?;
            taken.sort_by(|one, other| one.candidate.cmp(&other.candidate));
            taken
        }
        Err(_) => return None,
    };
    fill_back(quota, &mut taken, |quota, _, rest| {
        is_accepted(quota, preemptor, rest)
    });
    Some(taken)
}

/// Targets that do not suffice.
struct Insufficient {
    taken: Vec<Target>,
    /// The candidates that used no borrowed quota any more when it was their turn. Without others before them they may
    /// do, so a second search begins with them.
    skipped: Vec<Candidate>,
}

/// A search for targets in a given order.
struct OrderedSearch<'a> {
    snapshot: PreemptionSnapshot<'a>,
    preemptor: &'a Preemptor<'a>,
    scarce: &'a BTreeSet<FlavorResourceId>,
    at: Option<NodeId>,
}

impl OrderedSearch<'_> {
    /// Takes candidates in order until the preemptor fits. The usage of the targets stays removed only if it does.
    fn take_enough(
        &self,
        quota: &mut QuotaTree,
        candidates: impl IntoIterator<Item = Candidate>,
    ) -> Result<Vec<Target>, Insufficient> {
        let (mut taken, mut skipped) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let target = self.snapshot.target(quota, candidate);
            let common_ancestor = target.candidate.common_ancestor;
            if common_ancestor.is_some_and(|common_ancestor| {
                !target.uses_borrowed_quota(quota, self.scarce, common_ancestor)
            }) {
                skipped.push(target.candidate);
                continue;
            }
            target.remove_usage(quota);
            taken.push(target);
            if self.preemptor.fits(quota)
                && self
                    .at
                    .is_none_or(|at| !self.preemptor.would_borrow(quota, at))
            {
                return Ok(taken);
            }
        }
        restore_all(quota, &taken);
        Err(Insufficient { taken, skipped })
    }
}

/// Whether the preemptor fits without these targets, and may reclaim from all that are reclaimed.
fn is_accepted(quota: &QuotaTree, preemptor: &Preemptor<'_>, taken: &[Target]) -> bool {
    let reclaimed = taken
        .iter()
        .filter(|target| target.candidate.right == PreemptionRight::InCohortReclamation);
    let preemptor_side: BTreeSet<NodeId> = reclaimed
        .filter_map(|target| {
            target
                .candidate
                .common_ancestor
                .map(|common_ancestor| common_ancestor.preemptor_side)
        })
        .collect();
    preemptor.fits(quota)
        && preemptor_side
            .into_iter()
            .all(|at| preemptor.may_reclaim_beyond(quota, at))
}
