//! How a pass makes others go: whether that would be in vain, and what becomes of those who have to. Who
//! they are is `victims.rs`.

use crate::engine::State;
use crate::event::{Decision, EvictReason};
use crate::flavors::{self, Plan};
use crate::forest::ClassRef;
use crate::names::WorkloadId;
use crate::pass::Pass;
use crate::pending::OrderKey;
use crate::victims::Victim;

impl Pass<'_> {
    /// Whether the room that victims leave would go to one that comes before in the same queue, which
    /// has no right to all of it, though perhaps to what else it needs: it could be had again by those
    /// who left it, and so on for ever.
    pub(super) fn another_would_gain(
        &mut self,
        (queue, id): &ClassRef,
        order: &OrderKey,
        victims: &[Victim],
    ) -> bool {
        let Some(node) = self.tree.queues.at(*queue) else {
            return false;
        };
        let (rules, fungibility) = (node.config.preemption, node.config.fungibility);
        let node = node.id;
        let Some(pending) = self.account(node).map(|account| &account.pending) else {
            return false;
        };
        let own = (self.used(id, node), order);
        let first = |class: ClassRef| {
            let next = pending.next_of(&class.1, self.standing.claimed.get(&class))?;
            let comes_before = (self.used(&class.1, node), next) < own;
            comes_before.then(|| (class, next.clone()))
        };
        let classes = pending.classes().map(|(id, _)| (node, id.clone()));
        let before: Vec<(ClassRef, OrderKey)> = classes.filter_map(first).collect();
        for victim in victims {
            self.let_go(victim);
        }
        let gains = before.iter().any(|(class, order)| {
            let Some((plan, shape)) = self.plan(class) else {
                return false;
            };
            let Plan::Slots(slots) = &*plan else {
                return false;
            };
            // A part is not waited for, but it will be admitted when they have gone.
            let least = shape.pod_sets.iter().map(flavors::least).collect();
            let mut quota = &self.tree.quota;
            slots.fit(&mut quota, node, fungibility, least).is_ok()
                || self.judge(class, slots, &shape, order, rules).is_some()
        });
        for victim in victims {
            self.take_back(victim);
        }
        gains
    }

    /// Plans for a victim to leave; it is no candidate any more.
    fn let_go(&mut self, victim: &Victim) {
        victim.leave(&mut self.tree.quota);
        if let Some(account) = self.account_mut(victim.candidate.node) {
            account.evictable.remove(&victim.candidate.key);
        }
    }

    /// The reverse of [`Pass::let_go`].
    fn take_back(&mut self, victim: &Victim) {
        victim.stay(&mut self.tree.quota);
        if let Some(account) = self.account_mut(victim.candidate.node) {
            account.evictable.insert(victim.candidate.key.clone());
        }
    }

    /// Decides that these have to go for another one.
    pub(super) fn preempt(&mut self, by: &WorkloadId, victims: &[Victim]) {
        for victim in victims {
            let id = victim.candidate.key.id().clone();
            let Some(record) = self.workloads.get_mut(&id) else {
                continue;
            };
            let State::Admitted(held, asked) = &mut record.state else {
                continue;
            };
            let reason = EvictReason::Preempted {
                by: by.clone(),
                right: victim.candidate.right,
            };
            *asked = Some(reason.clone());
            // Those who are asked to go are candidates of a queue of this tree.
            let Some(node) = self.tree.queues.at(victim.candidate.node) else {
                continue;
            };
            let unused_since = held.admission.unused_since;
            if let (Some(since), Some(timeout)) = (unused_since, node.config.reservation_timeout) {
                self.timers.remove(&(since.after(timeout), id.clone()));
            }
            if let Some(account) = self.accounts.at_mut(node.account) {
                account.leaving.insert(id.clone());
            }
            self.promises.make(by.clone());
            self.let_go(victim);
            self.tree.leaving = self.tree.leaving.saturating_add(1);
            self.decisions.push(Decision::Evict { id, reason });
        }
    }
}
