//! The quotas that a ClusterQueue or Cohort is configured with.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::quota::{Quota, ResourceGroup};
use crate::quota::flavor_resources::FlavorResource;

/// The quotas of these groups. A resource counts in the first group that covers it, a flavor at its first
/// mention in that group.
pub(crate) fn configured_quotas(groups: &[ResourceGroup]) -> BTreeMap<FlavorResource, Quota> {
    let mut quotas = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        for flavor in &group.flavors {
            for (resource, quota) in &flavor.resources {
                let covered_earlier = groups
                    .iter()
                    .take(index)
                    .any(|earlier| earlier.covered_resources.contains(resource));
                if group.covered_resources.contains(resource) && !covered_earlier {
                    let cell = (flavor.name.clone(), resource.clone());
                    quotas.entry(cell).or_insert_with(|| clamped(*quota));
                }
            }
        }
    }
    quotas
}

fn clamped(quota: Quota) -> Quota {
    Quota {
        nominal: quota.nominal.clamped(),
        borrowing_limit: quota.borrowing_limit.map(Amount::clamped),
        lending_limit: quota.lending_limit.map(Amount::clamped),
    }
}
