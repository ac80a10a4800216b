//! Finds out why a workload is pending. The texts are in `message.rs`.

use crate::api::amount::Amount;
use crate::api::explanation::{Explanation, FlavorMiss, MissReason, Shortage};
use crate::api::names::WorkloadId;
use crate::api::queues::StopPolicy;
use crate::api::quota::{Borrowing, FlavorQuotas};
use crate::cohort::tree::{CohortTree, QueueNode};
use crate::explain::not_preempted::PreemptionQuery;
use crate::flavor::flavor_assigner::Assignment;
use crate::flavor::options::{
    FlavorChoice, FlavorOptions, NoAssignment, SlotId, Slots, fewest_pods, flavor_choice,
    flavor_options, for_pods,
};
use crate::flavor::undeclared_resources::requests_by_group;
use crate::queue::queueing_strategy::{blocking_head, blocks_others};
use crate::quota::usage::RequestedUsage;
use crate::quota::view::View;
use crate::state::engine::Engine;
use crate::workload::info::{WorkloadInfo, WorkloadPhase};
use crate::workload::queue_order::QueueOrder;

/// A shape in a queue, with everything that its diagnosis requires.
struct Diagnosis<'a> {
    engine: &'a Engine,
    tree: &'a CohortTree,
    node: &'a QueueNode,
    info: &'a WorkloadInfo,
}

impl Engine {
    /// The state of a workload and, if it is pending, the reason; none if it is not known. Ask after
    /// [`Engine::decide`]: before, the reason may not be known yet.
    pub fn explain(&self, id: &WorkloadId) -> Option<Explanation> {
        let info = self.workloads.get(id)?;
        let queue = || {
            info.state
                .admission()
                .map(|admission| admission.queue.clone())
        };
        match &info.state {
            WorkloadPhase::Pending => Some(self.explain_pending(id, info)),
            WorkloadPhase::Inactive => Some(Explanation::Inactive),
            WorkloadPhase::Finished => Some(Explanation::Finished),
            WorkloadPhase::Evicting { .. } => Some(Explanation::Evicting { queue: queue()? }),
            WorkloadPhase::Assumed(_) | WorkloadPhase::Admitted { .. } => {
                Some(Explanation::Admitted { queue: queue()? })
            }
        }
    }

    fn explain_pending(&self, id: &WorkloadId, info: &WorkloadInfo) -> Explanation {
        let key = || info.local_queue.clone();
        if let Some(problem) = &info.shape.problem {
            return Explanation::Uncountable(problem.clone());
        }
        let local_queue = self
            .local_queues
            .get(&info.local_queue)
            .and_then(|local_queue| local_queue.object.as_ref());
        let Some(local_queue) = local_queue else {
            return Explanation::LocalQueueNotFound(key());
        };
        if local_queue.stop != StopPolicy::None {
            return Explanation::LocalQueueStopped(key());
        }
        let queue = local_queue.cluster_queue.clone();
        let exists = self.config.existing_queue(&queue).is_some();
        let Some(tree) = self.tree_of_queue(&queue).filter(|_| exists) else {
            return Explanation::ClusterQueueNotFound {
                local_queue: key(),
                queue,
            };
        };
        if !local_queue.namespace_selected {
            return Explanation::NamespaceNotSelected {
                local_queue: key(),
                queue,
            };
        }
        if let Some(reason) = tree.queue_inactive(&queue).cloned() {
            return Explanation::ClusterQueueInactive { queue, reason };
        }
        let Some(node) = tree.queues.get(&queue) else {
            return Explanation::ClusterQueueNotFound {
                local_queue: key(),
                queue,
            };
        };
        if let Some(until) = info.not_before.filter(|until| self.now < *until) {
            return Explanation::BackingOff { queue, until };
        }
        let cluster_queue = self.cluster_queues.get(&queue);
        if let Some(max) = node.config.max_pending
            && cluster_queue
                .is_some_and(|cluster_queue| cluster_queue.pending.is_beyond_limit(&info.order(id)))
        {
            return Explanation::QueueFull { queue, max };
        }
        if tree.waits_for_evicted(id) {
            return Explanation::Nominated { queue };
        }
        Diagnosis {
            engine: self,
            tree: &tree,
            node,
            info,
        }
        .explain(id, &info.order(id))
    }
}

impl Diagnosis<'_> {
    fn explain(&self, id: &WorkloadId, order: &QueueOrder) -> Explanation {
        let queue = self.node.config.name.clone();
        let (config, shape) = (&self.engine.config, &self.info.shape);
        let pod = self.engine.shapes.pod();
        let options = flavor_options(config, &self.node.config, shape, pod);
        let slots = match options {
            FlavorOptions::Slots(slots) => slots,
            FlavorOptions::None(NoAssignment::NoQuota(resource)) => {
                return Explanation::NoQuota { queue, resource };
            }
            FlavorOptions::None(NoAssignment::NoFlavor(place)) => {
                return self.does_not_fit(None, place);
            }
        };
        // What can never fit is reported before what does not fit now, wherever the search ended.
        let (quota, node) = (&self.tree.quota, self.node.id);
        if !slots.ever_fits(quota, node, shape) {
            if let Some(place) = slots.never_fitting_slot(quota, node, shape) {
                return self.does_not_fit(Some(&slots), place);
            }
            if !slots.has_too_many_ways(quota, node, shape) {
                return Explanation::NeverFitsTogether { queue };
            }
            // Elsewhere it is not skipped, and may fit some time.
            if blocks_others(&self.node.config) {
                return Explanation::TooManyCombinations { queue };
            }
        }
        let cluster_queue = self.engine.cluster_queues.get(&queue);
        let (local_queues, cells) = (&self.engine.local_queues, &config.flavor_resources);
        let admission_order = self.node.admission_order(local_queues, cells);
        if let Some(cluster_queue) = cluster_queue
            && let Some(head) = blocking_head(
                &self.node.config,
                &admission_order,
                &cluster_queue.pending,
                id,
            )
        {
            let head = head.clone();
            return Explanation::BehindHead { queue, head };
        }
        let counts = shape.pod_sets.iter().map(fewest_pods).collect();
        let fungibility = self.node.config.fungibility;
        match slots.assign_in_any_way(quota, node, slots.borrowing, fungibility, counts) {
            Ok(Assignment { waits_at: None, .. }) if self.tree.with_reservation.is_empty() => {
                Explanation::Queued { queue }
            }
            Ok(Assignment { waits_at: None, .. }) => Explanation::QuotaReserved { queue },
            _ if self.are_targets_protected(order, &slots) => {
                Explanation::TargetsProtected { queue }
            }
            Ok(Assignment {
                waits_at: Some(place),
                ..
            })
            | Err(place) => self.does_not_fit(Some(&slots), place),
        }
    }

    fn are_targets_protected(&self, order: &QueueOrder, slots: &Slots) -> bool {
        let class = self.engine.class_of(self.info, &self.node.config.name);
        let (of_queue, of_shape) = ((self.tree, self.node), (slots, &*self.info.shape));
        PreemptionQuery::new(self.engine, of_queue, (order, &class), of_shape)
            .are_targets_protected()
    }

    fn does_not_fit(&self, slots: Option<&Slots>, place: SlotId) -> Explanation {
        let several = self.info.shape.pod_sets.len() > 1;
        let pod_set = self
            .info
            .shape
            .pod_sets
            .get(place.pod_set)
            .filter(|_| several);
        Explanation::DoesNotFit {
            queue: self.node.config.name.clone(),
            pod_set: pod_set.map(|pod_set| pod_set.name.clone()),
            flavors: self.misses(slots, place),
        }
    }

    /// Why each flavor does not fit for one pod set and resource group. Of earlier pod sets only the usage
    /// that does not depend on a choice counts, so that the text does not change with usage. A flavor of
    /// which nothing is requested fits.
    fn misses(&self, slots: Option<&Slots>, place: SlotId) -> Vec<FlavorMiss> {
        let config = &self.node.config;
        let pod = self.engine.shapes.pod();
        let pod_set = self.info.shape.pod_sets.get(place.pod_set);
        let groups = pod_set.and_then(|set| requests_by_group(config, set, pod).ok());
        let (Some(pod_set), Some(mut groups)) = (pod_set, groups) else {
            return Vec::new();
        };
        let Some((group, requests)) = groups.remove(&place.group) else {
            return Vec::new();
        };
        let forced = slots
            .map(|slots| slots.forced_before(place, &self.info.shape))
            .unwrap_or_default();
        let miss = |flavor: &FlavorQuotas| {
            let config = &self.engine.config;
            let reason = match flavor_choice(config, group, flavor, pod_set, &requests) {
                Ok(choice) => self.shortage(&choice, fewest_pods(pod_set), &forced)?,
                Err(reason) => reason,
            };
            Some(FlavorMiss {
                flavor: flavor.name.clone(),
                reason,
            })
        };
        group.flavors.iter().filter_map(miss).collect()
    }

    /// The resource that a flavor is short of: one whose request can never fit, else the first that does
    /// not fit now. If only the choices of other pod sets are in the way, it is the first resource.
    fn shortage(
        &self,
        choice: &FlavorChoice,
        count: u32,
        forced: &RequestedUsage,
    ) -> Option<MissReason> {
        let (tree, node) = (&self.tree.quota, self.node.id);
        let mut first = None;
        let mut short = None;
        for (resource, cell, each) in &choice.usage_per_pod {
            let amount = for_pods(*each, count);
            if amount == Amount::ZERO {
                continue;
            }
            let request = amount.plus(forced.get(cell).copied().unwrap_or_default());
            let nominal = tree.nominal(node, *cell);
            let borrowing = self.info.shape.borrowing();
            let most = tree.most(node, *cell, borrowing);
            let may_borrow = match borrowing {
                Borrowing::Forbidden => None,
                Borrowing::Allowed => Some(most.minus(nominal).at_least_zero()),
            };
            let shortage = Shortage {
                resource: resource.clone(),
                request,
                nominal,
                may_borrow,
            };
            if request > most {
                return Some(MissReason::TooLarge(shortage));
            }
            if short.is_none() && !tree.is_available(View::Now, node, (*cell, request), borrowing) {
                short = Some(shortage);
            } else if first.is_none() {
                first = Some(shortage);
            }
        }
        short.or(first).map(MissReason::NotFreeNow)
    }
}
