//! What the statuses of queues and cohorts say. Pure: from the engine's account to the
//! API types.

use std::collections::{BTreeMap, BTreeSet};

use sluice_crds::{
    ClusterQueueStatus, CohortStatus, ConditionType, FlavorUsage, GatedObject, LocalQueueStatus,
    Quantity, ResourceUsage,
};
use sluice_engine::{
    Amount, ByFlavor, InactiveReason, LocalQueueInactiveReason, QueueQuota, ResourceName,
    sum_by_resource,
};
use sluice_translate::{quantity, resource_list};

use crate::cache::cluster::Fault;
use crate::cache::conditions::{self, ConditionUpdate};
use crate::plan::gates::status;
use crate::plan::status::shares;
use crate::plan::writes::plan_and_notes::Present;

/// The status of a ClusterQueue. `fault` says what is wrong with the object.
pub fn cluster_queue(
    known: &ClusterQueueStatus,
    status: &sluice_engine::QueueStatus,
    quota: Option<&QueueQuota>,
    fault: Option<&Fault>,
    generation: Option<i64>,
    now: Present,
) -> ClusterQueueStatus {
    let update = match (fault, &status.active) {
        (Some(Fault::Broken(message)), _) => inactive("Invalid", format!("Can't admit: {message}")),
        (Some(Fault::Unreadable(error)), Ok(())) => as_before("Admits jobs", error),
        (None, Ok(())) => active("Admits jobs"),
        (_, Err(reason)) => inactive(
            reason.reason(),
            format!("Can't admit: {}{}", reason, remedy(reason)),
        ),
    };
    let mut conditions = known.conditions.clone();
    conditions::set(&mut conditions, update, generation, now);
    ClusterQueueStatus {
        conditions,
        pending_workloads: count(status.pending),
        reserving_workloads: count(status.reserving),
        admitted_workloads: count(status.admitted),
        flavors_usage: usage(&status.usage, |resource, usage| ResourceUsage {
            name: resource.to_string(),
            total: quantity(resource, usage.total),
            allocated: quantity(resource, usage.allocated),
            reserved: quantity(resource, usage.reserved()),
            borrowed: Some(quantity(resource, usage.borrowed)),
        }),
        pending_requests: resource_list(&requested(&status.pending_requests, quota)),
        usage: usage_text(&sum_by_resource(&status.usage, |usage| usage.total), quota),
        fair_sharing: shares::share(status.share),
    }
}

/// How many resources are told of that the queue has no quota for: whoever makes a job may name as many as he likes, and
/// must not fill the status of a queue that all share, or its metrics.
const WITHOUT_QUOTA_MAX: usize = 32;

/// What pending workloads request: of each resource that the ClusterQueue has quota for, of the pods themselves, and of a few
/// others.
pub fn requested(
    pending: &BTreeMap<ResourceName, Amount>,
    quota: Option<&QueueQuota>,
) -> BTreeMap<ResourceName, Amount> {
    let flavors = quota.iter().flat_map(|quota| quota.quota.values());
    let known: BTreeSet<&ResourceName> = flavors.flat_map(BTreeMap::keys).collect();
    let is_known = |resource: &ResourceName| {
        resource.as_str() == ResourceName::PODS || known.contains(resource)
    };
    let (known, others): (Vec<_>, Vec<_>) =
        pending.iter().partition(|(resource, _)| is_known(resource));
    let told = known
        .into_iter()
        .chain(others.into_iter().take(WITHOUT_QUOTA_MAX));
    told.map(|(resource, amount)| (resource.clone(), *amount))
        .collect()
}

/// What gates hold of a LocalQueue.
#[derive(Debug)]
pub struct GatedOfQueue {
    /// How many jobs and pods.
    pub count: i32,
    /// Those that are held for the longest.
    pub oldest: Vec<GatedObject>,
    /// Which gates hold too much of it, if there is such a gate.
    pub backlog: Option<ConditionUpdate>,
}

/// The status of a LocalQueue. `quota` is that of its ClusterQueue. `fault` says what is wrong with the object.
pub fn local_queue(
    known: &LocalQueueStatus,
    status: &sluice_engine::LocalQueueStatus,
    quota: Option<&QueueQuota>,
    fault: Option<&Fault>,
    gated: GatedOfQueue,
    generation: Option<i64>,
    now: Present,
) -> LocalQueueStatus {
    let update = match (fault, &status.active) {
        (Some(Fault::Broken(message)), _) => inactive("Invalid", format!("Can't admit: {message}")),
        (Some(Fault::Unreadable(error)), Ok(())) => {
            as_before("Jobs of this queue can be admitted", error)
        }
        (None, Ok(())) => active("Jobs of this queue can be admitted"),
        (_, Err(reason)) => inactive(
            local_reason(reason),
            format!("Can't admit: {}{}", reason, local_remedy(reason)),
        ),
    };
    let mut conditions = known.conditions.clone();
    conditions::set(&mut conditions, update, generation, now);
    let was_backlogged = conditions::is_true(&conditions, ConditionType::Backlogged);
    let backlog = match gated.backlog {
        None if was_backlogged => Some(status::no_queue_backlog()),
        backlog => backlog,
    };
    if let Some(update) = backlog {
        conditions::set(&mut conditions, update, generation, now);
    }
    LocalQueueStatus {
        conditions,
        gated_workloads: gated.count,
        oldest_gated: gated.oldest,
        pending_workloads: count(status.pending),
        reserving_workloads: count(status.reserving),
        admitted_workloads: count(status.admitted),
        flavors_usage: usage(&status.usage, |resource, usage| ResourceUsage {
            name: resource.to_string(),
            total: quantity(resource, usage.total),
            allocated: quantity(resource, usage.allocated),
            reserved: quantity(resource, usage.reserved()),
            borrowed: None,
        }),
        pending_requests: resource_list(&requested(&status.pending_requests, quota)),
        usage: usage_text(&sum_by_resource(&status.usage, |usage| usage.total), quota),
        fair_sharing: shares::used_over_time(
            known.fair_sharing.as_ref(),
            status.consumed.as_ref(),
            false,
        ),
    }
}

/// The status of a Cohort.
pub fn cohort(
    known: &CohortStatus,
    status: &sluice_engine::CohortStatus,
    fault: Option<&Fault>,
    generation: Option<i64>,
    now: Present,
) -> CohortStatus {
    let update = match (fault, &status.active) {
        (Some(Fault::Broken(message)), _) => {
            inactive("Invalid", format!("Quota can't be counted: {message}"))
        }
        (Some(Fault::Unreadable(error)), Ok(())) => {
            as_before("Queues of this cohort can admit jobs", error)
        }
        (None, Ok(())) => active("Queues of this cohort can admit jobs"),
        (_, Err(reason)) => inactive(
            reason.reason(),
            format!(
                "Queues of this cohort can't admit: {}{}",
                reason,
                remedy(reason)
            ),
        ),
    };
    let mut conditions = known.conditions.clone();
    conditions::set(&mut conditions, update, generation, now);
    let used = sum_by_resource(&status.usage, |used| *used);
    CohortStatus {
        conditions,
        usage: told(&used, &sum_by_resource(&status.quota, |quota| *quota)),
        fair_sharing: shares::share(status.share),
    }
}

/// What is used of this quota, for people.
fn usage_text(used: &BTreeMap<ResourceName, Amount>, quota: Option<&QueueQuota>) -> Option<String> {
    let nominal = quota.map(|quota| sum_by_resource(&quota.quota, |quota| quota.nominal));
    told(used, &nominal.unwrap_or_default())
}

/// `cpu 3/4, memory 2Gi/8Gi`: each resource that there is quota for, or that is used. None if there is none.
fn told(
    used: &BTreeMap<ResourceName, Amount>,
    quota: &BTreeMap<ResourceName, Amount>,
) -> Option<String> {
    let amount = |of: &BTreeMap<ResourceName, Amount>, resource: &ResourceName| {
        of.get(resource).copied().unwrap_or_default()
    };
    let resources: BTreeSet<&ResourceName> = used.keys().chain(quota.keys()).collect();
    let parts: Vec<String> = resources
        .into_iter()
        .map(|resource| (resource, amount(used, resource), amount(quota, resource)))
        .filter(|(_, used, quota)| Amount::ZERO < *used || Amount::ZERO < *quota)
        .map(|(resource, used, quota)| {
            let about = |amount: Amount| Quantity::about(resource.as_str(), amount.get());
            format!("{resource} {}/{}", about(used), about(quota))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn active(message: &str) -> ConditionUpdate {
    ConditionUpdate {
        kind: ConditionType::Active,
        is_true: true,
        reason: "Ready",
        message: message.to_owned(),
    }
}

/// What is said of an object that can't be read any more.
fn as_before(message: &str, error: &str) -> ConditionUpdate {
    ConditionUpdate {
        reason: "Unreadable",
        ..active(&format!(
            "{message}, by the object as it was before: it can't be read now: {error}"
        ))
    }
}

fn inactive(reason: &'static str, message: String) -> ConditionUpdate {
    ConditionUpdate {
        kind: ConditionType::Active,
        is_true: false,
        reason,
        message,
    }
}

fn remedy(reason: &InactiveReason) -> &'static str {
    match reason {
        InactiveReason::Stopped => "; set spec.stopPolicy to None to admit jobs again",
        InactiveReason::FlavorNotFound(_) => {
            "; create them, or remove them from spec.resourceGroups"
        }
        InactiveReason::CohortCycle(_) => "; change spec.parentName of one of them",
        InactiveReason::CohortTreeTooDeep => "; remove levels from the tree",
    }
}

fn local_reason(reason: &LocalQueueInactiveReason) -> &'static str {
    match reason {
        LocalQueueInactiveReason::Stopped => "Stopped",
        LocalQueueInactiveReason::NamespaceNotSelected => "NamespaceNotSelected",
        LocalQueueInactiveReason::ClusterQueueNotFound(_) => "ClusterQueueNotFound",
        LocalQueueInactiveReason::ClusterQueueInactive(_) => "ClusterQueueInactive",
    }
}

fn local_remedy(reason: &LocalQueueInactiveReason) -> &'static str {
    match reason {
        LocalQueueInactiveReason::Stopped => "; set spec.stopPolicy to None to admit jobs again",
        LocalQueueInactiveReason::NamespaceNotSelected => {
            "; change its spec.namespaceSelector or the labels of this namespace"
        }
        LocalQueueInactiveReason::ClusterQueueNotFound(_) => {
            "; create it, or delete this LocalQueue and create it again for another ClusterQueue"
        }
        LocalQueueInactiveReason::ClusterQueueInactive(reason) => remedy(reason),
    }
}

fn usage<T>(
    by_flavor: &ByFlavor<T>,
    record: impl Fn(&ResourceName, &T) -> ResourceUsage,
) -> Vec<FlavorUsage> {
    by_flavor
        .iter()
        .map(|(flavor, resources)| FlavorUsage {
            name: flavor.to_string(),
            resources: resources
                .iter()
                .map(|(resource, usage)| record(resource, usage))
                .collect(),
        })
        .collect()
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use sluice_crds::quantity::NANOS;

    use super::*;

    #[test]
    fn resources_that_anybody_may_name_crowd_out_no_others() {
        let one = Amount::new(1);
        let strange = (0..1000).map(|n| (format!("a.io/{n:04}").as_str().into(), one));
        let usual = ["cpu", "example.com/gpu", ResourceName::PODS].map(|name| (name.into(), one));
        let pending: BTreeMap<ResourceName, Amount> = strange.chain(usual).collect();
        let of_flavor = |name: &str| (name.into(), sluice_engine::Quota::default());
        let quota = QueueQuota {
            cohort: None,
            quota: [(
                "spot".into(),
                ["cpu", "example.com/gpu"].map(of_flavor).into(),
            )]
            .into(),
        };
        let told = requested(&pending, Some(&quota));
        assert_eq!(told.len(), 3 + WITHOUT_QUOTA_MAX);
        for name in ["cpu", "example.com/gpu", ResourceName::PODS, "a.io/0000"] {
            assert_eq!(told.get(name), Some(&one), "{name}");
        }
        assert!(!told.contains_key("a.io/0999"));
    }

    #[test]
    fn usage_is_told_by_resource() {
        let amounts = |all: &[(&str, i128)]| {
            let all = all.iter();
            all.map(|(name, amount)| ((*name).into(), Amount::new(*amount)))
                .collect()
        };
        let gib = NANOS << 30;
        let quota = amounts(&[("cpu", 4 * NANOS), ("memory", 8 * gib), ("a.io/licence", 0)]);
        let cases = [
            ("none", amounts(&[]), "cpu 0/4, memory 0/8Gi"),
            (
                "some",
                amounts(&[("cpu", NANOS / 2 + 1), ("memory", gib)]),
                "cpu 500m/4, memory 1Gi/8Gi",
            ),
            (
                "without quota",
                amounts(&[("cpu", 5 * NANOS), ("pods", NANOS)]),
                "cpu 5/4, memory 0/8Gi, pods 1/0",
            ),
        ];
        for (name, used, expected) in cases {
            assert_eq!(told(&used, &quota).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(told(&amounts(&[]), &amounts(&[("cpu", 0)])), None);
    }
}
