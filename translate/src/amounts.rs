//! Amounts of resources, as they are counted and as they are written.

use std::collections::BTreeMap;

use sluice_crds as crds;
use sluice_crds::Quantity;
use sluice_engine::{Amount, ResourceName};
use sluice_kinds::Problem;

/// What one pod costs of the resource `pods`: one, in nano-units.
pub const POD: Amount = Amount::new(crds::quantity::NANOS);

pub(crate) fn amounts(
    list: &crds::ResourceList,
    field: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<ResourceName, Amount> {
    let mut translated = BTreeMap::new();
    for (name, quantity) in list {
        match quantity.nanos() {
            Ok(nanos) => {
                translated.insert(name.as_str().into(), Amount::new(nanos));
            }
            Err(error) => problems.push(Problem::invalid(
                format!("{field}[{name}]"),
                &*quantity.0,
                error.to_string(),
            )),
        }
    }
    translated
}

/// How many pods a set has, which stands at `field`.
pub(crate) fn count(count: i32, field: &str, problems: &mut Vec<Problem>) -> u32 {
    u32::try_from(count).unwrap_or_else(|_| {
        let rule = "must be greater than or equal to 0";
        problems.push(Problem::invalid(field, count.to_string(), rule));
        0
    })
}

/// Amounts as they are written in the API.
pub fn resource_list(amounts: &BTreeMap<ResourceName, Amount>) -> crds::ResourceList {
    amounts
        .iter()
        .map(|(resource, amount)| (resource.to_string(), quantity(resource, *amount)))
        .collect()
}

/// The amount as it is written in the API.
pub fn quantity(resource: &ResourceName, amount: Amount) -> Quantity {
    Quantity::of(resource.as_str(), amount.get())
}
