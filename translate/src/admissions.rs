//! What workloads hold: admissions for the engine, and as they are recorded.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

use sluice_crds as crds;
use sluice_engine as engine;
use sluice_engine::{Amount, ClusterQueueName, ResourceName, Time};
use sluice_kinds::Problem;
use sluice_kinds::template::Placement;
use sluice_kinds::view::PodSetView;

use crate::amounts::{POD, amounts, count, quantity};

/// What a Workload holds, for the engine: what it was admitted with, without the pods of each set that
/// have ended for good. `bound` says how many pods of each set have a node.
///
/// # Errors
/// All usage that can't be counted.
pub fn admission<S: BuildHasher>(
    admission: &crds::Admission,
    ended: impl Fn(&str) -> u32,
    bound: &HashMap<String, u32, S>,
) -> Result<engine::Admission, Vec<Problem>> {
    let mut problems = Vec::new();
    let pod_sets = admission
        .pod_set_assignments
        .iter()
        .enumerate()
        .map(|(index, set)| {
            let whole = engine::PodSetAssignment {
                name: set.name.as_str().into(),
                count: count(
                    set.count,
                    &format!("status.admission.podSetAssignments[{index}].count"),
                    &mut problems,
                ),
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
            queue: ClusterQueueName::from(admission.cluster_queue.as_str()),
            cohort: admission.cohort_name.as_deref().map(Into::into),
            since: Time::default(),
            unused_since: None,
            had_nodes: false,
            pod_sets,
        })
    } else {
        Err(problems)
    }
}

/// The pod sets of an admission, where nobody knows what they asked for.
pub fn admitted_pod_sets(admission: &engine::Admission) -> Vec<engine::PodSet> {
    let sets = admission.pod_sets.iter();
    sets.map(|set| engine::PodSet::new(set.name.clone(), set.count))
        .collect()
}

/// The flavor that each resource of these groups is taken from first: those of a pod that runs without an
/// admission.
pub fn first_flavors(groups: &[crds::ResourceGroup]) -> BTreeMap<String, String> {
    let mut first = BTreeMap::new();
    for group in groups {
        for resource in &group.covered_resources {
            if let Some(flavor) = group.flavors.first() {
                first
                    .entry(resource.clone())
                    .or_insert_with(|| flavor.name.clone());
            }
        }
    }
    first
}

/// A pod that was released by itself.
#[derive(Debug, Clone, Copy)]
pub struct ReleasedPod<'a> {
    /// Its ClusterQueue.
    pub cluster_queue: &'a str,
    /// The cohort that the ClusterQueue was in by then.
    pub cohort: Option<&'a str>,
    /// The flavor that it was given of each resource.
    pub flavors: &'a BTreeMap<String, String>,
    /// What it asks for.
    pub asks: &'a PodSetView,
    /// Whether it has a node.
    pub is_bound: bool,
}

/// What a pod holds that was released by itself: what it asks for, of the flavors that it was given.
pub fn pod_admission(pod: ReleasedPod<'_>) -> engine::Admission {
    let ReleasedPod {
        cluster_queue,
        cohort,
        flavors,
        asks,
        is_bound,
    } = pod;
    let amount = |resource: &ResourceName| {
        if resource.as_str() == ResourceName::PODS {
            return Some(POD);
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
        queue: ClusterQueueName::from(cluster_queue),
        cohort: cohort.map(Into::into),
        since: Time::default(),
        unused_since: None,
        had_nodes: false,
        pod_sets: Arc::new([engine::PodSetAssignment {
            name: (&*asks.name).into(),
            count: 1,
            bound: u32::from(is_bound),
            flavors: flavors
                .iter()
                .map(|(resource, flavor)| (resource.as_str().into(), flavor.as_str().into()))
                .collect(),
            usage,
        }]),
    }
}

/// What the engine gave, as it is written. `flavors` says what each flavor adds to a template.
pub fn admission_record(
    admission: &engine::Admission,
    flavors: &BTreeMap<String, crds::ResourceFlavorSpec>,
) -> crds::Admission {
    crds::Admission {
        term: None,
        cluster_queue: admission.queue.to_string(),
        cohort_name: admission.cohort.as_ref().map(ToString::to_string),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_none_is_told_and_is_not_zero() {
        let assignment = |count| crds::PodSetAssignment {
            name: "main".to_owned(),
            count,
            ..crds::PodSetAssignment::default()
        };
        let read = |count| {
            let stored = crds::Admission {
                pod_set_assignments: vec![assignment(count)],
                ..crds::Admission::default()
            };
            admission(&stored, |_| 0, &HashMap::new()).map(|read| read.pod_sets[0].count)
        };
        assert_eq!(read(3), Ok(3));
        let problems = read(-1).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "status.admission.podSetAssignments[0].count: Invalid value: \"-1\": must be greater than or equal to 0"
        );
    }
}
