//! Whose turn it is in a pass: what each queue has to offer, and which of the offers comes first. What
//! becomes of it is `pass.rs`.
//!
//! When something was freed all queues have to be looked at, and only few will get any of it. So a queue
//! is gone through only as far as its first that may be worth a look, and it is ranked by what is known
//! without one: whichever of its choices a class gets, it is charged at least what it met an obstacle with
//! at the last look.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::amount::Amount;
use crate::cells::CellId;
use crate::forest::ClassRef;
use crate::model::{AdmissionMode, QueueingStrategy};
use crate::pass::Pass;
use crate::pending::{Class, ClassId, OrderKey};
use crate::share::Share;
use crate::tree::{Levels, NodeId, View};

/// Who is next, across the queues of a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) path: Path,
    pub(super) order: OrderKey,
}

/// How the cohorts below the root and the queue stand, from the root down: whether they would use more
/// than is their own, and with fair sharing the shares that they would have. Of two of which one goes on
/// where the other ends, the shorter one is less.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    /// The highest bit is what is next to the root.
    Plain {
        over: u64,
        depth: usize,
    },
    Fair(Vec<(bool, Share)>),
}

/// The candidate of a queue.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) class: ClassRef,
    pub(super) order: OrderKey,
}

/// How far a pass has come.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    lineups: BTreeMap<NodeId, Lineup>,
    /// What the queues offer. A rank is right or too good.
    ranked: BTreeMap<Rank, Offer>,
    /// Queues whose rank may get better when somebody else is admitted; if there are charges, only
    /// when there is no room for them any more.
    shifty: BTreeMap<NodeId, Option<BTreeMap<CellId, Amount>>>,
    /// The last of each class that has claimed, and where among the open ones the class stands.
    pub(super) claimed: BTreeMap<ClassRef, OrderKey>,
    pub(super) claims: Vec<(NodeId, BTreeMap<CellId, Amount>)>,
}

/// What of a queue is worth a look.
#[derive(Debug, Default)]
struct Lineup {
    /// The first of each class that is, as far as they have been gone through.
    open: BTreeSet<(OrderKey, ClassId)>,
    /// Where to go on among the firsts of all classes; none if they needn't be gone through.
    unseen: Option<Bound<OrderKey>>,
    /// Which nodes any of them would take above their quota, at least.
    over: Levels,
    /// The rank of what the queue offers.
    offered: Option<Rank>,
}

impl Pass<'_> {
    /// Makes the best of each queue that is worth a look a candidate.
    pub(super) fn line_up(&mut self) {
        let woken = std::mem::take(&mut self.tree.woken);
        // Claims are made anew, and so everybody has to keep out of their way anew.
        if woken.all || self.tree.leaving > 0 {
            self.line_up_all();
        } else {
            for class in &woken.classes {
                self.open(class);
            }
        }
        for queue in self.standing.lineups.keys().copied().collect::<Vec<_>>() {
            self.offer(queue);
        }
    }

    fn line_up_all(&mut self) {
        let mut by_usage = Vec::new();
        for node in self.tree.queues.nodes() {
            let account = self.accounts.at_mut(node.account);
            let Some(account) = account.filter(|_| node.inactive.is_none()) else {
                continue;
            };
            let rights = account.rights(&node.config, self.settings);
            let (pending, quota) = (&mut account.pending, &self.tree.quota);
            if pending.are_held_up(quota, node.id, &rights) {
                pending.park_all();
                continue;
            }
            pending.wake_all();
            let mut lineup = Lineup {
                over: pending.over_at_least(quota, node.id),
                ..Lineup::default()
            };
            match node.config.admission_mode {
                AdmissionMode::ByOrder => lineup.unseen = Some(Bound::Unbounded),
                // Any of them may be the first.
                AdmissionMode::ByUsage => {
                    let held_up = |class: &Class| class.is_held_up(quota, node.id, &rights);
                    let open = pending.park_where(held_up);
                    by_usage.extend(open.into_iter().map(|id| (node.id, id)));
                }
            }
            self.standing.lineups.insert(node.id, lineup);
        }
        for class in by_usage {
            self.open(&class);
        }
    }

    /// Makes a class worth a look.
    pub(super) fn open(&mut self, class: &ClassRef) {
        let (queue, id) = class;
        let node = self.tree.queues.at(*queue);
        let Some(node) = node.filter(|node| node.inactive.is_none()) else {
            return;
        };
        let Some(account) = self.accounts.at_mut(node.account) else {
            return;
        };
        let Some(found) = account.pending.wake(id) else {
            self.tree.restless.remove(class);
            return;
        };
        let over = found.over_at_least(&self.tree.quota, node.id);
        let claimed = self.standing.claimed.get(class);
        if let Some(order) = account.pending.next_of(id, claimed) {
            let lineup = self.standing.lineups.entry(*queue);
            let lineup = (lineup.and_modify(|lineup| lineup.over = lineup.over.and(over)))
                .or_insert_with(|| Lineup {
                    over,
                    ..Lineup::default()
                });
            lineup.open.insert((order.clone(), id.clone()));
        }
    }

    /// Takes the first of a class off the list of what is worth a look.
    pub(super) fn close(&mut self, (queue, id): &ClassRef, order: &OrderKey) {
        if let Some(lineup) = self.standing.lineups.get_mut(queue) {
            lineup.open.remove(&(order.clone(), id.clone()));
        }
    }

    /// The offer that comes first.
    pub(super) fn next_offer(&mut self) -> Option<(Rank, Offer)> {
        let (rank, offer) = self.standing.ranked.pop_first()?;
        if let Some(lineup) = self.standing.lineups.get_mut(&offer.class.0) {
            lineup.offered = None;
        }
        Some((rank, offer))
    }

    /// Makes what a queue offers a candidate, with the best rank that it could have.
    pub(super) fn offer(&mut self, queue: NodeId) {
        self.look_ahead(queue);
        let first = self.first(queue);
        let Some(lineup) = self.standing.lineups.get_mut(&queue) else {
            return;
        };
        if let Some(rank) = lineup.offered.take() {
            self.standing.ranked.remove(&rank);
        }
        let (Some((order, id)), Some((best, _))) = (first, lineup.open.first()) else {
            return;
        };
        // Where use decides who is first in a queue, another one of it may come before all others.
        let (best, over) = (best.clone(), lineup.over);
        let rank = Rank {
            path: self.path(queue, over),
            order: best,
        };
        let class = (queue, id);
        self.put(Offer { class, order }, rank);
    }

    /// Goes through the firsts of a queue's classes until it is known which is worth a look first.
    fn look_ahead(&mut self, queue: NodeId) {
        let Some(lineup) = self.standing.lineups.get_mut(&queue) else {
            return;
        };
        let Some(node) = self.tree.queues.at(queue) else {
            return;
        };
        let Some(account) = self.accounts.at_mut(node.account) else {
            return;
        };
        let rights = account.rights(&node.config, self.settings);
        let (pending, quota) = (&mut account.pending, &self.tree.quota);
        let mut met_one = false;
        while let Some(after) = lineup.unseen.take() {
            let Some((order, id)) = pending.next_head(after.as_ref()) else {
                return;
            };
            if lineup.open.first().is_some_and(|(first, _)| first < order) {
                lineup.unseen = Some(after);
                return;
            }
            let (order, id) = (order.clone(), id.clone());
            lineup.unseen = Some(Bound::Excluded(order.clone()));
            // Those who are promised room have had their turn: the next of the class is open already.
            if self.standing.claimed.contains_key(&(queue, id.clone())) {
                continue;
            }
            let class = pending.class(&id).filter(|_| !pending.is_parked(&id));
            let Some(class) = class else {
                continue;
            };
            if !class.is_held_up(quota, queue, &rights) {
                lineup.open.insert((order, id));
                continue;
            }
            if !met_one && pending.are_held_up(quota, queue, &rights) {
                lineup.unseen = None;
                pending.park_all();
                return;
            }
            met_one = true;
            pending.park(&id);
        }
    }

    /// The first in the order of a queue that is worth a look.
    fn first(&self, queue: NodeId) -> Option<(OrderKey, ClassId)> {
        let open = &self.standing.lineups.get(&queue)?.open;
        let node = self.tree.queues.at(queue)?;
        let pending = &self.account(queue)?.pending;
        let first = match node.config.admission_mode {
            AdmissionMode::ByOrder => open.first(),
            AdmissionMode::ByUsage => open
                .iter()
                .min_by_key(|(order, id)| (self.used(id, node.id), order)),
        };
        let (order, id) = first?;
        if node.config.strategy == QueueingStrategy::StrictFifo {
            let head = match node.config.admission_mode {
                AdmissionMode::ByOrder => pending.head(),
                AdmissionMode::ByUsage => pending
                    .heads()
                    .min_by_key(|(order, id)| (self.used(id, node.id), *order)),
            };
            if head != Some((order, id)) {
                return None;
            }
        }
        Some((order.clone(), id.clone()))
    }

    /// What the LocalQueue of a class has used.
    pub(super) fn used(&self, class: &ClassId, node: NodeId) -> Share {
        let local = class.local.as_deref().and_then(|key| self.locals.get(key));
        local.map_or(Share::ZERO, |local| {
            local.standing(self.tree, node, &self.config.cells)
        })
    }

    fn put(&mut self, offer: Offer, rank: Rank) {
        if let Some(lineup) = self.standing.lineups.get_mut(&offer.class.0) {
            lineup.offered = Some(rank.clone());
        }
        self.standing.ranked.insert(rank, offer);
    }

    /// Whether a candidate that was thought to stand as `rank` stands behind somebody else.
    pub(super) fn is_behind(&self, rank: &Rank, found: &Rank) -> bool {
        let next = self.standing.ranked.first_key_value();
        rank < found && next.is_some_and(|(next, _)| next < found)
    }

    /// Puts a candidate where it was found to stand. If nothing but room decides what it can have, these
    /// are its charges.
    pub(super) fn put_behind(
        &mut self,
        class: ClassRef,
        rank: Rank,
        charges: Option<BTreeMap<CellId, Amount>>,
    ) {
        let queue = class.0;
        // Should it no longer fit when its turn comes, another one of its queue may rank better.
        let (Some(lineup), Some(node)) = (
            self.standing.lineups.get(&queue),
            self.tree.queues.at(queue),
        ) else {
            return;
        };
        let has_others = lineup.open.len() > 1 || lineup.unseen.is_some();
        let is_by_usage = node.config.admission_mode == AdmissionMode::ByUsage;
        let could_be_better = is_by_usage || self.path(queue, lineup.over) < rank.path;
        if could_be_better && (has_others || charges.is_none()) {
            self.standing.shifty.insert(queue, charges);
        }
        let order = rank.order.clone();
        self.put(Offer { class, order }, rank);
    }

    /// The queues whose rank may have got better.
    pub(super) fn take_shifted(&mut self) -> BTreeSet<NodeId> {
        let quota = &self.tree.quota;
        let has_shifted = |queue: &NodeId, charges: &mut Option<BTreeMap<CellId, Amount>>| {
            let charges = charges.as_ref();
            !charges.is_some_and(|charges| quota.all_fit(View::Planned, *queue, charges))
        };
        let shifted = self.standing.shifty.extract_if(.., has_shifted);
        shifted.map(|(queue, _)| queue).collect()
    }

    /// How the nodes from below the root down to `node` stand; those `over` would use more than is
    /// their own.
    fn path(&self, node: NodeId, over: Levels) -> Path {
        let quota = &self.tree.quota;
        let below_root = quota.below_root(node);
        if self.settings.fair_sharing.is_none() {
            let depth = below_root.count();
            let over = over.seen_from_above(depth);
            return Path::Plain { over, depth };
        }
        let stands = |(level, id)| (over.contains(level), quota.share(View::Planned, id));
        let mut path: Vec<(bool, Share)> = below_root.enumerate().map(stands).collect();
        path.reverse();
        Path::Fair(path)
    }

    /// How they would stand if these were charged.
    pub(super) fn path_with(&mut self, node: NodeId, cells: &BTreeMap<CellId, Amount>) -> Path {
        let mut over = Levels::default();
        for (cell, amount) in cells {
            over = over.or(self.tree.quota.over_with(node, *cell, *amount));
        }
        if self.settings.fair_sharing.is_none() {
            return self.path(node, over);
        }
        for (cell, amount) in cells {
            self.tree.quota.charge(View::Planned, node, *cell, *amount);
        }
        let path = self.path(node, over);
        for (cell, amount) in cells {
            self.tree
                .quota
                .discharge(View::Planned, node, *cell, *amount);
        }
        path
    }
}
