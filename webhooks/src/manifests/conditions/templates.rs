//! Which objects name a queue or a gate only for their pods, in CEL: those that are judged by their pod templates.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_kinds::PodMetadata;

use crate::manifests::conditions::applied::NAME;
use crate::manifests::conditions::entry::{condition, controller, differs};
use crate::manifests::conditions::jobs::{self, concerns};
use crate::manifests::conditions::pods::IS_KUBERNETES;
use crate::manifests::options::Options;
use crate::manifests::pod_queues::{RESOURCE, name_gate, names_queue, of_kinds};
use crate::rules::applies::makers;

/// An object asks to be held, or did, and the edit touches what there are rules for. Or its template names a gate,
/// which holds nothing there, or the queue of each pod that is made: its author is to be told what is wrong with that
/// before anything runs. Controllers listen to no warning. Only templates of the shipped kinds of Kubernetes are looked at:
/// they always fit the expression.
pub(crate) fn validate_job(options: &Options) -> MatchCondition {
    let MatchCondition { name, expression } = jobs::validate_job(options);
    let shipped = Options::default().resources;
    let gated = name_gate(shipped.iter(), "object");
    let shipped = shipped.iter().filter(|kind| kind.resource != "jobs");
    let queued = of_kinds(shipped, "object", options, &|_| "true".to_owned());
    let expression = format!(
        "({expression}) ||\nrequest.operation == 'CREATE' && !{} && (\n({gated}) ||\n({queued}))",
        controller("")
    );
    condition(&name, expression)
}

/// A new object names a queue for its pods, and asks for nothing itself.
pub(crate) fn hold(options: &Options) -> MatchCondition {
    let expression = format!(
        "!(\n{}) && (\n{})",
        concerns("object", options),
        managed("object", options)
    );
    condition(NAME, expression)
}

/// An object names a queue for its pods, and asks for nothing itself; or makes such pods, and no controller of Kubernetes
/// made it. And it is new, or its spec is.
pub(crate) fn validate(options: &Options) -> MatchCondition {
    let kinds = format!(
        "!(\n{}) && !(request.operation == 'UPDATE' && (\n{})) && (\n{})",
        concerns("object", options),
        concerns("oldObject", options),
        managed("object", options),
    );
    let expression = format!(
        "(request.operation == 'CREATE' ||\n{}) &&\n({} ? (\n{}) : (\n{kinds}))",
        differs("has({}.spec)", "{}.spec"),
        is_maker(),
        made_by_user(options),
    );
    condition(NAME, expression)
}

/// An object that makes pods, and that no controller of Kubernetes made, names a queue for them; and it is new, or its
/// spec is.
pub(crate) fn maker(options: &Options) -> MatchCondition {
    let expression = format!(
        "(request.operation == 'CREATE' ||\n{}) &&\n({})",
        differs("has({}.spec)", "{}.spec"),
        made_by_user(options),
    );
    condition("names-a-queue-for-its-pods", expression)
}

/// CEL: `object`, which is of a managed kind, names a queue for its pods.
fn managed(object: &str, options: &Options) -> String {
    of_kinds(options.managed(), object, options, &|_| "true".to_owned())
}

/// CEL: the request is about an object that makes pods and that nobody manages.
fn is_maker() -> String {
    let kinds = makers::of_pods().map(|maker| format!("'{}/{}'", maker.group, maker.resource));
    let kinds: Vec<_> = kinds.collect();
    format!("{RESOURCE} in [{}]", kinds.join(", "))
}

/// CEL: no controller of Kubernetes made the object, which names a queue for its pods.
fn made_by_user(options: &Options) -> String {
    format!(
        "!({} && {IS_KUBERNETES}) && {}",
        controller(""),
        names_queue(&PodMetadata::of_template(), "object", options, &|_| "true"
            .to_owned()),
    )
}
