//! Requests for devices by the names of their classes, and what these count as. Which names those are is in `devices`.

use std::collections::BTreeMap;

use crate::read::requests::containers::Amounts;

/// Devices that pods request by the names of their classes, where they are counted as other resources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestedDevices {
    /// The resource that each name counts as.
    resources: BTreeMap<String, String>,
    /// The requests of one pod by these names.
    written: Amounts,
}

impl RequestedDevices {
    /// Of what one pod requests, where these names count as other resources. None without such names.
    pub(crate) fn new(resources: BTreeMap<String, String>, written: &Amounts) -> Option<Self> {
        let written = written.clone();
        (!resources.is_empty()).then_some(Self { resources, written })
    }

    /// What one pod requests by the names that the object has for it.
    pub(crate) fn written(&self) -> &Amounts {
        &self.written
    }

    /// Counts what has these names in `amounts` as it counts now.
    pub fn rename(&self, amounts: &mut Amounts) {
        for (name, resource) in &self.resources {
            if let Some(amount) = amounts.remove(name) {
                let sum = amounts.entry(resource.clone()).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
    }
}
