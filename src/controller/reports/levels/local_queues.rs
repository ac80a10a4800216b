//! How LocalQueues stand, as metrics have it, and which of them have metrics.

use std::collections::BTreeMap;

use sluice_engine::LocalQueueKey;

use super::units::units;
use crate::controller::Controller;
use crate::plan::status::queues::requested;
use crate::process::metrics::definitions;
use crate::process::metrics::{CountedIn, Gathered};

impl Controller {
    /// The queues that count a workload: its ClusterQueue, and its LocalQueue if that is there and LocalQueues have metrics.
    pub(in crate::controller) fn counted_in<'a>(
        &self,
        cluster_queue: &'a str,
        local_queue: Option<&'a LocalQueueKey>,
    ) -> CountedIn<'a> {
        let known = local_queue.filter(|key| self.cluster.local_queues.contains_key(*key));
        let measured = known.filter(|_| self.levels.local_queue_metrics);
        CountedIn {
            cluster_queue,
            local_queue: measured.map(|key| [&*key.namespace, &*key.name]),
        }
    }

    /// Gathers how LocalQueues stand.
    pub(super) fn gather_local_queues(&self, gathered: &mut Gathered) {
        let mut quotas = BTreeMap::new();
        for (key, kept) in &self.cluster.local_queues {
            let Some(status) = self.engine.local_queue_status(key) else {
                continue;
            };
            let (namespace, name) = (&*key.namespace, &*key.name);
            let labels = [namespace, name];
            self.metrics.workloads.local_queue_exists(labels);
            gathered.count(&definitions::LOCAL_PENDING, &labels, status.pending);
            gathered.count(&definitions::LOCAL_RESERVING, &labels, status.reserving);
            gathered.count(&definitions::LOCAL_ADMITTED, &labels, status.admitted);
            let is_active = status.active.is_ok() && !kept.is_broken();
            for (word, is) in [("True", is_active), ("False", !is_active)] {
                let labels = [namespace, name, word];
                gathered.count(&definitions::LOCAL_STATUS, &labels, usize::from(is));
            }
            let queue = self.cluster.cluster_queue_of(key);
            // Many LocalQueues may share a ClusterQueue.
            let quota = queue.filter(|_| !status.pending_requests.is_empty());
            let quota = quota.and_then(|queue| {
                let quota = || self.engine.queue_quota(&queue.into());
                quotas.entry(queue).or_insert_with(quota).as_ref()
            });
            for (resource, amount) in requested(&status.pending_requests, quota) {
                let labels = [namespace, name, resource.as_str()];
                gathered.set(&definitions::LOCAL_PENDING_REQUESTS, &labels, units(amount));
            }
            for (flavor, resources) in &status.usage {
                for (resource, usage) in resources {
                    let labels = [namespace, name, flavor.as_str(), resource.as_str()];
                    gathered.set(&definitions::LOCAL_USAGE, &labels, units(usage.total));
                    let reserved = units(usage.reserved());
                    gathered.set(&definitions::LOCAL_RESERVED, &labels, reserved);
                }
            }
        }
        for ((key, reason), count) in &self.levels.local_by_reason {
            if self.cluster.local_queues.contains_key(key) {
                let labels = [&*key.namespace, &*key.name, reason];
                gathered.count(&definitions::LOCAL_PENDING_BY_REASON, &labels, *count);
            }
        }
    }
}
