//! API types to engine types and back. Amounts are exact; what can't be counted is an error that
//! names the field, never zero.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1 as core;
use sluice_crds as crds;
use sluice_crds::Quantity;
use sluice_engine as engine;
use sluice_engine::{Amount, QueueName, ResourceName, Time};
use sluice_kinds::Problem;
use sluice_kinds::template::Placement;
use sluice_kinds::view::PodSetView;

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

/// A ResourceFlavor for the engine.
pub fn flavor(name: &str, spec: &crds::ResourceFlavorSpec) -> engine::Flavor {
    engine::Flavor {
        name: name.into(),
        node_labels: spec.node_labels.clone(),
        node_taints: spec
            .node_taints
            .iter()
            .filter_map(|taint| {
                Some(engine::Taint {
                    key: taint.key.clone(),
                    value: taint.value.clone().unwrap_or_default(),
                    effect: taint_effect(&taint.effect)?,
                })
            })
            .collect(),
        tolerations: spec.tolerations.iter().map(toleration).collect(),
    }
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

/// The pod sets of a Workload for the engine.
///
/// # Errors
/// All requests that can't be counted.
pub fn pod_sets(spec: &crds::WorkloadSpec) -> Result<Vec<engine::PodSet>, Vec<Problem>> {
    let mut problems = Vec::new();
    let translated = spec
        .pod_sets
        .iter()
        .enumerate()
        .map(|(index, set)| engine::PodSet {
            requests: amounts(
                &set.requests,
                &format!("spec.podSets[{index}].requests"),
                &mut problems,
            ),
            node_selector: set.node_selector.clone(),
            affinity: set
                .required_node_affinity
                .iter()
                .map(affinity_term)
                .collect(),
            tolerations: set.tolerations.iter().map(toleration).collect(),
            ..engine::PodSet::new(
                set.name.as_str().into(),
                u32::try_from(set.count).unwrap_or_default(),
            )
        })
        .collect();
    if problems.is_empty() {
        Ok(translated)
    } else {
        Err(problems)
    }
}

fn amounts(
    list: &crds::ResourceList,
    field: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<ResourceName, Amount> {
    let mut translated = BTreeMap::new();
    for (name, quantity) in list {
        match quantity.nanos() {
            Ok(nanos) => {
                translated.insert(name.as_str().into(), Amount::new(nanos));
            }
            Err(error) => problems.push(Problem::invalid(
                format!("{field}[{name}]"),
                &*quantity.0,
                error.to_string(),
            )),
        }
    }
    translated
}

/// What a Workload holds, for the engine: what it was admitted with, without the pods of each set that
/// have ended for good. `bound` says how many pods of each set have a node.
///
/// # Errors
/// All usage that can't be counted.
pub fn admission(
    admission: &crds::Admission,
    ended: impl Fn(&str) -> u32,
    bound: &HashMap<String, u32>,
) -> Result<engine::Admission, Vec<Problem>> {
    let mut problems = Vec::new();
    let pod_sets = admission
        .pod_set_assignments
        .iter()
        .enumerate()
        .map(|(index, set)| {
            let whole = engine::PodSetAssignment {
                name: set.name.as_str().into(),
                count: u32::try_from(set.count).unwrap_or_default(),
                bound: bound.get(&set.name).copied().unwrap_or_default(),
                flavors: set
                    .flavors
                    .iter()
                    .map(|(r, f)| (r.as_str().into(), f.as_str().into()))
                    .collect(),
                usage: amounts(
                    &set.resource_usage,
                    &format!("status.admission.podSetAssignments[{index}].resourceUsage"),
                    &mut problems,
                ),
            };
            whole.without(ended(&set.name))
        })
        .collect();
    if problems.is_empty() {
        Ok(engine::Admission {
            queue: QueueName::from(admission.cluster_queue.as_str()),
            since: Time::default(),
            unused_since: None,
            pod_sets,
        })
    } else {
        Err(problems)
    }
}

/// What a pod asks for that is admitted by itself.
pub fn pod_set(view: &PodSetView) -> engine::PodSet {
    engine::PodSet {
        requests: view
            .requests
            .iter()
            .map(|(name, nanos)| (name.as_str().into(), Amount::new(*nanos)))
            .collect(),
        node_selector: view.placement.node_selector.clone(),
        affinity: view.required_affinity.iter().map(affinity_term).collect(),
        tolerations: view.placement.tolerations.iter().map(toleration).collect(),
        ..engine::PodSet::new((&*view.name).into(), view.count)
    }
}

/// What a pod holds that was let go by itself: what it asks for, of the flavors that it was given.
pub fn pod_admission(
    queue: &str,
    flavors: &BTreeMap<String, String>,
    asks: &PodSetView,
    is_bound: bool,
) -> engine::Admission {
    let amount = |resource: &ResourceName| {
        if resource.as_str() == ResourceName::PODS {
            return Some(Amount::new(crds::quantity::NANOS));
        }
        asks.requests
            .get(resource.as_str())
            .map(|nanos| Amount::new(*nanos))
    };
    let usage: BTreeMap<ResourceName, Amount> = flavors
        .keys()
        .map(|name| ResourceName::from(name.as_str()))
        .filter_map(|resource| Some((resource.clone(), amount(&resource)?)))
        .collect();
    engine::Admission {
        queue: QueueName::from(queue),
        since: Time::default(),
        unused_since: None,
        pod_sets: vec![engine::PodSetAssignment {
            name: (&*asks.name).into(),
            count: 1,
            bound: u32::from(is_bound),
            flavors: flavors
                .iter()
                .map(|(resource, flavor)| (resource.as_str().into(), flavor.as_str().into()))
                .collect(),
            usage,
        }],
    }
}

/// Amounts as they are written in the API.
pub fn resource_list(amounts: &BTreeMap<ResourceName, Amount>) -> crds::ResourceList {
    amounts
        .iter()
        .map(|(resource, amount)| (resource.to_string(), quantity(resource, *amount)))
        .collect()
}

/// What the engine gave, as it is written. `flavors` says what each flavor adds to a template.
pub fn admission_record(
    admission: &engine::Admission,
    flavors: &BTreeMap<String, crds::ResourceFlavorSpec>,
) -> crds::Admission {
    crds::Admission {
        cluster_queue: admission.queue.to_string(),
        pod_set_assignments: admission
            .pod_sets
            .iter()
            .map(|set| {
                let mut placement = Placement::default();
                for name in set.flavors.values() {
                    if let Some(flavor) = flavors.get(name.as_str()) {
                        placement = placement.with(&Placement {
                            node_selector: flavor.node_labels.clone(),
                            tolerations: flavor.tolerations.clone(),
                        });
                    }
                }
                crds::PodSetAssignment {
                    name: set.name.to_string(),
                    count: i32::try_from(set.count).unwrap_or(i32::MAX),
                    flavors: set
                        .flavors
                        .iter()
                        .map(|(r, f)| (r.to_string(), f.to_string()))
                        .collect(),
                    resource_usage: set
                        .usage
                        .iter()
                        .map(|(r, amount)| (r.to_string(), quantity(r, *amount)))
                        .collect(),
                    node_selector: placement.node_selector,
                    tolerations: placement.tolerations,
                }
            })
            .collect(),
    }
}

/// A pod set as a Workload records it, with `placement` as its own.
pub fn pod_set_record(view: &PodSetView, placement: &Placement) -> crds::PodSet {
    crds::PodSet {
        name: view.name.to_string(),
        count: i32::try_from(view.count).unwrap_or(i32::MAX),
        requests: view
            .requests
            .iter()
            .map(|(name, nanos)| (name.clone(), Quantity::of(name, *nanos)))
            .collect(),
        node_selector: placement.node_selector.clone(),
        required_node_affinity: view.required_affinity.clone(),
        tolerations: placement.tolerations.clone(),
    }
}

/// The amount as it is written in the API.
pub fn quantity(resource: &ResourceName, amount: Amount) -> Quantity {
    Quantity::of(resource.as_str(), amount.get())
}

fn toleration(toleration: &core::Toleration) -> engine::Toleration {
    engine::Toleration {
        key: toleration.key.clone(),
        operator: match toleration.operator.as_deref() {
            Some("Exists") => engine::TolerationOperator::Exists,
            _ => engine::TolerationOperator::Equal,
        },
        value: toleration.value.clone().unwrap_or_default(),
        effect: toleration.effect.as_deref().and_then(taint_effect),
    }
}

fn taint_effect(effect: &str) -> Option<engine::TaintEffect> {
    match effect {
        "NoSchedule" => Some(engine::TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(engine::TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(engine::TaintEffect::NoExecute),
        _ => None,
    }
}

fn affinity_term(term: &core::NodeSelectorTerm) -> engine::NodeSelectorTerm {
    let expressions = term
        .match_expressions
        .iter()
        .flatten()
        .filter_map(|expression| {
            Some(engine::LabelExpression {
                key: expression.key.clone(),
                operator: match expression.operator.as_str() {
                    "In" => engine::LabelOperator::In,
                    "NotIn" => engine::LabelOperator::NotIn,
                    "Exists" => engine::LabelOperator::Exists,
                    "DoesNotExist" => engine::LabelOperator::DoesNotExist,
                    "Gt" => engine::LabelOperator::Gt,
                    "Lt" => engine::LabelOperator::Lt,
                    _ => return None,
                },
                values: expression.values.clone().unwrap_or_default(),
            })
        });
    engine::NodeSelectorTerm {
        expressions: expressions.collect(),
    }
}
