//! What is stored with an earlier version of the CRDs stays readable: no field goes, changes its type, becomes required
//! or loses a value. `crds/tests/fields.txt` lists what there ever was; `UPDATE_GENERATED=1` (`make generate`) adds what
//! is new, and takes nothing away. docs/installing.md says what to do when a field has to change.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed assumption is a failed test, and says where"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use sluice_crds::crd_files;

/// What is told of a field that is missing.
const POLICY: &str =
    "a stored object may have it, so it must stay in this version (docs/installing.md)";

/// A field: its type, and the values that it may have if they are listed.
type Fields = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_field_of_a_stored_object_is_lost() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fields.txt");
    let known = read(&fs::read_to_string(&path).unwrap_or_default());
    let now = fields();
    for (field, traits) in &known {
        let found = now.get(field);
        let found = found.unwrap_or_else(|| panic!("{field} is gone: {POLICY}"));
        let lost: Vec<_> = traits.difference(found).collect();
        assert!(lost.is_empty(), "{field} has lost {lost:?}: {POLICY}");
        let is_required = |traits: &BTreeSet<String>| traits.contains("required");
        assert!(
            is_required(traits) || !is_required(found),
            "{field} is required now: stored objects without it could not be written any more"
        );
        let is_listed = |traits: &BTreeSet<String>| traits.iter().any(|t| t.starts_with('='));
        assert!(
            is_listed(traits) || !is_listed(found),
            "{field} takes listed values only now: stored objects may have others"
        );
    }
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, write(&now)).unwrap();
    }
    assert!(
        read(&fs::read_to_string(&path).unwrap_or_default()) == now,
        "tests/fields.txt lacks new fields: run `make generate`"
    );
}

/// One field a line: its place, and its traits.
fn write(fields: &Fields) -> String {
    let line = |(field, traits): (&String, &BTreeSet<String>)| {
        let traits: Vec<_> = traits.iter().map(String::as_str).collect();
        format!("{field} {}\n", traits.join(" "))
    };
    fields.iter().map(line).collect()
}

fn read(text: &str) -> Fields {
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Some((words.next()?, words.collect()))
    };
    text.lines().filter_map(line).collect()
}

/// All fields of all versions of all CRDs.
fn fields() -> Fields {
    let mut fields = Fields::new();
    for file in crd_files() {
        let definition = serde_json::to_value(&file.definition).unwrap();
        let spec = &definition["spec"];
        let kind = spec["names"]["plural"].as_str().unwrap();
        for version in spec["versions"].as_array().unwrap() {
            let place = format!("{kind}/{}", version["name"].as_str().unwrap());
            collect(&place, &version["schema"]["openAPIV3Schema"], &mut fields);
        }
    }
    fields
}

fn collect(place: &str, schema: &Value, fields: &mut Fields) {
    let type_ = if schema["x-kubernetes-int-or-string"] == true {
        "int-or-string"
    } else {
        schema["type"].as_str().unwrap_or("any")
    };
    let mut traits = BTreeSet::from([type_.to_owned()]);
    let values = schema["enum"].as_array().into_iter().flatten();
    traits.extend(values.map(|value| format!("={}", value.to_string().replace(' ', "_"))));
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        traits.insert("open".to_owned());
    }
    fields.entry(place.to_owned()).or_default().extend(traits);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        collect(&place, property, fields);
        let required = schema["required"].as_array().into_iter().flatten();
        if required
            .into_iter()
            .any(|required| required == name.as_str())
        {
            fields
                .entry(place)
                .or_default()
                .insert("required".to_owned());
        }
    }
    if schema["items"].is_object() {
        collect(&format!("{place}[]"), &schema["items"], fields);
    }
    if schema["additionalProperties"].is_object() {
        collect(
            &format!("{place}{{}}"),
            &schema["additionalProperties"],
            fields,
        );
    }
}
