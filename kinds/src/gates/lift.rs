//! What lifting one gate changes in the gate annotations of an object. Who may lift it lies in the webhooks; who
//! writes it, in the controller and the plugin.

use std::collections::BTreeMap;

use super::annotations::{ADMISSION_GATED_BY, present};
use super::gate_name::Gate;

/// The gate annotations that change when `gate` is lifted, with their values afterwards: None is removed. Empty if
/// the gate is not there.
///
/// Nothing else changes: other gates stay in their order, and so does what names no gate and holds the object. A
/// gate that stands in both annotations leaves both.
///
/// ```
/// use std::collections::BTreeMap;
/// use sluice_kinds::gates::{ADMISSION_GATED_BY, Gate, without};
/// let value = "acme.io/budget, acme.io/data".to_owned();
/// let gate = Gate::parse("acme.io/budget", "").unwrap();
/// let changes = without(&BTreeMap::from([(ADMISSION_GATED_BY.to_owned(), value)]), &gate);
/// assert_eq!(changes[ADMISSION_GATED_BY].as_deref(), Some("acme.io/data"));
/// ```
pub fn without(
    annotations: &BTreeMap<String, String>,
    gate: &Gate,
) -> BTreeMap<&'static str, Option<String>> {
    present(annotations)
        .filter_map(|(key, value)| {
            // The annotation for one gate takes its value as it is: space belongs to the (invalid) name.
            let names: Vec<&str> = if key == ADMISSION_GATED_BY {
                value.split(',').map(str::trim).collect()
            } else {
                vec![value]
            };
            let left = names.iter().filter(|name| **name != gate.as_str());
            let left: Vec<&str> = left.copied().collect();
            let is_there = left.len() < names.len();
            is_there.then(|| (key, (!left.is_empty()).then(|| left.join(","))))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::annotations::{SCHEDULING_GATED_BY, check_update};
    use super::*;

    const BUDGET: &str = "acme.io/budget";

    fn annotations(one: Option<&str>, list: Option<&str>) -> BTreeMap<String, String> {
        let pairs = [(SCHEDULING_GATED_BY, one), (ADMISSION_GATED_BY, list)];
        let pairs = pairs.into_iter();
        pairs
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
            .collect()
    }

    #[test]
    fn a_gate_leaves_and_nothing_else_does() {
        let (gone, same) = (Some(None), None);
        let left = |value: &str| Some(Some(value.to_owned()));
        let cases = [
            // The annotation for one gate.
            ((None, None), (same.clone(), same.clone())),
            ((Some("acme.io/budget"), None), (gone.clone(), same.clone())),
            (
                (Some("acme.io/budgets"), None),
                (same.clone(), same.clone()),
            ),
            (
                (Some(" acme.io/budget"), None),
                (same.clone(), same.clone()),
            ),
            (
                (Some("acme.io/budget,b/c"), None),
                (same.clone(), same.clone()),
            ),
            ((Some(""), None), (same.clone(), same.clone())),
            // The list.
            ((None, Some("acme.io/budget")), (same.clone(), gone.clone())),
            (
                (None, Some(" acme.io/budget ")),
                (same.clone(), gone.clone()),
            ),
            (
                (None, Some("acme.io/budget,b/c")),
                (same.clone(), left("b/c")),
            ),
            (
                (None, Some("b/c, acme.io/budget, a/b")),
                (same.clone(), left("b/c,a/b")),
            ),
            ((None, Some("b/c")), (same.clone(), same.clone())),
            (
                (None, Some("b/c,acme.io/budget/x")),
                (same.clone(), same.clone()),
            ),
            // Both.
            (
                (Some("acme.io/budget"), Some("b/c,acme.io/budget")),
                (gone.clone(), left("b/c")),
            ),
            (
                (Some("b/c"), Some("acme.io/budget")),
                (same.clone(), gone.clone()),
            ),
            // What breaks the rules stays, and goes on holding the object.
            ((None, Some("acme.io/budget,")), (same.clone(), left(""))),
            (
                (None, Some("acme.io/budget,,x")),
                (same.clone(), left(",x")),
            ),
            (
                (None, Some("acme.io/budget,b/c,acme.io/budget")),
                (same.clone(), left("b/c")),
            ),
            ((None, Some("")), (same.clone(), same.clone())),
        ];
        let gate = Gate::parse(BUDGET, "").unwrap();
        for ((one, list), (one_after, list_after)) in cases {
            let before = annotations(one, list);
            let changes = without(&before, &gate);
            assert_eq!(
                changes.get(SCHEDULING_GATED_BY),
                one_after.as_ref(),
                "{before:?}"
            );
            assert_eq!(
                changes.get(ADMISSION_GATED_BY),
                list_after.as_ref(),
                "{before:?}"
            );
            let mut after = before.clone();
            for (key, value) in changes {
                match value {
                    None => after.remove(key),
                    Some(value) => after.insert(key.to_owned(), value),
                };
            }
            assert_eq!(check_update(&before, &after), [], "{before:?}");
            assert_eq!(without(&after, &gate), BTreeMap::new(), "{before:?}");
        }
    }
}
