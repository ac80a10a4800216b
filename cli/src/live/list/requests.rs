//! What jobs request, and what they hold, in all.
//!
//! Must not know what is made of it.

use std::collections::{BTreeMap, HashMap};

use kube::Client;
use kube::api::DynamicObject;
use sluice_crds::{Quantity, Workload};
use sluice_engine::Admission;
use sluice_kinds::CompiledKind;
use sluice_kinds::pod::PodView;
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::PodSetView;
use sluice_translate as translate;
use sluice_translate::ReleasedPod;

use crate::cluster::{Resource, Served};
use crate::rules::{of_resource, shipped};

/// Amounts of resources.
pub type Requests = BTreeMap<String, Quantity>;

/// What a Workload asks for.
pub fn of_workload(workload: &Workload) -> Requests {
    let sets = workload.spec.pod_sets.iter().flat_map(|set| {
        let requests = set.requests.iter();
        requests.map(|(resource, quantity)| {
            let each = quantity.nanos().unwrap_or_default();
            (resource.as_str(), each, i128::from(set.count))
        })
    });
    sums(sets)
}

/// What a Workload holds, as the controller counts it: of the pods that were admitted, those that have not ended for good,
/// and of what they request, what there is quota for. Nothing if that can't be counted.
pub fn held(workload: &Workload) -> Requests {
    let status = workload.status.as_ref();
    let Some(admission) = status.and_then(|status| status.admission.as_ref()) else {
        return Requests::new();
    };
    let ended = |pod_set: &str| {
        let mut sets = status.into_iter().flat_map(|s| &s.reclaimable_pods);
        let set = sets.find(|set| set.name == pod_set);
        set.map_or(0, |set| u32::try_from(set.count).unwrap_or_default())
    };
    let bound: HashMap<String, u32> = HashMap::new();
    let held = translate::admission(admission, ended, &bound);
    held.map_or_else(|_| Requests::new(), |held| usage(&held))
}

/// What a pod that is admitted by itself asks for, whatever its queue is called by.
pub fn of_pod(pod: &PodView) -> Requests {
    pod.asks.as_ref().map_or_else(
        |_| Requests::new(),
        |asks| of_sets(std::slice::from_ref(asks)),
    )
}

/// What a pod holds that is admitted by itself: of what it asks for, what it was given flavors for.
pub fn held_by_pod(pod: &PodView) -> Requests {
    let (Some(Ok(admitted)), Ok(asks)) = (&pod.admitted, &pod.asks) else {
        return of_pod(pod);
    };
    usage(&translate::pod_admission(ReleasedPod {
        cluster_queue: admitted.cluster_queue.as_str(),
        cohort: admitted.cohort.as_deref(),
        flavors: &admitted.flavors,
        asks,
        is_bound: pod.is_bound,
    }))
}

/// What an object asks for by itself: a namespace may add to that when it is queued. Nothing if it can't be read.
pub async fn asked(
    client: &Client,
    served: &Served,
    resource: &Resource,
    object: &DynamicObject,
) -> Requests {
    let Some(rules) = rules_of(client, served, resource).await else {
        return Requests::new();
    };
    let object = serde_json::to_value(object).unwrap_or_default();
    let sets = rules.pod_sets(&object, &PodDefaults::default());
    of_sets(&sets.unwrap_or_default())
}

/// How objects of a kind are read: by the JobKind of the cluster, or by the one that is shipped where the caller sees
/// none.
async fn rules_of(client: &Client, served: &Served, resource: &Resource) -> Option<CompiledKind> {
    let found = of_resource(client, served, resource).await;
    let shipped = || shipped::of_kind(&resource.api.group, &resource.api.kind);
    found.rules.or_else(shipped)
}

fn of_sets(sets: &[PodSetView]) -> Requests {
    sums(sets.iter().flat_map(|set| {
        let requests = set.requests.iter();
        requests.map(|(resource, each)| (resource.as_str(), *each, i128::from(set.count)))
    }))
}

fn usage(admission: &Admission) -> Requests {
    let usage = admission.pod_sets.iter().flat_map(|set| &set.usage);
    sums(usage.map(|(resource, sum)| (resource.as_str(), sum.get(), 1)))
}

/// The sums of amounts of resources, each so often.
fn sums<'a>(amounts: impl Iterator<Item = (&'a str, i128, i128)>) -> Requests {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for (resource, each, count) in amounts {
        let sum = sums.entry(resource).or_default();
        *sum = sum.saturating_add(each.saturating_mul(count));
    }
    let sums = sums.into_iter();
    sums.map(|(resource, nanos)| (resource.to_owned(), Quantity::of(resource, nanos)))
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::live::jobs::read;
    use crate::rules::queue_names::QueueNames;

    fn shown(requests: &Requests) -> Vec<(&str, &str)> {
        let requests = requests.iter();
        requests
            .map(|(name, amount)| (name.as_str(), amount.0.as_str()))
            .collect()
    }

    /// Ten pods were asked for and four admitted, of which one has ended; there is no quota for memory.
    #[test]
    fn a_job_holds_what_it_was_admitted_with_and_has_not_ended() {
        let workload: Workload = serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload", "metadata": {"name": "a"},
            "spec": {"queueName": "main", "podSets": [
                {"name": "main", "count": 10, "minCount": 2, "requests": {"cpu": "1", "memory": "1Gi"}},
            ]},
            "status": {
                "admission": {"clusterQueue": "q", "podSetAssignments": [
                    {"name": "main", "count": 4, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "4"}},
                ]},
                "reclaimablePods": [{"name": "main", "count": 1}],
            },
        }))
        .unwrap();
        assert_eq!(
            shown(&of_workload(&workload)),
            [("cpu", "10"), ("memory", "10Gi")]
        );
        assert_eq!(shown(&held(&workload)), [("cpu", "3")]);
    }

    #[test]
    fn a_pod_holds_what_it_was_given_flavors_for() {
        let record =
            json!({"clusterQueue": "q", "flavors": {"cpu": "spot"}, "at": "2026-03-01T11:30:00Z"});
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "single", "labels": {"sluice.dev/queue-name": "main", "sluice.dev/managed": "true"},
                "annotations": {"sluice.dev/admitted": record.to_string()},
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}]},
        }))
        .unwrap();
        let held_by = |pod: &Pod| {
            let (_, view) = read(pod, &QueueNames::default()).unwrap();
            held_by_pod(&view)
        };
        assert_eq!(shown(&held_by(&pod)), [("cpu", "250m")]);
        // One that runs without an admission is counted by what it asks for.
        pod.metadata.annotations = None;
        assert_eq!(shown(&held_by(&pod)), [("cpu", "250m"), ("memory", "1Gi")]);
    }
}
