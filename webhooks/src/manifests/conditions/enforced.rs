//! Which objects are asked about where a queue is required: those that the other webhooks are not asked about, and those
//! that make jobs or pods.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;

use crate::manifests::conditions::applied::{self, NAME};
use crate::manifests::conditions::entry::{condition, controller, differs};
use crate::manifests::conditions::pods::IS_CONTROLLER;
use crate::manifests::options::Options;
use crate::rules::enforcement::makers::MAKERS;

/// A new object asks for nothing. What makes others is never changed.
pub(crate) fn hold(options: &Options) -> MatchCondition {
    applied::hold(options)
}

/// A new object asks for nothing; or it makes others, no controller made it, and its spec is new.
pub(crate) fn validate(options: &Options) -> MatchCondition {
    let expression = format!(
        "{} ? (\n{}) : (\nrequest.operation == 'CREATE' && (\n{}))",
        makes_others(),
        is_new_maker(),
        applied::hold(options).expression,
    );
    condition(NAME, expression)
}

/// What makes others is not made by a controller, and its spec is new.
pub(crate) fn is_maker() -> MatchCondition {
    condition("makes-others", is_new_maker())
}

/// CEL: the request is about an object that makes others.
fn makes_others() -> String {
    let kinds = MAKERS.map(|maker| format!("'{}/{}'", maker.group, maker.kind));
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
