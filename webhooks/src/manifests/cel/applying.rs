//! To which objects a Gate applies, in CEL, for one Gate: that in `params`. The same rules as in `sluice-gates`, but for
//! `when`, which the API server can't evaluate: it knows no expression but those of policies.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_kinds::gates::{ADMISSION_GATED_BY, GATE_ANNOTATIONS};
use sluice_kinds::patch::MIRROR_ANNOTATION;

use crate::manifests::cel::gate_marks::was_lifted;
use crate::manifests::cel::lifting::{gate, has_owners, named_by};
use crate::manifests::cel::owners;
use crate::manifests::cel::syntax::{field, filled, forbidden, text, texts, variable};
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::rules::applies::birth::HAS_CONTROLLER;
use crate::rules::gates::lift::ASK;

/// The rule for an object that does not name the gate: the gate and the Gate.
const MUST_BE_NAMED: &str =
    "must name the gate {}, as Gate {} applies to this object, which is to be created with it";

/// `variables.problems`: that the object lacks the gate of `params`, if that applies to it and did not before.
pub(crate) fn variables(options: &Options, kinds: &[HeldKind]) -> Vec<Variable> {
    let all: Vec<&HeldKind> = kinds.iter().collect();
    let mut variables = owners::variables(&all, kinds);
    variables.extend(owners::author_of(&all, kinds));
    variables.push(owners::made_for_pod(&all, kinds));
    variables.extend(gate());
    variables.extend([
        variable("rule", "params.?spec.?appliesTo.orValue({})"),
        variable(
            "namespaceLabels",
            "namespaceObject.metadata.?labels.orValue({})",
        ),
        variable(
            "selected",
            "variables.rule.?namespaceSelector.?matchLabels.orValue({})",
        ),
        // Who makes such objects for others is believed.
        owners::made_for_owner(kinds),
        variable(
            "isJudged",
            format!(
                "params.?spec.?appliesTo.hasValue() && !has(variables.rule.when) &&\n\
                 (request.kind.group == '' && request.kind.kind == 'Pod' ?\n\
                 !('{MIRROR_ANNOTATION}' in object.metadata.?annotations.orValue({{}})) && !variables.isMadeForOwner :\n\
                 !(variables.isChild && variables.isMadeByController) && !variables.isMadeForPod)"
            ),
        ),
        variable("isOwnedPod", IS_OWNED_POD),
        variable("isOfKind", OF_KIND),
        variable("isInNamespace", IN_NAMESPACE),
        variable("applies", applies("object", options)),
        variable(
            "applied",
            format!("oldObject != null && {}", applies("oldObject", options)),
        ),
        variable("hasGate", has_gate()),
        variable("problems", problems()),
    ]);
    variables
}

const IS_OWNED_POD: &str =
    "request.kind.group == '' && request.kind.kind == 'Pod' && variables.owners.size() != 0";

const OF_KIND: &str = "variables.rule.?kinds.orValue([]).size() == 0 ||\n\
     variables.rule.?kinds.orValue([]).exists(k, k.?group.orValue('') == request.kind.group && k.kind == request.kind.kind)";

const IN_NAMESPACE: &str = "variables.selected.all(k, k in variables.namespaceLabels && variables.namespaceLabels[k] == variables.selected[k]) &&\n\
     variables.rule.?namespaceSelector.?matchExpressions.orValue([]).all(e,\n\
     e.operator == 'Exists' ? e.key in variables.namespaceLabels :\n\
     e.operator == 'DoesNotExist' ? !(e.key in variables.namespaceLabels) :\n\
     (e.key in variables.namespaceLabels && variables.namespaceLabels[e.key] in e.?values.orValue([])) == (e.operator == 'In'))";

/// CEL: whether the Gate applies to `object`.
fn applies(object: &str, options: &Options) -> String {
    let keys = texts(options.queue_labels.iter().map(String::as_str));
    let queues = format!(
        "{keys}.filter(k, k in {object}.metadata.?labels.orValue({{}})).map(k, {object}.metadata.labels[k])"
    );
    // The gates of a pod with a controller are those of its owner.
    let asks = format!(
        "({keys}.exists(k, k in {object}.metadata.?labels.orValue({{}})) ||\n\
         !variables.isOwnedPod && {}.exists(k, k in {object}.metadata.?annotations.orValue({{}})))",
        texts(GATE_ANNOTATIONS)
    );
    format!(
        "variables.isOfKind && variables.isInNamespace && (variables.rule.?namespaceSelector.hasValue() || {asks}) &&\n\
         (variables.rule.?queues.orValue([]).size() == 0 || {queues}.exists(q, q in variables.rule.?queues.orValue([])))"
    )
}

/// CEL: whether the object names the gate, or did before the edit; or had it, and it was lifted.
fn has_gate() -> String {
    format!(
        "!variables.isOwnedPod && {}.size() != 0 ||\n\
         oldObject != null && {}",
        named_by("(oldObject == null ? object : oldObject)"),
        was_lifted(
            "variables.gate",
            "oldObject.metadata.?annotations.orValue({})"
        )
    )
}

fn problems() -> String {
    let quoted = |value: &str| format!("strings.quote({value})");
    let rule = filled(
        MUST_BE_NAMED,
        &[&quoted("variables.gate"), &quoted("params.metadata.name")],
    );
    // A message of several lines would not be shown at all.
    let contact = "params.?spec.?contact.orValue('').replace('\\n', ' ')";
    let rule = format!(
        "{rule} +\n({contact} == '' ? '' : {})",
        filled(ASK, &[contact])
    );
    let owned = filled(
        HAS_CONTROLLER,
        &[&quoted("variables.gate"), &quoted("params.metadata.name")],
    );
    format!(
        "!(variables.isJudged && variables.applies && !variables.applied) ? [] :\n\
         request.operation == 'CREATE' && variables.isOwnedPod ? [{}] :\n\
         variables.hasGate || request.operation == 'UPDATE' && !({}) ? [] : [{}]",
        forbidden("'metadata.ownerReferences'", &owned),
        has_owners(),
        forbidden(&field("annotations", ADMISSION_GATED_BY), &rule),
    )
}

/// CEL: the edit may make a Gate apply: the object joins a queue, or another one.
pub(crate) fn joins(options: &Options) -> String {
    let keys = texts(options.queue_labels.iter().map(String::as_str));
    let of = |object: &str| {
        format!(
            "{keys}.map(k, has({object}.metadata.labels) && k in {object}.metadata.labels ? {object}.metadata.labels[k] : {})",
            text("")
        )
    };
    format!(
        "request.operation == 'CREATE' || {} != {}",
        of("object"),
        of("oldObject")
    )
}
