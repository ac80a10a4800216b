//! Which edits leave something on the object that tells of its gates: who lifted one, and which are left.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::HELD_BY_LABEL_PREFIX;

use crate::manifests::conditions::entry::{Entry, any, condition, differs, gate_annotations};

/// The object has gates, or the edit lifts one, or touches the labels that tell which gates it has.
pub(crate) fn marks_gates() -> MatchCondition {
    condition("tells-of-its-gates", tells_of_gates())
}

/// CEL: the same.
pub(crate) fn tells_of_gates() -> String {
    let edited: Vec<_> = gate_annotations()
        .map(|entry: Entry<'_>| entry.differs())
        .collect();
    let labelled = |object: &str| {
        format!(
            "(has({object}.metadata.labels) && {object}.metadata.labels.exists(k, k.startsWith('{HELD_BY_LABEL_PREFIX}')))"
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
