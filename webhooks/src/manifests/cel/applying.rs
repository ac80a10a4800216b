//! To which objects a Gate applies, in CEL, for one Gate: that in `params`. The same rules as in `sluice-gates`, but for
//! `when`, which the API server can't evaluate: it knows no expression but those of policies.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_kinds::PodMetadata;
use sluice_kinds::gates::{ADMISSION_GATED_BY, GATE_ANNOTATIONS};
use sluice_kinds::pod_hold::MIRROR_ANNOTATION;

use crate::manifests::cel::gate_marks::was_lifted;
use crate::manifests::cel::lifting::{gate, has_owners, named_by};
use crate::manifests::cel::owners;
use crate::manifests::cel::syntax::{field, filled, forbidden, text, texts, variable, when};
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::pod_queues;
use crate::rules::applies::creation::HAS_CONTROLLER;
use crate::rules::applies::makers::POD_TEMPLATE;
use crate::rules::lifting::lift::{ASK, MADE};

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
    variables.extend(rule());
    variables.extend([
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
        variable("applies", applies("object", options, kinds)),
        variable(
            "applied",
            format!(
                "oldObject != null && {}",
                applies("oldObject", options, kinds)
            ),
        ),
        variable("hasGate", has_gate()),
        variable("problems", problems()),
    ]);
    variables
}

/// The same of the pods that the template of an object makes which nobody manages. Each is judged by itself.
pub(crate) fn of_makers(options: &Options, kinds: &[HeldKind]) -> Vec<Variable> {
    let is_of_queue =
        "(variables.rule.?queues.orValue([]).size() == 0 || {} in variables.rule.queues)";
    let applies = |object: &str| {
        pod_queues::names_queue(&PodMetadata::of_template(), object, options, &|queue| {
            is_of_queue.replace("{}", queue)
        })
    };
    let mut variables: Vec<_> = gate().into_iter().chain(rule()).collect();
    variables.extend(owners::made_by(kinds));
    variables.extend([
        variable(
            "isJudged",
            "params.?spec.?appliesTo.hasValue() && !has(variables.rule.when) && variables.isInNamespace && !variables.isMadeByController &&\n\
             (variables.rule.?kinds.orValue([]).size() == 0 ||\n\
             variables.rule.?kinds.orValue([]).exists(k, k.?group.orValue('') == '' && k.kind == 'Pod'))",
        ),
        variable("applies", applies("object")),
        variable("applied", format!("oldObject != null && {}", applies("oldObject"))),
        variable("problems", problems_of_makers(options)),
    ]);
    variables
}

/// `variables.rule`: to what the Gate of `params` applies; and `isInNamespace`.
fn rule() -> [Variable; 4] {
    [
        variable("rule", "params.?spec.?appliesTo.orValue({})"),
        variable(
            "namespaceLabels",
            "namespaceObject.metadata.?labels.orValue({})",
        ),
        variable(
            "selected",
            "variables.rule.?namespaceSelector.?matchLabels.orValue({})",
        ),
        variable("isInNamespace", IN_NAMESPACE),
    ]
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

/// CEL: whether the Gate applies to `object`: by the queue that it names, and by those that its templates name.
fn applies(object: &str, options: &Options, kinds: &[HeldKind]) -> String {
    let keys = texts(options.queue_labels.iter().map(String::as_str));
    let is_queued = format!("{keys}.exists(k, k in {object}.metadata.?labels.orValue({{}}))");
    let queues = format!(
        "{keys}.filter(k, k in {object}.metadata.?labels.orValue({{}})).map(k, {object}.metadata.labels[k])"
    );
    let of_pods = |is: &dyn Fn(&str) -> String| {
        let resources = kinds.iter().map(|kind| &kind.resource);
        pod_queues::of_kinds(resources, object, options, is)
    };
    // The gates of a pod with a controller are those of its owner.
    let asks = format!(
        "({is_queued} ||\n\
         !variables.isOwnedPod && {}.exists(k, k in {object}.metadata.?annotations.orValue({{}})) ||\n{})",
        texts(GATE_ANNOTATIONS),
        of_pods(&|_| "true".to_owned())
    );
    format!(
        "variables.isOfKind && variables.isInNamespace && (variables.rule.?namespaceSelector.hasValue() || {asks}) &&\n\
         (variables.rule.?queues.orValue([]).size() == 0 || {queues}.exists(q, q in variables.rule.?queues.orValue([])) ||\n{})",
        of_pods(&|queue| format!("{queue} in variables.rule.?queues.orValue([])"))
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
    let rule = asking(&filled(MUST_BE_NAMED, &[GATE, NAME]));
    let owned = filled(HAS_CONTROLLER, &[GATE, NAME]);
    format!(
        "!(variables.isJudged && variables.applies && !variables.applied) ? [] :\n\
         request.operation == 'CREATE' && variables.isOwnedPod ? [{}] :\n\
         variables.hasGate || request.operation == 'UPDATE' && !({}) ? [] : [{}]",
        forbidden("'metadata.ownerReferences'", &owned),
        has_owners(),
        forbidden(&field("annotations", ADMISSION_GATED_BY), &rule),
    )
}

fn problems_of_makers(options: &Options) -> String {
    let rule = filled(
        MADE,
        &[
            "request.kind.kind",
            NAME,
            GATE,
            "strings.quote(request.userInfo.username)",
            NAME,
            "strings.quote(request.namespace)",
        ],
    );
    let at = options.queue_labels.iter().map(|key| {
        let at = format!("{POD_TEMPLATE}.metadata.labels[{key}]");
        format!(
            "'{key}' in object.spec.template.?metadata.?labels.orValue({{}}) ? {} : ",
            text(&at)
        )
    });
    let at = at.collect::<String>() + &text(POD_TEMPLATE);
    when(
        &format!(
            "variables.isJudged && variables.applies && !variables.applied && {}",
            has_owners()
        ),
        &forbidden(&at, &asking(&rule)),
    )
}

/// CEL: the gate and the Gate of `params`, quoted.
const GATE: &str = "strings.quote(variables.gate)";
const NAME: &str = "strings.quote(params.metadata.name)";

/// CEL: `rule`, and whom to ask.
fn asking(rule: &str) -> String {
    // A message of several lines would not be shown at all.
    let contact = "params.?spec.?contact.orValue('').replace('\\n', ' ')";
    format!(
        "{rule} +\n({contact} == '' ? '' : {})",
        filled(ASK, &[contact])
    )
}

/// CEL: the edit may make a Gate apply: the object joins a queue, or another one; or its templates name one.
pub(crate) fn joins(options: &Options, kinds: &[HeldKind]) -> String {
    let resources = kinds.iter().map(|kind| &kind.resource);
    let by_template = pod_queues::of_kinds(resources, "object", options, &|_| "true".to_owned());
    let keys = texts(options.queue_labels.iter().map(String::as_str));
    let of = |object: &str| {
        format!(
            "{keys}.map(k, has({object}.metadata.labels) && k in {object}.metadata.labels ? {object}.metadata.labels[k] : {})",
            text("")
        )
    };
    format!(
        "request.operation == 'CREATE' || {} != {} ||\n{by_template}",
        of("object"),
        of("oldObject")
    )
}
