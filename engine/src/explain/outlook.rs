//! Finds out what keeps a pending workload waiting at this moment. The texts are in `api/outlook.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::amount::Amount;
use crate::api::names::WorkloadId;
use crate::api::outlook::{LimitingNode, NotPreempted, Outlook, ShortResource};
use crate::api::preemption_policy::{BorrowWithinCohort, ReclaimWithinCohort, WithinClusterQueue};
use crate::api::workload::PodSet;
use crate::cohort::tree::{CohortTree, QueueNode};
use crate::flavor::options::{FlavorOptions, Slots, fewest_pods, flavor_options, for_pods};
use crate::preemption::preemptor::Preemptor;
use crate::preemption::target::uses_any;
use crate::queue::cluster_queue::ClusterQueueState;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::configured_quotas;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{Borrowing, NodeId, View};
use crate::state::engine::Engine;
use crate::workload::info::WorkloadInfo;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

impl Engine {
    /// The outlook of a workload that is queued in a ClusterQueue; none for any other.
    pub fn outlook(&self, id: &WorkloadId) -> Option<Outlook> {
        let info = self.workloads.get(id)?;
        let local_queue = self.local_queues.get(&info.queue)?.object.as_ref()?;
        let queue = &local_queue.cluster_queue;
        let cluster_queue = self.cluster_queues.get(queue)?;
        let order = info.order(id);
        if !cluster_queue
            .pending
            .contains(&order, &self.class_of(info, queue))
        {
            return None;
        }
        let tree = self.tree_of_queue(queue)?;
        let node = tree.queues.get(queue)?;
        let requested = configured_quotas(&node.config.resource_groups).into_keys();
        let free = requested.filter_map(|cell| {
            let id = self.config.flavor_resources.get(&cell.0, &cell.1)?;
            let available = tree.quota.available(node.id, id, Borrowing::Allowed);
            Some((cell.0, cell.1, available))
        });
        let ahead = cluster_queue.pending.ahead_of(&order);
        let head = cluster_queue
            .pending
            .head()
            .map(|(head, _)| head.id().clone());
        let mut outlook = Outlook {
            queue: queue.clone(),
            ahead,
            head: head.filter(|_| ahead > 0),
            free: free.collect(),
            short: Vec::new(),
            evicting: self.evicting(&tree),
            not_preempted: BTreeMap::new(),
            fits_after: Vec::new(),
        };
        let pod = self.settings.pod.clamped();
        let options = flavor_options(&self.config, &node.config, &info.shape, pod);
        if let FlavorOptions::Slots(slots) = options {
            outlook.short = shortages(&tree, node, info, &slots);
            let requested = first_choice(&info.shape, &slots, fewest_pods);
            let query = OutlookQuery {
                engine: self,
                tree: &tree,
                node,
                order: &order,
                requested: &requested,
                borrowing: slots.borrowing,
            };
            if !tree.with_reservation.contains(id) {
                outlook.not_preempted = query.not_preempted();
            }
            outlook.fits_after = self.fits_after(id);
        }
        Some(outlook)
    }

    fn fits_after(&self, id: &WorkloadId) -> Vec<WorkloadId> {
        let Some(mut holders) = self.begin_holders(id) else {
            return Vec::new();
        };
        self.go_on_holders(&mut holders, usize::MAX);
        holders.have_to_end()
    }

    fn evicting(&self, tree: &CohortTree) -> Vec<WorkloadId> {
        let cluster_queues = tree.queues.iter();
        let cluster_queues =
            cluster_queues.filter_map(|(_, node)| self.cluster_queues.at(node.cluster_queue));
        cluster_queues
            .flat_map(|cluster_queue| cluster_queue.evicting.iter().cloned())
            .collect()
    }
}

/// The resources that are short, flavor by flavor.
fn shortages(
    tree: &CohortTree,
    node: &QueueNode,
    info: &WorkloadInfo,
    slots: &Slots,
) -> Vec<ShortResource> {
    let mut short = Vec::new();
    for slot in slots.iter() {
        let Some(pod_set) = info.shape.pod_sets.get(slot.place.pod_set) else {
            continue;
        };
        for choice in &slot.choices {
            for (resource, cell, each) in &choice.usage_per_pod {
                let request = for_pods(*each, fewest_pods(pod_set));
                let borrowing = slots.borrowing;
                let Some(limit) = tree.quota.limit(node.id, *cell, request, borrowing) else {
                    continue;
                };
                if let Some(limit) = name_of(tree, limit) {
                    short.push(ShortResource {
                        pod_set: pod_set.name.clone(),
                        flavor: choice.flavor.clone(),
                        resource: resource.clone(),
                        request,
                        free: tree.quota.available(node.id, *cell, borrowing),
                        limit,
                    });
                }
            }
        }
    }
    short
}

pub(super) fn name_of(tree: &CohortTree, id: NodeId) -> Option<LimitingNode> {
    let cohort = tree.cohorts.iter().find(|(_, node)| **node == id);
    let queue = || tree.queues.at(id).map(|node| node.config.name.clone());
    match cohort {
        Some((name, _)) => Some(LimitingNode::Cohort(name.clone())),
        None => queue().map(LimitingNode::Queue),
    }
}

/// The usage that so many pods of each pod set would request in the flavors that come first.
pub(super) fn first_choice(
    shape: &Shape,
    slots: &Slots,
    pods: impl Fn(&PodSet) -> u32,
) -> RequestedUsage {
    let mut requested: RequestedUsage = RequestedUsage::new();
    for slot in slots.iter() {
        let count = shape.pod_sets.get(slot.place.pod_set).map(&pods);
        let usage = slot
            .choices
            .first()
            .into_iter()
            .flat_map(|c| &c.usage_per_pod);
        for (_, cell, each) in usage {
            let amount = for_pods(*each, count.unwrap_or_default());
            if amount > Amount::ZERO {
                let sum = requested.entry(*cell).or_default();
                *sum = sum.plus(amount);
            }
        }
    }
    requested
}

/// A workload, and the usage that it requests.
struct OutlookQuery<'a> {
    engine: &'a Engine,
    tree: &'a CohortTree,
    node: &'a QueueNode,
    order: &'a QueueOrder,
    requested: &'a RequestedUsage,
    borrowing: Borrowing,
}

impl OutlookQuery<'_> {
    fn preemptor(&self) -> Preemptor<'_> {
        Preemptor {
            cluster_queue: self.node.cluster_queue,
            node: self.node.id,
            policy: self.node.config.preemption,
            order: self.order,
            local_queue: None,
            requested: self.requested,
            borrowing: self.borrowing,
        }
    }

    /// The reasons why workloads with scarce resources are not preempted, with their numbers.
    fn not_preempted(&self) -> BTreeMap<NotPreempted, usize> {
        let scarce = self.preemptor().scarce(&self.tree.quota);
        let mut not_preempted: BTreeMap<NotPreempted, usize> = BTreeMap::new();
        for node in self.tree.queues.nodes() {
            let cluster_queue = self.engine.cluster_queues.at(node.cluster_queue);
            for (id, info) in self.workloads_with_usage(cluster_queue, &scarce) {
                let count = not_preempted
                    .entry(self.reason(id, info, node, &scarce))
                    .or_default();
                *count = count.saturating_add(1);
            }
        }
        not_preempted
    }

    /// The workloads of a queue with scarce resources that are not evicted.
    fn workloads_with_usage<'b>(
        &'b self,
        cluster_queue: Option<&'b ClusterQueueState>,
        scarce: &'b BTreeSet<FlavorResourceId>,
    ) -> impl Iterator<Item = (&'b WorkloadId, &'b WorkloadInfo)> {
        let used = cluster_queue
            .into_iter()
            .flat_map(|cluster_queue| &cluster_queue.with_usage);
        let infos = used.filter_map(|id| Some((id, self.engine.workloads.get(id)?)));
        infos.filter(move |(_, info)| !info.is_evicting() && uses_any(info, scarce))
    }

    fn reason(
        &self,
        id: &WorkloadId,
        info: &WorkloadInfo,
        target_side: &QueueNode,
        scarce: &BTreeSet<FlavorResourceId>,
    ) -> NotPreempted {
        let policy = self.node.config.preemption;
        let quota = &self.tree.quota;
        let is_lower = info.priority < self.order.priority();
        let preemptor = self.preemptor();
        if !info.evictable {
            return NotPreempted::NotEvictable;
        }
        if policy.is_enabled() && self.tree.preemption_round.protects(id) {
            return NotPreempted::PreemptedBefore;
        }
        if target_side.id == self.node.id {
            let is_newer =
                info.priority == self.order.priority() && self.order.created() < info.created;
            return match policy.within_cluster_queue {
                WithinClusterQueue::Never => NotPreempted::OwnQueueNever,
                WithinClusterQueue::LowerPriority if !is_lower => NotPreempted::OwnQueueOrder,
                WithinClusterQueue::LowerOrNewerEqualPriority if !is_lower && !is_newer => {
                    NotPreempted::OwnQueueOrder
                }
                _ => NotPreempted::NotEnough,
            };
        }
        let borrows_in = |cell: &FlavorResourceId| {
            quota.is_borrowing(View::WithoutReservations, target_side.id, *cell)
        };
        if policy.reclaim_within_cohort == ReclaimWithinCohort::Never {
            NotPreempted::CohortNever
        } else if !scarce.iter().any(borrows_in) {
            NotPreempted::WithinItsQuota
        } else if !preemptor.may_reclaim(info.priority) {
            NotPreempted::CohortPriority
        } else if self.engine.settings.fair_sharing.is_none()
            && policy.borrow_within_cohort == BorrowWithinCohort::Never
            && preemptor.would_borrow(quota, self.node.id)
        {
            NotPreempted::WouldBorrow
        } else {
            NotPreempted::NotEnough
        }
    }
}
