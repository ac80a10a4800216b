//! Workloads that can never be admitted with the present configuration. They are skipped where they would
//! block others: at the head of a strict queue, or in a queue with a limit (`queueing_strategy.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::amount::Amount;
use crate::api::queues::ClusterQueue;
use crate::flavor::options::flavor_options;
use crate::queue::pending::PendingQueue;
use crate::queue::queue_limit::QueueLimit;
use crate::quota::config::Config;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::NodeId;
use crate::workload::shape::{ClassId, Shape};

impl PendingQueue {
    /// Whether there is a class whose feasibility is not known.
    pub(crate) fn has_unknown_fit(&self) -> bool {
        !self.fit_unknown.is_empty()
    }

    /// Takes the next class whose feasibility is not known, with its shape.
    fn next_unknown_fit(&mut self) -> Option<(ClassId, Arc<Shape>)> {
        while let Some(id) = self.fit_unknown.pop_first() {
            if let Some(class) = self.classes.get(&id) {
                let shape = Arc::clone(&class.shape);
                return Some((id, shape));
            }
            self.violations
                .check(false, "a class that is to be judged has members");
        }
        None
    }

    /// Sets whether a class ever fits. A class that does not is skipped and no longer counts towards the
    /// limit. Returns the classes that got members from beyond the limit in exchange.
    pub(crate) fn set_ever_fits(&mut self, id: &ClassId, ever_fits: bool) -> BTreeSet<ClassId> {
        let mut moved_in = BTreeSet::new();
        let Some(class) = self.classes.get_mut(id) else {
            self.violations
                .check(false, "a class that is judged has members");
            return moved_in;
        };
        class.ever_fits = Some(ever_fits);
        if ever_fits {
            return moved_in;
        }
        self.heads.remove(&class.members.head);
        let was_there = self.blocking_usage.remove(&class.blocking_usage);
        self.violations.check(
            was_there,
            "a class counts in the usage that blocks its queue",
        );
        let Some(limit) = &mut self.limit else {
            return moved_in;
        };
        for key in class.members.iter() {
            limit.remove(key, id);
        }
        for key in limit.take_beyond_of(id) {
            class.members.insert(key);
        }
        while let Some((key, class, shape)) = self.limit.as_mut().and_then(QueueLimit::take_next) {
            self.add_to_class(key, class.clone(), &shape);
            moved_in.insert(class);
        }
        moved_in
    }

    /// Whether a class is known never to fit.
    pub(crate) fn never_fits(&self, id: &ClassId) -> bool {
        let class = self.classes.get(id);
        class.is_some_and(|class| class.ever_fits == Some(false))
    }
}

/// Finds the classes of a queue that never fit. Returns the classes to re-open for that.
pub(crate) fn find_never_fitting(
    config: &Config,
    pod: Amount,
    (queue, node): (&ClusterQueue, NodeId),
    quota: &QuotaTree,
    pending: &mut PendingQueue,
) -> BTreeSet<ClassId> {
    let mut reopened = BTreeSet::new();
    let mut is_any_out = false;
    while let Some((id, shape)) = pending.next_unknown_fit() {
        let options = flavor_options(config, queue, &shape, pod);
        let ever_fits = options.ever_fits(quota, node, &shape);
        is_any_out |= !ever_fits;
        reopened.extend(pending.set_ever_fits(&id, ever_fits));
    }
    // The head may have changed.
    if let Some((_, head)) = pending.first_head().filter(|_| is_any_out) {
        reopened.insert(head.clone());
    }
    reopened
}
