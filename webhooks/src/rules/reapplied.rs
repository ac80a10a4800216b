//! Who applies a manifest, as `metadata.managedFields` tell: whether a field of which he said nothing, or the same as
//! before, is lost by that alone. Whoever sets a field on purpose writes to it in another way.

use std::collections::BTreeSet;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};
use sluice_kinds::gates::{ADMISSION_GATED_BY, Gate, gate_annotations, gates_removed, named};
use sluice_kinds::metadata::annotation_text;

use crate::admission::edit::Edit;
use crate::admission::request::Request;

/// Where `kubectl apply`, and tools that do as it does, keep the manifest that was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The field managers of those that write to each field which differs from the manifest.
const APPLIERS: [&str; 2] = ["kubectl-client-side-apply", "argocd-controller"];
/// The field manager of `kubectl replace`.
const REPLACER: &str = "kubectl-replace";

/// Whether a manifest takes the place of the object, whatever was written to that since.
pub(crate) fn is_replaced(request: &Request) -> bool {
    request.options.field_manager == REPLACER
}

/// The manifests that were applied to the object before, and are now, by a client that compares them itself.
pub(crate) fn manifests(request: &Request, edit: &Edit<'_>) -> Option<[Value; 2]> {
    let read = |object| serde_json::from_str(annotation_text(object, LAST_APPLIED)?).ok();
    let is_applied = APPLIERS.contains(&request.options.field_manager.as_str());
    let old = edit.old.filter(|_| is_applied)?;
    Some([read(old)?, read(edit.new)?])
}

/// The gates that an edit takes out of the annotations.
fn gates_lost(edit: &Edit<'_>) -> BTreeSet<Gate> {
    let of = |object| named(&gate_annotations(object));
    let before = edit.old.map(of).unwrap_or_default();
    &before - &of(edit.new)
}

/// The gates that a manifest takes out of the annotations because it never named them: the object got them when it was
/// created. Of whoever applies on the server that is taken for so of those that are to be `set` on the object as it is now.
pub(crate) fn gates_never_named(
    request: &Request,
    edit: &Edit<'_>,
    set: impl FnOnce() -> BTreeSet<Gate>,
) -> BTreeSet<Gate> {
    let lost = gates_lost(edit);
    if lost.is_empty() {
        return lost;
    }
    if let Some([before, _]) = manifests(request, edit) {
        return &lost - &named(&gate_annotations(&before));
    }
    // Nothing tells what a manifest said that was applied on the server.
    let path = ["metadata", "annotations", ADMISSION_GATED_BY];
    if is_by_manifest(request, edit, &path) {
        return &lost & &set();
    }
    BTreeSet::new()
}

/// Whether a manifest is applied on the server that said of the field at `path` before what it says now, or that says
/// nothing of it any more. `kubectl` gives what a webhook has changed to whoever applies, so his next manifest drops it.
///
/// A patch of the same author takes a field that it changes from what he has applied.
pub(crate) fn is_by_manifest(request: &Request, edit: &Edit<'_>, path: &[&str]) -> bool {
    let manager = request.options.field_manager.as_str();
    let Some(old) = edit.old.filter(|_| !manager.is_empty()) else {
        return false;
    };
    let owned = |object, operation| owns(object, manager, operation, path);
    let says_the_same = owned(edit.new, Some(APPLY)) && owned(old, None);
    let says_no_more = owned(old, Some(APPLY)) && !owned(edit.new, None);
    says_the_same || says_no_more
}

/// The operations that put these entries of `metadata` back which such a manifest drops.
pub(crate) fn kept_entries<'a>(
    request: &Request,
    edit: &Edit<'_>,
    map: &str,
    keys: impl Iterator<Item = &'a str>,
) -> Vec<PatchOperation> {
    let Some(old) = edit.old else {
        return Vec::new();
    };
    let entries = |object: &Value| {
        let entries = object.pointer(&format!("/metadata/{map}")).cloned();
        entries.filter(Value::is_object)
    };
    let (Some(before), after) = (entries(old), entries(edit.new)) else {
        return Vec::new();
    };
    let is_there = |key: &str| after.as_ref().is_some_and(|map| map.get(key).is_some());
    let dropped = keys.filter_map(|key| Some((key, before.get(key)?)));
    let dropped = dropped.filter(|(key, _)| !is_there(key));
    let dropped = dropped.filter(|(key, _)| is_by_manifest(request, edit, &["metadata", map, key]));
    let mut kept: Vec<_> = dropped
        .map(|(key, value)| add(&["metadata", map, key], value.clone()))
        .collect();
    if !kept.is_empty() && after.is_none() {
        kept.insert(0, add(&["metadata", map], json!({})));
    }
    kept
}

/// The operations that put these scheduling gates of a pod back which such a manifest drops.
pub(crate) fn kept_gates(
    request: &Request,
    edit: &Edit<'_>,
    is_ours: impl Fn(&str) -> bool,
) -> Vec<PatchOperation> {
    let Some(old) = edit.old else {
        return Vec::new();
    };
    let dropped = gates_removed(old, edit.new).into_iter();
    let dropped = dropped.filter(|gate| is_ours(gate)).filter(|gate| {
        let key = format!("k:{}", json!({ "name": gate }));
        is_by_manifest(request, edit, &["spec", "schedulingGates", &key])
    });
    let list = ["spec", "schedulingGates"];
    let mut kept: Vec<_> = dropped
        .map(|gate| add(&[list[0], list[1], "-"], json!({ "name": gate })))
        .collect();
    let has_list = edit.new.pointer("/spec/schedulingGates");
    if !kept.is_empty() && !has_list.is_some_and(Value::is_array) {
        kept.insert(0, add(&list, json!([])));
    }
    kept
}

fn add(path: &[&str], value: Value) -> PatchOperation {
    let path = PointerBuf::from_tokens(path.iter().copied());
    PatchOperation::Add(AddOperation { path, value })
}

/// The operation of whoever applies on the server.
const APPLY: &str = "Apply";

/// Whether `manager` owns the field at `path`, by an operation of this name or any.
fn owns(object: &Value, manager: &str, operation: Option<&str>, path: &[&str]) -> bool {
    let entries = object.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let of = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut own = entries.filter(|entry| {
        of(entry, "manager").as_deref() == Some(manager)
            && operation
                .is_none_or(|operation| of(entry, "operation").as_deref() == Some(operation))
    });
    own.any(|entry| {
        let fields = entry.get("fieldsV1");
        let below = path.iter().try_fold(fields, |fields, name| {
            let field = match name.strip_prefix("k:") {
                Some(_) => (*name).to_owned(),
                None => format!("f:{name}"),
            };
            Some(Some(fields?.get(field)?))
        });
        below.is_some()
    })
}
