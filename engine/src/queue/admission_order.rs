//! The order in which the workloads of one ClusterQueue come, and so which of them is its head. This is the one
//! place that says so: a queue may admit by priority and time alone, or first by the usage of LocalQueues.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::names::{LocalQueueKey, ResourceName};
use crate::api::queues::AdmissionScope;
use crate::api::share::Share;
use crate::queue::local_queue::LocalQueues;
use crate::queue::pending::PendingQueue;
use crate::quota::flavor_resources::FlavorResources;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::ClassId;

/// The order of one ClusterQueue at the present usage.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionOrder<'a> {
    pub(crate) mode: AdmissionScope,
    /// What usage is measured by.
    pub(crate) quota: &'a BTreeMap<ResourceName, Amount>,
    pub(crate) local_queues: &'a LocalQueues,
    pub(crate) flavor_resources: &'a FlavorResources,
}

impl AdmissionOrder<'_> {
    /// The usage share of the LocalQueue of a class. Zero where usage does not count: no class there has a
    /// LocalQueue.
    pub(crate) fn used(&self, class: &ClassId) -> Share {
        let key = class.local_queue.as_deref();
        let local_queue = key.and_then(|key| self.local_queues.get(key));
        local_queue.map_or(Share::ZERO, |local_queue| {
            local_queue.usage_share(self.quota, self.flavor_resources)
        })
    }

    /// The same for many classes: each LocalQueue is looked at once.
    pub(crate) fn used_by_each<'b>(&self) -> impl FnMut(&'b ClassId) -> Share {
        let mut known: BTreeMap<Option<&'b LocalQueueKey>, Share> = BTreeMap::new();
        move |class| {
            let share = known.entry(class.local_queue.as_deref());
            *share.or_insert_with(|| self.used(class))
        }
    }

    /// The first of some heads of classes, which are in the order of priority and time.
    pub(crate) fn first<'b>(
        &self,
        mut heads: impl Iterator<Item = (&'b QueueOrder, &'b ClassId)>,
    ) -> Option<(&'b QueueOrder, &'b ClassId)> {
        match self.mode {
            AdmissionScope::ByOrder => heads.next(),
            AdmissionScope::ByUsage => {
                let mut used = self.used_by_each();
                heads.min_by_key(|(order, class)| (used(class), *order))
            }
        }
    }

    /// The head of the queue: the workload that blocks all others of a strict queue.
    pub(crate) fn head<'b>(
        &self,
        pending: &'b PendingQueue,
    ) -> Option<(&'b QueueOrder, &'b ClassId)> {
        self.first(pending.heads())
    }

    /// The number of queued workloads that come before this one.
    pub(crate) fn ahead_of(
        &self,
        pending: &PendingQueue,
        order: &QueueOrder,
        class: &ClassId,
    ) -> usize {
        let own = self.used(class);
        let mut used = self.used_by_each();
        let heads = pending.heads().map(|(_, class)| class);
        let before = heads.map(|class| match used(class).cmp(&own) {
            std::cmp::Ordering::Less => pending.members(class),
            std::cmp::Ordering::Equal => pending.members_before(class, order),
            std::cmp::Ordering::Greater => 0,
        });
        before.sum()
    }
}
