//! Which classes of a ClusterQueue are inadmissible for now. What re-opens them is `cohort/reopening.rs`.

use std::collections::BTreeSet;

use crate::api::amount::Amount;
use crate::api::preemption::Preemption;
use crate::queue::blocking_usage::BlockingUsage;
use crate::queue::equivalence_class::Class;
use crate::queue::pending::PendingQueue;
use crate::queue::preemption_policy::PreemptionScope;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::{Levels, NodeId};
use crate::workload::shape::ClassId;

impl PendingQueue {
    /// Whether the head of a class is inadmissible until something is freed or changed.
    pub(crate) fn is_inadmissible(&self, id: &ClassId) -> bool {
        let class = self.classes.get(id);
        class.is_some_and(|class| self.is_class_inadmissible(class))
    }

    /// The same of a class of this queue.
    pub(crate) fn is_class_inadmissible(&self, class: &Class) -> bool {
        if class.generation == self.generation {
            class.inadmissible
        } else {
            self.all_inadmissible
        }
    }

    /// The number of workloads in classes that are not inadmissible. Those beyond the limit are in no class.
    pub(crate) fn admissible_workloads(&self) -> usize {
        let classes = self.classes.values();
        let admissible = classes
            .filter(|class| class.ever_fits != Some(false) && !self.is_class_inadmissible(class));
        admissible.map(|class| class.members.len()).sum()
    }

    /// Marks a class: nothing can be done for its head.
    pub(crate) fn mark_inadmissible(&mut self, id: &ClassId) {
        let class = self.classes.get_mut(id);
        self.violations
            .check(class.is_some(), "a class that is inadmissible has members");
        if let Some(class) = class {
            class.mark(true, self.generation);
        }
    }

    /// Re-opens a class and returns it, if it exists.
    pub(crate) fn reopen(&mut self, id: &ClassId) -> Option<&Class> {
        let class = self.classes.get_mut(id)?;
        class.mark(false, self.generation);
        Some(class)
    }

    /// Marks all classes at once.
    pub(crate) fn mark_all_inadmissible(&mut self) {
        self.set_all_inadmissible(true);
    }

    /// Re-opens all classes at once.
    pub(crate) fn reopen_all(&mut self) {
        self.set_all_inadmissible(false);
    }

    fn set_all_inadmissible(&mut self, inadmissible: bool) {
        self.all_inadmissible = inadmissible;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Marks the blocked classes, and returns the others.
    pub(crate) fn mark_inadmissible_where(
        &mut self,
        is_blocked: impl Fn(&Class) -> bool,
    ) -> Vec<ClassId> {
        let mut others = Vec::new();
        for (id, class) in &mut self.classes {
            if class.ever_fits == Some(false) || is_blocked(class) {
                class.mark(true, self.generation);
            } else {
                others.push(id.clone());
            }
        }
        others
    }

    /// Whether all of them [are blocked](Class::is_blocked). Says no where preemption in other queues is
    /// possible, as that depends on each class.
    pub(crate) fn are_blocked(
        &self,
        quota: &QuotaTree,
        node: NodeId,
        scope: &PreemptionScope,
    ) -> bool {
        // No other workload may preempt more than the head.
        let first = self.first_head().map(|(order, _)| order.priority());
        !scope.rules.may_reclaim_in_cohort()
            && !first.is_some_and(|first| scope.may_preempt_within_queue(first))
            && self.blocking_usage.remain(quota, node)
    }

    /// The levels, from the queue up, that a workload of any class would certainly take above their quota.
    pub(crate) fn min_levels_above_quota(&self, quota: &QuotaTree, node: NodeId) -> Levels {
        self.blocking_usage.min_levels_above_quota(quota, node)
    }

    /// Sets the usage that blocks a class. The options of a class with one member are dropped to save
    /// memory, unless preemption may require them again soon.
    pub(crate) fn set_blocking_usage(
        &mut self,
        id: &ClassId,
        blocking_usage: Vec<(FlavorResourceId, Amount)>,
        rules: Preemption,
    ) {
        let Some(class) = self.classes.get_mut(id) else {
            return self
                .violations
                .check(false, "a class that is blocked has members");
        };
        if class.members.rest.is_empty() && !blocking_usage.is_empty() && !rules.is_enabled() {
            class.options = None;
        }
        let was_there = self.blocking_usage.remove(&class.blocking_usage);
        self.violations.check(
            was_there,
            "a class counts in the usage that blocks its queue",
        );
        self.blocking_usage.add(&blocking_usage);
        class.blocking_usage = blocking_usage.into();
    }

    /// Forgets everything that was worked out, as the tree was built again. `blocks_others` says whether
    /// workloads that never fit would block others.
    pub(crate) fn reset(&mut self, blocks_others: bool) {
        let mut not_counted = Vec::new();
        for (id, class) in &mut self.classes {
            class.options = None;
            class.cached_assignment = None;
            class.blocking_usage = Box::default();
            if class.ever_fits.take() == Some(false) {
                self.heads.insert(class.members.head.clone(), id.clone());
                let members = class.members.iter().cloned();
                not_counted.extend(members.map(|key| (key, id.clone())));
            }
        }
        self.blocking_usage = BlockingUsage::unknown(self.classes.len());
        for (key, id) in not_counted {
            self.count_again(&key, &id);
        }
        self.blocks_others = blocks_others;
        self.fit_unknown = if blocks_others {
            self.classes.keys().cloned().collect()
        } else {
            BTreeSet::new()
        };
        self.reopen_all();
    }
}
