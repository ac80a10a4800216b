//! One pass over a cohort tree: who of those that wait is admitted, who waits for others to go, and
//! who is made to.
//!
//! The best candidate is dealt with, until none is left. Best is: would not borrow, before would
//! borrow; with fair sharing, the smaller share; then the order in a queue. Candidates are classes:
//! of equal workloads only the first can be next. There are three outcomes:
//!
//! * there is room, now and as is planned: it is **admitted**;
//! * there will be room when those that leave have gone: it **claims** that room, so that nobody who
//!   comes after it takes it. Claims last for a pass, the next one makes them anew;
//! * there would be room if others went: they are **preempted**, and the pass ends, as what is planned
//!   has changed for everybody.
//!
//! Otherwise a class is parked until something is freed. During a pass usage only grows, so a rank
//! can only get worse, and it is enough to work it out when its turn has come. Classes for which that
//! isn't so are looked at again after each admission (`restless`, `shifty`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::amount::Amount;
use crate::engine::{Account, Local, Record, State};
use crate::event::{Decision, EvictReason};
use crate::flavors::{self, Fit, Plan, Room, Slots, is_reducible};
use crate::forest::{ClassRef, Config, Tree};
use crate::ledger::charge_of;
use crate::model::{Admission, AdmissionMode, PodSet, QueueingStrategy};
use crate::names::{LocalQueueKey, QueueName, WorkloadId};
use crate::pending::OrderKey;
use crate::preemption::Preemption;
use crate::settings::Settings;
use crate::shape::Shape;
use crate::share::Share;
use crate::time::Time;
use crate::tree::{CellId, NodeId, QuotaTree, View};
use crate::victims::{self, Bid, Field, Victim};

/// Who is next, across the queues of a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    borrows: bool,
    /// With fair sharing: of the cohorts and the queue, from the root down.
    shares: Vec<Share>,
    order: OrderKey,
}

/// One look at all candidates of a tree.
pub(crate) struct Pass<'a> {
    pub(crate) config: &'a Config,
    pub(crate) settings: &'a Settings,
    pub(crate) accounts: &'a mut BTreeMap<QueueName, Account>,
    pub(crate) locals: &'a mut BTreeMap<LocalQueueKey, Local>,
    pub(crate) workloads: &'a mut BTreeMap<WorkloadId, Record>,
    pub(crate) now: Time,
    pub(crate) tree: &'a mut Tree,
    pub(crate) decisions: &'a mut Vec<Decision>,
    pub(crate) standing: Standing,
}

/// How far a pass has come.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The candidates. A rank is right or too good.
    ranked: BTreeSet<(Rank, ClassRef)>,
    /// The rank under which each candidate stands.
    ranks: BTreeMap<ClassRef, Rank>,
    /// Candidates whose rank may get better when somebody else is admitted.
    shifty: BTreeSet<ClassRef>,
    /// The last of each class that has claimed.
    claimed: BTreeMap<ClassRef, OrderKey>,
    claims: Vec<(NodeId, BTreeMap<CellId, Amount>)>,
    /// Classes of queues that admit by use, out for the rest of the pass.
    out: BTreeSet<ClassRef>,
}

/// What came of looking at a candidate.
enum Verdict {
    /// There is room.
    Now(Admission),
    /// There will be room for these charges, when these and others that leave have gone.
    Later(BTreeMap<CellId, Amount>, Vec<Victim>),
    No,
}

/// A workload's quest for room: what is free, and what others hold that it may make them leave.
struct Contest<'a> {
    quota: &'a mut QuotaTree,
    field: Field<'a>,
    queue: &'a QueueName,
    node: NodeId,
    rules: Preemption,
    order: &'a OrderKey,
}

impl Contest<'_> {
    fn victims(
        &mut self,
        cells: &BTreeMap<CellId, Amount>,
        thoroughly: bool,
    ) -> Option<Vec<Victim>> {
        if !self.rules.has_any() {
            return None;
        }
        let bid = Bid {
            queue: self.queue,
            node: self.node,
            rules: self.rules,
            order: self.order,
            cells,
        };
        victims::find(self.field, self.quota, bid, thoroughly)
    }

    fn is_free(&self, cells: &BTreeMap<CellId, Amount>) -> bool {
        let mut cells = cells.iter();
        cells.all(|(cell, amount)| self.quota.fits(View::Planned, self.node, *cell, *amount))
    }
}

impl Room for Contest<'_> {
    fn tree(&self) -> &QuotaTree {
        self.quota
    }

    fn can_be_made(&mut self, cells: &BTreeMap<CellId, Amount>) -> bool {
        self.victims(cells, false).is_some()
    }
}

impl Pass<'_> {
    /// Runs the pass; says whether another one is due.
    pub(crate) fn run(mut self) -> bool {
        self.tree.claimants.clear();
        if self.tree.inactive.is_some() {
            return false;
        }
        for class in self.take_woken() {
            self.consider(class);
        }
        let mut preempted = false;
        while !preempted && let Some((rank, class)) = self.standing.ranked.pop_first() {
            self.standing.ranks.remove(&class);
            preempted = self.deal_with(class, rank);
        }
        for (node, cells) in std::mem::take(&mut self.standing.claims) {
            for (cell, amount) in cells {
                self.tree.quota.discharge(View::Planned, node, cell, amount);
            }
        }
        self.tree.woken.all |= preempted;
        preempted
    }

    /// The classes that are worth a look.
    fn take_woken(&mut self) -> Vec<ClassRef> {
        let woken = std::mem::take(&mut self.tree.woken);
        // Claims are made anew, and so everybody has to keep out of their way anew.
        let all = woken.all || self.tree.leaving > 0;
        let mut classes = Vec::new();
        for (queue, node) in &self.tree.queues {
            if !all && node.config.admission_mode == AdmissionMode::ByOrder {
                continue;
            }
            if let Some(account) = self.accounts.get_mut(queue) {
                account.pending.unpark();
                let found = account.pending.classes();
                classes.extend(found.map(|class| (queue.clone(), class.clone())));
            }
        }
        if !all {
            classes.extend(woken.classes);
        }
        classes
    }

    /// Makes a class a candidate if it may be one, with the best rank that it could have.
    fn consider(&mut self, class: ClassRef) {
        let (queue, id) = &class;
        let Some(node) = self.tree.queues.get(queue) else {
            return;
        };
        let is_strict = node.config.strategy == QueueingStrategy::StrictFifo;
        let (node, mode) = (node.id, node.config.admission_mode);
        let is_active = self.tree.queue_inactive(queue).is_none();
        let Some(account) = self.accounts.get(queue).filter(|_| is_active) else {
            return;
        };
        if account.pending.class(id).is_none() {
            self.tree.restless.remove(&class);
        }
        if mode == AdmissionMode::ByUsage {
            return self.consider_by_usage(queue.clone(), is_strict);
        }
        let claimed = self.standing.claimed.get(&class);
        let is_blocked = is_strict
            && (claimed.is_some() || account.pending.head().is_none_or(|(_, head)| head != id));
        if let Some(order) = account.pending.next_of(id, claimed)
            && !is_blocked
        {
            let order = order.clone();
            self.rank(class, node, order);
        }
    }

    /// Makes a candidate of the first class of a queue that admits by use.
    fn consider_by_usage(&mut self, queue: QueueName, is_strict: bool) {
        let (Some(node), Some(account)) = (self.tree.queues.get(&queue), self.accounts.get(&queue))
        else {
            return;
        };
        let node = node.id;
        let mut first: Option<(Share, &OrderKey, ClassRef)> = None;
        for id in account.pending.classes() {
            let class = (queue.clone(), id.clone());
            if let Some(rank) = self.standing.ranks.remove(&class) {
                self.standing.ranked.remove(&(rank, class.clone()));
            }
            let claimed = self.standing.claimed.get(&class);
            let is_out = self.standing.out.contains(&class);
            if is_strict && (claimed.is_some() || is_out) {
                return;
            }
            let Some(order) = account.pending.next_of(id, claimed).filter(|_| !is_out) else {
                continue;
            };
            let local = id.local.as_ref().and_then(|key| self.locals.get(key));
            let used = local.map_or(Share::ZERO, |local| local.standing(self.tree, node));
            let best = first.as_ref();
            if best.is_none_or(|(least, before, _)| (used, order) < (*least, *before)) {
                first = Some((used, order, class));
            }
        }
        if let Some((_, order, class)) = first {
            let order = order.clone();
            self.rank(class, node, order);
        }
    }

    /// Puts a candidate where it belongs, if it didn't borrow.
    fn rank(&mut self, class: ClassRef, node: NodeId, order: OrderKey) {
        let rank = Rank {
            borrows: false,
            shares: self.shares(node),
            order,
        };
        self.put(class, rank);
    }

    fn put(&mut self, class: ClassRef, rank: Rank) {
        let standing = &mut self.standing;
        if let Some(before) = standing.ranks.insert(class.clone(), rank.clone()) {
            standing.ranked.remove(&(before, class.clone()));
        }
        standing.ranked.insert((rank, class));
    }

    fn shares(&self, node: NodeId) -> Vec<Share> {
        let quota = &self.tree.quota;
        if self.settings.fair_sharing.is_none() {
            return Vec::new();
        }
        let below_root = quota.path(node).filter(|id| quota.parent(*id).is_some());
        let mut shares: Vec<Share> = below_root.map(|id| quota.share(id)).collect();
        shares.reverse();
        shares
    }

    /// Looks at the candidate whose turn seems to have come; says whether somebody was preempted.
    fn deal_with(&mut self, class: ClassRef, rank: Rank) -> bool {
        let Some(node) = self.tree.queues.get(&class.0).map(|node| node.id) else {
            return false;
        };
        let shares = self.shares(node);
        if self.is_behind(&rank, &shares, rank.borrows) {
            self.put(class, Rank { shares, ..rank });
            return false;
        }
        let Some((slots, shape)) = self.slots(&class) else {
            self.park(class);
            return false;
        };
        let Plan::Slots(slots) = &*slots else {
            self.park(class);
            return false;
        };
        let rules = self.rules(&class.0);
        if !slots.fit_is_monotone || rules.has_any() {
            self.tree.restless.insert(class.clone());
        }
        let (borrows, verdict) = self.judge(&class.0, node, slots, &shape, &rank.order);
        if matches!(verdict, Verdict::No) {
            self.park(class);
            return false;
        }
        if self.is_behind(&rank, &shares, borrows) {
            let may_improve = !slots.rank_is_monotone || self.tree.leaving > 0 || rules.has_any();
            if borrows && may_improve {
                self.standing.shifty.insert(class.clone());
            }
            let order = rank.order;
            self.put(
                class,
                Rank {
                    borrows,
                    shares,
                    order,
                },
            );
            return false;
        }
        match verdict {
            Verdict::No => false,
            Verdict::Now(admission) => {
                self.admit(&class, &rank.order, admission);
                false
            }
            Verdict::Later(cells, victims) if victims.is_empty() => {
                self.claim(class, rank.order, node, cells);
                false
            }
            Verdict::Later(_, victims) => {
                self.preempt(rank.order.id(), &victims);
                true
            }
        }
    }

    /// Whether a candidate that stood as `rank` has fallen behind somebody else.
    fn is_behind(&self, rank: &Rank, shares: &[Share], borrows: bool) -> bool {
        let now = (borrows, shares, &rank.order);
        let next = self.standing.ranked.first();
        let next = next.map(|(rank, _)| (rank.borrows, &*rank.shares, &rank.order));
        (rank.borrows, &*rank.shares) < (borrows, shares) && next.is_some_and(|next| next < now)
    }

    fn rules(&self, queue: &QueueName) -> Preemption {
        let node = self.tree.queues.get(queue);
        node.map(|node| node.config.preemption).unwrap_or_default()
    }

    /// How the class could be placed.
    fn slots(&mut self, (queue, id): &ClassRef) -> Option<(Arc<Plan>, Arc<Shape>)> {
        let node = self.tree.queues.get(queue)?;
        let class = self.accounts.get_mut(queue)?.pending.class_mut(id)?;
        let (config, quota) = (self.config, &self.tree.quota);
        let plan = class.plan.get_or_insert_with(|| {
            let pod = self.settings.pod.clamped();
            Arc::new(flavors::plan(
                config,
                quota,
                &node.config,
                &class.shape,
                pod,
            ))
        });
        Some((Arc::clone(plan), Arc::clone(&class.shape)))
    }

    /// Works out what can be done for a workload, and whether its queue would borrow.
    fn judge(
        &mut self,
        queue: &QueueName,
        node: NodeId,
        slots: &Slots,
        shape: &Shape,
        order: &OrderKey,
    ) -> (bool, Verdict) {
        let Tree { quota, queues, .. } = &mut *self.tree;
        let Some(config) = queues.get(queue).map(|node| Arc::clone(&node.config)) else {
            return (false, Verdict::No);
        };
        let mut contest = Contest {
            quota,
            field: Field {
                queues,
                accounts: self.accounts,
                workloads: self.workloads,
                settings: self.settings,
            },
            queue,
            node,
            rules: config.preemption,
            order,
        };
        let all = shape.pod_sets.iter().map(|pod_set| pod_set.count).collect();
        if let Ok(fit) = slots.fit(&mut contest, node, config.fungibility, all) {
            if fit.is_now {
                let admission = fit.admission(&config, shape, self.now);
                return (fit.borrows, Verdict::Now(admission));
            }
            if contest.is_free(&fit.cells) {
                return (fit.borrows, Verdict::Later(fit.cells, Vec::new()));
            }
            if let Some(victims) = contest.victims(&fit.cells, true) {
                return (fit.borrows, Verdict::Later(fit.cells, victims));
            }
        }
        if !shape.pod_sets.iter().any(is_reducible) {
            return (false, Verdict::No);
        }
        let mut fit = |counts| {
            let fit = slots.fit(&mut &*contest.quota, node, config.fungibility, counts);
            fit.ok().filter(|fit| fit.is_now)
        };
        match fewest_less(shape, &mut fit) {
            Some(fit) => (
                fit.borrows,
                Verdict::Now(fit.admission(&config, shape, self.now)),
            ),
            None => (false, Verdict::No),
        }
    }

    fn park(&mut self, class: ClassRef) {
        let account = self.accounts.get_mut(&class.0);
        if let Some(found) = account.and_then(|account| account.pending.class_mut(&class.1)) {
            found.parked = true;
        }
        if class.1.local.is_some() {
            self.standing.out.insert(class.clone());
            self.consider(class);
        }
    }

    /// Admits the head of a class, and makes candidates of those that its admission concerns.
    fn admit(&mut self, class: &ClassRef, order: &OrderKey, admission: Admission) {
        let (queue, id) = class;
        let charge = charge_of(&admission);
        self.tree.charge(View::Now, queue, &charge);
        self.tree.charge(View::Planned, queue, &charge);
        let workload = order.id().clone();
        let mut pulled_in = None;
        if let Some(account) = self.accounts.get_mut(queue) {
            if let Some(class) = account.pending.class(id) {
                account.demand.remove(&class.shape);
            }
            pulled_in = account.pending.remove(order, id);
            account.ledger.add(&charge, false);
            account.charged.insert(workload.clone());
        }
        if let Some(record) = self.workloads.get_mut(&workload) {
            record.state = State::Assumed(Box::new(admission.clone()));
            if let Some(local) = self.locals.get_mut(&record.queue) {
                local.demand.remove(&record.shape);
                local.ledger.add(&charge, false);
            }
        }
        let id = workload;
        self.decisions.push(Decision::Admit { id, admission });
        if let Some(class) = pulled_in {
            self.consider((queue.clone(), class));
        }
        if let Some(next) = self.next_after(class) {
            self.consider(next);
        }
        self.look_again();
    }

    /// The class that becomes a candidate when the head of `class` has been admitted: in a strict
    /// queue that of the next workload, unless it is known not to fit; else the same again.
    fn next_after(&self, class: &ClassRef) -> Option<ClassRef> {
        let (queue, _) = class;
        let config = &self.tree.queues.get(queue)?.config;
        if config.strategy == QueueingStrategy::BestEffortFifo
            || config.admission_mode == AdmissionMode::ByUsage
        {
            return Some(class.clone());
        }
        let pending = &self.accounts.get(queue)?.pending;
        let (_, id) = pending.head()?;
        (!pending.class(id)?.parked).then(|| (queue.clone(), id.clone()))
    }

    /// Considers those again that may have come to fit, or to rank better, as usage has grown.
    fn look_again(&mut self) {
        for class in std::mem::take(&mut self.standing.shifty) {
            self.consider(class);
        }
        for class in self.tree.restless.clone() {
            let is_by_usage = class.1.local.is_some();
            if !is_by_usage {
                self.consider(class);
            }
        }
    }

    /// Keeps room for a workload that waits for others to go.
    fn claim(
        &mut self,
        class: ClassRef,
        order: OrderKey,
        node: NodeId,
        cells: BTreeMap<CellId, Amount>,
    ) {
        for (cell, amount) in &cells {
            self.tree.quota.charge(View::Planned, node, *cell, *amount);
        }
        self.standing.claims.push((node, cells));
        self.tree.claimants.insert(order.id().clone());
        self.standing.claimed.insert(class.clone(), order);
        self.consider(class);
        self.look_again();
    }

    fn preempt(&mut self, by: &WorkloadId, victims: &[Victim]) {
        for victim in victims {
            let id = victim.candidate.key.id().clone();
            let Some(record) = self.workloads.get_mut(&id) else {
                continue;
            };
            let State::Admitted(admission, asked) = &mut record.state else {
                continue;
            };
            let reason = EvictReason::Preempted {
                by: by.clone(),
                right: victim.candidate.right,
            };
            *asked = Some(reason.clone());
            let (queue, charge) = (admission.queue.clone(), charge_of(admission));
            if let Some(account) = self.accounts.get_mut(&queue) {
                account.evictable.remove(&victim.candidate.key);
                account.leaving.insert(id.clone());
            }
            self.tree.discharge(View::Planned, &queue, &charge);
            self.tree.leaving = self.tree.leaving.saturating_add(1);
            self.decisions.push(Decision::Evict { id, reason });
        }
    }
}

/// The fit with the fewest pods less than all, found by bisection: between the minimum and all, the
/// pod sets are cut down evenly.
fn fewest_less<'a>(
    shape: &Shape,
    fit: &mut dyn FnMut(Vec<u32>) -> Option<Fit<'a>>,
) -> Option<Fit<'a>> {
    let spare = |pod_set: &PodSet| {
        let min = pod_set.min_count.unwrap_or(pod_set.count);
        u64::from(pod_set.count.saturating_sub(min))
    };
    let most = shape
        .pod_sets
        .iter()
        .map(spare)
        .fold(0, u64::saturating_add);
    let counts = |less: u64| -> Vec<u32> {
        let count = |pod_set| {
            let product = u128::from(spare(pod_set)) * u128::from(less);
            let cut = product.checked_div(u128::from(most)).unwrap_or_default();
            let cut = u32::try_from(cut).unwrap_or(u32::MAX);
            pod_set.count.saturating_sub(cut)
        };
        shape.pod_sets.iter().map(count).collect()
    };
    let mut best = fit(counts(most))?;
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = low.midpoint(high);
        match fit(counts(middle)) {
            Some(found) => (best, high) = (found, middle),
            None => low = middle + 1,
        }
    }
    Some(best)
}
