//! Whether an object needs a queue that it does not name, in CEL, by the label of its namespace. The same rules as in
//! `crate::rules::enforcement`, but for the configuration, which policies don't know.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::{ENFORCEMENT_LABEL, HELD_BY_LABEL_PREFIX, QUEUE_NAME_LABEL, QUEUE_REQUIRED_GATE};
use sluice_kinds::gates::{ADMISSION_GATED_BY, Gate, VALUE_BYTES_MAX};

use crate::manifests::cel::syntax::{text, variable};

/// `variables.required`: what becomes of the object: `Default`, `Hold`, `Refuse`, or `Ignore` where it stands not at the
/// top (`is_top`), or names a queue.
pub(crate) fn variables(is_top: &str, names_queue: &str) -> Vec<Variable> {
    let label =
        format!("namespaceObject.metadata.?labels[?'{ENFORCEMENT_LABEL}'].orValue('Ignore')");
    vec![
        variable("enforcement", label),
        variable(
            "required",
            format!(
                "({names_queue}) || !({is_top}) || variables.enforcement in ['DryRun', 'Ignore'] ? 'Ignore' :\n\
                 variables.enforcement in ['Default', 'Refuse'] ? variables.enforcement : 'Hold'"
            ),
        ),
    ]
}

/// `variables.labels` and `annotations`: those of the object with what it gets. `own` are the variables for those that it
/// has. So all that is read of them is read of the object as it will be.
pub(crate) fn given(own_labels: &str, own_annotations: &str, queue: &str) -> Vec<Variable> {
    let with = |own: &str, key: &str, value: &str| {
        let key = text(key);
        format!(
            "({own}.map(k, k).filter(k, k != {key}) + [{key}]).transformMapEntry(i, k, {{k: k == {key} ? {value} : {own}[k]}})"
        )
    };
    let gates = text(ADMISSION_GATED_BY);
    let list = format!(
        "(({own_annotations}[?{gates}].orValue('') == '' ? [] : [{own_annotations}[{gates}]]) + ['{QUEUE_REQUIRED_GATE}']).join(',')"
    );
    vec![
        variable("gateList", list),
        variable(
            "labels",
            format!(
                "variables.required != 'Default' ? {own_labels} :\n{}",
                with(own_labels, QUEUE_NAME_LABEL, &text(queue))
            ),
        ),
        variable(
            "annotations",
            format!(
                "!variables.isGiven ? {own_annotations} :\n{}",
                with(own_annotations, ADMISSION_GATED_BY, "variables.gateList")
            ),
        ),
    ]
}

/// CEL: whether the object of these annotations has the gate. A longer list than any valid one names none, and would cost
/// too much: on a pod with a controller it may be as long as an annotation.
pub(crate) fn has_gate(annotations: &str) -> String {
    format!(
        "[{annotations}[?'{ADMISSION_GATED_BY}'].orValue('')].exists(l, size(l) <= {VALUE_BYTES_MAX} && l.split(',').exists(g, g.trim() == '{QUEUE_REQUIRED_GATE}'))"
    )
}

/// CEL, what is to be: the label, or the gate and the label that tells of it.
pub(crate) fn configuration(queue: &str) -> String {
    let name = Gate::queue_required().object_name().unwrap_or_default();
    format!(
        "variables.required == 'Default' ? Object{{metadata: Object.metadata{{labels: {{'{QUEUE_NAME_LABEL}': {}}}}}}} :\n\
         !variables.isGiven ? Object{{}} :\n\
         Object{{metadata: Object.metadata{{\n\
         labels: {{'{HELD_BY_LABEL_PREFIX}{name}': 'true'}},\n\
         annotations: {{'{ADMISSION_GATED_BY}': variables.gateList}}}}}}",
        text(queue)
    )
}
