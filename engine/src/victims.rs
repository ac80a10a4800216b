//! Who has to go to make room: the search for victims, by the rules of `preemption.rs`. The search by
//! fair shares is `fair.rs`; who is told to go is `pass.rs`. Nothing here changes what is charged.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounts::{AccountId, Accounts};
use crate::amount::Amount;
use crate::candidates::{foreign_candidates, merged, own_candidates};
use crate::cells::CellId;
use crate::engine::{Record, State, Workloads};
use crate::event::PreemptionRight;
use crate::fair;
use crate::forest::Queues;
use crate::ledger::Charge;
use crate::model::AdmissionMode;
use crate::names::{LocalQueueKey, WorkloadId};
use crate::pending::OrderKey;
use crate::preemption::{BorrowWithinCohort, Preemption, ReclaimWithinCohort};
use crate::settings::Settings;
use crate::time::Time;
use crate::tree::{NodeId, QuotaTree, View};

/// The order in which workloads have to go: lower priority first, then whoever was admitted last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VictimKey {
    priority: i32,
    since: Reverse<Time>,
    id: Reverse<WorkloadId>,
}

impl VictimKey {
    pub(crate) fn new(priority: i32, since: Time, id: WorkloadId) -> Self {
        Self {
            priority,
            since: Reverse(since),
            id: Reverse(id),
        }
    }

    pub(crate) fn id(&self) -> &WorkloadId {
        &self.id.0
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }
}

/// Where victims are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) queues: &'a Queues,
    pub(crate) accounts: &'a Accounts,
    pub(crate) workloads: &'a Workloads,
    pub(crate) settings: &'a Settings,
}

/// For whom.
#[derive(Clone, Copy)]
pub(crate) struct Bid<'a> {
    pub(crate) account: AccountId,
    pub(crate) node: NodeId,
    pub(crate) rules: Preemption,
    pub(crate) order: &'a OrderKey,
    /// Of its own queue, only workloads of this LocalQueue may have to go; none means any.
    pub(crate) local: Option<&'a LocalQueueKey>,
    /// What it would be charged, above zero.
    pub(crate) cells: &'a BTreeMap<CellId, Amount>,
}

/// One who may have to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: VictimKey,
    /// Its queue.
    pub(crate) node: NodeId,
    pub(crate) right: PreemptionRight,
    /// Where the bid's path and the candidate's part; none in the bid's own queue.
    pub(crate) fork: Option<Fork>,
}

/// The children of the lowest cohort above two queues, on the way to each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fork {
    /// Towards the queue that makes the bid.
    pub(crate) ours: NodeId,
    /// Towards the other one.
    pub(crate) theirs: NodeId,
}

/// One who has to go.
#[derive(Debug)]
pub(crate) struct Victim {
    pub(crate) candidate: Candidate,
    charge: Charge,
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    /// Those of other queues first.
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |candidate: &Self| candidate.fork.is_none();
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.key.cmp(&other.key))
    }
}

impl Bid<'_> {
    /// Whether one of its own queue may have to go for it.
    pub(crate) fn may_outrank(&self, record: &Record) -> bool {
        let (priority, created) = (self.order.priority(), self.order.created());
        self.rules.may_outrank(priority, record.priority)
            && (record.priority < priority || created < record.created)
            && self.local.is_none_or(|local| *local == record.queue)
    }

    /// One of its own queue.
    pub(crate) fn own_candidate(&self, key: VictimKey) -> Candidate {
        Candidate {
            key,
            node: self.node,
            right: PreemptionRight::InClusterQueue,
            fork: None,
        }
    }

    /// Whether the reclaim policy names a workload of this priority.
    pub(crate) fn may_reclaim(&self, priority: i32) -> bool {
        match self.rules.reclaim_within_cohort {
            ReclaimWithinCohort::Never => false,
            ReclaimWithinCohort::LowerPriority => priority < self.order.priority(),
            ReclaimWithinCohort::Any => true,
        }
    }

    /// Whether the borrow policy names a workload of this priority.
    pub(crate) fn may_borrow_from(&self, priority: i32) -> bool {
        match self.rules.borrow_within_cohort {
            BorrowWithinCohort::Never => false,
            BorrowWithinCohort::LowerPriority {
                max_priority_threshold,
            } => {
                priority < self.order.priority()
                    && max_priority_threshold.is_none_or(|threshold| priority <= threshold)
            }
        }
    }

    /// The cells that are short.
    pub(crate) fn contested(&self, quota: &QuotaTree) -> BTreeSet<CellId> {
        let short = |(cell, amount): &(&CellId, &Amount)| {
            !quota.fits(View::Planned, self.node, **cell, **amount)
        };
        self.cells
            .iter()
            .filter(short)
            .map(|(cell, _)| *cell)
            .collect()
    }

    pub(crate) fn fits(&self, quota: &QuotaTree) -> bool {
        quota.all_fit(View::Planned, self.node, self.cells)
    }

    /// Whether `at`, the bid's queue or a cohort above it, would use more than is its own.
    pub(crate) fn would_borrow(&self, quota: &QuotaTree, at: NodeId) -> bool {
        let mut cells = self.cells.iter();
        cells.any(|(cell, amount)| quota.would_borrow(at, self.node, *cell, *amount))
    }
}

/// Who has to go so that a bid can be met: of those that may have to, the first that suffice, less
/// those that could stay after all. None if all of them would
/// not do.
pub(crate) fn find(field: Field<'_>, quota: &mut QuotaTree, bid: Bid<'_>) -> Option<Vec<Victim>> {
    let contested = bid.contested(quota);
    let own = own_candidates(field, &bid, &contested);
    if bid.rules.reclaim_within_cohort != ReclaimWithinCohort::Never
        && let Some(found) = find_abroad(field, quota, bid, &contested, &own)
    {
        return Some(found);
    }
    search(field, quota, &bid, &contested, own)
}

/// Who has to go, if those of other queues may have to.
fn find_abroad(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: Bid<'_>,
    contested: &BTreeSet<CellId>,
    own: &[Candidate],
) -> Option<Vec<Victim>> {
    if let Some(tests) = &field.settings.fair_sharing {
        let mut tests = tests.iter();
        return tests.find_map(|test| fair::find(field, quota, bid, contested, own, *test));
    }
    let mut foreign = foreign_candidates(field, quota, &bid, contested, own);
    while !foreign.is_empty() {
        let all = merged(&foreign).chain(own.iter().cloned());
        let found = search(field, quota, &bid, contested, all)?;
        let Some(returning) = first_to_return(field, quota, contested, &found) else {
            return Some(found);
        };
        for candidates in &mut foreign {
            candidates.retain(|candidate| *candidate != returning.candidate);
        }
    }
    None
}

/// Of those who would go so that the bid can borrow, the most deserving that would be within what is
/// its queue's if it came back alone, and those of its queue went that it may have go. It would take the
/// room, before the bid or from it.
pub(crate) fn first_to_return<'a>(
    field: Field<'_>,
    quota: &mut QuotaTree,
    contested: &BTreeSet<CellId>,
    found: &'a [Victim],
) -> Option<&'a Victim> {
    for victim in found {
        victim.leave(quota);
    }
    let borrows = |right| match right {
        PreemptionRight::InCohortReclaimWhileBorrowing | PreemptionRight::InCohortFairSharing => {
            true
        }
        PreemptionRight::InClusterQueue | PreemptionRight::InCohortReclamation => false,
    };
    let mut gone = found.iter().rev();
    let returning = gone.find(|victim| {
        let Some(fork) = victim
            .candidate
            .fork
            .filter(|_| borrows(victim.candidate.right))
        else {
            return false;
        };
        let mut behind = field.behind(victim, contested);
        behind.retain(|own| {
            found
                .iter()
                .all(|gone| gone.candidate.key != own.candidate.key)
        });
        victim.stay(quota);
        for own in &behind {
            own.leave(quota);
        }
        let is_within = !victim.is_of_what_is_borrowed(quota, contested, fork);
        for own in &behind {
            own.stay(quota);
        }
        victim.leave(quota);
        is_within
    });
    for victim in found {
        victim.stay(quota);
    }
    returning
}

/// Whose end would let the bid be met, whatever anybody's rights are: those that would have to go
/// first, none in vain. Nobody, if that would not do.
pub(crate) fn room_after(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: Bid<'_>,
    holders: impl Iterator<Item = (VictimKey, NodeId)>,
) -> Vec<WorkloadId> {
    let contested = bid.contested(quota);
    let holds = |(key, _): &(VictimKey, NodeId)| {
        let record = field.workloads.get(key.id());
        record.is_some_and(|record| holds(record, &contested))
    };
    let candidates = holders.filter(holds).map(|(key, node)| Candidate {
        key,
        node,
        right: PreemptionRight::InClusterQueue,
        fork: None,
    });
    let candidates: BTreeSet<Candidate> = candidates.collect();
    let found = search(field, quota, &bid, &contested, candidates);
    let found = found.unwrap_or_default().into_iter();
    found
        .map(|victim| victim.candidate.key.id().clone())
        .collect()
}

/// Takes candidates in order until the bid can be met, and gives back those that needn't go. Others
/// may have had to go only for the sake of those: to take back one's own, one has to keep to it. So
/// that is done with the rest again, until nobody is given back.
fn search(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: &Bid<'_>,
    contested: &BTreeSet<CellId>,
    candidates: impl IntoIterator<Item = Candidate>,
) -> Option<Vec<Victim>> {
    let (mut found, mut is_least) = search_once(field, quota, bid, contested, candidates)?;
    while !is_least {
        let rest = found.iter().map(|victim| victim.candidate.clone());
        let rest: Vec<Candidate> = rest.collect();
        (found, is_least) = search_once(field, quota, bid, contested, rest)?;
    }
    Some(found)
}

/// Who was taken and not given back, and whether nobody was given back.
fn search_once(
    field: Field<'_>,
    quota: &mut QuotaTree,
    bid: &Bid<'_>,
    contested: &BTreeSet<CellId>,
    candidates: impl IntoIterator<Item = Candidate>,
) -> Option<(Vec<Victim>, bool)> {
    let mut taken: Vec<Victim> = Vec::new();
    let mut is_met = false;
    for candidate in candidates {
        let victim = field.victim(candidate);
        let fork = victim.candidate.fork;
        if fork.is_some_and(|fork| !victim.is_of_what_is_borrowed(quota, contested, fork)) {
            continue;
        }
        victim.leave(quota);
        taken.push(victim);
        if is_accepted(quota, bid, taken.iter()) {
            is_met = true;
            break;
        }
    }
    let count = taken.len();
    give_back(quota, &mut taken, is_met, |quota, taken| {
        is_accepted(quota, bid, taken.iter())
    });
    let is_least = taken.len() == count;
    is_met.then_some((taken, is_least))
}

/// Whether the bid can be met without these.
fn is_accepted<'a>(
    quota: &QuotaTree,
    bid: &Bid<'_>,
    taken: impl Iterator<Item = &'a Victim>,
) -> bool {
    let reclaimed = taken.filter(|v| v.candidate.right == PreemptionRight::InCohortReclamation);
    let ours: BTreeSet<NodeId> = reclaimed
        .filter_map(|victim| victim.candidate.fork.map(|fork| fork.ours))
        .collect();
    bid.fits(quota) && !ours.into_iter().any(|at| bid.would_borrow(quota, at))
}

/// Brings all that were taken back, and drops those that needn't go from the list: the most
/// deserving first.
pub(crate) fn give_back(
    quota: &mut QuotaTree,
    taken: &mut Vec<Victim>,
    is_met: bool,
    is_accepted: impl Fn(&QuotaTree, &[Victim]) -> bool,
) {
    // Without the last one it couldn't be met.
    let mut index = taken.len().saturating_sub(1);
    while is_met && index > 0 {
        index -= 1;
        let spared = taken.remove(index);
        spared.stay(quota);
        if !is_accepted(quota, taken) {
            spared.leave(quota);
            taken.insert(index, spared);
        }
    }
    for victim in taken.iter() {
        victim.stay(quota);
    }
}

impl Victim {
    pub(crate) fn leave(&self, quota: &mut QuotaTree) {
        for (cell, charged) in &*self.charge {
            quota.discharge(View::Planned, self.candidate.node, *cell, charged.total);
        }
    }

    pub(crate) fn stay(&self, quota: &mut QuotaTree) {
        for (cell, charged) in &*self.charge {
            quota.charge(View::Planned, self.candidate.node, *cell, charged.total);
        }
    }

    /// Whether in one of these cells, in which it is charged, its queue and all above it up to the
    /// fork use more than is theirs. What is only claimed is not used.
    pub(crate) fn is_of_what_is_borrowed(
        &self,
        quota: &QuotaTree,
        contested: &BTreeSet<CellId>,
        fork: Fork,
    ) -> bool {
        let cells = self.charge.iter();
        let mut cells = cells.filter(|(cell, _)| contested.contains(cell));
        cells.any(|(cell, _)| {
            let above = quota.path(self.candidate.node);
            let fork = quota.parent(fork.theirs);
            let mut up_to_fork = above.take_while(|node| Some(*node) != fork);
            up_to_fork.all(|node| quota.is_borrowing(View::Settled, node, *cell))
        })
    }
}

impl<'a> Field<'a> {
    /// Those that could have to go in one queue, in order.
    pub(crate) fn evictable(
        self,
        account: AccountId,
    ) -> impl Iterator<Item = (&'a VictimKey, &'a Record)> {
        let account = self.accounts.at(account);
        let keys = account.into_iter().flat_map(|account| &account.evictable);
        keys.filter_map(move |key| Some((key, self.workloads.get(key.id())?)))
    }

    /// Where a candidate would stand if it waited.
    pub(crate) fn order(self, key: &VictimKey) -> Option<OrderKey> {
        let record = self.workloads.get(key.id())?;
        Some(record.order(key.id()))
    }

    /// What a candidate is charged.
    pub(crate) fn victim(self, candidate: Candidate) -> Victim {
        let record = self.workloads.get(candidate.key.id());
        let held = record.and_then(|record| record.state.held());
        Victim {
            charge: held
                .map(|held| Arc::clone(&held.charge))
                .unwrap_or_default(),
            candidate,
        }
    }

    /// Those of its queue that a victim, waiting, could have go.
    fn behind(self, victim: &Victim, contested: &BTreeSet<CellId>) -> Vec<Victim> {
        let key = &victim.candidate.key;
        let (Some(node), Some(record), Some(order)) = (
            self.queues.at(victim.candidate.node),
            self.workloads.get(key.id()),
            self.order(key),
        ) else {
            return Vec::new();
        };
        let by_usage = node.config.admission_mode == AdmissionMode::ByUsage;
        let bid = Bid {
            account: node.account,
            node: node.id,
            rules: node.config.preemption,
            order: &order,
            local: by_usage.then_some(&record.queue),
            cells: &BTreeMap::new(),
        };
        let behind = own_candidates(self, &bid, contested).into_iter();
        // By the time that it waits these can have to go as well.
        let newcomers = self
            .newcomers(node.account)
            .filter(|(_, record)| bid.may_outrank(record) && holds(record, contested))
            .map(|(key, _)| bid.own_candidate(key));
        let behind = behind.chain(newcomers);
        behind.map(|candidate| self.victim(candidate)).collect()
    }

    /// Those of one queue that will be evictable once their admission is confirmed.
    fn newcomers(self, account: AccountId) -> impl Iterator<Item = (VictimKey, &'a Record)> {
        let account = self.accounts.at(account);
        let charged = account.into_iter().flat_map(|account| &account.charged);
        charged.filter_map(move |id| {
            let record = self.workloads.get(id)?;
            match &record.state {
                State::Assumed(held) if record.evictable => {
                    let since = held.admission.since;
                    Some((VictimKey::new(record.priority, since, id.clone()), record))
                }
                _ => None,
            }
        })
    }

    /// The other queues of the tree, each with where its path and the bid's part.
    pub(crate) fn forks(self, quota: &QuotaTree, bid: &Bid<'_>) -> Vec<(AccountId, NodeId, Fork)> {
        let path: Vec<NodeId> = quota.path(bid.node).collect();
        // For each cohort above the bid, its child on the way down.
        let below: BTreeMap<NodeId, NodeId> = (path.iter().skip(1).copied())
            .zip(path.iter().copied())
            .collect();
        let others = self.queues.nodes().filter(|queue| queue.id != bid.node);
        let fork = |theirs: NodeId| {
            let ours = below.get(&quota.parent(theirs)?).copied()?;
            Some(Fork { ours, theirs })
        };
        let forks = others.filter_map(|queue| {
            let fork = quota.path(queue.id).find_map(fork)?;
            Some((queue.account, queue.id, fork))
        });
        forks.collect()
    }
}

/// Whether a workload is charged in one of these cells.
pub(crate) fn holds(record: &Record, cells: &BTreeSet<CellId>) -> bool {
    let held = record.state.held();
    held.is_some_and(|held| held.charge.iter().any(|(cell, _)| cells.contains(cell)))
}
