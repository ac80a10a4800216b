//! One pass over a cohort tree: who of those that wait is admitted, who waits for others to go, and
//! who is made to.
//!
//! Each queue offers one candidate, the first in its order for which something can be done. The best
//! of them is dealt with, until none is left. Best is: the one whose cohort, from the root down, and
//! queue use no more than is theirs, then the one with the smaller shares (fair sharing), then the
//! order of priority and time. There are three outcomes:
//!
//! * there is room, now and as is planned: it is **admitted**;
//! * there will be room when those that leave have gone: it **claims** that room, so that nobody who
//!   comes after it takes it. Claims last for a pass, the next one makes them anew;
//! * there would be room if others went: they are **preempted**, and the pass ends, as what is planned
//!   has changed for everybody.
//!
//! Otherwise its class is parked until something is freed: of equal workloads only the first needs a
//! look. During a pass usage only grows, so a rank can only get worse, and it is enough to work it
//! out when its turn has come. Where that isn't so, there is another look after each admission
//! (`restless`, `shifty`).

mod preempt;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounts::{Account, Accounts};
use crate::amount::Amount;
use crate::cells::CellId;
use crate::contest::{Contest, Verdict};
use crate::engine::{Held, Locals, State, Workloads};
use crate::event::Decision;
use crate::flavors::{self, Fit, Plan, Slots, is_reducible};
use crate::forest::{ClassRef, Config, Tree};
use crate::model::{Admission, AdmissionMode, QueueingStrategy};
use crate::names::WorkloadId;
use crate::pending::{Class, ClassId, Grant, OrderKey};
use crate::preemption::Preemption;
use crate::settings::Settings;
use crate::shape::Shape;
use crate::share::Share;
use crate::time::Time;
use crate::tree::{NodeId, View};
use crate::victims::Field;

/// Who is next, across the queues of a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Of the cohorts below the root and of the queue, from the root down: whether it would use more
    /// than is its own, and with fair sharing the share that it would have.
    path: Vec<(bool, Share)>,
    order: OrderKey,
}

/// The candidate of a queue.
#[derive(Debug)]
struct Offer {
    class: ClassRef,
    order: OrderKey,
}

/// One look at all candidates of a tree.
pub(crate) struct Pass<'a> {
    pub(crate) config: &'a Config,
    pub(crate) settings: &'a Settings,
    pub(crate) accounts: &'a mut Accounts,
    pub(crate) locals: &'a mut Locals,
    pub(crate) workloads: &'a mut Workloads,
    pub(crate) timers: &'a mut BTreeSet<(Time, WorkloadId)>,
    pub(crate) now: Time,
    pub(crate) tree: &'a mut Tree,
    pub(crate) decisions: &'a mut Vec<Decision>,
    pub(crate) standing: Standing,
}

/// How far a pass has come.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// By queue, the first of each class that is worth a look.
    open: BTreeMap<NodeId, BTreeSet<(OrderKey, ClassId)>>,
    /// What each queue offers. A rank is right or too good.
    ranked: BTreeMap<Rank, Offer>,
    /// What of `ranked` is this queue's.
    offers: BTreeMap<NodeId, Rank>,
    /// Queues whose rank may get better when somebody else is admitted.
    shifty: BTreeSet<NodeId>,
    /// The last of each class that has claimed, and where in `open` the class stands.
    claimed: BTreeMap<ClassRef, OrderKey>,
    claims: Vec<(NodeId, BTreeMap<CellId, Amount>)>,
}

impl Pass<'_> {
    /// Runs the pass; says whether another one is due.
    pub(crate) fn run(mut self) -> bool {
        self.tree.claimants.clear();
        if self.tree.inactive.is_some() {
            return false;
        }
        let before = self.decisions.len();
        for class in self.take_woken() {
            self.open(&class);
        }
        for queue in self.standing.open.keys().copied().collect::<Vec<_>>() {
            self.offer(queue);
        }
        let mut preempted = false;
        while !preempted && let Some((rank, offer)) = self.standing.ranked.pop_first() {
            self.standing.offers.remove(&offer.class.0);
            preempted = self.deal_with(offer, &rank);
        }
        for (node, cells) in std::mem::take(&mut self.standing.claims) {
            for (cell, amount) in cells {
                self.tree.quota.disclaim(node, cell, amount);
            }
        }
        // With others on their way out, what was admitted may have changed what is claimed.
        preempted || (self.tree.leaving > 0 && self.decisions.len() > before)
    }

    /// The classes that are worth a look.
    fn take_woken(&mut self) -> Vec<ClassRef> {
        let woken = std::mem::take(&mut self.tree.woken);
        // Claims are made anew, and so everybody has to keep out of their way anew.
        if !woken.all && self.tree.leaving == 0 {
            return woken.classes.into_iter().collect();
        }
        let mut classes = Vec::new();
        for (_, node) in self.tree.queues.iter() {
            if let Some(account) = self.accounts.at_mut(node.account) {
                let found = account.pending.unpark(&self.tree.quota, node.id);
                classes.extend(found.map(|class| (node.id, class.clone())));
            }
        }
        classes
    }

    /// Makes a class worth a look.
    fn open(&mut self, class: &ClassRef) {
        let (queue, id) = class;
        let node = self.tree.queues.at(*queue);
        let Some(node) = node.filter(|node| node.inactive.is_none()) else {
            return;
        };
        let Some(account) = self.accounts.at_mut(node.account) else {
            return;
        };
        match account.pending.class_mut(id) {
            Some(found) => found.parked = false,
            None => {
                self.tree.restless.remove(class);
            }
        }
        let claimed = self.standing.claimed.get(class);
        if let Some(order) = account.pending.next_of(id, claimed) {
            let open = self.standing.open.entry(*queue).or_default();
            open.insert((order.clone(), id.clone()));
        }
    }

    /// Makes what a queue offers a candidate, with the best rank that it could have.
    fn offer(&mut self, queue: NodeId) {
        if let Some(rank) = self.standing.offers.remove(&queue) {
            self.standing.ranked.remove(&rank);
        }
        let Some((order, id)) = self.first(queue) else {
            return;
        };
        let path = self.path(queue, |_| false);
        // Where use decides who is first in a queue, another one of it may come before all others.
        let open = self.standing.open.get(&queue).and_then(BTreeSet::first);
        let best = open.map_or_else(|| order.clone(), |(best, _)| best.clone());
        let class = (queue, id);
        self.put(Offer { class, order }, Rank { path, order: best });
    }

    /// The first in the order of a queue that is worth a look.
    fn first(&self, queue: NodeId) -> Option<(OrderKey, ClassId)> {
        let open = self.standing.open.get(&queue)?;
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
    fn used(&self, class: &ClassId, node: NodeId) -> Share {
        let local = class.local.as_deref().and_then(|key| self.locals.get(key));
        local.map_or(Share::ZERO, |local| {
            local.standing(self.tree, node, &self.config.cells)
        })
    }

    fn put(&mut self, offer: Offer, rank: Rank) {
        self.standing.offers.insert(offer.class.0, rank.clone());
        self.standing.ranked.insert(rank, offer);
    }

    /// How the nodes from below the root down to `node` stand, `is_over` saying which would use more
    /// than is their own.
    fn path(&self, node: NodeId, is_over: impl Fn(NodeId) -> bool) -> Vec<(bool, Share)> {
        let quota = &self.tree.quota;
        let is_fair = self.settings.fair_sharing.is_some();
        let share = |id| {
            if is_fair {
                quota.share(View::Planned, id)
            } else {
                Share::ZERO
            }
        };
        let below_root = quota.path(node).filter(|id| quota.parent(*id).is_some());
        let mut path: Vec<(bool, Share)> = below_root.map(|id| (is_over(id), share(id))).collect();
        path.reverse();
        path
    }

    /// How they would stand if these were charged.
    fn path_with(&mut self, node: NodeId, cells: &BTreeMap<CellId, Amount>) -> Vec<(bool, Share)> {
        for (cell, amount) in cells {
            self.tree.quota.charge(View::Planned, node, *cell, *amount);
        }
        let quota = &self.tree.quota;
        let path = self.path(node, |id| {
            cells
                .keys()
                .any(|cell| quota.is_borrowing(View::Planned, id, *cell))
        });
        for (cell, amount) in cells {
            self.tree
                .quota
                .discharge(View::Planned, node, *cell, *amount);
        }
        path
    }

    /// Looks at the candidate whose turn seems to have come; says whether somebody was preempted.
    fn deal_with(&mut self, offer: Offer, rank: &Rank) -> bool {
        let Offer { class, order } = offer;
        let node = class.0;
        if self
            .class(&class)
            .is_some_and(|found| found.is_held_up(&self.tree.quota, node))
        {
            self.park(&class, &order);
            return false;
        }
        let Some((plan, shape)) = self.plan(&class) else {
            return false;
        };
        let Plan::Slots(slots) = &*plan else {
            self.park(&class, &order);
            return false;
        };
        let rules = self.rules(node);
        if !slots.fit_is_monotone || rules.reaches_abroad() {
            self.tree.restless.insert(class.clone());
        }
        let mut verdict = self.judge(&class, slots, &shape, &order, rules);
        if let Some(Verdict::Later(_, victims)) = &verdict
            && self.another_would_gain(&class, &order, victims)
        {
            // Until that one doesn't fit any more, or is gone, it has no rights.
            self.tree.restless.insert(class.clone());
            let rules = Preemption::default();
            verdict = self.judge(&class, slots, &shape, &order, rules);
        }
        let Some(verdict) = verdict else {
            let is_whole = !shape.pod_sets.iter().any(is_reducible);
            if slots.fit_is_monotone && is_whole && !rules.has_any() {
                let obstacles = slots.obstacles(&self.tree.quota, node, &shape);
                if let Some(found) = self.class_mut(&class) {
                    found.hold_up(obstacles);
                }
            }
            self.park(&class, &order);
            return false;
        };
        let path = self.path_with(node, verdict.cells());
        // Should it no longer fit when its turn comes, another one of its queue may rank better.
        let open = self.standing.open.get(&node);
        let has_others = open.is_some_and(|open| open.len() > 1);
        let may_improve =
            has_others || !slots.rank_is_monotone || self.tree.leaving > 0 || rules.has_any();
        let found = Rank { path, order };
        if self.is_behind(rank, &found) {
            if may_improve {
                self.standing.shifty.insert(node);
            }
            let order = found.order.clone();
            self.put(Offer { class, order }, found);
            return false;
        }
        let order = found.order;
        match verdict {
            Verdict::Now(fit) => self.admit(&class, &order, &fit),
            Verdict::Later(cells, victims) if victims.is_empty() => {
                self.claim(&class, order, cells);
            }
            Verdict::Later(_, victims) => {
                self.preempt(order.id(), &victims);
                return true;
            }
        }
        false
    }

    /// Whether a candidate that was thought to stand as `rank` stands behind somebody else.
    fn is_behind(&self, rank: &Rank, found: &Rank) -> bool {
        let next = self.standing.ranked.first_key_value();
        rank < found && next.is_some_and(|(next, _)| next < found)
    }

    fn account(&self, queue: NodeId) -> Option<&Account> {
        self.accounts.at(self.tree.queues.at(queue)?.account)
    }

    fn account_mut(&mut self, queue: NodeId) -> Option<&mut Account> {
        let account = self.tree.queues.at(queue)?.account;
        self.accounts.at_mut(account)
    }

    fn rules(&self, queue: NodeId) -> Preemption {
        let node = self.tree.queues.at(queue);
        node.map(|node| node.config.preemption).unwrap_or_default()
    }

    fn class(&self, (queue, id): &ClassRef) -> Option<&Class> {
        self.account(*queue)?.pending.class(id)
    }

    fn class_mut(&mut self, (queue, id): &ClassRef) -> Option<&mut Class> {
        self.account_mut(*queue)?.pending.class_mut(id)
    }

    /// How the class could be placed.
    fn plan(&mut self, (queue, id): &ClassRef) -> Option<(Arc<Plan>, Arc<Shape>)> {
        let node = self.tree.queues.at(*queue)?;
        let class = self.accounts.at_mut(node.account)?.pending.class_mut(id)?;
        let plan = class.plan.get_or_insert_with(|| {
            let pod = self.settings.pod.clamped();
            Arc::new(flavors::plan(self.config, &node.config, &class.shape, pod))
        });
        Some((Arc::clone(plan), Arc::clone(&class.shape)))
    }

    /// Works out what can be done for a workload, if anything.
    fn judge<'a>(
        &mut self,
        (queue, id): &ClassRef,
        slots: &'a Slots,
        shape: &Shape,
        order: &OrderKey,
        rules: Preemption,
    ) -> Option<Verdict<'a>> {
        let Tree { quota, queues, .. } = &mut *self.tree;
        let node = queues.at(*queue)?;
        let mut contest = Contest {
            quota,
            field: Field {
                queues,
                accounts: self.accounts,
                workloads: self.workloads,
                settings: self.settings,
            },
            account: node.account,
            node: node.id,
            rules,
            order,
            local: id.local.as_deref(),
        };
        contest.judge(slots, &node.config, shape)
    }

    /// Nothing can be done for the class of a candidate.
    fn park(&mut self, class: &ClassRef, order: &OrderKey) {
        if let Some(found) = self.class_mut(class) {
            found.parked = true;
        }
        self.close(class, order);
        self.offer(class.0);
    }

    fn close(&mut self, (queue, id): &ClassRef, order: &OrderKey) {
        if let Some(open) = self.standing.open.get_mut(queue) {
            open.remove(&(order.clone(), id.clone()));
        }
    }

    /// What a workload of this class gets by this fit.
    fn grant(&mut self, class: &ClassRef, fit: &Fit<'_>) -> Option<Grant> {
        let class = self.class_mut(class)?;
        let known = class.granted.as_deref();
        let grant = match known.filter(|grant| fit.is_like(&grant.picks, &grant.counts)) {
            Some(grant) => grant.clone(),
            None => fit.grant(&class.shape),
        };
        class.granted = Some(Box::new(grant.clone()));
        Some(grant)
    }

    /// Admits the head of a class, and makes candidates of those that its admission concerns.
    fn admit(&mut self, class: &ClassRef, order: &OrderKey, fit: &Fit<'_>) {
        let Some(Grant {
            pod_sets, charge, ..
        }) = self.grant(class, fit)
        else {
            return;
        };
        let (queue, id) = class;
        let Some(node) = self.tree.queues.at(*queue) else {
            return;
        };
        let account = node.account;
        let admission = Admission {
            queue: node.config.name.clone(),
            since: self.now,
            unused_since: None,
            pod_sets,
        };
        let cells = &self.config.cells;
        self.tree.charge(View::Now, *queue, &charge, cells);
        self.tree.charge(View::Planned, *queue, &charge, cells);
        let workload = order.id().clone();
        let mut pulled_in = None;
        if let Some(account) = self.accounts.at_mut(account) {
            if let Some(class) = account.pending.class(id) {
                account.demand.remove(&class.shape);
            }
            pulled_in = account.pending.remove(order, id);
            account.ledger.add(&charge, false);
            account.charged.insert(workload.clone());
        }
        if let Some(record) = self.workloads.get_mut(&workload) {
            if let Some(local) = self.locals.get_mut(&record.queue) {
                local.demand.remove(&record.shape);
                local.ledger.add(&charge, false);
            }
            record.state = State::Assumed(Box::new(Held {
                admission: admission.clone(),
                charge,
            }));
        }
        let id = workload;
        self.decisions.push(Decision::Admit { id, admission });
        self.close(class, order);
        if let Some(id) = pulled_in {
            self.open(&(*queue, id));
        }
        self.go_on(class);
    }

    /// Lets the queue of a class that was dealt with offer its next, and considers those again that
    /// may have come to fit, or to rank better, as usage has grown.
    fn go_on(&mut self, class: &ClassRef) {
        self.open(class);
        // Behind the head of a strict queue nobody has been worth a look so far.
        let head = self.account(class.0).and_then(|account| {
            let (_, id) = account.pending.head()?;
            (!account.pending.class(id)?.parked).then(|| (class.0, id.clone()))
        });
        if let Some(head) = head {
            self.open(&head);
        }
        let mut queues = std::mem::take(&mut self.standing.shifty);
        queues.insert(class.0);
        for class in self.tree.restless.clone() {
            self.open(&class);
            queues.insert(class.0);
        }
        for queue in queues {
            self.offer(queue);
        }
    }

    /// Keeps room for a workload that waits for others to go.
    fn claim(&mut self, class: &ClassRef, order: OrderKey, cells: BTreeMap<CellId, Amount>) {
        let node = class.0;
        for (cell, amount) in &cells {
            self.tree.quota.claim(node, *cell, *amount);
        }
        self.standing.claims.push((node, cells));
        self.tree.claimants.insert(order.id().clone());
        self.close(class, &order);
        self.standing.claimed.insert(class.clone(), order);
        self.go_on(class);
    }
}
