//! Keys in templates. Some have no effect there: a gate, as it belongs on the object, and the queue of pods that are
//! admitted with their object. So an author learns that nothing holds the object before it runs. Others say where each pod
//! or job that is made is queued: what is missing there is told as of a pod or job itself.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_crds::PRIORITY_CLASS_LABEL;
use sluice_kinds::aliases::MetadataKey;
use sluice_kinds::gates;
use sluice_kinds::problem::fill;
use sluice_kinds::{CompiledKind, Hold};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::advice::{classes, queues};
use crate::rules::jobs::reason_to_hold::hold_of;
use crate::rules::queue_label::{queue_of, queue_of_pods};

const GATE: &str =
    "{}: has no effect, as gates do not hold pods that a controller makes; set {} of the {}";
const QUEUE: &str =
    "{}: queues no pod, as the {} is admitted as a whole in LocalQueue {}, which {} names";

/// What is warned of in the templates of an object.
pub(super) fn warnings(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<String> {
    let Some(kind) = policy.kind(&request.kind.group, &request.kind.kind) else {
        return Vec::new();
    };
    let mut warnings = gates_of_pods(kind, edit.new);
    if hold_of(kind, edit) != Hold::EachPod {
        warnings.extend(other_queues(kind, edit.new, policy));
    }
    if kind.suspend_path().is_none() {
        let own = queue_of(edit.new, policy.queue_labels()).map(|label| label.queue);
        let templates = kind.metadata_of_pods(edit.new).into_iter();
        warnings.extend(templates.flat_map(|(field, metadata)| {
            queued_by_itself(&field, metadata, (own, &request.namespace), policy)
        }));
    }
    warnings
}

/// What is warned of in the metadata of a template at `field`, if what is made by it is queued by itself: where the
/// metadata name a queue, or where the object does, which is in `own`.
pub(crate) fn queued_by_itself(
    field: &str,
    metadata: &Value,
    (own, namespace): (Option<&str>, &str),
    policy: &Policy,
) -> Vec<String> {
    let named = queue_of_pods(metadata, policy);
    if named.is_none() && own.is_none() {
        return Vec::new();
    }
    let named = named.filter(|_| own.is_none());
    let queue = named.and_then(|(key, queue)| {
        let (map, key) = key.parts();
        queues::idle(&format!("{field}.{map}[{key}]"), queue, namespace, policy)
    });
    let class = MetadataKey::Label(PRIORITY_CLASS_LABEL.to_owned());
    let class = class.value_in(metadata);
    let class = class.and_then(|class| classes::missing(field, class, policy));
    queue.into_iter().chain(class).collect()
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
