//! Keys in pod templates that have no effect there: a gate, as it belongs on the object, and the queue of pods that are
//! admitted with their object. So an author learns that nothing holds the object before it runs.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_kinds::aliases::MetadataKey;
use sluice_kinds::gates;
use sluice_kinds::problem::fill;
use sluice_kinds::{CompiledKind, Hold};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::jobs::reason_to_hold::hold_of;
use crate::rules::queue_label::{queue_of, queue_of_pods};

const GATE: &str =
    "{}: has no effect, as gates do not hold pods that a controller makes; set {} of the {}";
const QUEUE: &str =
    "{}: queues no pod, as the {} is admitted as a whole in LocalQueue {}, which {} names";

/// What is warned of in the templates of a new object, or of an edit in those that it changes.
pub(super) fn warnings(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<String> {
    let Some(kind) = policy.kind(&request.kind.group, &request.kind.kind) else {
        return Vec::new();
    };
    let old = edit.old.map(|old| gates_of_pods(kind, old));
    let mut warnings = gates_of_pods(kind, edit.new);
    warnings.retain(|warning| !old.as_ref().is_some_and(|old| old.contains(warning)));
    if edit.old.is_none() && hold_of(kind, edit) != Hold::EachPod {
        warnings.extend(other_queues(kind, edit.new, policy));
    }
    warnings
}

/// Gates that only templates of the object name.
fn gates_of_pods(kind: &CompiledKind, object: &Value) -> Vec<String> {
    let own = gates::named(&gates::gate_annotations(object));
    let of_one = |(field, metadata): (String, &Value)| {
        let misplaced = gates::GATE_ANNOTATIONS.into_iter().filter(|key| {
            let annotation = MetadataKey::Annotation((*key).to_owned());
            let Some(value) = annotation.value_in(metadata) else {
                return false;
            };
            let named = gates::named(&BTreeMap::from([((*key).to_owned(), value.to_owned())]));
            named.is_empty() || !named.is_subset(&own)
        });
        let told = misplaced.map(|key| {
            let at = format!("{field}.annotations[{key}]");
            fill(GATE, &[&at, &gates::field_of(key), &kind.kind])
        });
        told.collect::<Vec<_>>()
    };
    let metadata = kind.metadata_of_pods(object).into_iter();
    metadata.flat_map(of_one).collect()
}

/// Queues that templates of an object name which is admitted as a whole in another one.
fn other_queues(kind: &CompiledKind, object: &Value, policy: &Policy) -> Vec<String> {
    let Some(own) = queue_of(object, policy.queue_labels()) else {
        return Vec::new();
    };
    let metadata = kind.metadata_of_pods(object).into_iter();
    let others = metadata.filter_map(|(field, metadata)| {
        let (key, queue) = queue_of_pods(metadata, policy)?;
        let (map, key) = key.parts();
        (queue != own.queue).then(|| {
            let at = format!("{field}.{map}[{key}]");
            let (queue, names) = (format!("{:?}", own.queue), own.field());
            fill(QUEUE, &[&at, &kind.kind, &queue, &names])
        })
    });
    others.collect()
}
