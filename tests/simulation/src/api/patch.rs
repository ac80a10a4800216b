//! Patches: JSON, merge, and as much of strategic merge as is written to pods.

use serde_json::{Map, Value};

/// Applies a patch of this content type. An error is the message of the answer with code 422 or 400.
pub(super) fn apply(
    content_type: &str,
    object: &mut Value,
    patch: &Value,
) -> Result<(), (u16, String)> {
    match content_type {
        "application/json-patch+json" => {
            let malformed = |error: serde_json::Error| (400, error.to_string());
            let patch: json_patch::Patch =
                serde_json::from_value(patch.clone()).map_err(malformed)?;
            let failed = "the server rejected our request due to an error in our request";
            json_patch::patch(object, &patch).map_err(|_| (422, failed.to_owned()))
        }
        "application/merge-patch+json" => {
            json_patch::merge(object, patch);
            Ok(())
        }
        "application/strategic-merge-patch+json" => {
            merge_strategically(object, patch);
            Ok(())
        }
        other => Err((
            415,
            format!("the body of the request was in an unknown format - {other}"),
        )),
    }
}

/// Lists whose elements are told apart by their name.
const BY_NAME: [&str; 3] = ["schedulingGates", "containers", "initContainers"];

fn merge_strategically(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(object) = object else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else if BY_NAME.contains(&key.as_str()) && value.is_array() {
            let list = object
                .entry(key.clone())
                .or_insert_with(|| Value::Array(Vec::new()));
            merge_by_name(list, value);
        } else if value.is_object() {
            merge_strategically(object.entry(key.clone()).or_insert(Value::Null), value);
        } else {
            object.insert(key.clone(), value.clone());
        }
    }
}

fn merge_by_name(list: &mut Value, patch: &Value) {
    let (Value::Array(list), Value::Array(patch)) = (list, patch) else {
        return;
    };
    for element in patch {
        let position = list
            .iter()
            .position(|other| other["name"] == element["name"]);
        match (position, element["$patch"] == "delete") {
            (Some(position), true) => drop(list.remove(position)),
            (None, true) => {}
            (Some(position), false) => {
                if let Some(known) = list.get_mut(position) {
                    merge_strategically(known, element);
                }
            }
            (None, false) => list.push(element.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gates_go_by_their_names() {
        let mut pod = json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}], "x": 1}});
        let patch = json!({
            "metadata": {"labels": {"k": "v"}},
            "spec": {"x": null, "schedulingGates": [
                {"name": "a", "$patch": "delete"}, {"name": "c", "$patch": "delete"},
            ]},
        });
        let done = apply("application/strategic-merge-patch+json", &mut pod, &patch);
        assert_eq!(done, Ok(()));
        let expected = json!({
            "metadata": {"labels": {"k": "v"}}, "spec": {"schedulingGates": [{"name": "b"}]},
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn a_json_patch_whose_test_fails_changes_nothing() {
        let mut job = json!({"spec": {"suspend": true}});
        let patch = json!([
            {"op": "test", "path": "/spec/suspend", "value": false},
            {"op": "replace", "path": "/spec/suspend", "value": true},
        ]);
        let refused = apply("application/json-patch+json", &mut job, &patch);
        assert!(matches!(refused, Err((422, _))), "{refused:?}");
        assert_eq!(job, json!({"spec": {"suspend": true}}));
    }
}
