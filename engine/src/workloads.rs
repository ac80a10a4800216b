//! What the events about workloads change: who waits where, and what is charged to whom. The state
//! itself, and events about the configuration, are `engine.rs`.

use std::sync::Arc;

use crate::accounts::Accounts;
use crate::cells::Cells;
use crate::demand::Demand;
use crate::engine::{Engine, Held, Local, Record, State};
use crate::event::EvictReason;
use crate::ledger::charge_of;
use crate::model::{Admission, Workload, WorkloadState};
use crate::names::{LocalQueueKey, QueueName, WorkloadId};
use crate::pending::ClassId;
use crate::time::Time;
use crate::tree::View;

impl Engine {
    pub(crate) fn upsert_workload(&mut self, workload: Workload) {
        let Workload {
            id,
            queue,
            priority,
            created,
            pod_sets,
            not_before,
            evictable,
            state,
        } = workload;
        let before = self.workloads.get(&id);
        let known =
            before.filter(|before| before.evictable == evictable || !before.state.is_admitted());
        let cells = &mut self.config.cells;
        let state = next_state(known.map(|record| &record.state), state, cells);
        let shape = self.shapes.acquire(pod_sets);
        // One copy of a name that many workloads have.
        let queue = self.locals.key(&queue).cloned().unwrap_or(queue);
        let record = Record {
            queue,
            priority,
            created,
            shape,
            not_before,
            evictable,
            state,
        };
        match before {
            Some(before) if before.same_as(&record) => self.shapes.release(&record.shape),
            Some(before) if keeps_charge(before, &record) => self.replace_charged(&id, record),
            _ => {
                let id = self.workloads.key(&id).cloned().unwrap_or(id);
                let left = self.detach(&id);
                self.attach(id, record);
                if let Some(left) = left {
                    self.drop_empty_local(&left);
                }
            }
        }
    }

    pub(crate) fn remove_workload(&mut self, id: &WorkloadId) {
        if let Some(key) = self.detach(id) {
            self.drop_empty_local(&key);
        }
    }

    pub(crate) fn admission_failed(&mut self, id: &WorkloadId) {
        if let Some(record) = self.workloads.get(id)
            && matches!(record.state, State::Assumed(_))
        {
            let record = Record {
                state: State::Pending,
                ..record.clone()
            };
            // `detach` gives the shape back; the record goes on using it.
            let shape = self.shapes.acquire(record.shape.pod_sets.clone());
            self.detach(id);
            self.attach(id.clone(), Record { shape, ..record });
        }
    }

    pub(crate) fn eviction_failed(&mut self, id: &WorkloadId) {
        if let Some(record) = self.workloads.get(id)
            && record.state.is_admitted()
        {
            self.ask(id, None);
            self.reviewed.insert(id.clone());
        }
    }

    /// Notes that the eviction of an admitted workload was decided, or isn't any more.
    pub(crate) fn ask(&mut self, id: &WorkloadId, reason: Option<EvictReason>) {
        self.unlist(id);
        if let Some(record) = self.workloads.get_mut(id)
            && let State::Admitted(_, asked) = &mut record.state
        {
            *asked = reason;
        }
        self.list(id);
    }

    /// Replaces a record by one that holds the same: what it counts as may change, and which part
    /// of its charge is allocated, but nothing that is charged in a tree.
    fn replace_charged(&mut self, id: &WorkloadId, record: Record) {
        let Some(before) = self.workloads.get(id) else {
            return;
        };
        let (Some(old), Some(new)) = (before.state.held(), record.state.held()) else {
            return;
        };
        let account = self
            .accounts
            .get_mut(&new.admission.queue)
            .map(|a| &mut a.ledger);
        let local = self.locals.get_mut(&record.queue).map(|l| &mut l.ledger);
        for ledger in account.into_iter().chain(local) {
            ledger.remove(&old.charge, before.state.is_admitted());
            ledger.add(&new.charge, record.state.is_admitted());
        }
        self.shapes.release(&before.shape);
        let role = |record| {
            (
                Record::victim_key(record, id),
                record.is_leaving(),
                record.leaves_for().cloned(),
                self.deadline(record),
            )
        };
        let is_listed_anew = role(before) != role(&record);
        if is_listed_anew {
            self.unlist(id);
        }
        self.workloads.insert(id.clone(), record);
        if is_listed_anew {
            self.list(id);
        }
        self.review([id.clone()]);
    }

    /// Takes in a workload that isn't known.
    fn attach(&mut self, id: WorkloadId, record: Record) {
        let local = self.locals.open(record.queue.clone());
        local.workloads.insert(id.clone());
        let target = local.target().cloned();
        if record.state == State::Pending {
            for demand in demands(local, &mut self.accounts) {
                demand.add(&record.shape);
            }
        }
        if let Some(Held { admission, charge }) = record.state.held() {
            let admitted = record.state.is_admitted();
            local.ledger.add(charge, admitted);
            let account = self.accounts.open(&admission.queue);
            account.ledger.add(charge, admitted);
            account.charged.insert(id.clone());
            let cells = &self.config.cells;
            if let Some(tree) = self.forest.touch(&admission.queue)
                && let Some(node) = tree.queues.node(&admission.queue)
            {
                tree.charge(View::Now, node, charge, cells);
                tree.charge(View::Planned, node, charge, cells);
            }
            self.forest.wake_restless(&admission.queue);
        }
        self.workloads.insert(id.clone(), record);
        self.list(&id);
        self.enqueue(&id, target.as_ref());
        self.review([id]);
    }

    /// Forgets a workload and undoes all that it did; returns its LocalQueue.
    fn detach(&mut self, id: &WorkloadId) -> Option<LocalQueueKey> {
        let target = self
            .locals
            .get(&self.workloads.get(id)?.queue)?
            .target()
            .cloned();
        self.dequeue(id, target.as_ref());
        self.unlist(id);
        let record = self.workloads.remove(id)?;
        self.shapes.release(&record.shape);
        let local = self.locals.get_mut(&record.queue)?;
        local.workloads.remove(id);
        if record.state == State::Pending {
            for demand in demands(local, &mut self.accounts) {
                demand.remove(&record.shape);
            }
        }
        if let Some(Held { admission, charge }) = record.state.held() {
            let admitted = record.state.is_admitted();
            local.ledger.remove(charge, admitted);
            if let Some(account) = self.accounts.get_mut(&admission.queue) {
                account.ledger.remove(charge, admitted);
                account.charged.remove(id);
            }
            if let Some(tree) = self.forest.touch(&admission.queue)
                && let Some(node) = tree.queues.node(&admission.queue)
            {
                tree.discharge(View::Now, node, charge);
                tree.discharge(View::Planned, node, charge);
                tree.woken.all = true;
            }
            self.drop_empty_account(&admission.queue);
        }
        Some(record.queue)
    }

    /// Enters a workload where it has to be found: among those that may be preempted, those that
    /// leave, and those that wait for a moment.
    fn list(&mut self, id: &WorkloadId) {
        let Some(record) = self.workloads.get(id) else {
            return;
        };
        if let Some(time) = self.due(record) {
            self.timers.insert((time, id.clone()));
        }
        let (key, is_leaving) = (record.victim_key(id), record.is_leaving());
        let leaves_for = record.leaves_for().cloned();
        let Some(queue) = record.state.admission().map(|a| a.queue.clone()) else {
            return;
        };
        if let Some(key) = key {
            let priority = record.priority;
            self.accounts.open(&queue).evictable.insert(key);
            self.forest.wake_restless(&queue);
            self.wake_rivals(&queue, priority);
        }
        if let Some(whom) = leaves_for {
            self.promises.make(whom);
        }
        if is_leaving {
            self.accounts.open(&queue).leaving.insert(id.clone());
            self.plan_without(id);
        }
    }

    /// Looks again at those that wait in a queue and may make one of this priority go.
    fn wake_rivals(&mut self, queue: &QueueName, priority: i32) {
        let config = self.config.queues.get(queue);
        let rules = config.map(|config| config.preemption).unwrap_or_default();
        let Some(account) = self.accounts.get_mut(queue).filter(|_| rules.has_any()) else {
            return;
        };
        let heads = account.pending.heads();
        let rivals = heads.take_while(|(order, _)| rules.may_outrank(order.priority(), priority));
        let rivals: Vec<ClassId> = rivals.map(|(_, class)| class.clone()).collect();
        for class in rivals {
            account.pending.wake(&class);
            if let Some(tree) = self.forest.touch(queue) {
                tree.wake(queue, class);
            }
        }
    }

    /// The reverse of [`Engine::list`].
    fn unlist(&mut self, id: &WorkloadId) {
        let Some(record) = self.workloads.get(id) else {
            return;
        };
        if let Some(time) = self.due(record) {
            self.timers.remove(&(time, id.clone()));
        }
        if let Some(whom) = record.leaves_for() {
            self.promises.mature(whom);
        }
        let Some(Held { admission, charge }) = record.state.held() else {
            return;
        };
        let queue = &admission.queue;
        let Some(account) = self.accounts.get_mut(queue) else {
            return;
        };
        if let Some(key) = record.victim_key(id) {
            account.evictable.remove(&key);
        }
        if account.leaving.remove(id)
            && let Some(tree) = self.forest.touch(queue)
            && let Some(node) = tree.queues.node(queue)
        {
            tree.charge(View::Planned, node, charge, &self.config.cells);
            tree.leaving = tree.leaving.saturating_sub(1);
            tree.woken.all = true;
        }
    }

    /// The moment that a workload waits for.
    fn due(&self, record: &Record) -> Option<Time> {
        let backs_off = |time: &Time| record.state == State::Pending && self.now < *time;
        let until = record.not_before.filter(backs_off);
        until.or_else(|| self.deadline(record))
    }

    /// What is planned is without a workload that leaves.
    pub(crate) fn plan_without(&mut self, id: &WorkloadId) {
        let record = self.workloads.get(id);
        if let Some(Held { admission, charge }) = record.and_then(|record| record.state.held())
            && let Some(tree) = self.forest.touch(&admission.queue)
            && let Some(node) = tree.queues.node(&admission.queue)
        {
            tree.discharge(View::Planned, node, charge);
            tree.leaving = tree.leaving.saturating_add(1);
            tree.woken.all = true;
        }
    }

    /// Puts a workload in the order of a ClusterQueue, if it waits and can be counted.
    pub(crate) fn enqueue(&mut self, id: &WorkloadId, queue: Option<&QueueName>) {
        let (Some(record), Some(queue)) = (self.workloads.get(id), queue) else {
            return;
        };
        if !self.takes_part(record) {
            return;
        }
        let (order, class) = (record.order(id), self.class_of(record, queue));
        let shape = Arc::clone(&record.shape);
        let config = self.config.queues.get(queue);
        let preempts = config.is_some_and(|config| config.preemption.has_any());
        let pending = &mut self.accounts.open(queue).pending;
        pending.insert(order.clone(), class.clone(), &shape);
        // A new first may have a right to preempt that the one before it didn't have, or come before those
        // whose claims that one had to keep out of the way of; those for whom room is kept don't count.
        let before = pending.last_before(&class, &order);
        let is_first = before.is_none_or(|before| self.forest.has_claimed(queue, before.id()));
        if is_first && (preempts || self.forest.has_claims(queue)) {
            pending.wake(&class);
        }
        if pending.class(&class).is_some()
            && !pending.is_parked(&class)
            && let Some(tree) = self.forest.touch(queue)
        {
            tree.wake(queue, class);
        }
    }

    /// Takes a workload out of the order of a ClusterQueue, if it is there.
    pub(crate) fn dequeue(&mut self, id: &WorkloadId, queue: Option<&QueueName>) {
        let (Some(record), Some(queue)) = (self.workloads.get(id), queue) else {
            return;
        };
        if !self.takes_part(record) {
            return;
        }
        let (order, class) = (record.order(id), self.class_of(record, queue));
        let Some(account) = self.accounts.get_mut(queue) else {
            return;
        };
        let pulled_in = account.pending.remove(&order, &class);
        // It may have been the head that blocked the queue.
        let head = account.pending.head().map(|(_, class)| class.clone());
        for class in head.into_iter().chain(pulled_in) {
            if !account.pending.is_parked(&class)
                && let Some(tree) = self.forest.touch(queue)
            {
                tree.wake(queue, class);
            }
        }
        self.forest.wake_if_claimed(queue, id);
        let config = self.config.queues.get(queue);
        if config.is_some_and(|config| config.preemption.has_any()) {
            self.forest.wake_restless(queue);
        }
        self.drop_empty_account(queue);
    }

    /// Whether a workload waits, and nothing about itself speaks against it.
    fn takes_part(&self, record: &Record) -> bool {
        record.state == State::Pending
            && record.shape.problem.is_none()
            && record.not_before.is_none_or(|time| time <= self.now)
    }

    /// The class of a workload that waits in a ClusterQueue.
    pub(crate) fn class_of(&self, record: &Record, queue: &QueueName) -> ClassId {
        record.class(self.by_usage.contains(queue))
    }
}

/// Where the workloads that wait in a LocalQueue are counted: there, and where it points to.
fn demands<'a>(
    local: &'a mut Local,
    accounts: &'a mut Accounts,
) -> impl Iterator<Item = &'a mut Demand> {
    let object = local.object.as_ref();
    let pointed = object.and_then(|object| accounts.get_mut(&object.cluster_queue));
    std::iter::once(&mut local.demand).chain(pointed.map(|account| &mut account.demand))
}

/// The state that a durable record and what was decided here come to.
fn next_state(before: Option<&State>, told: WorkloadState, cells: &mut Cells) -> State {
    let known = before.and_then(State::held);
    let mut held = |admission| Box::new(hold(admission, known, cells));
    match (told, before) {
        (WorkloadState::Pending, Some(State::Assumed(held))) => State::Assumed(held.clone()),
        (WorkloadState::Pending, _) => State::Pending,
        (WorkloadState::Inactive, _) => State::Inactive,
        (WorkloadState::Finished, _) => State::Finished,
        (WorkloadState::Admitted(admission), Some(State::Admitted(known, asked)))
            if known.admission.queue == admission.queue =>
        {
            State::Admitted(held(admission), asked.clone())
        }
        (WorkloadState::Admitted(admission), _) => State::Admitted(held(admission), None),
        (WorkloadState::Evicting(admission, by), _) => {
            let by = by.or_else(|| before?.made_to_go_by().cloned());
            State::Evicting(held(admission), by)
        }
    }
}

/// What an admission comes to; one copy of what has not changed.
fn hold(admission: Admission, known: Option<&Held>, cells: &mut Cells) -> Held {
    match known {
        Some(known) if known.admission.pod_sets == admission.pod_sets => Held {
            admission: Admission {
                pod_sets: Arc::clone(&known.admission.pod_sets),
                ..admission
            },
            charge: Arc::clone(&known.charge),
        },
        _ => Held {
            charge: charge_of(&admission, cells),
            admission,
        },
    }
}

/// Whether both records hold the same, so that nothing is freed and nothing taken. On which nodes
/// their pods are is no matter.
fn keeps_charge(before: &Record, after: &Record) -> bool {
    let (Some(old), Some(new)) = (before.state.admission(), after.state.admission()) else {
        return false;
    };
    old.holds_the_same_as(new) && before.queue == after.queue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Amount;
    use crate::event::{Decision, Event};
    use crate::model::{ClusterQueue, LocalQueue, PodSet};
    use crate::settings::Settings;
    use crate::time::Time;

    fn mk_engine() -> Engine {
        let mut engine = Engine::new(Settings::new(Amount::new(1)));
        engine.apply(Event::UpsertClusterQueue(ClusterQueue {
            cohort: Some("c".into()),
            ..ClusterQueue::new("q".into())
        }));
        let key = LocalQueueKey::new("ns", "l");
        engine.apply(Event::UpsertLocalQueue(LocalQueue::new(key, "q".into())));
        engine
    }

    fn mk_workload(state: WorkloadState) -> Event {
        Event::UpsertWorkload(Workload {
            pod_sets: vec![PodSet::new("main".into(), 3)],
            state,
            ..Workload::new("w".into(), LocalQueueKey::new("ns", "l"))
        })
    }

    #[test]
    fn where_pods_are_wakes_no_tree() {
        let mut engine = mk_engine();
        engine.apply(mk_workload(WorkloadState::Pending));
        let decisions = engine.decide(Time::default());
        let [Decision::Admit { admission, .. }] = decisions.as_slice() else {
            unreachable!("one workload, one admission, not {decisions:?}");
        };
        for bound in [1, 3, 2, 0] {
            let mut admission = admission.clone();
            for pod_set in Arc::make_mut(&mut admission.pod_sets) {
                pod_set.bound = bound;
            }
            engine.apply(mk_workload(WorkloadState::Admitted(admission.clone())));
            assert_eq!(engine.admission(&"w".into()), Some(&admission));
            let touched = engine.clone().forest.take_touched();
            assert!(touched.is_empty(), "{bound} bound: {touched:?}");
        }
        engine.apply(mk_workload(WorkloadState::Finished));
        assert_eq!(engine.clone().forest.take_touched().len(), 1);
    }
}
