//! What is kept of each LocalQueue: its workloads, their demand, and its usage.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::amount::Amount;
use crate::api::names::{ClusterQueueName, LocalQueueKey, ResourceName, WorkloadId};
use crate::api::queues::{Consumed, LocalQueue, StopPolicy};
use crate::api::quota::ResourceGroup;
use crate::api::share::{Part, Share};
use crate::api::time::Time;
use crate::queue::demand::Demand;
use crate::quota::configured_quotas::configured_quotas;
use crate::quota::flavor_resources::FlavorResources;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::QueueUsage;
use crate::quota::view::NodeId;
use crate::workload::lookup::Lookup;

/// All known LocalQueues.
pub(crate) type LocalQueues = Lookup<LocalQueueKey, LocalQueueState>;

/// The state that belongs to a LocalQueue's name, whether or not its object exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalQueueState {
    pub(crate) object: Option<LocalQueue>,
    pub(crate) workloads: BTreeSet<WorkloadId>,
    /// The demand of its pending workloads.
    pub(crate) demand: Demand,
    pub(crate) usage: QueueUsage,
    /// The usage over time, if its ClusterQueue admits by usage.
    pub(crate) consumed: Option<Consumed>,
    /// The usage after the last decision, and its time, if its ClusterQueue admits by usage: what it used until the next
    /// one, whatever has ended in between.
    used_since: Option<(Time, BTreeMap<ResourceName, Amount>)>,
}

impl LocalQueueState {
    /// Past and present usage, in relation to the [quota](quota_for_usage) of the ClusterQueue.
    pub(crate) fn usage_share(
        &self,
        quota: &BTreeMap<ResourceName, Amount>,
        cells: &FlavorResources,
    ) -> Share {
        let used = self.usage.by_resource(cells);
        let before = self.consumed.as_ref().map(|consumed| &consumed.amounts);
        let weight = self
            .object
            .as_ref()
            .map(|local_queue| local_queue.fair_weight);
        let part = |(resource, quota): (&ResourceName, &Amount)| {
            let before = before.and_then(|amounts| amounts.get(resource));
            let used = used.get(resource).copied().unwrap_or_default();
            Part::of(used.plus(before.copied().unwrap_or_default()), *quota)
        };
        let dominant = quota.iter().map(part).max().unwrap_or_default();
        dominant.divided_by(weight.unwrap_or_default())
    }

    /// Brings the usage over time up to `now`. What was used since the last decision is what was used after it. If no
    /// decision has brought it up yet, it is what is used at present.
    pub(crate) fn bring_up(&mut self, now: Time, half_life: Duration, cells: &FlavorResources) {
        let consumed = self.consumed.get_or_insert_with(|| Consumed {
            at: now,
            ..Consumed::default()
        });
        // A clock that was ahead may have dated it: until then nothing would be forgotten.
        consumed.at = consumed.at.min(now);
        if consumed.at < now {
            let used = self.used_since.take();
            let used = used.filter(|(at, _)| *at == consumed.at);
            let used = used.map_or_else(|| self.usage.by_resource(cells), |(_, used)| used);
            consumed.bring_up(now, half_life, &used);
        }
    }

    /// Notes what is used from now on.
    pub(crate) fn note_usage(&mut self, now: Time, cells: &FlavorResources) {
        self.used_since = Some((now, self.usage.by_resource(cells)));
    }

    /// The ClusterQueue that its workloads are queued in, unless it is stopped or its namespace is not
    /// selected.
    pub(crate) fn active_cluster_queue(&self) -> Option<&ClusterQueueName> {
        let local_queue = self.object.as_ref()?;
        let open = local_queue.stop == StopPolicy::None && local_queue.namespace_selected;
        open.then_some(&local_queue.cluster_queue)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.object
            .as_ref()
            .is_some_and(|local_queue| local_queue.stop == StopPolicy::HoldAndDrain)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.object.is_none() && self.workloads.is_empty()
    }
}

/// The quota by which the usage of the LocalQueues of a ClusterQueue with these groups is measured: its own, in all its
/// flavors together. Of a resource of which it has none itself, what it could borrow: else no usage would count.
pub(crate) fn quota_for_usage(
    quota_tree: &QuotaTree,
    node: NodeId,
    groups: &[ResourceGroup],
    cells: &FlavorResources,
) -> BTreeMap<ResourceName, Amount> {
    let mut quota: BTreeMap<ResourceName, Amount> = BTreeMap::new();
    for ((_, resource), subtree, _) in quota_tree.amounts(node) {
        let sum = quota.entry(resource.clone()).or_default();
        *sum = sum.plus(subtree);
    }
    let mut borrowable: BTreeMap<ResourceName, Amount> = BTreeMap::new();
    for (flavor, resource) in configured_quotas(groups).into_keys() {
        if let Some(cell) = cells.get(&flavor, &resource) {
            let sum = borrowable.entry(resource).or_default();
            *sum = sum.plus(quota_tree.potential(node, cell));
        }
    }
    for (resource, own) in &mut quota {
        if *own == Amount::ZERO {
            *own = borrowable.get(resource).copied().unwrap_or_default();
        }
    }
    quota.retain(|_, quota| *quota > Amount::ZERO);
    quota
}
