//! Numbers for cells, so that what is charged is added up without a look at names. What a cell holds
//! in which node is `tree.rs`.

use std::collections::BTreeMap;

use crate::model::ResourceGroup;
use crate::names::{FlavorName, ResourceName};

/// One resource in one flavor.
pub(crate) type FlavorResource = (FlavorName, ResourceName);

/// A cell's number. Numbers are given out in order of arrival, so no decision may depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellId(usize);

/// The cells that quota was ever given for or that were charged. There are as many as flavors and
/// resources that administrators named, so none is forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    ids: BTreeMap<FlavorName, BTreeMap<ResourceName, CellId>>,
    names: Vec<FlavorResource>,
}

impl Cells {
    /// The number of a cell, given out at its first mention.
    pub(crate) fn intern(&mut self, flavor: &FlavorName, resource: &ResourceName) -> CellId {
        if let Some(id) = self.get(flavor, resource) {
            return id;
        }
        let id = CellId(self.names.len());
        self.names.push((flavor.clone(), resource.clone()));
        let of_flavor = self.ids.entry(flavor.clone()).or_default();
        of_flavor.insert(resource.clone(), id);
        id
    }

    /// Gives numbers to all cells that groups have quota for.
    pub(crate) fn intern_groups(&mut self, groups: &[ResourceGroup]) {
        for flavor in groups.iter().flat_map(|group| &group.flavors) {
            for resource in flavor.resources.keys() {
                self.intern(&flavor.name, resource);
            }
        }
    }

    /// The number of a cell that was mentioned before.
    pub(crate) fn get(&self, flavor: &FlavorName, resource: &ResourceName) -> Option<CellId> {
        self.ids.get(flavor)?.get(resource).copied()
    }

    /// The cell that has this number.
    pub(crate) fn name(&self, id: CellId) -> Option<&FlavorResource> {
        self.names.get(id.0)
    }
}
