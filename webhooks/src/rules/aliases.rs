//! Keys of others: an object that carries one gets Sluice's own key with the same value, so that all other rules, and
//! everybody who reads the object later, need to know Sluice's own keys only.

use std::borrow::Cow;

use json_patch::PatchOperation;
use serde_json::{Value, json};
use sluice_kinds::aliases::OwnKey;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::patched::patched;

/// The object of a request with Sluice's own keys, if it lacks any, and what that changes in it.
pub(crate) fn spelt_out(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> (Option<Value>, Vec<PatchOperation>) {
    if request.sub_resource.is_empty() {
        with_own_keys(edit.old, edit.new, policy)
    } else {
        (None, Vec::new())
    }
}

/// `new` with Sluice's own keys, if it lacks any, and what that changes in it. It may be a template.
pub(crate) fn with_own_keys(
    old: Option<&Value>,
    new: &Value,
    policy: &Policy,
) -> (Option<Value>, Vec<PatchOperation>) {
    let own_keys = policy.key_aliases().own_keys(old, new);
    if own_keys.is_empty() {
        return (None, Vec::new());
    }
    let mut object = new.clone();
    let mut all = Vec::new();
    for own_key in own_keys {
        let operations = operations(&object, own_key);
        object = patched(&object, &operations);
        all.extend(operations);
    }
    (Some(object), all)
}

fn operations(object: &Value, own_key: OwnKey<'_>) -> Vec<PatchOperation> {
    let (map, key) = own_key.key.parts();
    let at = format!("/metadata/{map}");
    let below = format!("{at}/{}", escape(key));
    let has_map = object.pointer(&at).is_some_and(Value::is_object);
    let operations = match own_key.value {
        Some(value) if has_map => json!([{"op": "add", "path": below, "value": value}]),
        Some(value) => {
            json!([{"op": "add", "path": at, "value": {key: value}}])
        }
        None => json!([{"op": "remove", "path": below}]),
    };
    // It has the shape of a patch.
    serde_json::from_value(operations).unwrap_or_default()
}

/// A key as a JSON pointer names it.
fn escape(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) {
        key.replace('~', "~0").replace('/', "~1").into()
    } else {
        key.into()
    }
}
