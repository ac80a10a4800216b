//! The status of queues and cohorts, and a snapshot of the state. The types are in `api/status.rs`.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::names::{ClusterQueueName, CohortName, LocalQueueKey, NodeName};
use crate::api::queues::StopPolicy;
use crate::api::quota::{Quota, ResourceGroup};
use crate::api::share::Share;
use crate::api::status::{
    ByFlavor, CohortStatus, InactiveReason, LocalQueueInactiveReason, LocalQueueStatus, QueueQuota,
    QueueStatus, ResourceUsage, Snapshot, Usage,
};
use crate::queue::cluster_queue::ClusterQueueState;
use crate::queue::demand::Demand;
use crate::quota::configured_quotas::configured_quotas;
use crate::quota::usage::QueueUsage;
use crate::quota::view::View;
use crate::state::engine::Engine;

impl Engine {
    /// The status of a ClusterQueue; none if it does not exist.
    pub fn queue_status(&self, name: &ClusterQueueName) -> Option<QueueStatus> {
        let config = self.config.existing_queue(name)?;
        let cluster_queue = self.cluster_queues.get(name);
        let demand = cluster_queue.map(|cluster_queue| &cluster_queue.demand);
        let total_usage = cluster_queue.map(|cluster_queue| &cluster_queue.usage);
        let mut usage: ByFlavor<Usage> = ByFlavor::new();
        let quotas = configured_quotas(&config.resource_groups);
        for (flavor, resource) in quotas.keys() {
            usage
                .entry(flavor.clone())
                .or_default()
                .insert(resource.clone(), Usage::default());
        }
        let cells = &self.config.flavor_resources;
        for (cell, used) in total_usage.into_iter().flat_map(|usage| usage.iter(cells)) {
            let nominal = quotas
                .get(cell)
                .map(|quota| quota.nominal)
                .unwrap_or_default();
            let ResourceUsage { total, allocated } = used;
            let (flavor, resource) = cell.clone();
            usage.entry(flavor).or_default().insert(
                resource,
                Usage {
                    total,
                    allocated,
                    borrowed: total.minus(nominal).at_least_zero(),
                },
            );
        }
        Some(QueueStatus {
            active: self.queue_active(name),
            pending: demand.map_or(0, Demand::workloads),
            pending_requests: demand.map(Demand::requests).cloned().unwrap_or_default(),
            reserving: total_usage.map_or(0, QueueUsage::reserving),
            admitted: total_usage.map_or(0, QueueUsage::admitted),
            usage,
            share: self.share(&NodeName::ClusterQueue(name.clone())),
        })
    }

    /// The quota of a ClusterQueue; none if it does not exist.
    pub fn queue_quota(&self, name: &ClusterQueueName) -> Option<QueueQuota> {
        let config = self.config.existing_queue(name)?;
        Some(QueueQuota {
            cohort: config.cohort.clone(),
            quota: quotas_by_flavor(&config.resource_groups),
        })
    }

    /// The most of each resource in each flavor that a ClusterQueue could provide if nothing were used; none if it does
    /// not exist, or its cohort tree is inactive.
    pub fn largest_requests(&self, name: &ClusterQueueName) -> Option<ByFlavor<Amount>> {
        let config = self.config.existing_queue(name)?;
        let tree = self.tree_of_queue(name)?;
        let node = tree.queues.node(name)?;
        let mut largest = ByFlavor::new();
        for (flavor, resource) in configured_quotas(&config.resource_groups).into_keys() {
            let Some(id) = self.config.flavor_resources.get(&flavor, &resource) else {
                continue;
            };
            let of_flavor: &mut BTreeMap<_, _> = largest.entry(flavor).or_default();
            of_flavor.insert(resource, tree.quota.potential(node, id));
        }
        tree.inactive.is_none().then_some(largest)
    }

    /// The number of pending workloads of a ClusterQueue that may be admitted as soon as it is their turn, as far as is
    /// known. For all others nothing can be done until something is freed or changed: they are inadmissible, beyond the
    /// limit of the queue, back off, have requests that are not valid, or wait in a LocalQueue or ClusterQueue that admits
    /// nothing. Takes a moment for each class.
    pub fn admissible(&self, name: &ClusterQueueName) -> usize {
        let admits = self.config.existing_queue(name).is_some() && self.queue_active(name).is_ok();
        let state = self.cluster_queues.get(name).filter(|_| admits);
        state.map_or(0, |state| state.pending.admissible_workloads())
    }

    /// The status of a LocalQueue; none if it does not exist.
    pub fn local_queue_status(&self, key: &LocalQueueKey) -> Option<LocalQueueStatus> {
        let local_queue = self.local_queues.get(key)?;
        let queue = &local_queue.object.as_ref()?.cluster_queue;
        Some(LocalQueueStatus {
            active: self.local_queue_active(key)?,
            pending: local_queue.demand.workloads(),
            pending_requests: local_queue.demand.requests().clone(),
            reserving: local_queue.usage.reserving(),
            admitted: local_queue.usage.admitted(),
            usage: (local_queue.usage).by_flavor(&self.config.flavor_resources, |used| used),
            consumed: (local_queue.consumed.clone()).filter(|_| self.by_usage.contains(queue)),
        })
    }

    /// Whether a LocalQueue admits workloads, or why not; none if it does not exist.
    pub fn local_queue_active(
        &self,
        key: &LocalQueueKey,
    ) -> Option<Result<(), LocalQueueInactiveReason>> {
        let object = self.local_queues.get(key)?.object.as_ref()?;
        let queue = &object.cluster_queue;
        Some(if object.stop != StopPolicy::None {
            Err(LocalQueueInactiveReason::Stopped)
        } else if self.config.existing_queue(queue).is_none() {
            Err(LocalQueueInactiveReason::ClusterQueueNotFound(
                queue.clone(),
            ))
        } else if !object.namespace_selected {
            Err(LocalQueueInactiveReason::NamespaceNotSelected)
        } else {
            self.queue_active(queue)
                .map_err(LocalQueueInactiveReason::ClusterQueueInactive)
        })
    }

    /// The status of a cohort; none if it does not exist and is no parent.
    pub fn cohort_status(&self, name: &CohortName) -> Option<CohortStatus> {
        let tree = self.tree_of(&NodeName::Cohort(name.clone()))?;
        let (mut quota, mut usage, mut borrowed) =
            (ByFlavor::new(), ByFlavor::new(), ByFlavor::new());
        let node = tree.cohorts.get(name);
        for ((flavor, resource), amounts) in node
            .into_iter()
            .flat_map(|node| tree.quota.node_amounts(*node))
        {
            for (all, amount) in [
                (&mut quota, amounts.quota),
                (&mut usage, amounts.used),
                (&mut borrowed, amounts.borrowed),
            ] {
                let of_flavor: &mut BTreeMap<_, _> = all.entry(flavor.clone()).or_default();
                of_flavor.insert(resource.clone(), amount);
            }
        }
        let config = self.config.cohorts.get(name);
        let groups = config.map_or(&[][..], |config| &config.resource_groups);
        Some(CohortStatus {
            parent: config.and_then(|config| config.parent.clone()),
            active: tree.inactive.clone().map_or(Ok(()), Err),
            configured: quotas_by_flavor(groups),
            quota,
            usage,
            borrowed,
            share: self.share(&NodeName::Cohort(name.clone())),
        })
    }

    /// With fair sharing, the dominant share of a node.
    fn share(&self, name: &NodeName) -> Option<Share> {
        self.settings.fair_sharing.as_ref()?;
        let tree = self.tree_of(name)?;
        let node = match name {
            NodeName::ClusterQueue(queue) => tree.queues.get(queue).map(|node| node.id),
            NodeName::Cohort(cohort) => tree.cohorts.get(cohort).copied(),
        };
        Some(tree.quota.share(View::Planned, node?))
    }

    /// Usage and pending workloads in a form that can be compared.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (name, ClusterQueueState { pending, usage, .. }) in self.cluster_queues.iter() {
            if !usage.is_empty() {
                let usage = usage.by_flavor(&self.config.flavor_resources, |used| used.total);
                snapshot.queues.insert(name.clone(), usage);
            }
            if !pending.is_empty() {
                let pending = pending.in_order().map(|key| key.id().clone());
                snapshot.pending.insert(name.clone(), pending.collect());
            }
        }
        for tree in self.cohort_trees.trees() {
            for (name, node) in tree.cohorts.clone() {
                let mut usage: ByFlavor<Amount> = ByFlavor::new();
                for ((flavor, resource), _, used) in tree.quota.amounts(node) {
                    if used > Amount::ZERO {
                        let flavor = usage.entry(flavor.clone()).or_default();
                        flavor.insert(resource.clone(), used);
                    }
                }
                if !usage.is_empty() {
                    snapshot.cohorts.insert(name, usage);
                }
            }
        }
        snapshot
    }

    fn queue_active(&self, name: &ClusterQueueName) -> Result<(), InactiveReason> {
        let tree = self.tree_of_queue(name);
        let inactive = tree.and_then(|tree| tree.queue_inactive(name).cloned());
        inactive.map_or(Ok(()), Err)
    }
}

/// Quota of each resource in each flavor, as it is configured.
fn quotas_by_flavor(groups: &[ResourceGroup]) -> ByFlavor<Quota> {
    let mut quotas = ByFlavor::new();
    for ((flavor, resource), quota) in configured_quotas(groups) {
        let of_flavor: &mut BTreeMap<_, _> = quotas.entry(flavor).or_default();
        of_flavor.insert(resource, quota);
    }
    quotas
}
