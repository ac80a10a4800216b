//! Finds out what keeps a pending workload waiting at this moment. The texts are in `message.rs`.

use std::collections::BTreeMap;

use crate::api::names::WorkloadId;
use crate::api::outlook::{Outlook, ShortResource, Trial};
use crate::api::quota::Borrowing;
use crate::cohort::tree::CohortTree;
use crate::explain::not_preempted::PreemptionQuery;
use crate::flavor::options::{FlavorOptions, flavor_options};
use crate::quota::configured_quotas::configured_quotas;
use crate::quota::view::View;
use crate::state::engine::Engine;

impl Engine {
    /// The outlook of a workload that is queued in a ClusterQueue; none for any other.
    pub fn outlook(&self, id: &WorkloadId) -> Option<Outlook> {
        let info = self.workloads.get(id)?;
        let local_queue = self.local_queues.get(&info.local_queue)?.object.as_ref()?;
        let queue = &local_queue.cluster_queue;
        let pending = &self.cluster_queues.get(queue)?.pending;
        let (order, class) = (info.order(id), self.class_of(info, queue));
        if !pending.contains(&order, &class) {
            return None;
        }
        let tree = self.tree_of_queue(queue)?;
        let node = tree.queues.get(queue)?;
        let flavor_resources = &self.config.flavor_resources;
        let quotas = configured_quotas(&node.config.resource_groups).into_keys();
        let free = quotas.filter_map(|(flavor, resource)| {
            let id = flavor_resources.get(&flavor, &resource)?;
            let available = tree
                .quota
                .available(View::Now, node.id, id, Borrowing::Allowed);
            Some((flavor, resource, available))
        });
        let admission_order = node.admission_order(&self.local_queues, flavor_resources);
        let ahead = admission_order.ahead_of(pending, &order, &class);
        let head = admission_order.head(pending).filter(|_| ahead > 0);
        let mut outlook = Outlook {
            queue: queue.clone(),
            ahead,
            head: head.map(|(head, _)| head.id().clone()),
            free: free.collect(),
            short: Vec::new(),
            evicting: self.evicting(&tree),
            not_preempted: BTreeMap::new(),
            fits_after: Vec::new(),
        };
        let options = flavor_options(&self.config, &node.config, &info.shape, self.shapes.pod());
        if let FlavorOptions::Slots(slots) = options {
            outlook.short = self.short_resources(id);
            if !tree.waits_for_evicted(id) {
                let of_shape = (&slots, &*info.shape);
                let query = PreemptionQuery::new(self, (&tree, node), (&order, &class), of_shape);
                outlook.not_preempted = query.not_preempted();
            }
            outlook.fits_after = self.fits_after(id);
        }
        Some(outlook)
    }

    /// What is short in each flavor that was tried.
    fn short_resources(&self, id: &WorkloadId) -> Vec<ShortResource> {
        let trials = self
            .trials(id)
            .into_iter()
            .flat_map(|trials| trials.flavors);
        trials.flat_map(short_in).collect()
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

fn short_in(trial: Trial) -> Vec<ShortResource> {
    let Trial {
        pod_set,
        flavor,
        needs,
    } = trial;
    let needs = needs.into_iter().flatten();
    let short = needs.filter_map(|need| {
        Some(ShortResource {
            pod_set: pod_set.clone(),
            flavor: flavor.clone(),
            resource: need.resource,
            request: need.request,
            free: need.free,
            limit: need.limit?,
        })
    });
    short.collect()
}
