//! Which resource the devices of a class are counted as: the mappings of the configuration, checked.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_kinds::Problem;
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::names::{is_qualified_name, subdomain};

/// Most mappings.
const MAPPINGS_MAX: usize = 16;
/// The field of the configuration.
const FIELD: &str = "deviceClasses";

/// Classes of devices that are counted as one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceClassMapping {
    /// The resource, such as `example.com/gpu`.
    name: String,
    /// The names of the DeviceClasses, such as `gpu.example.com`. At least one.
    device_class_names: Vec<String>,
}

/// What is wrong with these mappings.
pub(crate) fn check(mappings: &[DeviceClassMapping]) -> Vec<Problem> {
    let mut problems = Vec::new();
    if MAPPINGS_MAX < mappings.len() {
        let detail = format!("must have at most {MAPPINGS_MAX} elements");
        problems.push(Problem::too_many(FIELD, mappings.len(), detail));
    }
    let (mut resources, mut classes) = (BTreeSet::new(), BTreeSet::new());
    for (index, mapping) in mappings.iter().enumerate() {
        let DeviceClassMapping {
            name,
            device_class_names,
        } = mapping;
        let field = format!("{FIELD}[{index}].name");
        if !is_qualified_name(name) {
            let detail = "must be the name of a resource, such as \"example.com/gpu\"";
            problems.push(Problem::invalid(field, name.clone(), detail));
        } else if name == "pods" {
            let detail = "must not be pods: Sluice counts those itself";
            problems.push(Problem::invalid(field, name.clone(), detail));
        } else if !resources.insert(name) {
            problems.push(Problem::duplicate(field, name.clone()));
        }
        let field = format!("{FIELD}[{index}].deviceClassNames");
        if device_class_names.is_empty() {
            let detail = "must name a DeviceClass, such as \"gpu.example.com\"";
            problems.push(Problem::required(field.clone(), detail));
        }
        for (index, class) in device_class_names.iter().enumerate() {
            let field = format!("{field}[{index}]");
            let wrong = subdomain(class, &field);
            if !wrong.is_empty() {
                problems.extend(wrong);
            } else if !classes.insert(class) {
                problems.push(Problem::duplicate(field, class.clone()));
            }
        }
    }
    problems
}

/// The classes of these mappings.
pub(crate) fn classes(mappings: &[DeviceClassMapping]) -> DeviceClasses {
    let classes = mappings.iter().flat_map(|mapping| {
        let names = mapping.device_class_names.iter();
        names.map(|class| (class.clone(), mapping.name.clone()))
    });
    DeviceClasses::new(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mappings(text: &str) -> Vec<DeviceClassMapping> {
        serde_saphyr::from_str(text).unwrap()
    }

    fn told(text: &str) -> Vec<String> {
        let problems = check(&mappings(text));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn classes_are_counted_as_their_resource() {
        let text = "[{name: example.com/gpu, deviceClassNames: [a.example.com, b.example.com]},
            {name: example.com/nic, deviceClassNames: [nic]}]";
        assert!(told(text).is_empty());
        let classes = classes(&mappings(text));
        for (class, resource) in [
            ("a.example.com", Some("example.com/gpu")),
            ("b.example.com", Some("example.com/gpu")),
            ("nic", Some("example.com/nic")),
            ("c.example.com", None),
        ] {
            assert_eq!(classes.resource(class), resource, "{class}");
        }
        assert!(super::classes(&[]).is_empty());
    }

    #[test]
    fn what_can_not_be_meant_is_told_by_field() {
        let cases = [
            (
                "[{name: a b, deviceClassNames: [x]}]",
                "deviceClasses[0].name: Invalid value: \"a b\": must be the name of a resource, such as \
                 \"example.com/gpu\"",
            ),
            (
                "[{name: pods, deviceClassNames: [x]}]",
                "deviceClasses[0].name: Invalid value: \"pods\": must not be pods: Sluice counts those itself",
            ),
            (
                "[{name: a, deviceClassNames: [x]}, {name: a, deviceClassNames: [y]}]",
                "deviceClasses[1].name: Duplicate value: \"a\"",
            ),
            (
                "[{name: a, deviceClassNames: []}]",
                "deviceClasses[0].deviceClassNames: Required value: must name a DeviceClass, such as \
                 \"gpu.example.com\"",
            ),
            (
                "[{name: a, deviceClassNames: [x]}, {name: b, deviceClassNames: [y, x]}]",
                "deviceClasses[1].deviceClassNames[1]: Duplicate value: \"x\"",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(told(text), [expected], "{text}");
        }
        let upper = told("[{name: a, deviceClassNames: [X]}]");
        assert!(
            upper[0].starts_with(
                "deviceClasses[0].deviceClassNames[0]: Invalid value: \"X\": a lowercase RFC 1123 subdomain"
            ),
            "{upper:?}"
        );
        let many: Vec<String> = (0..=MAPPINGS_MAX)
            .map(|n| format!("{{name: r{n}, deviceClassNames: [c{n}]}}"))
            .collect();
        assert_eq!(
            told(&format!("[{}]", many.join(", "))),
            ["deviceClasses: Too many: 17: must have at most 16 elements"]
        );
    }
}
