//! ClusterQueues, Cohorts and LocalQueues for the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_crds as crds;
use sluice_crds::Quantity;
use sluice_engine as engine;
use sluice_engine::{Amount, ResourceName};
use sluice_kinds::Problem;

/// Resources that a configuration ignores unless it names others: jobs often ask for them, and hardly a queue has
/// quota for them. They are bound to a node, where the scheduler counts them.
pub const IGNORED_RESOURCES: [&str; 3] = ["ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi"];

/// A ClusterQueue for the engine.
///
/// # Errors
/// All values that can't be counted.
pub fn cluster_queue(
    name: &str,
    spec: &crds::ClusterQueueSpec,
) -> Result<engine::ClusterQueue, Vec<Problem>> {
    let mut problems = Vec::new();
    let queue = engine::ClusterQueue {
        cohort: named(spec.cohort_name.as_deref()),
        strategy: match spec.queueing_strategy {
            crds::QueueingStrategy::BestEffortFIFO => engine::QueueingStrategy::BestEffortFifo,
            crds::QueueingStrategy::StrictFIFO => engine::QueueingStrategy::StrictFifo,
        },
        resource_groups: resource_groups(&spec.resource_groups, &mut problems),
        stop: stop_policy(spec.stop_policy),
        fungibility: fungibility(spec.flavor_fungibility.unwrap_or_default()),
        preemption: preemption(spec.preemption.unwrap_or_default()),
        fair_weight: fair_weight(spec.fair_sharing.as_ref(), &mut problems),
        admission_scope: match spec.admission_scope.map(|scope| scope.admission_mode) {
            None | Some(crds::ScopeMode::NoAdmissionFairSharing) => engine::AdmissionScope::ByOrder,
            Some(crds::ScopeMode::UsageBasedAdmissionFairSharing) => {
                engine::AdmissionScope::ByUsage
            }
        },
        max_pending: max_pending(spec.max_pending, &mut problems),
        reservation_timeout: spec
            .reservation
            .as_ref()
            .and_then(|reservation| reservation_timeout(reservation, &mut problems)),
        recovery_timeout: spec
            .reservation
            .as_ref()
            .and_then(|reservation| recovery_timeout(reservation, &mut problems)),
        undeclared_resources: spec.undeclared_resources.map(undeclared_resources),
        ..engine::ClusterQueue::new(name.into())
    };
    all_or(problems, queue)
}

/// A ClusterQueue whose quota can't be counted, for the engine: it admits nothing and has no quota to lend; what
/// its workloads use stays used in its cohort.
pub fn uncountable_cluster_queue(
    name: &str,
    spec: &crds::ClusterQueueSpec,
) -> engine::ClusterQueue {
    engine::ClusterQueue {
        cohort: named(spec.cohort_name.as_deref()),
        stop: match stop_policy(spec.stop_policy) {
            engine::StopPolicy::None => engine::StopPolicy::Hold,
            stopped => stopped,
        },
        ..engine::ClusterQueue::new(name.into())
    }
}

/// A Cohort for the engine.
///
/// # Errors
/// All values that can't be counted.
pub fn cohort(name: &str, spec: &crds::CohortSpec) -> Result<engine::Cohort, Vec<Problem>> {
    let mut problems = Vec::new();
    let cohort = engine::Cohort {
        parent: named(spec.parent_name.as_deref()),
        resource_groups: resource_groups(&spec.resource_groups, &mut problems),
        fair_weight: fair_weight(spec.fair_sharing.as_ref(), &mut problems),
        ..engine::Cohort::new(name.into())
    };
    all_or(problems, cohort)
}

/// A LocalQueue for the engine, with what was recorded of its usage. Whether its namespace is selected
/// is not said in it: it isn't, until the caller says so.
///
/// # Errors
/// All values that can't be counted.
pub fn local_queue(
    key: &engine::LocalQueueKey,
    spec: &crds::LocalQueueSpec,
    status: &crds::LocalQueueStatus,
) -> Result<engine::LocalQueue, Vec<Problem>> {
    let mut problems = Vec::new();
    let queue = engine::LocalQueue {
        stop: stop_policy(spec.stop_policy),
        namespace_selected: false,
        fair_weight: fair_weight(spec.fair_sharing.as_ref(), &mut problems),
        consumed: status.fair_sharing.as_ref().and_then(consumed),
        ..engine::LocalQueue::new(key.clone(), spec.cluster_queue.as_str().into())
    };
    all_or(problems, queue)
}

/// A stop policy for the engine.
fn stop_policy(policy: crds::StopPolicy) -> engine::StopPolicy {
    match policy {
        crds::StopPolicy::None => engine::StopPolicy::None,
        crds::StopPolicy::Hold => engine::StopPolicy::Hold,
        crds::StopPolicy::HoldAndDrain => engine::StopPolicy::HoldAndDrain,
    }
}

fn undeclared_resources(policy: crds::UndeclaredResources) -> engine::UndeclaredResources {
    match policy {
        crds::UndeclaredResources::Block => engine::UndeclaredResources::Block,
        crds::UndeclaredResources::Ignore => engine::UndeclaredResources::Ignore,
    }
}

/// What becomes of resources that no ClusterQueue covers, by a configuration, for the engine: under `Block` those
/// `ignored` are not counted.
pub fn undeclared(
    policy: crds::UndeclaredResources,
    ignored: impl IntoIterator<Item = impl AsRef<str>>,
) -> engine::UndeclaredResources {
    match policy {
        crds::UndeclaredResources::Ignore => engine::UndeclaredResources::Ignore,
        crds::UndeclaredResources::Block => {
            let ignored = ignored.into_iter();
            let ignored: BTreeSet<ResourceName> =
                ignored.map(|name| name.as_ref().into()).collect();
            engine::UndeclaredResources::IgnoreOnly(Arc::new(ignored))
        }
    }
}

/// The value, unless there are problems with it.
fn all_or<T>(problems: Vec<Problem>, value: T) -> Result<T, Vec<Problem>> {
    if problems.is_empty() {
        Ok(value)
    } else {
        Err(problems)
    }
}

/// A cohort that is named; the empty name is none.
fn named(cohort: Option<&str>) -> Option<engine::CohortName> {
    cohort.filter(|name| !name.is_empty()).map(Into::into)
}

fn fungibility(fungibility: crds::FlavorFungibility) -> engine::FlavorFungibility {
    engine::FlavorFungibility {
        when_can_borrow: match fungibility.when_can_borrow {
            crds::WhenCanBorrow::MayStopSearch => engine::WhenCanBorrow::MayStopSearch,
            crds::WhenCanBorrow::TryNextFlavor => engine::WhenCanBorrow::TryNextFlavor,
        },
        when_can_preempt: match fungibility.when_can_preempt {
            crds::WhenCanPreempt::MayStopSearch => engine::WhenCanPreempt::MayStopSearch,
            crds::WhenCanPreempt::TryNextFlavor => engine::WhenCanPreempt::TryNextFlavor,
        },
        preference: match fungibility.preference {
            crds::FlavorPreference::BorrowingOverPreemption => {
                engine::FlavorPreference::BorrowingOverPreemption
            }
            crds::FlavorPreference::PreemptionOverBorrowing => {
                engine::FlavorPreference::PreemptionOverBorrowing
            }
        },
    }
}

fn preemption(preemption: crds::ClusterQueuePreemption) -> engine::Preemption {
    let borrow = preemption.borrow_within_cohort.unwrap_or_default();
    engine::Preemption {
        within_cluster_queue: match preemption.within_cluster_queue {
            crds::WithinClusterQueue::Never => engine::WithinClusterQueue::Never,
            crds::WithinClusterQueue::LowerPriority => engine::WithinClusterQueue::LowerPriority,
            crds::WithinClusterQueue::LowerOrNewerEqualPriority => {
                engine::WithinClusterQueue::LowerOrNewerEqualPriority
            }
        },
        reclaim_within_cohort: match preemption.reclaim_within_cohort {
            crds::ReclaimWithinCohort::Never => engine::ReclaimWithinCohort::Never,
            crds::ReclaimWithinCohort::LowerPriority => engine::ReclaimWithinCohort::LowerPriority,
            crds::ReclaimWithinCohort::Any => engine::ReclaimWithinCohort::Any,
        },
        borrow_within_cohort: match borrow.policy {
            crds::BorrowWithinCohortPolicy::Never => engine::BorrowWithinCohort::Never,
            crds::BorrowWithinCohortPolicy::LowerPriority => {
                engine::BorrowWithinCohort::LowerPriority {
                    max_priority_threshold: borrow.max_priority_threshold,
                }
            }
        },
    }
}

fn fair_weight(sharing: Option<&crds::FairSharing>, problems: &mut Vec<Problem>) -> engine::Weight {
    let Some(weight) = sharing.and_then(|sharing| sharing.weight.as_ref()) else {
        return engine::Weight::ONE;
    };
    match weight.thousandths() {
        Ok(thousandths) => engine::Weight::from_thousandths(thousandths),
        Err(error) => {
            let field = "spec.fairSharing.weight";
            problems.push(Problem::invalid(field, &*weight.0.0, error.to_string()));
            engine::Weight::ONE
        }
    }
}

fn max_pending(most: Option<i32>, problems: &mut Vec<Problem>) -> Option<usize> {
    let most = most?;
    let counted = usize::try_from(most).ok().filter(|most| 0 < *most);
    if counted.is_none() {
        problems.push(at_least_one("spec.maxPending", most));
    }
    counted
}

fn reservation_timeout(
    reservation: &crds::Reservation,
    problems: &mut Vec<Problem>,
) -> Option<Duration> {
    let field = "spec.reservation.timeoutSeconds";
    some_seconds(field, reservation.timeout_seconds, problems)
}

fn recovery_timeout(
    reservation: &crds::Reservation,
    problems: &mut Vec<Problem>,
) -> Option<Duration> {
    let field = "spec.reservation.recoveryTimeoutSeconds";
    some_seconds(field, reservation.recovery_timeout_seconds?, problems)
}

fn some_seconds(field: &str, seconds: i32, problems: &mut Vec<Problem>) -> Option<Duration> {
    let counted = u64::try_from(seconds).ok().filter(|seconds| 0 < *seconds);
    if counted.is_none() {
        problems.push(at_least_one(field, seconds));
    }
    counted.map(Duration::from_secs)
}

fn at_least_one(field: &str, value: i32) -> Problem {
    let detail = "must be greater than or equal to 1";
    Problem::invalid(field, value.to_string(), detail)
}

/// What was recorded of a LocalQueue's usage. It is a report that anyone may have spoilt: what can't
/// be counted of it counts as nothing, and what is below zero too.
fn consumed(status: &crds::LocalQueueFairSharingStatus) -> Option<engine::Consumed> {
    let record = status.admission_fair_sharing_status.as_ref()?;
    let amount = |quantity: &Quantity| quantity.nanos().ok().filter(|nanos| 0 <= *nanos);
    Some(engine::Consumed {
        at: engine::Time::from_millis(record.last_update.0.as_millisecond()),
        amounts: (record.consumed_resources.iter())
            .filter_map(|(name, used)| Some((name.as_str().into(), Amount::new(amount(used)?))))
            .collect(),
    })
}

fn resource_groups(
    groups: &[crds::ResourceGroup],
    problems: &mut Vec<Problem>,
) -> Vec<engine::ResourceGroup> {
    groups
        .iter()
        .enumerate()
        .map(|(index, group)| engine::ResourceGroup {
            covered_resources: group
                .covered_resources
                .iter()
                .map(|r| r.as_str().into())
                .collect(),
            flavors: group
                .flavors
                .iter()
                .enumerate()
                .map(|(at, flavor)| {
                    let field = format!("spec.resourceGroups[{index}].flavors[{at}]");
                    engine::FlavorQuotas {
                        name: flavor.name.as_str().into(),
                        resources: quotas(flavor, &field, problems),
                    }
                })
                .collect(),
        })
        .collect()
}

fn quotas(
    flavor: &crds::FlavorQuotas,
    field: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<ResourceName, engine::Quota> {
    let mut amount = |field: String, quantity: &Quantity| match quantity.nanos() {
        Ok(nanos) if nanos >= 0 => Amount::new(nanos),
        Ok(_) => {
            problems.push(Problem::invalid(
                field,
                &*quantity.0,
                "must be greater than or equal to 0",
            ));
            Amount::ZERO
        }
        Err(error) => {
            problems.push(Problem::invalid(field, &*quantity.0, error.to_string()));
            Amount::ZERO
        }
    };
    flavor
        .resources
        .iter()
        .enumerate()
        .map(|(index, quota)| {
            let field = format!("{field}.resources[{index}]");
            let translated = engine::Quota {
                nominal: amount(format!("{field}.nominalQuota"), &quota.nominal_quota),
                borrowing_limit: quota
                    .borrowing_limit
                    .as_ref()
                    .map(|q| amount(format!("{field}.borrowingLimit"), q)),
                lending_limit: quota
                    .lending_limit
                    .as_ref()
                    .map(|q| amount(format!("{field}.lendingLimit"), q)),
            };
            (quota.name.as_str().into(), translated)
        })
        .collect()
}

#[cfg(test)]
mod tests;
