//! Pods of a group that do not say the same of it: how many pods it has, its queue, its priority class. What the oldest
//! pod says counts. Pure; when it is told is said in `plan/group.rs`.

use sluice_crds::{POD_GROUP_TOTAL_ANNOTATION, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL};
use sluice_kinds::gates::field_of;
use sluice_kinds::view::LabelledQueue;

use crate::cache::{PodKey, PodRecord};

/// Most pods whose names are told of one field.
const NAMES_MAX: usize = 3;

/// What a pod says of a field, as it is told.
type Said = fn(&PodRecord) -> String;

/// Which pods say something else than the oldest one, of which field, and what would be accepted.
pub(super) fn told(pods: &[(&PodKey, &PodRecord)]) -> Option<String> {
    let label = |key: &str| format!("metadata.labels[{key}]");
    let fields: [(String, Said); 3] = [
        (field_of(POD_GROUP_TOTAL_ANNOTATION), total),
        (label(QUEUE_NAME_LABEL), queue),
        (label(PRIORITY_CLASS_LABEL), priority_class),
    ];
    let told = fields.iter().filter_map(|(field, value)| {
        let ((oldest, first), others) = pods.split_first()?;
        let accepted = value(first);
        let others = others.iter().filter(|(_, pod)| value(pod) != accepted);
        let others: Vec<_> = others.collect();
        let (_, other) = others.first()?;
        let names = others.iter().take(NAMES_MAX);
        let names = names.map(|(key, pod)| match value(pod) {
            same if same == value(other) => format!("{:?}", key.name),
            another => format!("{:?} ({another})", key.name),
        });
        let names: Vec<_> = names.collect();
        let more = match others.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "{field}: {} in {}{more}: must be {accepted}, as in the oldest pod {:?}",
            value(other),
            names.join(", "),
            oldest.name
        ))
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn total(pod: &PodRecord) -> String {
    let group = pod.group();
    group.map_or_else(
        || "absent".to_owned(),
        |group| format!("\"{}\"", group.total),
    )
}

fn queue(pod: &PodRecord) -> String {
    match &pod.queue {
        LabelledQueue::Named(queue) => format!("{queue:?}"),
        LabelledQueue::None => "absent".to_owned(),
        LabelledQueue::Invalid(_) => "invalid".to_owned(),
    }
}

fn priority_class(pod: &PodRecord) -> String {
    let class = pod.priority_class_label.as_ref();
    class.map_or_else(|| "absent".to_owned(), |class| format!("{class:?}"))
}
