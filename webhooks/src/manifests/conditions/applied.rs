//! Which objects are asked about for the sake of a Gate alone: those that the other webhooks are not asked about.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;

use crate::manifests::conditions::entry::condition;
use crate::manifests::conditions::jobs::{concerns, touches_what_gates_ask};
use crate::manifests::conditions::pods::asks_for_nothing;
use crate::manifests::options::Options;

/// The name of the condition.
pub(crate) const NAME: &str = "asks-for-nothing";

/// CEL: the request is about a pod.
const IS_POD: &str = "request.kind.group == '' && request.kind.kind == 'Pod'";

/// A new object asks for nothing.
pub(crate) fn hold(options: &Options) -> MatchCondition {
    let expression = format!(
        "{IS_POD} ? (\n{}) : !(\n{})",
        asks_for_nothing(options),
        concerns("object", options)
    );
    condition(NAME, expression)
}

/// An object asks for nothing; and if it is not new, it did not before, and the edit touches what Gates ask about.
/// Of pods only the resources change.
pub(crate) fn validate(options: &Options) -> MatchCondition {
    let expression = format!(
        "{IS_POD} ? (\n{}) :\n!(\n{}) && (request.operation == 'CREATE' || !(\n{}) && (\n{}))",
        asks_for_nothing(options),
        concerns("object", options),
        concerns("oldObject", options),
        touches_what_gates_ask()
    );
    condition(NAME, expression)
}
