//! Who may have to go for whom, by the rules of `preemption.rs` and without a look at shares. Who of
//! them does is `victims.rs`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::cells::CellId;
use crate::engine::Record;
use crate::event::PreemptionRight;
use crate::preemption::BorrowWithinCohort;
use crate::tree::{NodeId, QuotaTree, View};
use crate::victims::{Bid, Candidate, Field, Victim, holds};

/// Those of the bid's own queue that may have to go, in order.
pub(crate) fn own_candidates(
    field: Field<'_>,
    bid: &Bid<'_>,
    contested: &BTreeSet<CellId>,
) -> Vec<Candidate> {
    let own = field.evictable(bid.account);
    own.take_while(|(_, record)| record.priority <= bid.order.priority())
        .filter(|(_, record)| bid.may_outrank(record) && holds(record, contested))
        .map(|(key, _)| bid.own_candidate(key.clone()))
        .collect()
}

/// For each queue that may have to give back what it borrows, its candidates in order.
pub(crate) fn foreign_candidates(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: &Bid<'_>,
    contested: &BTreeSet<CellId>,
    own: &[Candidate],
) -> Vec<Vec<Candidate>> {
    let path: Vec<NodeId> = quota.below_root(bid.node).collect();
    let reclaims: BTreeMap<NodeId, bool> = (path.into_iter())
        .map(|at| (at, could_keep_to_its_own(field, quota, bid, at, own)))
        .collect();
    let may_borrow = bid.rules.borrow_within_cohort != BorrowWithinCohort::Never;
    if !may_borrow && !reclaims.values().any(|reclaims| *reclaims) {
        return Vec::new();
    }
    let forks = field.forks(quota, bid);
    let mut all = Vec::new();
    for (account, node, fork) in forks {
        let mut cells = contested.iter();
        if !cells.any(|cell| quota.is_borrowing(View::Settled, node, *cell)) {
            continue;
        }
        let reclaims = reclaims.get(&fork.ours).copied().unwrap_or_default();
        let right = |record: &Record| {
            let is_named = bid.may_reclaim(record.priority);
            let right = if reclaims {
                PreemptionRight::InCohortReclamation
            } else {
                PreemptionRight::InCohortReclaimWhileBorrowing
            };
            (is_named && (reclaims || bid.may_borrow_from(record.priority))).then_some(right)
        };
        let candidates: Vec<Candidate> = field
            .evictable(account)
            .filter(|(_, record)| holds(record, contested))
            .filter_map(|(key, record)| {
                Some(Candidate {
                    key: key.clone(),
                    node,
                    right: right(record)?,
                    fork: Some(fork),
                })
            })
            .collect();
        if !candidates.is_empty() {
            all.push(candidates);
        }
    }
    all
}

/// Whether `at` would use no more than is its own, if those of the bid's own queue that may have
/// to go went.
fn could_keep_to_its_own(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: &Bid<'_>,
    at: NodeId,
    own: &[Candidate],
) -> bool {
    if !bid.would_borrow(quota, at) {
        return true;
    }
    let own: Vec<Victim> = (own.iter().cloned())
        .map(|candidate| field.victim(candidate))
        .collect();
    for victim in &own {
        victim.leave(quota);
    }
    let keeps_to_it = !bid.would_borrow(quota, at);
    for victim in &own {
        victim.stay(quota);
    }
    keeps_to_it
}

/// Candidates of several queues, each in order, in one order.
pub(crate) fn merged(queues: &[Vec<Candidate>]) -> impl Iterator<Item = Candidate> {
    let mut queues: Vec<_> = queues.iter().map(|queue| queue.iter()).collect();
    let firsts = queues.iter_mut().enumerate();
    let mut next: BinaryHeap<Reverse<(&Candidate, usize)>> = firsts
        .filter_map(|(index, queue)| Some(Reverse((queue.next()?, index))))
        .collect();
    std::iter::from_fn(move || {
        let Reverse((candidate, index)) = next.pop()?;
        if let Some(following) = queues.get_mut(index).and_then(Iterator::next) {
            next.push(Reverse((following, index)));
        }
        Some(candidate.clone())
    })
}
