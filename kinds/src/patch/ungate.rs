//! The patch that takes scheduling gates off a pod, and with the queue gate writes where the pod
//! may go and from whose quota. A strategic merge patch: gates go by name, never by index.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sluice_crds::ADMITTED_ANNOTATION;

use crate::read::pod::PodAdmission;
use crate::read::template::Placement;

#[cfg(test)]
mod tests;

/// What is to change on a pod.
#[derive(Debug, Clone)]
pub struct Lifting<'a> {
    /// `metadata.uid`: on a pod of the same name with another UID the patch fails, with 422 (the
    /// field is immutable).
    pub uid: &'a str,
    /// The names of the scheduling gates to remove. One that is not there does no harm.
    pub gates: Vec<&'a str>,
    /// Where the pod may go already, and what is added to that.
    pub add: Option<(&'a Placement, &'a Placement)>,
    /// The record of the pod's admission.
    pub admission: Option<&'a PodAdmission>,
    /// `metadata.resourceVersion` that this was planned from: if the pod has changed since, the
    /// patch fails with 409. Sent with a record, which must not replace that of another admission
    /// when it arrives late, and where a list has to be written whole.
    pub resource_version: &'a str,
}

/// The strategic merge patch that does it.
pub fn lifting_patch(lifting: &Lifting<'_>) -> Value {
    let Lifting {
        uid,
        gates,
        add,
        admission,
        resource_version,
    } = lifting;
    let mut metadata = Map::from_iter([("uid".to_owned(), json!(uid))]);
    let mut spec = Map::new();
    if !gates.is_empty() {
        let gone = gates
            .iter()
            .map(|name| json!({"$patch": "delete", "name": name}));
        spec.insert("schedulingGates".to_owned(), gone.collect());
    }
    if let Some((has, more)) = add {
        // Merged key by key, so only what is new is said.
        let labels: BTreeMap<_, _> = more
            .node_selector
            .iter()
            .filter(|(key, value)| has.node_selector.get(*key) != Some(value))
            .collect();
        if !labels.is_empty() {
            spec.insert("nodeSelector".to_owned(), json!(labels));
        }
        let tolerations = has.with(more).tolerations;
        if tolerations != has.tolerations {
            spec.insert("tolerations".to_owned(), json!(tolerations));
            metadata.insert("resourceVersion".to_owned(), json!(resource_version));
        }
    }
    if let Some(admission) = admission {
        let record = json!(admission).to_string();
        let annotations = json!({ADMITTED_ANNOTATION: record});
        metadata.insert("annotations".to_owned(), annotations);
        metadata.insert("resourceVersion".to_owned(), json!(resource_version));
    }
    let mut patch = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), spec.into());
    }
    patch.into()
}
