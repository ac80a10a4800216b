//! How many workloads of a ClusterQueue are queued at most (`maxPending`), and which: the first in order. Where
//! LocalQueues compete by usage they take turns, as one with many workloads would else keep out all others, however
//! much it has used: the first workload of each comes before the second of any.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::names::LocalQueueKey;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::{ClassId, Shape};

/// The limit of queued workloads, the queued ones, and those beyond it. Which are queued does not depend on the order
/// in which they came.
#[derive(Clone, Debug)]
pub(super) struct QueueLimit {
    most: usize,
    /// The number of queued workloads.
    queued: usize,
    /// By the LocalQueue, where usage decides between them; else all are in one.
    turns: BTreeMap<Option<Arc<LocalQueueKey>>, TurnList>,
}

/// The workloads of one LocalQueue. Those beyond the limit come after all queued ones.
#[derive(Clone, Debug, Default)]
struct TurnList {
    queued: BTreeMap<QueueOrder, ClassId>,
    beyond: BTreeMap<QueueOrder, (ClassId, Arc<Shape>)>,
}

/// Where a workload was, as it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftFrom {
    Queued,
    BeyondLimit,
    /// It was not counted.
    Nowhere,
}

impl QueueLimit {
    pub(super) fn of(most: usize) -> Self {
        Self {
            most,
            queued: 0,
            turns: BTreeMap::new(),
        }
    }

    /// Adds a workload, and says whether it is queued. If so, there may be [one too many](Self::take_excess).
    pub(super) fn insert(&mut self, key: &QueueOrder, class: &ClassId, shape: &Arc<Shape>) -> bool {
        let list = self.turns.entry(class.local_queue.clone()).or_default();
        if list.beyond.keys().next().is_some_and(|first| first < key) {
            let place = (class.clone(), Arc::clone(shape));
            list.beyond.insert(key.clone(), place);
            return false;
        }
        if list.queued.insert(key.clone(), class.clone()).is_none() {
            self.queued = self.queued.saturating_add(1);
        }
        let is_excess = |list: &mut TurnList| list.queued.keys().next_back() == Some(key);
        if self.queued > self.most && self.last_list().is_some_and(is_excess) {
            self.take_excess();
            self.put_beyond(key.clone(), class.clone(), Arc::clone(shape));
            return false;
        }
        true
    }

    /// Where the last of the queued workloads is.
    fn last_list(&mut self) -> Option<&mut TurnList> {
        let lists = self
            .turns
            .values_mut()
            .filter(|list| !list.queued.is_empty());
        lists.max_by(|one, other| one.last().cmp(&other.last()))
    }

    /// Takes the last workload, if there are more than may be queued.
    pub(super) fn take_excess(&mut self) -> Option<(QueueOrder, ClassId)> {
        if self.queued <= self.most {
            return None;
        }
        let taken = self.last_list()?.queued.pop_last()?;
        self.queued = self.queued.saturating_sub(1);
        Some(taken)
    }

    /// Notes that a workload that was taken is beyond the limit.
    pub(super) fn put_beyond(&mut self, key: QueueOrder, class: ClassId, shape: Arc<Shape>) {
        let list = self.turns.entry(class.local_queue.clone()).or_default();
        list.beyond.insert(key, (class, shape));
    }

    /// Queues the first workload beyond the limit, if one more may be queued.
    pub(super) fn take_next(&mut self) -> Option<(QueueOrder, ClassId, Arc<Shape>)> {
        if self.queued >= self.most {
            return None;
        }
        let lists = self
            .turns
            .values_mut()
            .filter(|list| !list.beyond.is_empty());
        let next = lists.min_by(|one, other| one.next().cmp(&other.next()))?;
        let (key, (class, shape)) = next.beyond.pop_first()?;
        next.queued.insert(key.clone(), class.clone());
        self.queued = self.queued.saturating_add(1);
        Some((key, class, shape))
    }

    /// Removes a workload.
    pub(super) fn remove(&mut self, key: &QueueOrder, class: &ClassId) -> LeftFrom {
        let Some(list) = self.turns.get_mut(&class.local_queue) else {
            return LeftFrom::Nowhere;
        };
        let left = if list.beyond.remove(key).is_some() {
            LeftFrom::BeyondLimit
        } else if list.queued.remove(key).is_some() {
            self.queued = self.queued.saturating_sub(1);
            LeftFrom::Queued
        } else {
            LeftFrom::Nowhere
        };
        self.drop_empty_list(class);
        left
    }

    /// Drops the list of a LocalQueue from which the last workload was taken.
    fn drop_empty_list(&mut self, class: &ClassId) {
        let list = self.turns.get(&class.local_queue);
        if list.is_some_and(|list| list.queued.is_empty() && list.beyond.is_empty()) {
            self.turns.remove(&class.local_queue);
        }
    }

    /// Takes the workloads of a class that are beyond the limit.
    pub(super) fn take_beyond_of(&mut self, class: &ClassId) -> Vec<QueueOrder> {
        let list = self.turns.get_mut(&class.local_queue);
        let of_class = |_: &QueueOrder, (of, _): &mut (ClassId, _)| of == class;
        let taken = list.map(|list| list.beyond.extract_if(.., of_class).map(|(key, _)| key));
        let taken = taken.into_iter().flatten().collect();
        self.drop_empty_list(class);
        taken
    }

    /// Whether a workload is beyond the limit.
    pub(super) fn is_beyond(&self, key: &QueueOrder) -> bool {
        let mut lists = self.turns.values();
        lists.any(|list| list.beyond.contains_key(key))
    }

    /// Whether any is.
    pub(super) fn has_beyond(&self) -> bool {
        self.turns.values().any(|list| !list.beyond.is_empty())
    }
}

impl TurnList {
    /// The turn of the last queued workload, which that has by its number and by its order.
    fn last(&self) -> (usize, Option<&QueueOrder>) {
        (self.queued.len(), self.queued.keys().next_back())
    }

    /// The turn that the first workload beyond the limit would have.
    fn next(&self) -> (usize, Option<&QueueOrder>) {
        let number = self.queued.len().saturating_add(1);
        (number, self.beyond.keys().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::amount::Amount;
    use crate::api::workload::PodSet;
    use crate::workload::shape::Shapes;

    /// A limit of 4, the workloads of two LocalQueues, and their shape. Numbers are priorities.
    fn mk_workloads() -> (QueueLimit, Vec<(QueueOrder, ClassId)>, Arc<Shape>) {
        let shape = Shapes::new(Amount::new(1)).acquire(vec![PodSet::new("main".into(), 1)]);
        let of = |local_queue: &str, priorities: &[i32]| {
            let class = ClassId {
                shape: shape.id,
                local_queue: Some(Arc::new(LocalQueueKey::new("ns", local_queue))),
            };
            let key = |priority: &i32| {
                let id = format!("{local_queue}{priority}");
                (QueueOrder::new(*priority, 0, id.into()), class.clone())
            };
            priorities.iter().map(key).collect::<Vec<_>>()
        };
        let all = [of("a", &[9, 8, 7, 6]), of("b", &[5, 4, 3])].concat();
        (QueueLimit::of(4), all, shape)
    }

    fn add(limit: &mut QueueLimit, (key, class): &(QueueOrder, ClassId), shape: &Arc<Shape>) {
        if limit.insert(key, class, shape)
            && let Some((key, class)) = limit.take_excess()
        {
            limit.put_beyond(key, class, Arc::clone(shape));
        }
    }

    fn queued(limit: &QueueLimit) -> Vec<&str> {
        let lists = limit.turns.values();
        lists
            .flat_map(|list| list.queued.keys().map(|key| key.id().as_str()))
            .collect()
    }

    #[test]
    fn local_queues_take_turns_whoever_came_first() {
        let (_, all, _) = mk_workloads();
        for first in 0..all.len() {
            for step in [1, 2, 3, 4, 5, 6] {
                let (mut limit, all, shape) = mk_workloads();
                for number in 0..all.len() {
                    let next = (first + number * step) % all.len();
                    let Some(workload) = all.get(next) else {
                        unreachable!("{next} is one of them");
                    };
                    add(&mut limit, workload, &shape);
                }
                assert_eq!(queued(&limit), ["a9", "a8", "b5", "b4"], "{first} {step}");
            }
        }
    }

    #[test]
    fn the_next_is_of_whoever_has_fewest_queued() {
        let (mut limit, all, shape) = mk_workloads();
        for workload in &all {
            add(&mut limit, workload, &shape);
        }
        let mut leave = |id: &str| {
            let found = all.iter().find(|(key, _)| key.id().as_str() == id);
            let left = found.map(|(key, class)| limit.remove(key, class));
            (
                left,
                limit.take_next().map(|(key, ..)| key.id().to_string()),
            )
        };
        let none = (Some(LeftFrom::BeyondLimit), None);
        assert_eq!(leave("b3"), none);
        let next = |id: &str| (Some(LeftFrom::Queued), Some(id.to_owned()));
        assert_eq!(leave("a9"), next("a7"));
        assert_eq!(leave("b5"), next("a6"));
        assert_eq!(leave("a8"), (Some(LeftFrom::Queued), None));
        assert_eq!(leave("a8"), (Some(LeftFrom::Nowhere), None));
        assert_eq!(queued(&limit), ["a7", "a6", "b4"]);
        assert!(!limit.has_beyond());
    }

    #[test]
    fn nothing_is_left_of_a_local_queue_without_workloads() {
        let (mut limit, all, shape) = mk_workloads();
        for workload in &all {
            add(&mut limit, workload, &shape);
        }
        // One class of each: those queued are removed one by one, those beyond the limit all at once.
        for (key, class) in &all {
            if !limit.is_beyond(key) {
                limit.remove(key, class);
            }
        }
        for (_, class) in &all {
            limit.take_beyond_of(class);
        }
        assert!(limit.turns.is_empty());
    }
}
