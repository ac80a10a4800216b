//! The levels of queues and cohorts, and how JobKinds stand, as metrics have them: gathered once a second. What takes a
//! moment for each pending workload is counted every ten seconds.
//!
//! Must not know what users are told by events and conditions, nor clients.

mod cohorts;
mod gates;
mod local_queues;
mod units;

use std::collections::BTreeMap;

use sluice_crds::{ConditionType, not_queued};
use sluice_engine::{ClusterQueueName, CohortName, LocalQueueKey, QueueQuota, QueueStatus};

use self::cohorts::Cohorts;
use self::units::{ratio, units};
use super::job_kinds;
use crate::cache::cluster::Kept;
use crate::cache::conditions;
use crate::controller::Controller;
use crate::plan::pod::local_queue_of;
use crate::plan::status::queues::requested;
use crate::process::metrics::Gathered;
use crate::process::metrics::definitions;

/// Pending workloads are told apart every so many seconds.
const TOLD_APART_EVERY: u64 = 10;

/// What is counted every ten seconds.
#[derive(Debug, Default)]
pub struct Levels {
    /// How many pending workloads of a ClusterQueue may be admitted as soon as it is their turn.
    admissible: BTreeMap<String, usize>,
    /// How many are pending, by ClusterQueue and reason.
    by_reason: BTreeMap<(String, String), usize>,
    /// The same by LocalQueue, if these have metrics.
    local_by_reason: BTreeMap<(LocalQueueKey, String), usize>,
    /// Whether there are metrics of LocalQueues.
    local_queue_metrics: bool,
}

impl Levels {
    /// With metrics of LocalQueues, or without.
    pub fn new(local_queue_metrics: bool) -> Self {
        Self {
            local_queue_metrics,
            ..Self::default()
        }
    }

    /// Counts a pending workload of a ClusterQueue and LocalQueue.
    fn count_reason(&mut self, cluster_queue: &str, local_queue: LocalQueueKey, reason: &str) {
        let key = (cluster_queue.to_owned(), reason.to_owned());
        *self.by_reason.entry(key).or_default() += 1;
        if self.local_queue_metrics {
            let key = (local_queue, reason.to_owned());
            *self.local_by_reason.entry(key).or_default() += 1;
        }
    }
}

impl Controller {
    /// Publishes how queues and cohorts stand.
    pub(in crate::controller) fn publish_levels(&mut self) {
        if self.seconds.is_multiple_of(TOLD_APART_EVERY) {
            self.tell_pending_apart();
        }
        let mut gathered = Gathered::default();
        let mut cohorts = Cohorts::default();
        for name in self.cluster.cohorts.keys() {
            cohorts.note(&self.engine, &name.as_str().into());
        }
        for name in self.cluster.queues.keys() {
            self.metrics.workloads.queue_exists(name);
            let queue = ClusterQueueName::from(name.as_str());
            let known = (self.engine.queue_status(&queue)).zip(self.engine.queue_quota(&queue));
            if let Some((status, quota)) = known {
                self.gather_queue(&mut gathered, name, &status, &quota);
                if let Some(cohort) = &quota.cohort {
                    cohorts.note(&self.engine, cohort);
                    cohorts.add(cohort, &status);
                }
                let root = quota
                    .cohort
                    .as_ref()
                    .and_then(|cohort| cohorts.root(cohort));
                let [cohort, root] = [&quota.cohort, &root]
                    .map(|cohort| cohort.as_ref().map_or("", CohortName::as_str));
                let labels = [name, cohort, root];
                gathered.count(&definitions::CLUSTER_QUEUE_INFO, &labels, 1);
            }
        }
        cohorts.gather(&mut gathered);
        for ((queue, reason), count) in &self.levels.by_reason {
            if self.cluster.queues.contains_key(queue) {
                gathered.count(&definitions::PENDING_BY_REASON, &[queue, reason], *count);
            }
        }
        if self.levels.local_queue_metrics {
            self.gather_local_queues(&mut gathered);
        }
        gates::gather(
            &mut gathered,
            &self.cluster,
            &self.objects,
            self.levels.local_queue_metrics,
        );
        job_kinds::gather(&mut gathered, &self.kinds);
        self.metrics.gathered.publish(gathered);
    }

    /// Counts pending workloads by whether they are admissible, and by what they are told.
    fn tell_pending_apart(&mut self) {
        let names = self.cluster.queues.keys();
        let admissible = names.map(|name| {
            let count = self
                .engine
                .admissible(&ClusterQueueName::from(name.as_str()));
            (name.clone(), count)
        });
        let mut levels = Levels {
            admissible: admissible.collect(),
            ..Levels::new(self.levels.local_queue_metrics)
        };
        for (key, record) in self.objects.workloads() {
            if record.status.admission.is_some() || record.is_finished() || record.owner.is_none() {
                continue;
            }
            let Some(queue) = self.cluster_queue_of(key, record) else {
                continue;
            };
            let told = conditions::find(&record.status.conditions, ConditionType::QuotaReserved);
            let reason = told.map_or("", |told| told.reason.as_str());
            if !record.spec.active || not_queued::ALL.contains(&reason) {
                continue;
            }
            levels.count_reason(queue, record.local_queue(key), reason);
        }
        for (uid, reason) in self.pending_reasons.of_pods() {
            let known = self.objects.pods.of(uid);
            let Some((key, pod)) = known.filter(|(_, pod)| pod.waits_for_quota_alone()) else {
                continue;
            };
            let Some(local_queue) = local_queue_of(key, pod) else {
                continue;
            };
            if let Some(queue) = self.cluster.cluster_queue_of(&local_queue) {
                levels.count_reason(queue, local_queue.clone(), reason);
            }
        }
        self.levels = levels;
    }

    fn gather_queue(
        &self,
        gathered: &mut Gathered,
        name: &str,
        status: &QueueStatus,
        quota: &QueueQuota,
    ) {
        let known = self.levels.admissible.get(name).copied();
        let active = known.unwrap_or_default().min(status.pending);
        let inadmissible = status.pending.saturating_sub(active);
        gathered.count(&definitions::PENDING_WORKLOADS, &[name, "active"], active);
        gathered.count(
            &definitions::PENDING_WORKLOADS,
            &[name, "inadmissible"],
            inadmissible,
        );
        gathered.count(&definitions::RESERVING_WORKLOADS, &[name], status.reserving);
        gathered.count(
            &definitions::ADMITTED_ACTIVE_WORKLOADS,
            &[name],
            status.admitted,
        );
        for (resource, amount) in requested(&status.pending_requests, Some(quota)) {
            let labels = [name, resource.as_str()];
            gathered.set(&definitions::PENDING_REQUESTS, &labels, units(amount));
        }
        let broken = self.cluster.queues.get(name);
        let is_broken = broken.is_some_and(Kept::is_broken);
        let is_active = status.active.is_ok() && !is_broken;
        for (word, is) in [("active", is_active), ("pending", !is_active)] {
            let labels = [name, word];
            gathered.count(&definitions::CLUSTER_QUEUE_STATUS, &labels, usize::from(is));
        }
        let cohort = quota.cohort.as_ref().map_or("", CohortName::as_str);
        for (flavor, resources) in &quota.quota {
            for (resource, quota) in resources {
                let labels = [cohort, name, flavor.as_str(), resource.as_str()];
                gathered.set(&definitions::NOMINAL_QUOTA, &labels, units(quota.nominal));
                for (definition, limit) in [
                    (&definitions::BORROWING_LIMIT, quota.borrowing_limit),
                    (&definitions::LENDING_LIMIT, quota.lending_limit),
                ] {
                    if let Some(limit) = limit {
                        gathered.set(definition, &labels, units(limit));
                    }
                }
            }
        }
        for (flavor, resources) in &status.usage {
            for (resource, usage) in resources {
                let labels = [cohort, name, flavor.as_str(), resource.as_str()];
                gathered.set(&definitions::QUEUE_USAGE, &labels, units(usage.total));
                gathered.set(
                    &definitions::QUEUE_RESERVED,
                    &labels,
                    units(usage.reserved()),
                );
                gathered.set(&definitions::QUEUE_BORROWED, &labels, units(usage.borrowed));
            }
        }
        if let Some(share) = status.share {
            gathered.set(&definitions::QUEUE_SHARE, &[cohort, name], ratio(share));
        }
    }
}
