//! What workloads ask for: pod sets for the engine, and as they are recorded.

use k8s_openapi::api::node::v1::Scheduling;
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
            affinity: set
                .required_node_affinity
                .iter()
                .map(affinity_term)
                .collect(),
            min_count: set.min_count.and_then(|count| u32::try_from(count).ok()),
            borrowing,
            ..placed(
                set,
                engine::PodSet::new(
                    set.name.as_str().into(),
                    count(
                        set.count,
                        &format!("spec.podSets[{index}].count"),
                        &mut problems,
                    ),
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

/// A pod set that goes where the pods of `set` will be allowed to, once the API server has added what their RuntimeClass
/// says.
fn placed(set: &crds::PodSet, pod_set: engine::PodSet) -> engine::PodSet {
    let own = Placement {
        node_selector: set.node_selector.clone(),
        tolerations: set.tolerations.clone(),
    };
    let added = set.runtime_class_scheduling.clone().unwrap_or_default();
    let all = own.with(&Placement {
        node_selector: added.node_selector.unwrap_or_default(),
        tolerations: added.tolerations.unwrap_or_default(),
    });
    engine::PodSet {
        node_selector: all.node_selector,
        tolerations: all.tolerations.iter().filter_map(toleration).collect(),
        ..pod_set
    }
}

/// What a set of pods asks for that no Workload records.
pub fn pod_set(view: &PodSetView, borrowing: Borrowing) -> engine::PodSet {
    let placement = view.placement.with(&view.class_placement);
    engine::PodSet {
        borrowing,
        min_count: min_count(view, view.count),
        requests: view
            .requests
            .iter()
            .map(|(name, nanos)| (name.as_str().into(), Amount::new(*nanos)))
            .collect(),
        affinity: view.required_affinity.iter().map(affinity_term).collect(),
        tolerations: placement
            .tolerations
            .iter()
            .filter_map(toleration)
            .collect(),
        node_selector: placement.node_selector,
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
        runtime_class_scheduling: scheduling(&view.class_placement),
    }
}

/// What a RuntimeClass adds to where its pods may go, if it adds anything.
fn scheduling(added: &Placement) -> Option<Scheduling> {
    let selector = &added.node_selector;
    let tolerations = &added.tolerations;
    (!added.is_empty()).then(|| Scheduling {
        node_selector: (!selector.is_empty()).then(|| selector.clone()),
        tolerations: (!tolerations.is_empty()).then(|| tolerations.clone()),
    })
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_kinds::pod::{PodView, QueueGates};
    use sluice_kinds::view::QueueLabels;

    use super::*;

    #[test]
    fn what_a_runtime_class_adds_is_judged_and_not_the_pods_own() {
        let pod = json!({"spec": {
            "containers": [{}],
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        }});
        let pod = PodView::read(&pod, &QueueLabels::default(), &QueueGates::default());
        let tolerations = json!([{"key": "kata", "operator": "Exists"}]);
        let view = PodSetView {
            class_placement: Placement {
                node_selector: [("pool".to_owned(), "kata".to_owned())].into(),
                tolerations: serde_json::from_value(tolerations).unwrap(),
            },
            ..pod.asks.unwrap()
        };
        let record = pod_set_record(&view, &view.placement, 1);
        assert_eq!(record.node_selector, view.placement.node_selector);
        assert_eq!(record.tolerations, view.placement.tolerations);
        let spec = crds::WorkloadSpec {
            pod_sets: vec![record],
            ..crds::WorkloadSpec::default()
        };
        let judged = pod_sets(&spec, Borrowing::Allowed).unwrap().remove(0);
        let expected = [("disk", "ssd"), ("pool", "kata")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(judged.node_selector, expected.into());
        assert_eq!(judged.tolerations.len(), 2);
    }

    #[test]
    fn what_no_runtime_class_adds_is_not_recorded() {
        assert_eq!(scheduling(&Placement::default()), None);
    }
}
