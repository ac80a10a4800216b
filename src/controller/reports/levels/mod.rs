//! The levels of queues and cohorts, and how JobKinds stand, as metrics have them: gathered once a second. What takes a
//! moment for each pending workload is counted every ten seconds.

use std::collections::{BTreeMap, BTreeSet};

use sluice_crds::quantity::NANOS;
use sluice_crds::{ConditionType, not_queued};
use sluice_engine::{
    Amount, ByFlavor, ClusterQueueName, CohortName, Engine, LocalQueueKey, QueueQuota, QueueStatus,
    ResourceName, Share,
};

use super::{gate_levels, job_kinds};
use crate::cache::cluster::Kept;
use crate::cache::conditions;
use crate::controller::Controller;
use crate::plan::pod::queue_of;
use crate::plan::status::queues::requested;
use crate::process::metrics::Gathered;
use crate::process::metrics::definitions::{self, Definition};

/// Pending workloads are told apart every so many seconds.
const TOLD_APART_EVERY: u64 = 10;

/// What is counted every ten seconds.
#[derive(Debug, Default)]
pub struct Levels {
    /// How many pending workloads of a ClusterQueue may be admitted as soon as it is their turn.
    admissible: BTreeMap<String, usize>,
    /// How many are pending, by ClusterQueue and reason.
    by_reason: BTreeMap<(String, String), usize>,
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
}

impl Controller {
    /// Publishes how queues and cohorts stand.
    pub(in crate::controller) fn publish_levels(&mut self) {
        if self.seconds.is_multiple_of(TOLD_APART_EVERY) {
            self.tell_pending_apart();
        }
        let mut gathered = Gathered::default();
        let mut cohorts: BTreeSet<CohortName> = BTreeSet::new();
        cohorts.extend(self.cluster.cohorts.keys().map(|name| name.as_str().into()));
        for name in self.cluster.queues.keys() {
            self.metrics.workloads.queue_exists(name);
            let queue = ClusterQueueName::from(name.as_str());
            let known = (self.engine.queue_status(&queue)).zip(self.engine.queue_quota(&queue));
            if let Some((status, quota)) = known {
                self.gather_queue(&mut gathered, name, &status, &quota);
                cohorts.extend(quota.cohort);
            }
        }
        for ((queue, reason), count) in &self.levels.by_reason {
            if self.cluster.queues.contains_key(queue) {
                gathered.count(&definitions::PENDING_BY_REASON, &[queue, reason], *count);
            }
        }
        for cohort in cohorts {
            gather_cohort(&mut gathered, &self.engine, &cohort);
        }
        if self.levels.local_queue_metrics {
            self.gather_local_queues(&mut gathered);
        }
        gate_levels::gather(
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
        let admissible = admissible.collect();
        let mut by_reason = BTreeMap::<_, usize>::new();
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
            let count = by_reason.entry((queue.to_owned(), reason.to_owned()));
            *count.or_default() += 1;
        }
        for (uid, reason) in self.pending_reasons.of_pods() {
            let known = self.objects.pods.of(uid);
            let Some((key, pod)) = known.filter(|(_, pod)| pod.waits_for_quota_alone()) else {
                continue;
            };
            let local_queue =
                queue_of(pod).map(|queue| LocalQueueKey::new(key.namespace.clone(), queue));
            let queue = local_queue.and_then(|queue| self.cluster.cluster_queue_of(&queue));
            if let Some(queue) = queue {
                let count = by_reason.entry((queue.to_owned(), reason.to_owned()));
                *count.or_default() += 1;
            }
        }
        self.levels.admissible = admissible;
        self.levels.by_reason = by_reason;
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

    fn gather_local_queues(&self, gathered: &mut Gathered) {
        for (key, kept) in &self.cluster.local_queues {
            let Some(status) = self.engine.local_queue_status(key) else {
                continue;
            };
            let labels = [&*key.namespace, &*key.name];
            gathered.count(&definitions::LOCAL_PENDING, &labels, status.pending);
            gathered.count(&definitions::LOCAL_RESERVING, &labels, status.reserving);
            gathered.count(&definitions::LOCAL_ADMITTED, &labels, status.admitted);
            let is_active = status.active.is_ok() && !kept.is_broken();
            for (word, is) in [("True", is_active), ("False", !is_active)] {
                let labels = [&*key.namespace, &*key.name, word];
                gathered.count(&definitions::LOCAL_STATUS, &labels, usize::from(is));
            }
            for (flavor, resources) in &status.usage {
                for (resource, usage) in resources {
                    let labels = [labels[0], labels[1], flavor.as_str(), resource.as_str()];
                    gathered.set(&definitions::LOCAL_USAGE, &labels, units(usage.total));
                    gathered.set(
                        &definitions::LOCAL_RESERVED,
                        &labels,
                        units(usage.reserved()),
                    );
                }
            }
        }
    }
}

fn gather_cohort(gathered: &mut Gathered, engine: &Engine, cohort: &CohortName) {
    let Some(status) = engine.cohort_status(cohort) else {
        return;
    };
    let mut gather = |definition: &'static Definition, amounts: &ByFlavor<Amount>| {
        for (flavor, resources) in amounts {
            for (resource, amount) in resources {
                let resource: &ResourceName = resource;
                let labels = [cohort.as_str(), flavor.as_str(), resource.as_str()];
                gathered.set(definition, &labels, units(*amount));
            }
        }
    };
    gather(&definitions::COHORT_QUOTA, &status.quota);
    gather(&definitions::COHORT_USAGE, &status.usage);
    if let Some(share) = status.share {
        gathered.set(&definitions::COHORT_SHARE, &[cohort.as_str()], ratio(share));
    }
}

/// An amount in units of its resource.
#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
fn units(amount: Amount) -> f64 {
    amount.get() as f64 / NANOS as f64
}

/// A share as a part of one.
#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
fn ratio(share: Share) -> f64 {
    if share.is_unlimited() {
        f64::INFINITY
    } else {
        share.billionths() as f64 / 1e9
    }
}
