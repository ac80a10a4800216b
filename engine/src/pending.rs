//! The workloads that wait in one ClusterQueue: their order, their classes of equal shape, and who
//! has to wait outside. What is admitted from here is `pass.rs`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::amount::Amount;
use crate::cells::CellId;
use crate::flavors::Plan;
use crate::ledger::Charge;
use crate::model::PodSetAssignment;
use crate::names::{LocalQueueKey, WorkloadId};
use crate::obstacles::Obstacles;
use crate::preemption::{Preemption, Rights};
use crate::shape::{Shape, ShapeId};
use crate::tree::{Levels, NodeId, QuotaTree, View};

/// The order in a queue: priority, then creation time, then UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    priority: Reverse<i32>,
    created: i64,
    id: WorkloadId,
}

impl OrderKey {
    pub(crate) fn new(priority: i32, created: i64, id: WorkloadId) -> Self {
        Self {
            priority: Reverse(priority),
            created,
            id,
        }
    }

    pub(crate) fn id(&self) -> &WorkloadId {
        &self.id
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority.0
    }

    pub(crate) fn created(&self) -> i64 {
        self.created
    }
}

/// Which class a workload belongs to: its shape; in a queue that admits by use, its LocalQueue too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassId {
    pub(crate) shape: ShapeId,
    pub(crate) local: Option<Arc<LocalQueueKey>>,
}

/// Workloads in order, at least one. Where hardly two are alike most classes have no other, so the first
/// takes no memory of its own.
#[derive(Clone, Debug)]
struct Members {
    first: OrderKey,
    rest: BTreeSet<OrderKey>,
}

/// The workloads of one class. One that comes later fits no better than one that comes earlier.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) shape: Arc<Shape>,
    members: Members,
    /// How the shape could be placed, worked out at the first look. It holds until the tree is
    /// built anew.
    pub(crate) plan: Option<Arc<Plan>>,
    /// What the last one that was admitted got.
    pub(crate) granted: Option<Box<Grant>>,
    /// Whether the first was looked at, doesn't fit, and nothing has been freed or changed since; if that
    /// was noted in the queue's present sweep.
    parked: bool,
    /// The sweep in which that was noted.
    sweep: u64,
    /// Charges that there was no room for at the last look. Until there is room for one of them, the
    /// class doesn't fit. None is known if this is empty.
    obstacles: Box<[(CellId, Amount)]>,
}

/// What a workload of a class gets by one choice of flavors.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// Which of its choices each slot gets.
    pub(crate) picks: Vec<usize>,
    /// How many pods of each set.
    pub(crate) counts: Vec<u32>,
    pub(crate) pod_sets: Arc<[PodSetAssignment]>,
    pub(crate) charge: Charge,
}

impl Members {
    fn of(first: OrderKey) -> Self {
        Self {
            first,
            rest: BTreeSet::new(),
        }
    }

    fn insert(&mut self, key: OrderKey) {
        if key < self.first {
            self.rest.insert(std::mem::replace(&mut self.first, key));
        } else if key != self.first {
            self.rest.insert(key);
        }
    }

    /// Takes one out; says whether any is left. The last one stays.
    fn remove(&mut self, key: &OrderKey) -> bool {
        if *key != self.first {
            self.rest.remove(key);
            return true;
        }
        let next = self.rest.pop_first();
        let is_any_left = next.is_some();
        if let Some(next) = next {
            self.first = next;
        }
        is_any_left
    }

    fn contains(&self, key: &OrderKey) -> bool {
        *key == self.first || self.rest.contains(key)
    }

    /// The first after this one; the very first after none.
    fn next(&self, after: Option<&OrderKey>) -> Option<&OrderKey> {
        match after {
            None => Some(&self.first),
            Some(key) if *key < self.first => Some(&self.first),
            Some(key) => {
                let after = (Bound::Excluded(key), Bound::Unbounded);
                self.rest.range::<OrderKey, _>(after).next()
            }
        }
    }

    /// The last one before `key`.
    fn previous(&self, key: &OrderKey) -> Option<&OrderKey> {
        let last = self.rest.range(..key).next_back();
        last.or((self.first < *key).then_some(&self.first))
    }

    fn iter(&self) -> impl Iterator<Item = &OrderKey> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// How many come before `key`.
    fn before(&self, key: &OrderKey) -> usize {
        if *key <= self.first {
            return 0;
        }
        self.rest.range(..key).count().saturating_add(1)
    }
}

impl Class {
    /// Whether what kept it from fitting at the last look still does, and it can't make anybody go.
    pub(crate) fn is_held_up(&self, quota: &QuotaTree, node: NodeId, rights: &Rights) -> bool {
        let mut obstacles = self.obstacles.iter();
        let is_free =
            |(cell, amount): &(CellId, Amount)| quota.fits(View::Planned, node, *cell, *amount);
        !self.obstacles.is_empty()
            && !obstacles.any(is_free)
            && !self.may_preempt(quota, node, rights)
    }

    /// Whether it may have a right to make others go. If it has obstacles, and is told that it may not, it
    /// will not before something is freed or changed, or one of its own queue may have to go.
    fn may_preempt(&self, quota: &QuotaTree, node: NodeId, rights: &Rights) -> bool {
        if rights.may_outrank_any(self.members.first.priority()) {
            return true;
        }
        // Without anybody of its own queue, what it takes back has to be within what is its own.
        rights.rules.reaches_abroad()
            && !(rights.only_take_back()
                && quota.is_below_root(node, self.over_at_least(quota, node)))
    }

    /// Which nodes, from that of the queue up, a workload of this class would take above their quota at
    /// least, whichever of its choices it gets.
    pub(crate) fn over_at_least(&self, quota: &QuotaTree, node: NodeId) -> Levels {
        let obstacles = self.obstacles.iter();
        let over = obstacles.map(|(cell, amount)| quota.over_with(node, *cell, *amount));
        over.reduce(Levels::and).unwrap_or_default()
    }
}

/// The workloads that wait in one ClusterQueue.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingQueue {
    /// None is empty.
    classes: BTreeMap<ClassId, Class>,
    /// The first of each class.
    heads: BTreeMap<OrderKey, ClassId>,
    /// What was noted of all classes when they were last parked, or woken, all at once.
    all_parked: bool,
    /// How often that was done. What was noted of one class earlier doesn't count any more.
    sweep: u64,
    /// Of all classes.
    obstacles: Obstacles,
    /// How many are queued, if that is limited, and who they are.
    limit: Option<(usize, BTreeMap<OrderKey, ClassId>)>,
    /// Those that the limit keeps outside. They all come after those that are queued.
    outside: BTreeMap<OrderKey, (ClassId, Arc<Shape>)>,
}

impl PendingQueue {
    /// Takes in a workload; if there are too many, the last one has to wait outside.
    pub(crate) fn insert(&mut self, key: OrderKey, class: ClassId, shape: &Arc<Shape>) {
        if let Some((limit, queued)) = &mut self.limit {
            if *limit <= queued.len() {
                match queued.last_key_value() {
                    Some((last, _)) if key < *last => self.push_out(),
                    _ => {
                        self.outside.insert(key, (class, Arc::clone(shape)));
                        return;
                    }
                }
            }
            if let Some((_, queued)) = &mut self.limit {
                queued.insert(key.clone(), class.clone());
            }
        }
        self.admit(key, class, shape);
    }

    /// Takes out a workload. Says which class has got a new member from outside in its place.
    pub(crate) fn remove(&mut self, key: &OrderKey, class: &ClassId) -> Option<ClassId> {
        if self.outside.remove(key).is_some() {
            return None;
        }
        self.leave(key, class);
        let (_, queued) = self.limit.as_mut()?;
        queued.remove(key)?;
        let (key, (class, shape)) = self.outside.pop_first()?;
        queued.insert(key.clone(), class.clone());
        self.admit(key, class.clone(), &shape);
        Some(class)
    }

    fn push_out(&mut self) {
        let Some((key, class)) = (self.limit.as_mut()).and_then(|(_, queued)| queued.pop_last())
        else {
            return;
        };
        if let Some(found) = self.classes.get(&class) {
            let shape = Arc::clone(&found.shape);
            self.leave(&key, &class);
            self.outside.insert(key, (class, shape));
        }
    }

    fn admit(&mut self, key: OrderKey, id: ClassId, shape: &Arc<Shape>) {
        let Some(class) = self.classes.get_mut(&id) else {
            self.heads.insert(key.clone(), id.clone());
            let class = Class {
                shape: Arc::clone(shape),
                members: Members::of(key),
                plan: None,
                granted: None,
                parked: false,
                sweep: self.sweep,
                obstacles: Box::default(),
            };
            self.obstacles.add(&class.obstacles);
            self.classes.insert(id, class);
            return;
        };
        if key < class.members.first {
            self.heads.remove(&class.members.first);
            self.heads.insert(key.clone(), id);
        }
        class.members.insert(key);
    }

    fn leave(&mut self, key: &OrderKey, id: &ClassId) {
        let Some(class) = self.classes.get_mut(id) else {
            return;
        };
        let was_head = self.heads.remove(key).is_some();
        if class.members.remove(key) {
            if was_head {
                self.heads.insert(class.members.first.clone(), id.clone());
            }
        } else if let Some(class) = self.classes.remove(id) {
            self.obstacles.remove(&class.obstacles);
        }
    }

    /// The first workload of all.
    pub(crate) fn head(&self) -> Option<(&OrderKey, &ClassId)> {
        self.heads.first_key_value()
    }

    /// The first workload of each class, in order.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (&OrderKey, &ClassId)> {
        self.heads.iter()
    }

    /// The next of the first workloads of each class.
    pub(crate) fn next_head(&self, after: Bound<&OrderKey>) -> Option<(&OrderKey, &ClassId)> {
        self.heads
            .range::<OrderKey, _>((after, Bound::Unbounded))
            .next()
    }

    /// The first workload of a class after this one; the very first after none.
    pub(crate) fn next_of(&self, class: &ClassId, after: Option<&OrderKey>) -> Option<&OrderKey> {
        self.classes.get(class)?.members.next(after)
    }

    /// The last workload of a class before this one.
    pub(crate) fn last_before(&self, class: &ClassId, order: &OrderKey) -> Option<&OrderKey> {
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

    /// Whether the first of a class was looked at, doesn't fit, and nothing has been freed or changed since.
    pub(crate) fn is_parked(&self, id: &ClassId) -> bool {
        let class = self.classes.get(id);
        class.is_some_and(|class| {
            if class.sweep == self.sweep {
                class.parked
            } else {
                self.all_parked
            }
        })
    }

    /// Nothing can be done for a class.
    pub(crate) fn park(&mut self, id: &ClassId) {
        self.note(id, true);
    }

    /// A class is worth a look; gives it, if it is there.
    pub(crate) fn wake(&mut self, id: &ClassId) -> Option<&Class> {
        self.note(id, false)
    }

    fn note(&mut self, id: &ClassId, parked: bool) -> Option<&Class> {
        let class = self.classes.get_mut(id)?;
        (class.parked, class.sweep) = (parked, self.sweep);
        Some(class)
    }

    /// Nothing can be done for any class.
    pub(crate) fn park_all(&mut self) {
        self.note_all(true);
    }

    /// Every class is worth a look.
    pub(crate) fn wake_all(&mut self) {
        self.note_all(false);
    }

    fn note_all(&mut self, parked: bool) {
        self.all_parked = parked;
        self.sweep = self.sweep.wrapping_add(1);
    }

    /// Parks the classes that are held up, and gives the others.
    pub(crate) fn park_where(&mut self, is_held_up: impl Fn(&Class) -> bool) -> Vec<ClassId> {
        let mut others = Vec::new();
        for (id, class) in &mut self.classes {
            if is_held_up(class) {
                (class.parked, class.sweep) = (true, self.sweep);
            } else {
                others.push(id.clone());
            }
        }
        others
    }

    /// Whether all of them [are held up](Class::is_held_up). Where workloads of other queues may have to go,
    /// that can't be seen without looking at each, and this says no.
    pub(crate) fn are_held_up(&self, quota: &QuotaTree, node: NodeId, rights: &Rights) -> bool {
        // Nobody outranks more than the first.
        let first = self.head().map(|(order, _)| order.priority());
        !rights.rules.reaches_abroad()
            && !first.is_some_and(|first| rights.may_outrank_any(first))
            && self.obstacles.remain(quota, node)
    }

    /// Which nodes, from that of the queue up, a workload of any class would take above their quota at
    /// least.
    pub(crate) fn over_at_least(&self, quota: &QuotaTree, node: NodeId) -> Levels {
        self.obstacles.over_at_least(quota, node)
    }

    /// Notes what keeps a class from fitting. A class of one is not worth the memory of its plan until then,
    /// unless it has rights, and so may have to be looked at before.
    pub(crate) fn hold_up(
        &mut self,
        id: &ClassId,
        obstacles: Vec<(CellId, Amount)>,
        rules: Preemption,
    ) {
        let Some(class) = self.classes.get_mut(id) else {
            return;
        };
        if class.members.rest.is_empty() && !obstacles.is_empty() && !rules.has_any() {
            class.plan = None;
        }
        self.obstacles.remove(&class.obstacles);
        self.obstacles.add(&obstacles);
        class.obstacles = obstacles.into();
    }

    /// The tree was built anew: nothing that was worked out holds any more.
    pub(crate) fn forget(&mut self) {
        for class in self.classes.values_mut() {
            class.plan = None;
            class.granted = None;
            class.obstacles = Box::default();
        }
        self.obstacles = Obstacles::unknown(self.classes.len());
        self.wake_all();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.outside.is_empty()
    }

    /// Whether a workload is queued, and not kept outside.
    pub(crate) fn contains(&self, key: &OrderKey, class: &ClassId) -> bool {
        self.classes
            .get(class)
            .is_some_and(|class| class.members.contains(key))
    }

    /// Whether the limit keeps a workload outside.
    pub(crate) fn is_outside(&self, key: &OrderKey) -> bool {
        self.outside.contains_key(key)
    }

    /// How many come before `key`.
    pub(crate) fn ahead_of(&self, key: &OrderKey) -> usize {
        let queued = self.classes.values();
        let queued: usize = queued.map(|class| class.members.before(key)).sum();
        queued.saturating_add(self.outside.range(..key).count())
    }

    /// All that are queued, in order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &OrderKey> {
        let keys: BTreeSet<&OrderKey> = self
            .classes
            .values()
            .flat_map(|class| class.members.iter())
            .collect();
        keys.into_iter()
    }

    /// Limits how many are queued. To be called before the first is taken in.
    pub(crate) fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.map(|limit| (limit, BTreeMap::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Amount;
    use crate::model::PodSet;
    use crate::shape::Shapes;

    fn mk_queue(limit: usize) -> (PendingQueue, Arc<Shape>, ClassId) {
        let mut shapes = Shapes::new(Amount::new(1));
        let shape = shapes.acquire(vec![PodSet::new("main".into(), 1)]);
        let class = ClassId {
            shape: shape.id,
            local: None,
        };
        let mut queue = PendingQueue::default();
        queue.set_limit(Some(limit));
        (queue, shape, class)
    }

    fn mk_key(priority: i32, name: &str) -> OrderKey {
        OrderKey::new(priority, 0, name.into())
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
                queue.insert(mk_key(*priority, name), class.clone(), &shape);
            }
            assert_eq!(queued(&queue), ["b", "c"], "{first} first");
            assert!(queue.is_outside(&mk_key(1, "a")));
            assert_eq!(queue.ahead_of(&mk_key(0, "d")), 3);
            assert_eq!(queue.remove(&mk_key(0, "d"), &class), None);
            assert_eq!(queue.remove(&mk_key(3, "b"), &class), Some(class.clone()));
            assert_eq!(queued(&queue), ["c", "a"]);
        }
    }
}
