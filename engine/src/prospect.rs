//! Finds out how things stand for a waiting workload at this moment. The words are `outlook.rs`; what is
//! told to everybody is `why.rs`. Nothing here changes state.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounts::Account;
use crate::amount::Amount;
use crate::cells::CellId;
use crate::engine::{Engine, Record};
use crate::flavors::{self, Plan, Slots, least};
use crate::forest::{QueueNode, Tree};
use crate::names::WorkloadId;
use crate::outlook::{Limit, Outlook, Short, Spared};
use crate::pending::OrderKey;
use crate::preemption::{BorrowWithinCohort, ReclaimWithinCohort, WithinClusterQueue};
use crate::tree::{self, NodeId, View};
use crate::victims::{Bid, Field, VictimKey, holds, room_after};

impl Engine {
    /// How things stand at this moment for a workload that is queued in a ClusterQueue; none for any
    /// other.
    pub fn outlook(&self, id: &WorkloadId) -> Option<Outlook> {
        let record = self.workloads.get(id)?;
        let local = self.locals.get(&record.queue)?.object.as_ref()?;
        let queue = &local.cluster_queue;
        let account = self.accounts.get(queue)?;
        let order = record.order(id);
        if !account
            .pending
            .contains(&order, &self.class_of(record, queue))
        {
            return None;
        }
        let tree = self.tree_of_queue(queue)?;
        let node = tree.queues.get(queue)?;
        let cells = tree::quotas(&node.config.resource_groups).into_keys();
        let free = cells.filter_map(|cell| {
            let id = self.config.cells.get(&cell.0, &cell.1)?;
            let available = tree.quota.available(node.id, id);
            Some((cell.0, cell.1, available))
        });
        let ahead = account.pending.ahead_of(&order);
        let first = account.pending.head().map(|(first, _)| first.id().clone());
        let mut outlook = Outlook {
            queue: queue.clone(),
            ahead,
            first: first.filter(|_| ahead > 0),
            free: free.collect(),
            short: Vec::new(),
            leaving: self.leaving(&tree),
            spared: BTreeMap::new(),
            room_after: Vec::new(),
        };
        let pod = self.settings.pod.clamped();
        let plan = flavors::plan(&self.config, &node.config, &record.shape, pod);
        if let Plan::Slots(slots) = plan {
            outlook.short = shortages(&tree, node, record, &slots);
            let cells = first_choice(record, &slots);
            let prospect = Prospect {
                engine: self,
                tree: &tree,
                node,
                order: &order,
                cells: &cells,
            };
            if !tree.claimants.contains(id) {
                outlook.spared = prospect.spared();
            }
            outlook.room_after = prospect.room_after();
        }
        Some(outlook)
    }

    fn leaving(&self, tree: &Tree) -> Vec<WorkloadId> {
        let accounts = tree.queues.iter();
        let accounts = accounts.filter_map(|(_, node)| self.accounts.at(node.account));
        accounts
            .flat_map(|account| account.leaving.iter().cloned())
            .collect()
    }
}

/// What there is too little of, flavor by flavor.
fn shortages(tree: &Tree, node: &QueueNode, record: &Record, slots: &Slots) -> Vec<Short> {
    let mut short = Vec::new();
    for slot in slots.iter() {
        let Some(pod_set) = record.shape.pod_sets.get(slot.place.pod_set) else {
            continue;
        };
        for choice in &slot.choices {
            for (resource, cell, each) in &choice.charges {
                let request = flavors::total(*each, least(pod_set));
                let Some(limit) = tree.quota.limit(node.id, *cell, request) else {
                    continue;
                };
                if let Some(limit) = name_of(tree, limit) {
                    short.push(Short {
                        pod_set: pod_set.name.clone(),
                        flavor: choice.flavor.clone(),
                        resource: resource.clone(),
                        request,
                        free: tree.quota.available(node.id, *cell),
                        limit,
                    });
                }
            }
        }
    }
    short
}

fn name_of(tree: &Tree, id: NodeId) -> Option<Limit> {
    let cohort = tree.cohorts.iter().find(|(_, node)| **node == id);
    let queue = || tree.queues.at(id).map(|node| node.config.name.clone());
    match cohort {
        Some((name, _)) => Some(Limit::Cohort(name.clone())),
        None => queue().map(Limit::Queue),
    }
}

/// What it would be charged in the flavors that come first.
fn first_choice(record: &Record, slots: &Slots) -> BTreeMap<CellId, Amount> {
    let mut cells: BTreeMap<CellId, Amount> = BTreeMap::new();
    for slot in slots.iter() {
        let count = record.shape.pod_sets.get(slot.place.pod_set).map(least);
        let charges = slot.choices.first().into_iter().flat_map(|c| &c.charges);
        for (_, cell, each) in charges {
            let amount = flavors::total(*each, count.unwrap_or_default());
            if amount > Amount::ZERO {
                let sum = cells.entry(*cell).or_default();
                *sum = sum.plus(amount);
            }
        }
    }
    cells
}

/// A workload, and what it would be charged.
struct Prospect<'a> {
    engine: &'a Engine,
    tree: &'a Tree,
    node: &'a QueueNode,
    order: &'a OrderKey,
    cells: &'a BTreeMap<CellId, Amount>,
}

impl Prospect<'_> {
    fn bid(&self) -> Bid<'_> {
        Bid {
            account: self.node.account,
            node: self.node.id,
            rules: self.node.config.preemption,
            order: self.order,
            local: None,
            cells: self.cells,
        }
    }

    fn field(&self) -> Field<'_> {
        Field {
            queues: &self.tree.queues,
            accounts: &self.engine.accounts,
            workloads: &self.engine.workloads,
            settings: &self.engine.settings,
        }
    }

    /// Why each of those that hold what is short does not have to make room.
    fn spared(&self) -> BTreeMap<Spared, usize> {
        let contested = self.bid().contested(&self.tree.quota);
        let mut spared: BTreeMap<Spared, usize> = BTreeMap::new();
        for node in self.tree.queues.nodes() {
            let account = self.engine.accounts.at(node.account);
            for record in self.holders(account, &contested) {
                let count = spared
                    .entry(self.reason(record, node, &contested))
                    .or_default();
                *count = count.saturating_add(1);
            }
        }
        spared
    }

    /// Those of a queue that hold what is short, and stay.
    fn holders<'b>(
        &'b self,
        account: Option<&'b Account>,
        contested: &'b BTreeSet<CellId>,
    ) -> impl Iterator<Item = &'b Record> {
        let charged = account.into_iter().flat_map(|account| &account.charged);
        let records = charged.filter_map(|id| self.engine.workloads.get(id));
        records.filter(move |record| !record.is_leaving() && holds(record, contested))
    }

    fn reason(&self, record: &Record, theirs: &QueueNode, contested: &BTreeSet<CellId>) -> Spared {
        let rules = self.node.config.preemption;
        let quota = &self.tree.quota;
        let is_lower = record.priority < self.order.priority();
        let bid = self.bid();
        if !record.evictable {
            return Spared::NotEvictable;
        }
        if theirs.id == self.node.id {
            let is_newer =
                record.priority == self.order.priority() && self.order.created() < record.created;
            return match rules.within_cluster_queue {
                WithinClusterQueue::Never => Spared::OwnQueueNever,
                WithinClusterQueue::LowerPriority if !is_lower => Spared::OwnQueueOrder,
                WithinClusterQueue::LowerOrNewerEqualPriority if !is_lower && !is_newer => {
                    Spared::OwnQueueOrder
                }
                _ => Spared::NotEnough,
            };
        }
        let borrows_in = |cell: &CellId| quota.is_borrowing(View::Settled, theirs.id, *cell);
        if rules.reclaim_within_cohort == ReclaimWithinCohort::Never {
            Spared::CohortNever
        } else if !contested.iter().any(borrows_in) {
            Spared::WithinItsQuota
        } else if !bid.may_reclaim(record.priority) {
            Spared::CohortPriority
        } else if self.engine.settings.fair_sharing.is_none()
            && rules.borrow_within_cohort == BorrowWithinCohort::Never
            && bid.would_borrow(quota, self.node.id)
        {
            Spared::WouldBorrow
        } else {
            Spared::NotEnough
        }
    }

    /// Whose end would make room, if anybody's would.
    fn room_after(&self) -> Vec<WorkloadId> {
        let holders = self.tree.queues.nodes().flat_map(|node| {
            let account = self.engine.accounts.at(node.account);
            let charged = account.into_iter().flat_map(|account| &account.charged);
            charged.filter_map(move |id| {
                let record = self.engine.workloads.get(id)?;
                let since = record.state.admission()?.since;
                let key = VictimKey::new(record.priority, since, id.clone());
                (!record.is_leaving()).then_some((key, node.id))
            })
        });
        let mut quota = self.tree.quota.clone();
        room_after(self.field(), &mut quota, self.bid(), holders)
    }
}
