//! The workloads that wait in one ClusterQueue: their order, and their classes of equal shape.
//! What is admitted from here is `decide.rs`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::flavors::Plan;
use crate::names::WorkloadId;
use crate::shape::{Shape, ShapeId};

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
}

/// The workloads of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) shape: Arc<Shape>,
    members: BTreeSet<OrderKey>,
    /// How the shape could be placed, worked out at the first look. It holds until the tree is
    /// built anew.
    pub(crate) plan: Option<Arc<Plan>>,
    /// The shape was looked at, doesn't fit, and nothing has been freed or changed since.
    pub(crate) parked: bool,
}

/// The workloads that wait in one ClusterQueue.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingQueue {
    /// None is empty.
    classes: BTreeMap<ShapeId, Class>,
    /// The first of each class.
    heads: BTreeMap<OrderKey, ShapeId>,
}

impl PendingQueue {
    pub(crate) fn insert(&mut self, key: OrderKey, shape: &Arc<Shape>) {
        let class = self.classes.entry(shape.id).or_insert_with(|| Class {
            shape: Arc::clone(shape),
            members: BTreeSet::new(),
            plan: None,
            parked: false,
        });
        let head = class.members.first();
        if head.is_none_or(|head| key < *head) {
            if let Some(head) = head {
                self.heads.remove(head);
            }
            self.heads.insert(key.clone(), shape.id);
        }
        class.members.insert(key);
    }

    pub(crate) fn remove(&mut self, key: &OrderKey, shape: ShapeId) {
        let Some(class) = self.classes.get_mut(&shape) else {
            return;
        };
        class.members.remove(key);
        if self.heads.remove(key).is_some()
            && let Some(head) = class.members.first()
        {
            self.heads.insert(head.clone(), shape);
        }
        if class.members.is_empty() {
            self.classes.remove(&shape);
        }
    }

    /// The first workload of all.
    pub(crate) fn head(&self) -> Option<(&OrderKey, ShapeId)> {
        self.heads
            .first_key_value()
            .map(|(key, shape)| (key, *shape))
    }

    /// The first workload of a class.
    pub(crate) fn head_of(&self, shape: ShapeId) -> Option<&OrderKey> {
        self.classes.get(&shape)?.members.first()
    }

    pub(crate) fn class(&self, shape: ShapeId) -> Option<&Class> {
        self.classes.get(&shape)
    }

    pub(crate) fn class_mut(&mut self, shape: ShapeId) -> Option<&mut Class> {
        self.classes.get_mut(&shape)
    }

    pub(crate) fn shapes(&self) -> impl Iterator<Item = ShapeId> {
        self.classes.keys().copied()
    }

    /// Something was freed: every shape is worth another look.
    pub(crate) fn unpark(&mut self) {
        for class in self.classes.values_mut() {
            class.parked = false;
        }
    }

    /// The tree was built anew: nothing that was worked out holds any more.
    pub(crate) fn forget(&mut self) {
        for class in self.classes.values_mut() {
            class.parked = false;
            class.plan = None;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    pub(crate) fn contains(&self, key: &OrderKey, shape: ShapeId) -> bool {
        self.classes
            .get(&shape)
            .is_some_and(|class| class.members.contains(key))
    }

    /// How many come before `key`.
    pub(crate) fn ahead_of(&self, key: &OrderKey) -> usize {
        self.classes
            .values()
            .map(|class| class.members.range(..key).count())
            .sum()
    }

    /// All of them, in order.
    pub(crate) fn in_order(&self) -> Vec<WorkloadId> {
        let keys: BTreeSet<&OrderKey> = self
            .classes
            .values()
            .flat_map(|class| &class.members)
            .collect();
        keys.into_iter().map(|key| key.id.clone()).collect()
    }
}
