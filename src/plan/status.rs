//! What the statuses of queues, cohorts and JobKinds say. Pure: from the engine's account to the
//! API types.

use sluice_crds::{
    ClusterQueueStatus, CohortStatus, FlavorUsage, GatedObject, LocalQueueStatus, ResourceUsage,
};
use sluice_engine::{ByFlavor, InactiveReason, LocalQueueInactiveReason, ResourceName};
use sluice_translate::{quantity, resource_list};

use super::outcome::Now;
use super::shares;
use crate::cache::conditions::{self, ConditionUpdate, Type};

/// The status of a ClusterQueue. `broken` says why the object can't be used at all.
pub fn cluster_queue(
    known: &ClusterQueueStatus,
    status: &sluice_engine::QueueStatus,
    broken: Option<&str>,
    generation: Option<i64>,
    now: Now,
) -> ClusterQueueStatus {
    let update = match (broken, &status.active) {
        (Some(message), _) => inactive("Invalid", format!("Can't admit: {message}")),
        (None, Ok(())) => active("Admits jobs"),
        (None, Err(reason)) => inactive(
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
        pending_requests: resource_list(&status.pending_requests),
        fair_sharing: shares::share(status.share),
    }
}

/// The status of a LocalQueue of which gates hold so many jobs and pods, and of them these for the longest. `broken` says why the object can't be
/// used at all.
pub fn local_queue(
    known: &LocalQueueStatus,
    status: &sluice_engine::LocalQueueStatus,
    broken: Option<&str>,
    (gated, oldest_gated): (i32, Vec<GatedObject>),
    generation: Option<i64>,
    now: Now,
) -> LocalQueueStatus {
    let update = match (broken, &status.active) {
        (Some(message), _) => inactive("Invalid", format!("Can't admit: {message}")),
        (None, Ok(())) => active("Jobs of this queue can be admitted"),
        (None, Err(reason)) => inactive(
            local_reason(reason),
            format!("Can't admit: {}{}", reason, local_remedy(reason)),
        ),
    };
    let mut conditions = known.conditions.clone();
    conditions::set(&mut conditions, update, generation, now);
    LocalQueueStatus {
        conditions,
        gated_workloads: gated,
        oldest_gated,
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
        pending_requests: resource_list(&status.pending_requests),
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
    broken: Option<&str>,
    generation: Option<i64>,
    now: Now,
) -> CohortStatus {
    let update = match (broken, &status.active) {
        (Some(message), _) => inactive("Invalid", format!("Quota can't be counted: {message}")),
        (None, Ok(())) => active("Queues of this cohort can admit jobs"),
        (None, Err(reason)) => inactive(
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
    CohortStatus {
        conditions,
        fair_sharing: shares::share(status.share),
    }
}

fn active(message: &str) -> ConditionUpdate {
    ConditionUpdate {
        kind: Type::Active,
        is_true: true,
        reason: "Ready",
        message: message.to_owned(),
    }
}

fn inactive(reason: &'static str, message: String) -> ConditionUpdate {
    ConditionUpdate {
        kind: Type::Active,
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
