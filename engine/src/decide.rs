//! One decision: what is due, who has to go, and then, tree by tree, who is admitted. What one look at
//! a tree is, is `pass.rs`.

use std::collections::BTreeSet;

use crate::engine::{Engine, State};
use crate::event::{Decision, EvictReason};
use crate::forest::Tree;
use crate::model::{Consumed, QueueingStrategy};
use crate::names::{QueueName, WorkloadId};
use crate::pass::{Pass, Standing};
use crate::time::Time;

impl Engine {
    /// Decides what is to be done at this moment: first the evictions, then the admissions, tree by
    /// tree, in the order in which they were decided. What is admitted is charged from now on. A
    /// moment before the last one counts as the last one.
    pub fn decide(&mut self, now: Time) -> Vec<Decision> {
        self.now = self.now.max(now);
        self.note_due();
        self.settle();
        self.note_usage();
        let mut decisions = self.evictions();
        let matured = self.promises.take_matured();
        self.touch_trees_of(&matured);
        for (key, mut tree) in self.forest.take_touched() {
            self.run_passes(&mut tree, &matured, &mut decisions);
            // They have had their turn: what they could not have is for all.
            if matured.iter().any(|id| self.waits_in(id, &tree)) {
                tree.woken.all = true;
                self.run_passes(&mut tree, &BTreeSet::new(), &mut decisions);
            }
            self.forest.put_back(key, tree);
        }
        decisions
    }

    /// Runs passes over a tree until nothing is left to decide.
    fn run_passes(
        &mut self,
        tree: &mut Tree,
        matured: &BTreeSet<WorkloadId>,
        decisions: &mut Vec<Decision>,
    ) {
        loop {
            let pass = Pass {
                config: &self.config,
                settings: &self.settings,
                accounts: &mut self.accounts,
                locals: &mut self.locals,
                workloads: &mut self.workloads,
                timers: &mut self.timers,
                promises: &mut self.promises,
                matured,
                now: self.now,
                tree,
                decisions,
                standing: Standing::default(),
            };
            if !pass.run() {
                break;
            }
        }
    }

    /// Whether a workload waits for quota of a tree.
    fn waits_in(&self, id: &WorkloadId, tree: &Tree) -> bool {
        let record = self.workloads.get(id);
        record.is_some_and(|record| record.state == State::Pending)
            && (self.target_of(id)).is_some_and(|target| tree.queues.node(target).is_some())
    }

    /// The ClusterQueue that a workload waits in, or would.
    fn target_of(&self, id: &WorkloadId) -> Option<&QueueName> {
        self.locals.get(&self.workloads.get(id)?.queue)?.target()
    }

    /// When the next decision is due, should nothing be told before.
    pub fn next_wake(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Wakes those whose time has come.
    fn note_due(&mut self) {
        while let Some((time, _)) = self.timers.first()
            && *time <= self.now
            && let Some((_, id)) = self.timers.pop_first()
        {
            let target = self.target_of(&id).cloned();
            self.enqueue(&id, target.as_ref());
            self.review([id]);
        }
    }

    /// Builds the trees that changes of the configuration have uprooted.
    fn settle(&mut self) {
        for queue in self.forest.settle(&self.config, &self.accounts) {
            let Some(account) = self.accounts.get_mut(&queue) else {
                continue;
            };
            account.pending.forget();
            let leaving: Vec<WorkloadId> = account.leaving.iter().cloned().collect();
            for id in leaving {
                self.plan_without(&id);
            }
        }
    }

    /// Brings what LocalQueues have used up to now, where that decides who is next.
    fn note_usage(&mut self) {
        for queue in &self.by_usage {
            let Some(account) = self.accounts.get(queue) else {
                continue;
            };
            // Who comes first changes with time alone, and with it who is blocked or claims.
            let config = self.config.queues.get(queue);
            let is_strict = config.is_some_and(|q| q.strategy == QueueingStrategy::StrictFifo);
            self.forest.wake_in_time(queue, is_strict);
            // And whose victims would make room for another one instead.
            if config.is_some_and(|queue| queue.preemption.has_any()) {
                self.forest.wake_restless(queue);
            }
            for key in &account.locals {
                let Some(local) = self.locals.get_mut(key) else {
                    continue;
                };
                let consumed = local.consumed.get_or_insert_with(|| Consumed {
                    at: self.now,
                    ..Consumed::default()
                });
                if consumed.at < self.now {
                    let used = local.ledger.by_resource(&self.config.cells);
                    consumed.bring_up(self.now, self.settings.usage_half_life, &used);
                }
            }
        }
    }

    /// Has the trees looked at in which these wait.
    fn touch_trees_of(&mut self, ids: &BTreeSet<WorkloadId>) {
        for id in ids {
            if let Some(target) = self.target_of(id).cloned() {
                self.forest.touch(&target);
            }
        }
    }

    /// Each admitted workload that has a reason to go, once.
    fn evictions(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for id in std::mem::take(&mut self.reviewed) {
            let Some(record) = self.workloads.get(&id) else {
                continue;
            };
            let reasons = [
                EvictReason::ClusterQueueStopped,
                EvictReason::LocalQueueStopped,
                EvictReason::ReservationTimedOut,
            ];
            let reason = reasons
                .into_iter()
                .find(|reason| self.has_reason(record, reason));
            if let Some(reason) = reason
                && matches!(record.state, State::Admitted(_, None))
            {
                self.ask(&id, Some(reason.clone()));
                decisions.push(Decision::Evict { id, reason });
            }
        }
        decisions
    }
}
