//! The pending workloads of one ClusterQueue: their order, their classes, and the limit of queued
//! workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::queue::blocking_usage::BlockingUsage;
use crate::queue::equivalence_class::{Class, ClassMembers};
use crate::queue::queue_limit::{LeftFrom, QueueLimit};
use crate::quota::violations::Violations;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::{ClassId, Shape};

/// The pending workloads of one ClusterQueue.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingQueue {
    /// No class is empty.
    pub(super) classes: BTreeMap<ClassId, Class>,
    /// The head of each class, except classes that never fit: they block no others.
    pub(super) heads: BTreeMap<QueueOrder, ClassId>,
    /// Whether workloads that never fit would block others here.
    pub(super) blocks_others: bool,
    /// Classes whose feasibility is not known, if it matters.
    pub(super) fit_unknown: BTreeSet<ClassId>,
    /// Whether all classes were marked inadmissible, or re-opened, when that was last done for all at once.
    pub(super) all_inadmissible: bool,
    /// Counts how often that was done. Marks of an earlier generation are no longer valid.
    pub(super) generation: u64,
    /// The blocking usage of all classes.
    pub(super) blocking_usage: BlockingUsage,
    /// The limit of queued workloads if there is one, and the workloads beyond it.
    pub(super) limit: Option<QueueLimit>,
    pub(super) violations: Violations,
}

impl PendingQueue {
    /// Adds a workload. If the limit is exceeded, the last one moves beyond it. Returns whoever was queued before and
    /// has moved there.
    #[must_use]
    pub(crate) fn insert(
        &mut self,
        key: QueueOrder,
        class: ClassId,
        shape: &Arc<Shape>,
    ) -> Vec<QueueOrder> {
        if self.never_fits(&class) {
            self.add_to_class(key, class, shape);
            return Vec::new();
        }
        if let Some(limit) = &mut self.limit
            && !limit.insert(&key, &class, shape)
        {
            return Vec::new();
        }
        self.add_to_class(key, class, shape);
        self.move_beyond_limit()
    }

    /// Removes a workload. Returns the class that got a member from beyond the limit in exchange.
    pub(crate) fn remove(&mut self, key: &QueueOrder, class: &ClassId) -> Option<ClassId> {
        let left = (self.limit.as_mut()).map(|limit| limit.remove(key, class));
        if left == Some(LeftFrom::BeyondLimit) {
            return None;
        }
        self.remove_from_class(key, class);
        let limit = self
            .limit
            .as_mut()
            .filter(|_| left == Some(LeftFrom::Queued));
        let (key, class, shape) = limit?.take_next()?;
        self.add_to_class(key, class.clone(), &shape);
        Some(class)
    }

    /// Moves the last workloads beyond the limit, while there are too many. Returns them.
    fn move_beyond_limit(&mut self) -> Vec<QueueOrder> {
        let mut moved_out = Vec::new();
        while let Some((key, class)) = self.limit.as_mut().and_then(QueueLimit::take_excess) {
            let shape = self
                .classes
                .get(&class)
                .map(|found| Arc::clone(&found.shape));
            let Some(shape) = shape else {
                self.violations.check(false, "what is queued has a class");
                break;
            };
            self.remove_from_class(&key, &class);
            moved_out.push(key.clone());
            if let Some(limit) = &mut self.limit {
                limit.put_beyond(key, class, shape);
            }
        }
        moved_out
    }

    /// Counts a member of a class that did not count towards the limit.
    pub(super) fn count_again(&mut self, key: &QueueOrder, id: &ClassId) {
        let Some(shape) = self.classes.get(id).map(|class| Arc::clone(&class.shape)) else {
            return self.violations.check(false, "what is queued has a class");
        };
        if let Some(limit) = &mut self.limit
            && !limit.insert(key, id, &shape)
        {
            return self.remove_from_class(key, id);
        }
        // The tree is built again, so no workload has a reservation.
        self.move_beyond_limit();
    }

    pub(super) fn add_to_class(&mut self, key: QueueOrder, id: ClassId, shape: &Arc<Shape>) {
        let Some(class) = self.classes.get_mut(&id) else {
            self.heads.insert(key.clone(), id.clone());
            let class = Class {
                shape: Arc::clone(shape),
                members: ClassMembers::of(key),
                options: None,
                cached_assignment: None,
                inadmissible: false,
                generation: self.generation,
                ever_fits: None,
                blocking_usage: Box::default(),
            };
            self.blocking_usage.add(&class.blocking_usage);
            if self.blocks_others {
                self.fit_unknown.insert(id.clone());
            }
            self.classes.insert(id, class);
            return;
        };
        if key < class.members.head && class.ever_fits != Some(false) {
            self.heads.remove(&class.members.head);
            self.heads.insert(key.clone(), id);
        }
        class.members.insert(key);
    }

    fn remove_from_class(&mut self, key: &QueueOrder, id: &ClassId) {
        let class = self.classes.get_mut(id);
        let Some(class) = class.filter(|class| class.members.contains(key)) else {
            return self
                .violations
                .check(false, "what leaves a queue was queued");
        };
        let was_head = self.heads.remove(key).is_some();
        if class.members.remove(key) {
            if was_head {
                self.heads.insert(class.members.head.clone(), id.clone());
            }
        } else if let Some(class) = self.classes.remove(id) {
            self.fit_unknown.remove(id);
            if class.ever_fits != Some(false) {
                let was_there = self.blocking_usage.remove(&class.blocking_usage);
                self.violations.check(
                    was_there,
                    "a class counts in the usage that blocks its queue",
                );
            }
        }
    }

    /// How often a state was found that must not occur.
    pub(crate) fn violations(&self) -> Violations {
        self.violations
    }

    /// The first head of a class by priority and time. Which workload is the head of the queue also depends on
    /// usage: see [`AdmissionOrder::head`](crate::queue::admission_order::AdmissionOrder::head).
    pub(crate) fn first_head(&self) -> Option<(&QueueOrder, &ClassId)> {
        self.heads.first_key_value()
    }

    /// The head of each class, in order.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (&QueueOrder, &ClassId)> {
        self.heads.iter()
    }

    /// The next head of a class.
    pub(crate) fn next_head(&self, after: Bound<&QueueOrder>) -> Option<(&QueueOrder, &ClassId)> {
        self.heads
            .range::<QueueOrder, _>((after, Bound::Unbounded))
            .next()
    }

    /// The first member of a class after this one; its head after none.
    pub(crate) fn next_of(
        &self,
        class: &ClassId,
        after: Option<&QueueOrder>,
    ) -> Option<&QueueOrder> {
        self.classes.get(class)?.members.next(after)
    }

    /// The last member of a class before this one.
    pub(crate) fn last_before(&self, class: &ClassId, order: &QueueOrder) -> Option<&QueueOrder> {
        let members = &self.classes.get(class)?.members;
        members.previous(order)
    }

    pub(crate) fn class(&self, id: &ClassId) -> Option<&Class> {
        self.classes.get(id)
    }

    pub(crate) fn class_mut(&mut self, id: &ClassId) -> Option<&mut Class> {
        self.classes.get_mut(id)
    }

    pub(crate) fn classes(&self) -> impl Iterator<Item = (&ClassId, &Class)> {
        self.classes.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.classes.is_empty() && !self.limit.as_ref().is_some_and(QueueLimit::has_beyond)
    }

    /// Whether a workload is queued, within the limit.
    pub(crate) fn contains(&self, key: &QueueOrder, class: &ClassId) -> bool {
        self.classes
            .get(class)
            .is_some_and(|class| class.members.contains(key))
    }

    /// Whether a workload is beyond the limit.
    pub(crate) fn is_beyond_limit(&self, key: &QueueOrder) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| limit.is_beyond(key))
    }

    /// The number of workloads of a class.
    pub(crate) fn members(&self, class: &ClassId) -> usize {
        let class = self.classes.get(class);
        class.map_or(0, |class| class.members.len())
    }

    /// The number of workloads of a class before this one.
    pub(crate) fn members_before(&self, class: &ClassId, order: &QueueOrder) -> usize {
        let class = self.classes.get(class);
        class.map_or(0, |class| class.members.before(order))
    }

    /// All queued workloads in order, except those known never to fit: when that becomes known depends on
    /// past events.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &QueueOrder> {
        let classes = self.classes.values();
        let keys: BTreeSet<&QueueOrder> = classes
            .filter(|class| class.ever_fits != Some(false))
            .flat_map(|class| class.members.iter())
            .collect();
        keys.into_iter()
    }

    /// Limits how many workloads are queued. Call it before the first is added.
    pub(crate) fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.map(QueueLimit::of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::amount::Amount;
    use crate::api::workload::PodSet;
    use crate::workload::shape::Shapes;

    fn mk_queue(limit: usize) -> (PendingQueue, Arc<Shape>, ClassId) {
        let mut shapes = Shapes::new(Amount::new(1));
        let shape = shapes.acquire(vec![PodSet::new("main".into(), 1)]);
        let class = ClassId {
            shape: shape.id,
            local_queue: None,
        };
        let mut queue = PendingQueue::default();
        queue.set_limit(Some(limit));
        (queue, shape, class)
    }

    fn mk_key(priority: i32, name: &str) -> QueueOrder {
        QueueOrder::new(priority, 0, name.into())
    }

    fn queued(queue: &PendingQueue) -> Vec<&str> {
        queue.in_order().map(|key| key.id().as_str()).collect()
    }

    #[test]
    fn those_that_come_last_wait_outside_whoever_came_first() {
        let keys = [("a", 1), ("b", 3), ("c", 2), ("d", 0)];
        for first in 0..keys.len() {
            let (mut queue, shape, class) = mk_queue(2);
            let (before, after) = keys.split_at(first);
            for (name, priority) in after.iter().chain(before) {
                let moved_out = queue.insert(mk_key(*priority, name), class.clone(), &shape);
                assert!(moved_out.len() <= 1);
            }
            assert_eq!(queued(&queue), ["b", "c"], "{first} first");
            assert!(queue.is_beyond_limit(&mk_key(1, "a")));
            assert_eq!(queue.remove(&mk_key(0, "d"), &class), None);
            assert_eq!(queue.remove(&mk_key(3, "b"), &class), Some(class.clone()));
            assert_eq!(queued(&queue), ["c", "a"]);
        }
    }
}
