//! What the events about workloads change: who waits where, and what is charged to whom. The state
//! itself, and events about the configuration, are `engine.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::demand::Demand;
use crate::engine::{Account, Engine, Local, Record, State};
use crate::ledger::charge_of;
use crate::model::{Workload, WorkloadState};
use crate::names::{LocalQueueKey, QueueName, WorkloadId};

impl Engine {
    pub(crate) fn upsert_workload(&mut self, workload: Workload) {
        let Workload {
            id,
            queue,
            priority,
            created,
            pod_sets,
            not_before: _,
            state,
        } = workload;
        let before = self.workloads.get(&id);
        let state = next_state(before.map(|record| &record.state), state);
        let shape = self.shapes.acquire(pod_sets);
        // One copy of a name that many workloads have.
        let known = self
            .locals
            .get_key_value(&queue)
            .map(|(key, _)| key.clone());
        let queue = known.unwrap_or(queue);
        let record = Record {
            queue,
            priority,
            created,
            shape,
            state,
        };
        match before {
            Some(before) if before.same_as(&record) => self.shapes.release(&record.shape),
            Some(before) if keeps_charge(before, &record) => self.replace_charged(&id, record),
            _ => {
                let id = self
                    .workloads
                    .get_key_value(&id)
                    .map_or(id, |(known, _)| known.clone());
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
        if let Some(record) = self.workloads.get_mut(id)
            && let State::Admitted(_, asked) = &mut record.state
        {
            *asked = None;
            self.drained.insert(id.clone());
        }
    }

    /// Replaces a record by one that holds the same: what it counts as may change, and which part
    /// of its charge is allocated, but nothing that a tree knows.
    fn replace_charged(&mut self, id: &WorkloadId, record: Record) {
        let Some(before) = self.workloads.get(id) else {
            return;
        };
        let (Some(old), Some(new)) = (before.state.admission(), record.state.admission()) else {
            return;
        };
        let account = self.accounts.get_mut(&new.queue).map(|a| &mut a.ledger);
        let local = self.locals.get_mut(&record.queue).map(|l| &mut l.ledger);
        for ledger in account.into_iter().chain(local) {
            ledger.remove(&charge_of(old), before.state.is_admitted());
            ledger.add(&charge_of(new), record.state.is_admitted());
        }
        self.shapes.release(&before.shape);
        self.workloads.insert(id.clone(), record);
        self.review_drain(BTreeSet::from([id.clone()]));
    }

    /// Takes in a workload that isn't known.
    fn attach(&mut self, id: WorkloadId, record: Record) {
        let local = self.locals.entry(record.queue.clone()).or_default();
        local.workloads.insert(id.clone());
        let target = local.target().cloned();
        if record.state == State::Pending {
            for demand in demands(local, &mut self.accounts) {
                demand.add(&record.shape);
            }
        }
        if let Some(admission) = record.state.admission() {
            let (charge, admitted) = (charge_of(admission), record.state.is_admitted());
            local.ledger.add(&charge, admitted);
            let account = self.accounts.entry(admission.queue.clone()).or_default();
            account.ledger.add(&charge, admitted);
            account.charged.insert(id.clone());
            if let Some(tree) = self.forest.touch(&admission.queue) {
                tree.charge(&admission.queue, &charge);
                let restless = tree.restless.iter().cloned();
                tree.woken.classes.extend(restless);
            }
        }
        self.workloads.insert(id.clone(), record);
        self.enqueue(&id, target.as_ref());
        self.review_drain(BTreeSet::from([id]));
    }

    /// Forgets a workload and undoes all that it did; returns its LocalQueue.
    fn detach(&mut self, id: &WorkloadId) -> Option<LocalQueueKey> {
        let target = self
            .locals
            .get(&self.workloads.get(id)?.queue)?
            .target()
            .cloned();
        self.dequeue(id, target.as_ref());
        let record = self.workloads.remove(id)?;
        self.shapes.release(&record.shape);
        let local = self.locals.get_mut(&record.queue)?;
        local.workloads.remove(id);
        if record.state == State::Pending {
            for demand in demands(local, &mut self.accounts) {
                demand.remove(&record.shape);
            }
        }
        if let Some(admission) = record.state.admission() {
            let (charge, admitted) = (charge_of(admission), record.state.is_admitted());
            local.ledger.remove(&charge, admitted);
            if let Some(account) = self.accounts.get_mut(&admission.queue) {
                account.ledger.remove(&charge, admitted);
                account.charged.remove(id);
            }
            if let Some(tree) = self.forest.touch(&admission.queue) {
                tree.discharge(&admission.queue, &charge);
                tree.woken.all = true;
            }
            self.drop_empty_account(&admission.queue);
        }
        Some(record.queue)
    }

    /// Puts a workload in the order of a ClusterQueue, if it waits and can be counted.
    pub(crate) fn enqueue(&mut self, id: &WorkloadId, queue: Option<&QueueName>) {
        let (Some(record), Some(queue)) = (self.workloads.get(id), queue) else {
            return;
        };
        if record.state != State::Pending || record.shape.problem.is_some() {
            return;
        }
        let account = self.accounts.entry(queue.clone()).or_default();
        account.pending.insert(record.order(id), &record.shape);
        let parked = account
            .pending
            .class(record.shape.id)
            .is_some_and(|class| class.parked);
        if !parked && let Some(tree) = self.forest.touch(queue) {
            tree.woken.classes.insert((queue.clone(), record.shape.id));
        }
    }

    /// Takes a workload out of the order of a ClusterQueue, if it is there.
    pub(crate) fn dequeue(&mut self, id: &WorkloadId, queue: Option<&QueueName>) {
        let (Some(record), Some(queue)) = (self.workloads.get(id), queue) else {
            return;
        };
        if record.state != State::Pending {
            return;
        }
        let Some(account) = self.accounts.get_mut(queue) else {
            return;
        };
        account.pending.remove(&record.order(id), record.shape.id);
        // It may have been the head that blocked the queue.
        if let Some((_, shape)) = account.pending.head()
            && account
                .pending
                .class(shape)
                .is_some_and(|class| !class.parked)
            && let Some(tree) = self.forest.touch(queue)
        {
            tree.woken.classes.insert((queue.clone(), shape));
        }
        self.drop_empty_account(queue);
    }
}

/// Where the workloads that wait in a LocalQueue are counted: there, and where it points to.
fn demands<'a>(
    local: &'a mut Local,
    accounts: &'a mut BTreeMap<QueueName, Account>,
) -> impl Iterator<Item = &'a mut Demand> {
    let object = local.object.as_ref();
    let pointed = object.and_then(|object| accounts.get_mut(&object.cluster_queue));
    std::iter::once(&mut local.demand).chain(pointed.map(|account| &mut account.demand))
}

/// The state that a durable record and what was decided here come to.
fn next_state(before: Option<&State>, told: WorkloadState) -> State {
    match (told, before) {
        (WorkloadState::Pending, Some(State::Assumed(admission))) => {
            State::Assumed(admission.clone())
        }
        (WorkloadState::Pending, _) => State::Pending,
        (WorkloadState::Inactive, _) => State::Inactive,
        (WorkloadState::Finished, _) => State::Finished,
        (WorkloadState::Admitted(admission), Some(State::Admitted(_, asked))) => {
            State::Admitted(Box::new(admission), asked.clone())
        }
        (WorkloadState::Admitted(admission), _) => State::Admitted(Box::new(admission), None),
        (WorkloadState::Evicting(admission), _) => State::Evicting(Box::new(admission)),
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
            for pod_set in &mut admission.pod_sets {
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
