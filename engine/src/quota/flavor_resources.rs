//! Numbers for pairs of flavor and resource, so that usage is added up without comparing names. In the
//! quota tree such a pair is called a *cell*.

use std::collections::BTreeMap;

use crate::api::names::{FlavorName, ResourceName};
use crate::api::quota::ResourceGroup;

/// One resource in one flavor.
pub(crate) type FlavorResource = (FlavorName, ResourceName);

/// The number of a pair of flavor and resource. Numbers are given in order of arrival, so no decision may
/// depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlavorResourceId(usize);

/// All pairs that ever had quota or usage. Administrators name flavors and resources, so there are few, and
/// none is forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlavorResources {
    ids: BTreeMap<FlavorName, BTreeMap<ResourceName, FlavorResourceId>>,
    names: Vec<FlavorResource>,
}

impl FlavorResources {
    /// The number of a pair, assigned at its first mention.
    pub(crate) fn intern(
        &mut self,
        flavor: &FlavorName,
        resource: &ResourceName,
    ) -> FlavorResourceId {
        if let Some(id) = self.get(flavor, resource) {
            return id;
        }
        let id = FlavorResourceId(self.names.len());
        self.names.push((flavor.clone(), resource.clone()));
        let of_flavor = self.ids.entry(flavor.clone()).or_default();
        of_flavor.insert(resource.clone(), id);
        id
    }

    /// Assigns numbers to all pairs that these groups have quota for.
    pub(crate) fn intern_groups(&mut self, groups: &[ResourceGroup]) {
        for flavor in groups.iter().flat_map(|group| &group.flavors) {
            for resource in flavor.resources.keys() {
                self.intern(&flavor.name, resource);
            }
        }
    }

    /// The number of a pair that was mentioned before.
    pub(crate) fn get(
        &self,
        flavor: &FlavorName,
        resource: &ResourceName,
    ) -> Option<FlavorResourceId> {
        self.ids.get(flavor)?.get(resource).copied()
    }

    /// The pair with this number.
    pub(crate) fn name(&self, id: FlavorResourceId) -> Option<&FlavorResource> {
        self.names.get(id.0)
    }
}
