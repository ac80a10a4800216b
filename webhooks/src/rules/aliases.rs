//! Keys of others: an object that carries one gets Sluice's own key with the same value, so that all other rules, and
//! everybody who reads the object later, need to know Sluice's own keys only.

use json_patch::PatchOperation;
use serde_json::Value;

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
        let operation = own_key.operation(&object);
        object = patched(&object, std::slice::from_ref(&operation));
        all.push(operation);
    }
    (Some(object), all)
}
