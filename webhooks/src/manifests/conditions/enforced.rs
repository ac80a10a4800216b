//! Which objects are asked about where a queue is required: those that the other webhooks are not asked about, and those
//! that make jobs or pods.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::HELD_ANNOTATION;

use crate::manifests::conditions::applied::{self, NAME};
use crate::manifests::conditions::entry::{
    Entry, any, condition, controller, differs, gate_annotations, loses_controller, queue_names,
};
use crate::manifests::conditions::pods::{IS_CONTROLLER, IS_KUBERNETES};
use crate::manifests::options::Options;
use crate::rules::applies::makers;

/// A new object asks for nothing. What makes others is never changed.
pub(crate) fn hold(options: &Options) -> MatchCondition {
    applied::hold(options)
}

/// An object asks for nothing, and is new, or may begin to run by this edit; or it makes others, no controller made it,
/// and its spec is new.
pub(crate) fn validate(options: &Options) -> MatchCondition {
    let expression = format!(
        "{} ? (\n{}) : (\n({}) &&\n(request.operation == 'CREATE' || (\n{})))",
        makes_others(),
        is_new_maker(),
        applied::hold(options).expression,
        may_begin(options),
    );
    condition(NAME, expression)
}

/// CEL: an object that named no queue, and had no gate that is judged by itself, may begin to run by this edit.
pub(crate) fn may_begin(options: &Options) -> String {
    format!(
        "!({}) && !{IS_KUBERNETES} &&\n({} ||\n{} ||\n{})",
        any(queue_names(options), "oldObject"),
        differs("has({}.spec)", "{}.spec"),
        Entry::annotation(HELD_ANNOTATION).differs(),
        loses_controller()
    )
}

/// CEL: an object that had gates has none any more.
pub(crate) fn loses_gates() -> String {
    let has_gates = |object: &str| any(gate_annotations(), object);
    format!(
        "!{IS_KUBERNETES} && ({}) && !({})",
        has_gates("oldObject"),
        has_gates("object")
    )
}

/// What makes others is not made by a controller, and its spec is new.
pub(crate) fn is_maker() -> MatchCondition {
    condition("makes-others", is_new_maker())
}

/// CEL: the request is about an object that makes others.
fn makes_others() -> String {
    let kinds = makers::that_need_queues();
    let kinds: Vec<_> = kinds
        .map(|maker| format!("'{}/{}'", maker.group, maker.kind))
        .collect();
    let kinds = kinds.join(", ");
    format!("request.kind.group + '/' + request.kind.kind in [{kinds}]")
}

/// CEL: it is not made by a controller, and its spec is new.
fn is_new_maker() -> String {
    format!(
        "!({} && {IS_CONTROLLER}) && (request.operation == 'CREATE' || {})",
        controller(""),
        differs("has({}.spec)", "{}.spec"),
    )
}
