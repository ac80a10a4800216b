//! Decides preemptions, and checks whether one would be in vain.

use crate::api::event::{Decision, EvictReason};
use crate::api::names::WorkloadId;
use crate::cohort::reopening::ClassRef;
use crate::cycle::context::{Cycle, QUEUE_IN_TREE};
use crate::cycle::head_ordering::Head;
use crate::flavor::options::FlavorOptions;
use crate::preemption::target::Target;
use crate::quota::usage::RequestedUsage;
use crate::state::nominations::PreemptsFor;
use crate::workload::info::WorkloadPhase;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::ClassId;

pub(super) const HAS_OPTIONS: &str = "a class that is pending has flavor options";

impl Cycle<'_> {
    /// Whether an earlier workload of the same queue would take the quota that targets free, without being
    /// able to preempt all of them itself. The targets could then be admitted again, and be evicted in vain
    /// once in each preemption round.
    pub(super) fn earlier_workload_would_benefit(
        &mut self,
        class: &ClassRef,
        order: &QueueOrder,
        targets: &[Target],
    ) -> bool {
        let Some(earlier) = self.earlier_heads(class, order) else {
            // Whoever can't be compared preempts nothing.
            self.check(false, QUEUE_IN_TREE);
            return true;
        };
        for target in targets {
            self.remove_target(target);
        }
        let mut earlier = earlier.iter();
        let benefits = earlier.any(|head| self.would_get(head).is_some());
        for target in targets {
            self.restore_target(target);
        }
        benefits
    }

    /// The first workload without reservation of each class of the same queue, if it comes before this one.
    pub(super) fn earlier_heads(
        &self,
        ClassRef { node: queue, id }: &ClassRef,
        order: &QueueOrder,
    ) -> Option<Vec<Head>> {
        let node = self.tree.queues.at(*queue)?;
        let pending = &self.cluster_queue(*queue)?.pending;
        let admission_order = self.admission_order(node);
        let own = (admission_order.used(id), order);
        let mut used = admission_order.used_by_each();
        let mut first = |id| {
            if pending.never_fits(id) {
                return None;
            }
            let class = ClassRef {
                node: *queue,
                id: ClassId::clone(id),
            };
            let next = pending.next_of(id, self.progress.last_reserved.get(&class))?;
            let comes_before = (used(id), next) < own;
            comes_before.then(|| Head {
                class,
                order: next.clone(),
            })
        };
        Some(pending.classes().filter_map(|(id, _)| first(id)).collect())
    }

    /// The usage that a workload would get at this moment, at once or later; none if nothing can be done for it.
    pub(super) fn would_get(&mut self, Head { class, order }: &Head) -> Option<RequestedUsage> {
        if self.is_blocked(class) {
            return None;
        }
        let found = self.options(class);
        self.check(found.is_some(), HAS_OPTIONS);
        let (options, shape) = found?;
        let FlavorOptions::Slots(slots) = &*options else {
            // No flavor suits it, whatever the usage.
            return None;
        };
        let policy = self.policy(class.node);
        let result = self.assign(class, slots, &shape, order, policy)?;
        Some(result.requested().clone())
    }

    /// Removes a target from the planned view; it is no candidate any more.
    fn remove_target(&mut self, target: &Target) {
        target.remove_usage(&mut self.tree.quota);
        let cluster_queue = self.cluster_queue_mut(target.candidate.node);
        let was_there =
            cluster_queue.is_some_and(|queue| queue.evictable.remove(&target.candidate.key));
        self.check(was_there, "a target is evictable until it is evicted");
    }

    /// The reverse of [`Cycle::remove_target`].
    fn restore_target(&mut self, target: &Target) {
        target.restore_usage(&mut self.tree.quota);
        let (cluster_queue, key) = (
            self.cluster_queue_mut(target.candidate.node),
            target.candidate.key.clone(),
        );
        let was_removed = cluster_queue.is_some_and(|queue| queue.evictable.insert(key));
        self.check(was_removed, "a target that is restored was removed");
    }

    /// Decides that these targets are evicted for a preemptor. Returns whether any is.
    pub(super) fn preempt(
        &mut self,
        by: &WorkloadId,
        targets: &[Target],
        preempts_for: PreemptsFor,
    ) -> bool {
        let mut is_any_evicted = false;
        for target in targets {
            let id = target.candidate.key.id().clone();
            // Every target is a candidate of a queue of this tree.
            let Some(node) = self.tree.queues.at(target.candidate.node) else {
                self.check(false, "a target is in the tree");
                continue;
            };
            let info = self.workloads.get_mut(&id);
            let deadline = (info.as_ref()).and_then(|info| info.state.deadline(&node.config));
            let Some(WorkloadPhase::Admitted {
                eviction_reason, ..
            }) = info.map(|info| &mut info.state)
            else {
                self.check(false, "a target is admitted");
                continue;
            };
            let reason = EvictReason::Preempted {
                by: by.clone(),
                right: target.candidate.right,
            };
            *eviction_reason = Some(reason.clone());
            is_any_evicted = true;
            if let Some(deadline) = deadline {
                let was_there = self.timers.remove(&(deadline, id.clone()));
                self.violations
                    .check(was_there, "a deadline has a timer until it is due");
            }
            let cluster_queue = self.cluster_queues.at_mut(node.cluster_queue);
            let is_listed = cluster_queue.is_some_and(|queue| queue.evicting.insert(id.clone()));
            self.check(is_listed, "a target was not evicted before");
            let is_first = self.tree.preemption_round.add(id.clone());
            self.check(is_first, "a workload is preempted once in a round");
            self.nominations.nominate(by, preempts_for);
            self.remove_target(target);
            self.tree.evicting = self.tree.evicting.saturating_add(1);
            self.decisions.push(Decision::Evict { id, reason });
        }
        is_any_evicted
    }
}
