//! Labels and annotations: which of them are Sluice's own, and what else of metadata stays as it is.

use sluice_crds::{
    ADMISSION_ANNOTATION, HELD_BY_LABEL_PREFIX, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION,
    PRIORITY_CLASS_LABEL, QUEUE_GATE, QUEUE_NAME_LABEL, RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_kinds::gates::GATE_ANNOTATIONS;

use crate::manifests::cel::syntax::{forbidden, texts};

/// Keys of Sluice's domain that are written by users: whoever could write them could queue the jobs of
/// others.
const OF_USERS: [&str; 8] = [
    QUEUE_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    ADMISSION_ANNOTATION,
    POD_GROUP_LABEL,
    POD_GROUP_TOTAL_ANNOTATION,
    RETRIABLE_IN_GROUP_ANNOTATION,
    QUEUE_GATE,
    "sluice.dev/min-parallelism",
];

/// What every refusal of another label or annotation says.
const RULE: &str = "'is not a key of Sluice: its account may write no others'";

/// CEL: whether the label or annotation `key` is written by Sluice.
pub(super) fn is_own(key: &str) -> String {
    format!(
        "({key}.startsWith('{}/') && !({key} in {}) || {key}.startsWith('{HELD_BY_LABEL_PREFIX}'))",
        sluice_crds::GROUP,
        texts(OF_USERS)
    )
}

/// CEL: whether the label `k` is one that the API server copies from the pod template: it does so where a Job has no
/// other labels, also when the last one goes (`SetDefaults_Job` in Kubernetes' pkg/apis/batch/v1/defaults.go).
fn is_copied_from_template() -> String {
    format!(
        "(oldObject.metadata.?labels.orValue({{}}).all(l, l.startsWith('{HELD_BY_LABEL_PREFIX}')) && k in object.metadata.?labels.orValue({{}}) && dyn(object).?spec.?template.?metadata.?labels[?k].orValue('') == object.metadata.labels[k])"
    )
}

/// CEL: whether the annotation `k` is one for gates that the object had before: gates are lifted, never added.
fn may_lift() -> String {
    format!(
        "(k in {} && k in oldObject.metadata.?annotations.orValue({{}}) && object.metadata.?annotations[?k].orValue('').split(',').all(g, g.trim() == '' || oldObject.metadata.annotations[k].contains(g.trim())))",
        texts(GATE_ANNOTATIONS)
    )
}

/// CEL, a list: the keys that are not the same in the maps `new` and `old`.
pub(super) fn changed(new: &str, old: &str) -> String {
    format!(
        "({new}.map(k, k) + {old}.map(k, k).filter(k, !(k in {new}))).filter(k, {new}[?k] != {old}[?k])"
    )
}

/// CEL, a list of problems: what changes in the metadata of an object besides labels and annotations of
/// Sluice's own.
pub(super) fn metadata_problems() -> String {
    metadata_problems_but(&[])
}

/// The same, where these fields of metadata are judged elsewhere.
pub(super) fn metadata_problems_but(judged: &[&str]) -> String {
    let known = [
        "labels",
        "annotations",
        "managedFields",
        "resourceVersion",
        "generation",
    ];
    let known = texts(known.iter().chain(judged).copied());
    let of = |map: &str, own: &str| {
        let (new, old) = (
            format!("object.metadata.?{map}.orValue({{}})"),
            format!("oldObject.metadata.?{map}.orValue({{}})"),
        );
        format!(
            "{}.filter(k, !{own}).map(k, {})",
            changed(&new, &old),
            forbidden(&format!("'metadata.{map}[' + k + ']'"), RULE)
        )
    };
    let own = is_own("k");
    let own_label = format!("({own} || {})", is_copied_from_template());
    let own_annotation = format!("({own} || {})", may_lift());
    format!(
        "{}\n.filter(k, !(k in {known}))\n\
         .map(k, {}) +\n{} +\n{}",
        changed("object.metadata", "oldObject.metadata"),
        forbidden(
            "'metadata.' + k",
            "'Sluice\\'s account may change only its own labels and annotations here'"
        ),
        of("labels", &own_label),
        of("annotations", &own_annotation)
    )
}
