//! The labels by which an object tells which gates hold it, so that the controller of a gate can watch just its own.
//! They follow from the gate annotations and from nothing else, and hold nothing themselves. Who writes them lies in
//! the webhooks and in the controller.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::PatchOperation;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, RemoveOperation};
use serde_json::{Value, json};
use sluice_crds::HELD_BY_LABEL_PREFIX;

use super::annotations::{gate_annotations, named};
use super::gate_name::Gate;
use crate::field::metadata::{controller, group_and_kind};

/// The value of each such label.
pub const HELD_BY: &str = "true";

impl Gate {
    /// The key of the label on objects that this gate holds: that of its Gate object below
    /// [`HELD_BY_LABEL_PREFIX`]. None for a gate that can't have a Gate: not every path can be part of a label.
    pub fn held_by_label(&self) -> Option<String> {
        let name = self.object_name()?;
        Some(format!("{HELD_BY_LABEL_PREFIX}{name}"))
    }
}

/// The labels that an object with these annotations carries.
fn held_by_labels(annotations: &BTreeMap<String, String>) -> BTreeSet<String> {
    let gates = named(annotations).into_iter();
    gates.filter_map(|gate| gate.held_by_label()).collect()
}

/// The labels among `keys` that say which gate holds an object.
pub fn stale_labels<'a>(
    keys: impl IntoIterator<Item = &'a String>,
    annotations: &BTreeMap<String, String>,
) -> Vec<String> {
    let keys = keys.into_iter();
    let mut found = keys.filter(|key| is_held_by_label(key)).peekable();
    // So it is with most objects.
    if found.peek().is_none() {
        return Vec::new();
    }
    let wanted = held_by_labels(annotations);
    found
        .filter(|key| !wanted.contains(*key))
        .cloned()
        .collect()
}

/// Whether this is the key of such a label.
fn is_held_by_label(key: &str) -> bool {
    key.starts_with(HELD_BY_LABEL_PREFIX)
}

/// The patch that makes these labels of `object` right. Applied to its own outcome it is empty. The gates of a pod
/// with a controller, and of what a pod controls, came down from an owner: no label tells them.
pub fn labels_patch(object: &Value) -> Vec<PatchOperation> {
    const POD: Option<(&str, &str)> = Some(("", "Pod"));
    let owner = controller(object);
    let is_child = owner.is_some() && (owner == POD || group_and_kind(object) == POD);
    let wanted = if is_child {
        BTreeSet::new()
    } else {
        held_by_labels(&gate_annotations(object))
    };
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let at = |key: &str| PointerBuf::from_tokens(["metadata", "labels", key]);
    let stale = labels.into_iter().flat_map(|labels| labels.keys());
    let stale = stale.filter(|key| is_held_by_label(key) && !wanted.contains(*key));
    let stale = stale.map(|key| PatchOperation::Remove(RemoveOperation { path: at(key) }));
    let missing = wanted.iter().filter(|key| {
        let value = labels.and_then(|labels| labels.get(*key));
        value.and_then(Value::as_str) != Some(HELD_BY)
    });
    let missing = missing.map(|key| (at(key), json!(HELD_BY)));
    let mut added: Vec<_> = missing.collect();
    if labels.is_none() && !added.is_empty() {
        let map = PointerBuf::from_tokens(["metadata", "labels"]);
        added.insert(0, (map, json!({})));
    }
    let added = added.into_iter();
    let added = added.map(|(path, value)| PatchOperation::Add(AddOperation { path, value }));
    stale.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: (&str, &str) = ("batch/v1", "Job");
    const POD: (&str, &str) = ("v1", "Pod");

    fn patched((version, kind): (&str, &str), metadata: &Value) -> Value {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        let patch = labels_patch(&object);
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(labels_patch(&object), [], "the second time");
        object["metadata"]["labels"].clone()
    }

    fn gated(gates: &str, labels: &Value) -> Value {
        json!({"annotations": {"kueue.x-k8s.io/admission-gated-by": gates}, "labels": labels})
    }

    #[test]
    fn labels_follow_the_gates() {
        let a = "gate.sluice.dev/a.acme.io";
        let b = "gate.sluice.dev/b.acme.io";
        let owned = json!({
            "annotations": {"kueue.x-k8s.io/scheduling-gated-by": "acme.io/a"},
            "labels": {(a): "true"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "controller": true}],
        });
        let mut of_pod = owned.clone();
        of_pod["ownerReferences"][0] =
            json!({"apiVersion": "v1", "kind": "Pod", "controller": true});
        let cases = [
            ("none", JOB, json!({}), Value::Null),
            (
                "one",
                JOB,
                json!({"annotations": {"kueue.x-k8s.io/scheduling-gated-by": "acme.io/a"}}),
                json!({(a): "true"}),
            ),
            (
                "two, one of them said wrongly",
                JOB,
                gated("acme.io/a, acme.io/b", &json!({(a): "no", "x": "y"})),
                json!({(a): "true", (b): "true", "x": "y"}),
            ),
            (
                "a lie",
                JOB,
                json!({"labels": {(a): "true", "x": "y"}}),
                json!({"x": "y"}),
            ),
            (
                "one that can't be a label",
                JOB,
                gated("acme.io/A,acme.io/a/b,acme.io/b", &json!({})),
                json!({(b): "true"}),
            ),
            (
                "beside a bad name",
                JOB,
                gated("acme.io/a,BAD", &json!({})),
                json!({(a): "true"}),
            ),
            (
                "a bare pod",
                POD,
                gated("acme.io/a", &json!({})),
                json!({(a): "true"}),
            ),
            ("a pod of an owner", POD, owned.clone(), json!({})),
            (
                "a job of an owner",
                JOB,
                owned.clone(),
                json!({(a): "true"}),
            ),
            ("a job of a pod", JOB, of_pod, json!({})),
        ];
        for (name, kind, metadata, expected) in cases {
            assert_eq!(patched(kind, &metadata), expected, "{name}");
        }
    }

    #[test]
    fn stale_labels_are_those_without_their_gate() {
        let annotations = BTreeMap::from([(
            "kueue.x-k8s.io/scheduling-gated-by".to_owned(),
            "acme.io/a".to_owned(),
        )]);
        let keys = [
            "gate.sluice.dev/a.acme.io",
            "gate.sluice.dev/b.acme.io",
            "x",
        ];
        let keys = keys.map(str::to_owned);
        assert_eq!(
            stale_labels(&keys, &annotations),
            ["gate.sluice.dev/b.acme.io"]
        );
        assert_eq!(stale_labels(&keys[2..], &annotations).len(), 0);
    }
}
