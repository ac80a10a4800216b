//! Who may lift a gate that has owners, in CEL, for one Gate: that in `params`. The same rules as in
//! `crate::rules::lifting::lift`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::{Validation, Variable};
use sluice_crds::{GROUP, LIFT_VERB, Lifting};
use sluice_kinds::gates::GATE_ANNOTATIONS;

use crate::manifests::cel::metadata::is_owned;
use crate::manifests::cel::syntax::{filled, forbidden, no_problems, text, texts, variable, when};
use crate::manifests::held::HeldKind;
use crate::rules::author::SERVICE_ACCOUNT;
use crate::rules::lifting::lift::{ASK, BY_ITS_OWNERS};

/// The characters around a name that are none of it, as Rust trims them.
const SPACE: &str = r"[\s\v\x{85}\p{Z}]*";

/// `variables.problems`: that the author of the edit may not lift the gate of `params` unless he is an owner, if the
/// edit lifts it.
pub(crate) fn variables(kinds: &[HeldKind]) -> Vec<Variable> {
    let controllers = |object: &str| {
        format!(
            "{object}.metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false)).map(o, o.uid)"
        )
    };
    let [gate, pattern] = gate();
    vec![
        gate,
        pattern,
        variable("before", named_by("oldObject")),
        variable("after", named_by("object")),
        variable(
            "getsController",
            format!(
                "{}.exists(u, !(u in {}))",
                controllers("object"),
                controllers("oldObject")
            ),
        ),
        variable("isFree", is_free(kinds)),
        variable("problems", problems()),
    ]
}

/// `variables.gate`: the gate of `params`; and `pattern`, which finds it in a list.
pub(crate) fn gate() -> [Variable; 2] {
    [
        variable(
            "gate",
            "params.metadata.name.split('.', 2)[1] + '/' + params.metadata.name.split('.', 2)[0]",
        ),
        variable(
            "pattern",
            format!(
                "{} + variables.gate.replace('.', '[.]') + {}",
                text(&format!(",{SPACE}")),
                text(&format!("{SPACE},"))
            ),
        ),
    ]
}

/// CEL, a list: the annotations by which `object` names the gate of `params`. Needs [`gate`].
///
/// A regular expression finds a name in a value of any length for less than splitting it costs: an expression that
/// costs too much would not be evaluated, and nothing refused.
pub(crate) fn named_by(object: &str) -> String {
    let annotations = format!("{object}.metadata.?annotations.orValue({{}})");
    format!(
        "{}.filter(k, (',' + {annotations}[?k].orValue('') + ',').matches(variables.pattern))",
        texts(GATE_ANNOTATIONS)
    )
}

/// CEL: whether whoever may edit the object may lift its gates: those came down from an owner.
fn is_free(kinds: &[HeldKind]) -> String {
    let mut makers: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for child in kinds.iter().flat_map(|kind| &kind.job_kind.children) {
        let is_held = |kind: &HeldKind| {
            kind.job_kind.group == child.group && kind.job_kind.kind == child.kind
        };
        if kinds.iter().any(is_held) {
            let named = makers.entry((&child.group, &child.kind)).or_default();
            named.extend(child.made_by.iter().map(String::as_str));
        }
    }
    let made = makers.into_iter().filter(|(_, names)| !names.is_empty());
    let made = made.map(|((group, kind), names)| {
        format!(
            "request.kind.group == {} && request.kind.kind == {} && request.userInfo.username in {}",
            text(group),
            text(kind),
            texts(names)
        )
    });
    let made: Vec<_> = made.collect();
    let made = if made.is_empty() {
        "false".to_owned()
    } else {
        made.join(" ||\n")
    };
    format!(
        "{} && (request.kind.group == '' && request.kind.kind == 'Pod' ||\n\
         !request.userInfo.username.startsWith('{SERVICE_ACCOUNT}' + request.namespace + ':') && (\n{made}))",
        is_owned("oldObject")
    )
}

/// The validation that there are no `variables.problems`, or that the author of the edit is an owner. That is asked
/// here, as the expression of a message knows no authorizer.
pub(crate) fn no_problems_or_owner() -> Validation {
    or_owner(no_problems(), "params.metadata.name")
}

/// `validation`, or that the author of the edit may lift the Gate of this name, which is CEL.
pub(crate) fn or_owner(validation: Validation, gate: &str) -> Validation {
    let expression = format!(
        "{} ||\nauthorizer.group('{GROUP}').resource('gates').namespace(request.namespace)\n\
         .name({gate}).check('{LIFT_VERB}').allowed()",
        validation.expression
    );
    Validation {
        expression,
        ..validation
    }
}

/// CEL: whether only owners may lift the gate of `params`.
pub(crate) fn has_owners() -> String {
    let anyone = format!("{:?}", Lifting::Anyone);
    format!("params.?spec.?lifting.orValue('') != {}", text(&anyone))
}

fn problems() -> String {
    let quoted = |value: &str| format!("strings.quote({value})");
    let rule = filled(
        BY_ITS_OWNERS,
        &[
            &quoted("variables.gate"),
            &quoted("request.userInfo.username"),
            &quoted("params.metadata.name"),
            &quoted("request.namespace"),
        ],
    );
    // A message of several lines would not be shown at all.
    let contact = "params.?spec.?contact.orValue('').replace('\\n', ' ')";
    let ask = filled(ASK, &[contact]);
    let rule = format!("{rule} +\n({contact} == '' ? '' : {ask})");
    let at = "(variables.after.size() != 0 ? 'metadata.ownerReferences' : 'metadata.annotations[' + variables.before[0] + ']')";
    when(
        &format!(
            "variables.before.size() != 0 && (variables.after.size() == 0 || variables.getsController) &&\n\
             {} && !variables.isFree",
            has_owners()
        ),
        &forbidden(at, &rule),
    )
}
