//! One decision: which waiting workloads are admitted now, in which order, and which admitted ones
//! have to go.
//!
//! In each tree that was touched, the best candidate that fits is admitted, until none fits. Best
//! is: fits without borrowing, before fits with borrowing; then the order in a queue. Candidates
//! are classes: of equal workloads only the first can be next. During a pass usage only grows, so
//! a candidate's rank can only get worse, and it is enough to work it out when its turn has come.
//! The few classes for which that isn't so (`Slots::fit_is_monotone`, `Slots::rank_is_monotone`)
//! are ranked anew after each admission.
//!
//! Preemption will come in where a candidate doesn't fit and is parked; fair sharing as a field of
//! [`Rank`] between `borrows` and `order`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::amount::Amount;
use crate::engine::{Account, Engine, Local, Record, State};
use crate::event::{Decision, EvictReason};
use crate::flavors::{self, Plan};
use crate::forest::{ClassRef, Config, Tree};
use crate::ledger::charge_of;
use crate::model::{Admission, QueueingStrategy};
use crate::names::{LocalQueueKey, QueueName, WorkloadId};
use crate::pending::{OrderKey, PendingQueue};
use crate::time::Time;

/// Who is next, across the queues of a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    borrows: bool,
    order: OrderKey,
}

/// A decision about one tree.
struct Pass<'a> {
    config: &'a Config,
    accounts: &'a mut BTreeMap<QueueName, Account>,
    locals: &'a mut BTreeMap<LocalQueueKey, Local>,
    workloads: &'a mut BTreeMap<WorkloadId, Record>,
    pod: Amount,
    now: Time,
    tree: &'a mut Tree,
    /// The candidates. A rank is right or too good.
    ranked: BTreeSet<(Rank, ClassRef)>,
    /// The rank under which each candidate stands.
    ranks: BTreeMap<ClassRef, Rank>,
    /// Candidates that borrow, and might not after another admission.
    shifty: BTreeSet<ClassRef>,
    decisions: &'a mut Vec<Decision>,
}

/// What came of looking at a candidate.
enum Look {
    Fits(Admission),
    FitsByBorrowing,
    DoesNotFit,
}

impl Engine {
    /// Decides what is to be done now: first the evictions, then the admissions, tree by tree, in
    /// the order in which they were decided. What is admitted is charged from now on.
    pub fn decide(&mut self, now: Time) -> Vec<Decision> {
        self.settle();
        let mut decisions = self.evictions();
        for (key, mut tree) in self.forest.take_touched() {
            let pass = Pass {
                config: &self.config,
                accounts: &mut self.accounts,
                locals: &mut self.locals,
                workloads: &mut self.workloads,
                pod: self.shapes.pod(),
                now,
                tree: &mut tree,
                ranked: BTreeSet::new(),
                ranks: BTreeMap::new(),
                shifty: BTreeSet::new(),
                decisions: &mut decisions,
            };
            pass.run();
            self.forest.put_back(key, tree);
        }
        decisions
    }

    /// Builds the trees that changes of the configuration have uprooted.
    fn settle(&mut self) {
        let accounts = &self.accounts;
        let ledger = |queue: &QueueName| accounts.get(queue).map(|account| &account.ledger);
        for queue in self.forest.settle(&self.config, ledger) {
            if let Some(account) = self.accounts.get_mut(&queue) {
                account.pending.forget();
            }
        }
    }

    /// Each admitted workload that has to go, once.
    fn evictions(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for id in std::mem::take(&mut self.drained) {
            let Some(record) = self.workloads.get(&id) else {
                continue;
            };
            let reasons = [
                EvictReason::ClusterQueueStopped,
                EvictReason::LocalQueueStopped,
            ];
            let reason = reasons
                .into_iter()
                .find(|reason| self.has_reason(record, reason));
            if let Some(reason) = reason
                && let Some(record) = self.workloads.get_mut(&id)
                && let State::Admitted(_, asked @ None) = &mut record.state
            {
                *asked = Some(reason.clone());
                decisions.push(Decision::Evict { id, reason });
            }
        }
        decisions
    }
}

impl Pass<'_> {
    fn run(mut self) {
        if self.tree.inactive.is_some() {
            return;
        }
        for class in self.take_woken() {
            self.consider(class);
        }
        while let Some((rank, class)) = self.ranked.pop_first() {
            self.ranks.remove(&class);
            match self.look(&class, rank.borrows) {
                Look::DoesNotFit => self.park(&class),
                Look::FitsByBorrowing => self.rank(
                    class,
                    Rank {
                        borrows: true,
                        ..rank
                    },
                ),
                Look::Fits(admission) => self.admit(&class, &rank.order, admission),
            }
        }
    }

    /// The classes that are worth a look.
    fn take_woken(&mut self) -> Vec<ClassRef> {
        let woken = std::mem::take(&mut self.tree.woken);
        if !woken.all {
            return woken.classes.into_iter().collect();
        }
        let mut classes = Vec::new();
        for queue in self.tree.queues.keys() {
            if let Some(account) = self.accounts.get_mut(queue) {
                account.pending.unpark();
                classes.extend(account.pending.shapes().map(|shape| (queue.clone(), shape)));
            }
        }
        classes
    }

    /// Makes a class a candidate if it may be one, with the best rank that it could have.
    fn consider(&mut self, class: ClassRef) {
        let (queue, shape) = &class;
        let pending = self.accounts.get(queue).map(|account| &account.pending);
        let Some(order) = pending.and_then(|pending| pending.head_of(*shape)) else {
            self.tree.restless.remove(&class);
            return;
        };
        let Some(node) = self.tree.queues.get(queue) else {
            return;
        };
        let head = pending.and_then(PendingQueue::head).map(|(_, head)| head);
        let strict = node.config.strategy == QueueingStrategy::StrictFifo;
        if node.inactive.is_none() && (!strict || head == Some(*shape)) {
            let rank = Rank {
                borrows: false,
                order: order.clone(),
            };
            self.rank(class, rank);
        }
    }

    /// Puts a candidate where it belongs.
    fn rank(&mut self, class: ClassRef, rank: Rank) {
        if let Some(before) = self.ranks.insert(class.clone(), rank.clone()) {
            self.ranked.remove(&(before, class.clone()));
        }
        self.ranked.insert((rank, class));
    }

    /// Works out whether the head of a class fits now.
    fn look(&mut self, class: &ClassRef, may_borrow: bool) -> Look {
        let (queue, shape) = class;
        let Some(node) = self.tree.queues.get(queue) else {
            return Look::DoesNotFit;
        };
        let pending = self
            .accounts
            .get_mut(queue)
            .map(|account| &mut account.pending);
        let Some(found) = pending.and_then(|pending| pending.class_mut(*shape)) else {
            return Look::DoesNotFit;
        };
        let quota = &self.tree.quota;
        let plan = found.plan.get_or_insert_with(|| {
            Arc::new(flavors::plan(
                self.config,
                quota,
                &node.config,
                &found.shape,
                self.pod,
            ))
        });
        let Plan::Slots(slots) = &**plan else {
            return Look::DoesNotFit;
        };
        if !slots.fit_is_monotone {
            self.tree.restless.insert(class.clone());
        }
        match slots.fit(quota, node.id, node.config.fungibility.when_can_borrow) {
            Err(_) => Look::DoesNotFit,
            Ok(fit) if fit.borrows && !may_borrow => {
                if !slots.rank_is_monotone {
                    self.shifty.insert(class.clone());
                }
                Look::FitsByBorrowing
            }
            Ok(fit) => Look::Fits(fit.admission(&node.config, &found.shape, self.now)),
        }
    }

    fn park(&mut self, class: &ClassRef) {
        let account = self.accounts.get_mut(&class.0);
        if let Some(found) = account.and_then(|account| account.pending.class_mut(class.1)) {
            found.parked = true;
        }
    }

    /// Admits the head of a class, and makes candidates of those that its admission concerns.
    fn admit(&mut self, class: &ClassRef, order: &OrderKey, admission: Admission) {
        let (queue, shape) = class;
        let charge = charge_of(&admission);
        self.tree.charge(queue, &charge);
        let id = order.id().clone();
        if let Some(account) = self.accounts.get_mut(queue) {
            if let Some(class) = account.pending.class(*shape) {
                account.demand.remove(&class.shape);
            }
            account.pending.remove(order, *shape);
            account.ledger.add(&charge, false);
            account.charged.insert(id.clone());
        }
        if let Some(record) = self.workloads.get_mut(&id) {
            record.state = State::Assumed(Box::new(admission.clone()));
            if let Some(local) = self.locals.get_mut(&record.queue) {
                local.demand.remove(&record.shape);
                local.ledger.add(&charge, false);
            }
        }
        self.decisions.push(Decision::Admit { id, admission });
        if let Some(next) = self.next_after(class) {
            self.consider(next);
        }
        for class in std::mem::take(&mut self.shifty) {
            self.consider(class);
        }
        for class in self.tree.restless.clone() {
            self.consider(class);
        }
    }

    /// The class that becomes a candidate when the head of `class` has been admitted: in a strict
    /// queue that of the next workload, unless it is known not to fit; else the same again.
    fn next_after(&self, class: &ClassRef) -> Option<ClassRef> {
        let (queue, _) = class;
        if self.tree.queues.get(queue)?.config.strategy == QueueingStrategy::BestEffortFifo {
            return Some(class.clone());
        }
        let pending = &self.accounts.get(queue)?.pending;
        let (_, shape) = pending.head()?;
        (!pending.class(shape)?.parked).then(|| (queue.clone(), shape))
    }
}
