//! A request that the ClusterQueue can never provide, whatever is free. Only what is certain is told: each pod set may
//! have another flavor, and what a namespace adds to pods, and what classes of devices count as, is not known here.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_crds::Quantity;
use sluice_kinds::devices::is_named_by_class;
use sluice_kinds::problem::fill;
use sluice_kinds::view::PodSetView;

use crate::admission::policy::Policy;
use crate::admission::queue_states::{GroupLimits, QuotaLimits};
use crate::admission::request::Request;
use crate::rules::queue_label::queue_of;

/// The resource that counts pods.
const PODS: &str = "pods";

const NOT_COVERED: &str =
    "pod set {}: requests {}, for which ClusterQueue {} has no quota; the object can't be admitted";
const TOO_LARGE: &str = "pod set {}: requests {} of {}, and ClusterQueue {} can provide at most {} in one flavor ({}); the object can't be admitted";
const TOO_LARGE_TOGETHER: &str = "pod set {}: no flavor of ClusterQueue {} can provide all that it requests of {}; the object can't be admitted";
const TOO_LARGE_IN_SUM: &str = "its pods request {} of {}, and ClusterQueue {} can provide at most {} in all flavors; the object can't be admitted";

/// What one pod set needs at least, by resource.
type Needs = BTreeMap<String, i128>;

/// That the queue of an object can never provide what the pods of the object request.
pub(super) fn warning(
    request: &Request,
    object: &Value,
    sets: &[PodSetView],
    policy: &Policy,
) -> Option<String> {
    let queue = queue_of(object, policy.queue_labels())?.queue;
    let states = policy.queue_states().load();
    let (cluster_queue, state) = states.cluster_queue(&request.namespace, queue)?;
    let limits = state.limits.as_deref()?;
    let needs: Vec<(&str, Needs)> = sets.iter().map(|set| (&*set.name, needs(set))).collect();
    let mut each = needs.iter();
    each.find_map(|(name, needs)| too_large(name, needs, cluster_queue, limits))
        .or_else(|| too_large_in_sum(&needs, cluster_queue, limits))
}

/// What the pods of a set request, of which the fewest run that will do.
fn needs(set: &PodSetView) -> Needs {
    let fewest = set
        .min_count
        .as_ref()
        .and_then(|fewest| fewest.as_ref().ok());
    let count = i128::from(fewest.copied().unwrap_or(set.count).min(set.count));
    let requests = set.requests.iter();
    let requests = requests.filter(|(resource, _)| !is_named_by_class(resource));
    let pods = (PODS.to_owned(), count.saturating_mul(NANOS));
    requests
        .map(|(resource, each)| (resource.clone(), each.saturating_mul(count)))
        .chain([pods])
        .filter(|(_, amount)| 0 < *amount)
        .collect()
}

/// Nano-units in one.
const NANOS: i128 = 1_000_000_000;

fn too_large(
    set: &str,
    needs: &Needs,
    cluster_queue: &str,
    limits: &QuotaLimits,
) -> Option<String> {
    let (set, queue) = (&format!("{set:?}"), &format!("{cluster_queue:?}"));
    let covers = |resource: &String| limits.groups.iter().any(|group| group.covers(resource));
    let mut uncovered = needs.keys().filter(|resource| !covers(resource));
    if let Some(resource) =
        uncovered.find(|resource| *resource != PODS && !limits.uncovered.ignores(resource))
    {
        return Some(fill(NOT_COVERED, &[set, resource, queue]));
    }
    limits.groups.iter().find_map(|group| {
        let of_group: Vec<_> = needs
            .iter()
            .filter(|(name, _)| group.covers(name))
            .collect();
        let fits = |(resource, amount): &(&String, &i128), flavor: &BTreeMap<String, i128>| {
            flavor.get(*resource).is_none_or(|most| *amount <= most)
        };
        let mut flavors = group.flavors.iter();
        if flavors.any(|(_, flavor)| of_group.iter().all(|need| fits(need, flavor))) {
            return None;
        }
        let largest = |resource: &str| {
            let amounts = group.flavors.iter();
            let amounts = amounts.filter_map(|(name, flavor)| Some((flavor.get(resource)?, name)));
            // Of equal ones the first.
            amounts.rev().max_by_key(|(most, _)| **most)
        };
        let beyond = of_group.iter().find_map(|(resource, amount)| {
            let (most, flavor) = largest(resource)?;
            (most < *amount).then_some((resource, amount, most, flavor))
        });
        let Some((resource, amount, most, flavor)) = beyond else {
            let names: Vec<&str> = of_group.iter().map(|(name, _)| name.as_str()).collect();
            return Some(fill(TOO_LARGE_TOGETHER, &[set, queue, &names.join(", ")]));
        };
        let requested = &Quantity::of(resource, **amount).0;
        let most = &Quantity::of(resource, *most).0;
        let flavor = &format!("{flavor:?}");
        Some(fill(
            TOO_LARGE,
            &[set, requested, resource, queue, most, flavor],
        ))
    })
}

/// More than there is in all flavors together.
fn too_large_in_sum(
    needs: &[(&str, Needs)],
    cluster_queue: &str,
    limits: &QuotaLimits,
) -> Option<String> {
    let mut sum = Needs::new();
    for (resource, amount) in needs.iter().flat_map(|(_, needs)| needs) {
        let of_resource = sum.entry(resource.clone()).or_default();
        *of_resource = of_resource.saturating_add(*amount);
    }
    let most = |resource: &String| {
        let mut groups = limits.groups.iter();
        let group: &GroupLimits = groups.find(|group| group.covers(resource))?;
        let amounts = group.flavors.iter().filter_map(|(_, of)| of.get(resource));
        Some(amounts.fold(0_i128, |sum, amount| sum.saturating_add(*amount)))
    };
    sum.iter().find_map(|(resource, amount)| {
        let most = most(resource).filter(|most| most < amount)?;
        Some(fill(
            TOO_LARGE_IN_SUM,
            &[
                &Quantity::of(resource, *amount).0,
                resource,
                &format!("{cluster_queue:?}"),
                &Quantity::of(resource, most).0,
            ],
        ))
    })
}
