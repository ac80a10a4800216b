//! Reads the few fields of `metadata` that verdicts depend on, from an object of any kind.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_kinds::gates::GATE_ANNOTATIONS;

/// The gate annotations of `object`, and no others. A value that is no string can't come from an API
/// server; it is read as its JSON text, which names no gate and so holds the object.
pub(crate) fn gate_annotations(object: &Value) -> BTreeMap<String, String> {
    let Some(annotations) = object.pointer("/metadata/annotations") else {
        return BTreeMap::new();
    };
    GATE_ANNOTATIONS
        .into_iter()
        .filter_map(|key| {
            annotations
                .get(key)
                .map(|value| (key.to_owned(), text(value)))
        })
        .collect()
}

/// The label `key` of `object`.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// The annotation `key` of `object`.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.pointer("/metadata/annotations")?.get(key)
}

/// Whether the deletion of `object` has begun.
pub(crate) fn is_being_deleted(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|at| !at.is_null())
}

/// API group and kind of the controller that owns `object`.
pub(crate) fn controller(object: &Value) -> Option<(&str, &str)> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|o| o.get("controller").and_then(Value::as_bool) == Some(true))?;
    let api_version = owner.get("apiVersion")?.as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some((group, owner.get("kind")?.as_str()?))
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
