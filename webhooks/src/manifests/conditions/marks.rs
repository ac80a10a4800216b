//! Which edits leave something on the object that tells of its gates: who lifted one, and which are left.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::{GATE_FAILURES_ANNOTATION, HELD_BY_LABEL_PREFIX};

use crate::manifests::conditions::entry::{
    Entry, any, condition, controller, differs, gate_annotations,
};
use crate::rules::lifting::forget::RECORDS;

/// Most labels whose keys are looked at: they cost the API server time with each status of a pod. Of more, each change counts.
const LABELS_MAX: usize = 1000;

/// The object has gates, or the edit lifts one, or touches the labels that tell which gates it has; or it brings the history
/// of another object.
pub(crate) fn marks_gates() -> MatchCondition {
    let expression = format!("{} ||\n{}", tells_of_gates(), brings_records());
    condition("tells-of-its-gates", expression)
}

/// CEL: a new object without a controller brings what Sluice kept on an earlier one.
pub(crate) fn brings_records() -> String {
    let records = RECORDS.into_iter().chain([GATE_FAILURES_ANNOTATION]);
    format!(
        "request.operation == 'CREATE' && !{} && (\n{})",
        controller(""),
        any(records.map(Entry::annotation), "object")
    )
}

/// CEL: the same.
pub(crate) fn tells_of_gates() -> String {
    let edited: Vec<_> = gate_annotations()
        .map(|entry: Entry<'_>| entry.differs())
        .collect();
    let labelled = |object: &str| {
        format!(
            "(has({object}.metadata.labels) && ({LABELS_MAX} < size({object}.metadata.labels) || {object}.metadata.labels.exists(k, k.startsWith('{HELD_BY_LABEL_PREFIX}'))))"
        )
    };
    format!(
        "(request.operation == 'CREATE' ? {} || {} : (\n{} ||\n({} || {}) && {}))",
        any(gate_annotations(), "object"),
        labelled("object"),
        edited.join(" ||\n"),
        labelled("object"),
        labelled("oldObject"),
        differs("has({}.metadata.labels)", "{}.metadata.labels"),
    )
}
