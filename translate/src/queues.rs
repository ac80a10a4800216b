//! ClusterQueues and Cohorts for the engine.

use std::collections::BTreeMap;

use sluice_crds as crds;
use sluice_crds::Quantity;
use sluice_engine as engine;
use sluice_engine::{Amount, ResourceName};
use sluice_kinds::Problem;

/// A ClusterQueue for the engine.
///
/// # Errors
/// All quantities that can't be counted.
pub fn cluster_queue(
    name: &str,
    spec: &crds::ClusterQueueSpec,
) -> Result<engine::ClusterQueue, Vec<Problem>> {
    let fungibility = spec.flavor_fungibility.unwrap_or_default();
    Ok(engine::ClusterQueue {
        cohort: spec
            .cohort_name
            .as_deref()
            .filter(|c| !c.is_empty())
            .map(Into::into),
        strategy: match spec.queueing_strategy {
            crds::QueueingStrategy::BestEffortFIFO => engine::QueueingStrategy::BestEffortFifo,
            crds::QueueingStrategy::StrictFIFO => engine::QueueingStrategy::StrictFifo,
        },
        resource_groups: resource_groups(&spec.resource_groups)?,
        stop: stop_policy(spec.stop_policy),
        fungibility: engine::FlavorFungibility {
            when_can_borrow: match fungibility.when_can_borrow {
                crds::WhenCanBorrow::MayStopSearch => engine::WhenCanBorrow::MayStopSearch,
                crds::WhenCanBorrow::TryNextFlavor => engine::WhenCanBorrow::TryNextFlavor,
            },
            ..engine::FlavorFungibility::default()
        },
        ..engine::ClusterQueue::new(name.into())
    })
}

/// A Cohort for the engine.
///
/// # Errors
/// All quantities that can't be counted.
pub fn cohort(name: &str, spec: &crds::CohortSpec) -> Result<engine::Cohort, Vec<Problem>> {
    Ok(engine::Cohort {
        parent: spec
            .parent_name
            .as_deref()
            .filter(|p| !p.is_empty())
            .map(Into::into),
        resource_groups: resource_groups(&spec.resource_groups)?,
        ..engine::Cohort::new(name.into())
    })
}

/// A stop policy for the engine.
pub fn stop_policy(policy: crds::StopPolicy) -> engine::StopPolicy {
    match policy {
        crds::StopPolicy::None => engine::StopPolicy::None,
        crds::StopPolicy::Hold => engine::StopPolicy::Hold,
        crds::StopPolicy::HoldAndDrain => engine::StopPolicy::HoldAndDrain,
    }
}

fn resource_groups(
    groups: &[crds::ResourceGroup],
) -> Result<Vec<engine::ResourceGroup>, Vec<Problem>> {
    let mut problems = Vec::new();
    let translated = groups
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
                        resources: quotas(flavor, &field, &mut problems),
                    }
                })
                .collect(),
        })
        .collect();
    if problems.is_empty() {
        Ok(translated)
    } else {
        Err(problems)
    }
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
