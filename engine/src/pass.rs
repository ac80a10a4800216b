//! One pass over a cohort tree: who of those that wait is admitted, who waits for others to go, and
//! who is made to.
//!
//! Those for whom others leave, or have just left, get that room before all others. Then each queue
//! offers one candidate, the first in its order for which something can be done. The best of them is
//! dealt with, until none is left. Best is: the one whose cohort, from the root down, and queue use no
//! more than is theirs, then the one with the smaller shares (fair sharing), then the order of priority
//! and time. There are three outcomes:
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
mod promised;
mod ranking;

pub(crate) use ranking::Standing;

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
use crate::model::Admission;
use crate::names::WorkloadId;
use crate::pass::ranking::{Offer, Rank};
use crate::pending::{Class, Grant, OrderKey};
use crate::preemption::Preemption;
use crate::promises::Promises;
use crate::settings::Settings;
use crate::shape::Shape;
use crate::time::Time;
use crate::tree::{NodeId, View};
use crate::victims::Field;

/// One look at all candidates of a tree.
pub(crate) struct Pass<'a> {
    pub(crate) config: &'a Config,
    pub(crate) settings: &'a Settings,
    pub(crate) accounts: &'a mut Accounts,
    pub(crate) locals: &'a mut Locals,
    pub(crate) workloads: &'a mut Workloads,
    pub(crate) timers: &'a mut BTreeSet<(Time, WorkloadId)>,
    pub(crate) promises: &'a mut Promises,
    /// Those for whom others have left since the last decision.
    pub(crate) matured: &'a BTreeSet<WorkloadId>,
    pub(crate) now: Time,
    pub(crate) tree: &'a mut Tree,
    pub(crate) decisions: &'a mut Vec<Decision>,
    pub(crate) standing: Standing,
}

impl Pass<'_> {
    /// Runs the pass; says whether another one is due.
    pub(crate) fn run(mut self) -> bool {
        self.tree.claimants.clear();
        if self.tree.inactive.is_some() {
            return false;
        }
        let before = self.decisions.len();
        self.line_up();
        let has_promises = self.keep_promises();
        let mut preempted = false;
        while !preempted && let Some((rank, offer)) = self.next_offer() {
            preempted = self.deal_with(offer, &rank);
        }
        for (node, cells) in std::mem::take(&mut self.standing.claims) {
            self.disclaim(node, &cells);
        }
        // What was admitted may have changed what is claimed and promised.
        let may_change = has_promises || self.tree.leaving > 0;
        preempted || (may_change && self.decisions.len() > before)
    }

    /// Looks at the candidate whose turn seems to have come; says whether somebody was preempted.
    fn deal_with(&mut self, offer: Offer, rank: &Rank) -> bool {
        let Offer { class, order } = offer;
        let node = class.0;
        if self.is_held_up(&class) {
            self.tree.restless.remove(&class);
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
            && !victims.is_empty()
            && self.another_would_gain(&class, &order, victims)
        {
            // Until that one doesn't fit any more, or is gone, it has no rights.
            self.tree.restless.insert(class.clone());
            let rules = Preemption::default();
            verdict = self.judge(&class, slots, &shape, &order, rules);
        }
        let Some(verdict) = verdict else {
            let is_whole = !shape.pod_sets.iter().any(is_reducible);
            if slots.fit_is_monotone && is_whole {
                let obstacles = slots.obstacles(&self.tree.quota, node, &shape);
                if let Some(account) = self.account_mut(node) {
                    account.pending.hold_up(&class.1, obstacles, rules);
                }
            }
            self.park(&class, &order);
            return false;
        };
        let path = self.path_with(node, verdict.cells());
        let found = Rank { path, order };
        if self.is_behind(rank, &found) {
            let is_settled = slots.rank_is_monotone && self.tree.leaving == 0 && !rules.has_any();
            let charges = is_settled.then(|| verdict.cells().clone());
            self.put_behind(class, found, charges);
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

    fn class_mut(&mut self, (queue, id): &ClassRef) -> Option<&mut Class> {
        self.account_mut(*queue)?.pending.class_mut(id)
    }

    /// Whether nothing can be done for a class, as at the last look.
    fn is_held_up(&self, class: &ClassRef) -> bool {
        let (Some(node), Some(account)) = (self.tree.queues.at(class.0), self.account(class.0))
        else {
            return false;
        };
        let rights = account.rights(&node.config, self.settings);
        let found = account.pending.class(&class.1);
        found.is_some_and(|found| found.is_held_up(&self.tree.quota, node.id, &rights))
    }

    /// How the class could be placed.
    fn plan(&mut self, (queue, id): &ClassRef) -> Option<(Arc<Plan>, Arc<Shape>)> {
        let Tree { queues, plans, .. } = &mut *self.tree;
        let node = queues.at(*queue)?;
        let class = self.accounts.at_mut(node.account)?.pending.class_mut(id)?;
        let plan = class.plan.get_or_insert_with(|| {
            let pod = self.settings.pod.clamped();
            let work_out = || flavors::plan(self.config, &node.config, &class.shape, pod);
            plans.get(node.layout, class.shape.id, work_out)
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
        if let Some(account) = self.account_mut(class.0) {
            account.pending.park(&class.1);
        }
        self.close(class, order);
        self.offer(class.0);
    }

    /// What a workload of this class gets by this fit.
    fn grant(&mut self, class: &ClassRef, fit: &Fit<'_>) -> Option<&Grant> {
        let class = self.class_mut(class)?;
        let known = class.granted.take();
        let known = known.filter(|grant| fit.is_like(&grant.picks, &grant.counts));
        let grant = known.unwrap_or_else(|| Box::new(fit.grant(&class.shape)));
        Some(class.granted.insert(grant))
    }

    /// Admits the head of a class, and makes candidates of those that its admission concerns.
    fn admit(&mut self, class: &ClassRef, order: &OrderKey, fit: &Fit<'_>) {
        let Some(grant) = self.grant(class, fit) else {
            return;
        };
        let (pod_sets, charge) = (Arc::clone(&grant.pod_sets), Arc::clone(&grant.charge));
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
            (!account.pending.is_parked(id)).then(|| (class.0, id.clone()))
        });
        if let Some(head) = head {
            self.open(&head);
        }
        let mut queues = self.take_shifted();
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
        self.claim_for(node, &cells);
        self.standing.claims.push((node, cells));
        self.tree.claimants.insert(order.id().clone());
        self.close(class, &order);
        self.standing.claimed.insert(class.clone(), order);
        self.go_on(class);
    }

    fn claim_for(&mut self, node: NodeId, cells: &BTreeMap<CellId, Amount>) {
        for (cell, amount) in cells {
            self.tree.quota.claim(node, *cell, *amount);
        }
    }

    /// The reverse of [`Pass::claim_for`].
    fn disclaim(&mut self, node: NodeId, cells: &BTreeMap<CellId, Amount>) {
        for (cell, amount) in cells {
            self.tree.quota.disclaim(node, *cell, *amount);
        }
    }
}
