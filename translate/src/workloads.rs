//! What workloads ask for: pod sets for the engine, and as they are recorded.

use sluice_crds as crds;
use sluice_crds::Quantity;
use sluice_engine as engine;
use sluice_engine::{Amount, Borrowing};
use sluice_kinds::Problem;
use sluice_kinds::requests::Amounts;
use sluice_kinds::template::Placement;
use sluice_kinds::view::PodSetView;

use crate::amounts::{amounts, count};
use crate::nodes::{affinity_term, toleration};

/// The pod sets of a Workload for the engine.
///
/// # Errors
/// All requests that can't be counted.
pub fn pod_sets(
    spec: &crds::WorkloadSpec,
    borrowing: Borrowing,
) -> Result<Vec<engine::PodSet>, Vec<Problem>> {
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
            tolerations: set.tolerations.iter().filter_map(toleration).collect(),
            min_count: set.min_count.and_then(|count| u32::try_from(count).ok()),
            borrowing,
            ..engine::PodSet::new(
                set.name.as_str().into(),
                count(
                    set.count,
                    &format!("spec.podSets[{index}].count"),
                    &mut problems,
                ),
            )
        })
        .collect();
    if problems.is_empty() {
        Ok(translated)
    } else {
        Err(problems)
    }
}

/// What a set of pods asks for that no Workload records.
pub fn pod_set(view: &PodSetView, borrowing: Borrowing) -> engine::PodSet {
    engine::PodSet {
        borrowing,
        min_count: min_count(view, view.count),
        requests: view
            .requests
            .iter()
            .map(|(name, nanos)| (name.as_str().into(), Amount::new(*nanos)))
            .collect(),
        node_selector: view.placement.node_selector.clone(),
        affinity: view.required_affinity.iter().map(affinity_term).collect(),
        tolerations: view
            .placement
            .tolerations
            .iter()
            .filter_map(toleration)
            .collect(),
        ..engine::PodSet::new((&*view.name).into(), view.count)
    }
}

/// A pod set as a Workload records it, with `placement` and `count` as its own.
pub fn pod_set_record(view: &PodSetView, placement: &Placement, count: u32) -> crds::PodSet {
    let as_recorded = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    crds::PodSet {
        name: view.name.to_string(),
        count: as_recorded(count),
        min_count: min_count(view, count).map(as_recorded),
        requests: recorded(&view.usage()),
        resource_claim_templates: view.claimed_templates(),
        claimed_devices: view.devices.as_ref().map(recorded).unwrap_or_default(),
        node_selector: placement.node_selector.clone(),
        required_node_affinity: view.required_affinity.clone(),
        tolerations: placement.tolerations.clone(),
    }
}

fn recorded(amounts: &Amounts) -> crds::ResourceList {
    let quantities = amounts.iter();
    quantities
        .map(|(name, nanos)| (name.clone(), Quantity::of(name, *nanos)))
        .collect()
}

/// How many of `count` pods will do, if fewer will.
fn min_count(view: &PodSetView, count: u32) -> Option<u32> {
    let told = view.min_count.as_ref()?.as_ref().ok().copied();
    told.filter(|min_count| *min_count < count)
}
