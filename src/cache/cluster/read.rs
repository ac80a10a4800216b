//! What is read of the settings' objects: their types, and the first flavors of their groups.

use std::collections::BTreeMap;

use kube::api::DynamicObject;

/// The object, as its type has it.
pub(super) fn parse<T: serde::de::DeserializeOwned + Clone>(
    object: Option<&DynamicObject>,
) -> Result<Option<T>, String> {
    let Some(object) = object else {
        return Ok(None);
    };
    let value = serde_json::to_value(object).map_err(|e| e.to_string())?;
    serde_json::from_value(value)
        .map(Some)
        .map_err(|e| e.to_string())
}

/// The flavor that each resource of these groups is taken from first.
pub(super) fn first_flavors(groups: &[sluice_crds::ResourceGroup]) -> BTreeMap<String, String> {
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
