//! Reads the few fields of `metadata` that anything depends on, from an object or a pod template.
//! Their meaning is not known here: gates are in `gates`, queues in `read`.

use std::collections::BTreeMap;

use serde_json::Value;

/// The label `key` of `object`.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// The annotation `key` of `object`.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.pointer("/metadata/annotations")?.get(key)
}

/// The annotation `key` of `object`, where it is a string: an API server stores no other.
pub fn annotation_text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotation(object, key)?.as_str()
}

/// Those labels of `object` that `keys` name.
pub fn labels<'k>(object: &Value, keys: impl Iterator<Item = &'k str>) -> BTreeMap<String, String> {
    keys.filter_map(|key| label(object, key).map(|value| (key.to_owned(), value.to_owned())))
        .collect()
}

/// Whether the deletion of `object` has begun.
pub fn is_being_deleted(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|at| !at.is_null())
}

/// API group and kind of `object`, or those that a reference to one names.
pub fn group_and_kind(object: &Value) -> Option<(&str, &str)> {
    let (group, _) = group_version(object.get("apiVersion")?.as_str()?);
    Some((group, object.get("kind")?.as_str()?))
}

/// The API group, empty for the core group, and the version in an `apiVersion`.
pub fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The `apiVersion` of an API group, which is empty for the core group, and a version.
pub fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

/// API group and kind of the controller that owns `object`.
pub fn controller(object: &Value) -> Option<(&str, &str)> {
    group_and_kind(controller_reference(object)?)
}

/// The UID of the controller that owns `object`.
pub fn controller_uid(object: &Value) -> Option<&str> {
    controller_reference(object)?.get("uid")?.as_str()
}

fn controller_reference(object: &Value) -> Option<&Value> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    owners
        .iter()
        .find(|o| o.get("controller").and_then(Value::as_bool) == Some(true))
}
