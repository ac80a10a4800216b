//! The search for victims by fair shares: who has the largest share gives first, as long as that is
//! fair (Kueue's `fairSharing.preemptionStrategies`). The search without shares is `victims.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::cells::CellId;
use crate::event::PreemptionRight;
use crate::pending::OrderKey;
use crate::settings::FairPreemption;
use crate::tree::{NodeId, QuotaTree, View};
use crate::victims::{Bid, Candidate, Field, Fork, Victim, first_to_return, give_back, holds};

/// Candidates by queue, in order; no list is empty.
type Lists = BTreeMap<NodeId, VecDeque<Candidate>>;

/// Who has to go so that a bid can be met, by one test of fairness.
pub(crate) fn find(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: Bid<'_>,
    contested: &BTreeSet<CellId>,
    own: &[Candidate],
    test: FairPreemption,
) -> Option<Vec<Victim>> {
    let mut foreign = foreign_candidates(field, quota, &bid, contested);
    while !foreign.is_empty() {
        let mut lists = foreign.clone();
        if !own.is_empty() {
            lists.insert(bid.node, own.iter().cloned().collect());
        }
        let found = search(field, quota, &bid, contested, lists, test)?;
        let Some(returning) = first_to_return(field, quota, contested, &found) else {
            return Some(found);
        };
        let key = &returning.candidate.key;
        foreign.retain(|_, list| {
            list.retain(|candidate| candidate.key != *key);
            !list.is_empty()
        });
    }
    None
}

/// Takes candidates, always where the share is largest, until the bid can be met, and gives back those
/// that needn't go.
fn search(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: &Bid<'_>,
    contested: &BTreeSet<CellId>,
    mut lists: Lists,
    test: FairPreemption,
) -> Option<Vec<Victim>> {
    let mut taken: Vec<Victim> = Vec::new();
    let mut is_met = false;
    while let Some(candidate) = next(quota, &mut lists) {
        let mut victim = field.victim(candidate);
        if let Some(fork) = victim.candidate.fork {
            let Some(order) = field.order(&victim.candidate.key) else {
                continue;
            };
            match right(quota, bid, contested, &victim, (fork, &order), test) {
                Some(right) => victim.candidate.right = right,
                None => continue,
            }
        }
        victim.leave(quota);
        taken.push(victim);
        if bid.fits(quota) {
            is_met = true;
            break;
        }
    }
    give_back(quota, &mut taken, is_met, |quota, _| bid.fits(quota));
    is_met.then_some(taken)
}

fn foreign_candidates(
    field: Field<'_>,
    quota: &QuotaTree,
    bid: &Bid<'_>,
    contested: &BTreeSet<CellId>,
) -> Lists {
    let mut lists = Lists::new();
    for (account, node, fork) in field.forks(quota, bid) {
        let named = field
            .evictable(account)
            .filter(|(_, record)| bid.may_reclaim(record.priority) && holds(record, contested));
        let candidates: VecDeque<Candidate> = named
            .map(|(key, _)| Candidate {
                key: key.clone(),
                node,
                right: PreemptionRight::InCohortFairSharing,
                fork: Some(fork),
            })
            .collect();
        if !candidates.is_empty() {
            lists.insert(node, candidates);
        }
    }
    lists
}

/// The next candidate: from the root down, always where the share is largest, the first there.
fn next(quota: &QuotaTree, lists: &mut Lists) -> Option<Candidate> {
    // All nodes with candidates below them, by parent.
    let mut below: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    let mut root = None;
    for queue in lists.keys() {
        for node in quota.path(*queue) {
            match quota.parent(node) {
                Some(parent) => below.entry(parent).or_default().insert(node),
                None => root.replace(node).is_none(),
            };
        }
    }
    let mut node = root?;
    while let Some(children) = below.get(&node) {
        // Of equal shares the first, which is the first by name.
        let by_share = |child: &&NodeId| quota.share(View::Settled, **child);
        node = *children.iter().rev().max_by_key(by_share)?;
    }
    let list = lists.get_mut(&node)?;
    let candidate = list.pop_front();
    if list.is_empty() {
        lists.remove(&node);
    }
    candidate
}

/// By which right a victim of another queue has to go, if it has to.
fn right(
    quota: &mut QuotaTree,
    bid: &Bid<'_>,
    contested: &BTreeSet<CellId>,
    victim: &Victim,
    (fork, order): (Fork, &OrderKey),
    test: FairPreemption,
) -> Option<PreemptionRight> {
    if !victim.is_of_what_is_borrowed(quota, contested, fork) {
        return None;
    }
    if !bid.would_borrow(quota, fork.ours) {
        return Some(PreemptionRight::InCohortReclamation);
    }
    for (cell, amount) in bid.cells {
        quota.charge(View::Planned, bid.node, *cell, *amount);
    }
    let ours = quota.share(View::Planned, fork.ours);
    for (cell, amount) in bid.cells {
        quota.discharge(View::Planned, bid.node, *cell, *amount);
    }
    let before = quota.share(View::Settled, fork.theirs);
    // Else it would go before the one that it makes room for, and drive it out in turn.
    let stays_behind = ours < before || (ours == before && *bid.order < *order);
    let is_fair = stays_behind
        && match test {
            FairPreemption::LessThanInitialShare => ours < before,
            FairPreemption::LessThanOrEqualToFinalShare => {
                victim.leave(quota);
                let theirs = quota.share(View::Settled, fork.theirs);
                victim.stay(quota);
                ours <= theirs
            }
        };
    is_fair.then_some(PreemptionRight::InCohortFairSharing)
}
