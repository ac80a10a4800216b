//! What an edit that lifts gates leaves on the object, in CEL: who lifted them, and the labels that tell which gates are
//! left. The same rules as in `crate::rules::lifting::marks`, but that policies know no time.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::{GATE_FAILURES_ANNOTATION, HELD_BY_LABEL_PREFIX, LIFTED_GATES_ANNOTATION};
use sluice_kinds::gates::GATE_BYTES_MAX;
use sluice_kinds::gates::labels::HELD_BY;

use crate::manifests::cel::gates::{PATH, SUBDOMAIN, gates_in};
use crate::manifests::cel::metadata::is_owned;
use crate::manifests::cel::syntax::{text, texts, variable, when};
use crate::rules::lifting::forget::RECORDS;

/// Longest record that is added to, in characters: that of all gates that an object may have, with long names of
/// users, is shorter.
const RECORD_MAX: usize = 16_384;
/// Longest name of a user that is kept, in characters.
const USER_MAX: usize = 253;

/// `variables.liftedRecord`: a list of the value that the record of lifted gates has after the request, or of none if
/// it lifts none. Needs `variables.gates` and those of [`crate::manifests::cel::metadata::variables`].
pub(crate) fn lifted() -> Vec<Variable> {
    let old = format!("variables.oldAnnotations[?'{LIFTED_GATES_ANNOTATION}'].orValue('')");
    let gate = gate_pattern(PATH);
    // What would need an escape hides a record from those who compare texts.
    let user = format!(
        "(request.userInfo.username.matches('[[:cntrl:]]') ? '?' :\n\
         request.userInfo.username.substring(0, request.userInfo.username.size() < {USER_MAX} ? request.userInfo.username.size() : {USER_MAX})\n\
         .replace('\"', '?').replace('\\\\', '?'))"
    );
    vec![
        gates_in("oldGates", "oldAnnotations"),
        variable(
            "lifted",
            format!(
                "oldObject == null ? [] :\n\
                 variables.oldGates.filter(g, !(g in variables.gates) && g.matches({gate}) && size(g) <= {GATE_BYTES_MAX})"
            ),
        ),
        variable("lifter", user),
        variable(
            "liftedRecord",
            format!(
                "variables.lifted.size() == 0 || {RECORD_MAX} < {old}.size() ? [] :\n\
                 [({old}.endsWith('}}]') ? {old}.substring(0, {old}.size() - 1) + ',' : '[') +\n\
                 variables.lifted.map(g, '{{\"gate\":\"' + g + '\",\"by\":\"' + variables.lifter + '\",\"uid\":\"' + string(oldObject.metadata.uid) + '\"}}').join(',') + ']']"
            ),
        ),
    ]
}

/// CEL: whether the request keeps which gates it lifts, and changes nothing else of that record.
pub(crate) fn is_own_record() -> String {
    format!(
        "(variables.liftedRecord.size() != 0 && variables.annotations[?'{LIFTED_GATES_ANNOTATION}'].orValue('') == variables.liftedRecord[0])"
    )
}

/// CEL: whether the object as it was keeps that the gate `gate` was lifted from it. These were its annotations. What is
/// longer than any record says nothing: an expression that costs too much would not be evaluated.
pub(crate) fn was_lifted(gate: &str, annotations: &str) -> String {
    format!(
        "[{annotations}[?'{LIFTED_GATES_ANNOTATION}'].orValue('')].exists(l, size(l) <= {RECORD_MAX} && l.split('}},{{').exists(r,\n\
         r.contains('\"gate\":\"' + {gate} + '\"') && r.contains(string(oldObject.metadata.uid))))"
    )
}

/// `variables.gateLabels`: the labels that tell which gates the object has. What a pod controls has none: its gates
/// came down.
pub(crate) fn labels() -> Variable {
    let gate = gate_pattern("[a-z0-9]([-a-z0-9]*[a-z0-9])?");
    variable(
        "gateLabels",
        format!(
            "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.apiVersion == 'v1' && o.kind == 'Pod') ? [] :\n\
             variables.gates.filter(g, g.matches({gate}) && size(g) <= {GATE_BYTES_MAX})\n\
             .map(g, '{HELD_BY_LABEL_PREFIX}' + g.split('/')[1] + '.' + g.split('/')[0])"
        ),
    )
}

/// CEL, a list of operations: the labels tell which gates the object has.
pub(crate) fn mark_labels() -> String {
    let operation = |op: &str, value: &str| {
        format!(
            "JSONPatch{{op: '{op}', path: '/metadata/labels/' + jsonpatch.escapeKey(k){value}}}"
        )
    };
    let make = when(
        "variables.gateLabels.size() != 0 && !has(object.metadata.labels)",
        "JSONPatch{op: 'add', path: '/metadata/labels', value: {}}",
    );
    format!(
        "{make} +\n\
         variables.gateLabels.filter(k, variables.labels[?k].orValue('') != '{HELD_BY}')\n\
         .map(k, {}) +\n\
         variables.labels.map(k, k).filter(k, k.startsWith('{HELD_BY_LABEL_PREFIX}') && !(k in variables.gateLabels))\n\
         .map(k, {})",
        operation("add", &format!(", value: '{HELD_BY}'")),
        operation("remove", "")
    )
}

/// CEL, a list of operations: the object keeps who lifted the gates that the request lifts.
pub(crate) fn keep_lifted() -> String {
    let make = when(
        "!has(object.metadata.annotations)",
        "JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}",
    );
    format!(
        "variables.liftedRecord.size() == 0 ? [] :\n\
         {make} +\n\
         variables.liftedRecord.map(r, JSONPatch{{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('{LIFTED_GATES_ANNOTATION}'), value: r}})"
    )
}

/// CEL, a list of operations: a new object without a controller loses what Sluice kept on an earlier one.
pub(crate) fn forget() -> String {
    let records = RECORDS.into_iter().chain([GATE_FAILURES_ANNOTATION]);
    format!(
        "request.operation != 'CREATE' || {} ? [] :\n\
         {}.filter(k, k in variables.annotations)\n\
         .map(k, JSONPatch{{op: 'remove', path: '/metadata/annotations/' + jsonpatch.escapeKey(k)}})",
        is_owned("object"),
        texts(records)
    )
}

/// The literal of the regular expression of a gate with such a path.
fn gate_pattern(path: &str) -> String {
    text(&format!("^{SUBDOMAIN}/{path}$"))
}
