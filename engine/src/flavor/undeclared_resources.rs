//! What the pods of a set request, by resource group, and what becomes of a resource that no group covers: it blocks, or
//! the queue ignores it. Which flavors of a group suit is in `options.rs`.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::names::ResourceName;
use crate::api::queues::ClusterQueue;
use crate::api::quota::ResourceGroup;
use crate::api::workload::PodSet;

/// Requests by the number of their resource group, with the group.
type RequestsByGroup<'a> = BTreeMap<usize, (&'a ResourceGroup, BTreeMap<ResourceName, Amount>)>;

/// The requests of each pod of a set, by resource group. The error is the first resource that no group
/// covers and that the queue does not ignore; a request of zero is fine.
pub(crate) fn requests_by_group<'a>(
    queue: &'a ClusterQueue,
    pod_set: &PodSet,
    pod: Amount,
) -> Result<RequestsByGroup<'a>, ResourceName> {
    let mut groups = RequestsByGroup::new();
    for (resource, amount) in requests_of(queue, pod_set, pod) {
        match group_of(queue, &resource) {
            Some((number, group)) => {
                let (_, requests) = groups
                    .entry(number)
                    .or_insert_with(|| (group, BTreeMap::new()));
                requests.insert(resource, amount);
            }
            None if amount == Amount::ZERO || pod_set.count == 0 => {}
            None if (queue.undeclared_resources.as_ref()).is_some_and(|u| u.ignores(&resource)) => {
            }
            None => return Err(resource),
        }
    }
    Ok(groups)
}

/// The requests of each pod of a set in a queue, and the pod itself if the queue has quota for pods.
fn requests_of(
    queue: &ClusterQueue,
    pod_set: &PodSet,
    pod: Amount,
) -> BTreeMap<ResourceName, Amount> {
    let requests = pod_set.requests.iter();
    let named = requests.filter(|(resource, _)| !resource.is_pods());
    let mut requests: BTreeMap<ResourceName, Amount> = named
        .map(|(resource, amount)| (resource.clone(), *amount))
        .collect();
    let pods = ResourceName::from(ResourceName::PODS);
    if group_of(queue, &pods).is_some() {
        requests.insert(pods, pod);
    }
    requests
}

/// The resource group that a resource counts in.
fn group_of<'a>(
    queue: &'a ClusterQueue,
    resource: &ResourceName,
) -> Option<(usize, &'a ResourceGroup)> {
    let mut groups = queue.resource_groups.iter().enumerate();
    groups.find(|(_, group)| group.covered_resources.contains(resource))
}
