//! Which objects of managed kinds are asked about: those that ask to be held, and edits that touch what there are
//! rules for.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::{
    ADMISSION_ANNOTATION, DEACTIVATED_BY_ANNOTATION, LIFTED_GATES_ANNOTATION, PRIORITY_CLASS_LABEL,
    RELEASED_ANNOTATION,
};
use sluice_kinds::gates::OF_GATES;

use crate::manifests::conditions::entry::{
    Entry, aliases, any, condition, differs, gate_annotations, gets_controller, queue_names,
};
use crate::manifests::conditions::marks::{brings_records, tells_of_gates};
use crate::manifests::options::Options;

/// The object asks to be held; and if it is not new, the edit touches what there are rules for.
pub(crate) fn hold_job(options: &Options) -> MatchCondition {
    let expression = format!(
        "(\n{}) && (\nrequest.operation == 'CREATE' ||\n{})",
        concerns("object", options),
        touches_job(options)
    );
    condition("has-queue-or-gate", expression)
}

/// The object asks to be held; or what it tells of its gates, or of an earlier object, is to be seen to.
pub(crate) fn mutate_job(options: &Options) -> MatchCondition {
    let MatchCondition { name, expression } = hold_job(options);
    let expression = format!(
        "{expression} ||\n{} ||\n{}",
        tells_of_gates(),
        brings_records()
    );
    condition(&name, expression)
}

/// The object asks to be held, or did, and the edit touches what there are rules for.
pub(crate) fn validate_job(options: &Options) -> MatchCondition {
    // Whoever could write what an object keeps could pass a gate that counts, or keep others from that. One that a gate
    // has deactivated is held when it has no gates any more.
    let kept = [LIFTED_GATES_ANNOTATION, DEACTIVATED_BY_ANNOTATION];
    let concerns = |object: &str| {
        let kept = any(kept.into_iter().map(Entry::annotation), object);
        format!("{} ||\n{kept}", concerns(object, options))
    };
    let expression = format!(
        "request.operation == 'CREATE' ? (\n{}) : (\n{} ||\n{}) && (\n{})",
        concerns("object"),
        concerns("object"),
        concerns("oldObject"),
        touches_job(options)
    );
    condition("has-queue-or-gate-and-touches-it-or-the-spec", expression)
}

/// CEL: the edit of a job touches what there are rules for.
fn touches_job(options: &Options) -> String {
    let ours = [RELEASED_ANNOTATION, ADMISSION_ANNOTATION].into_iter();
    let ours = ours.chain(OF_GATES).map(Entry::annotation);
    let entries = entries(options).chain(ours).chain(aliases(options));
    let mut touched: Vec<_> = entries.map(|entry| entry.differs()).collect();
    touched.push(touches_what_gates_ask());
    // Who says later that an object belongs to one that is queued gets it past the queue too.
    touched.push(gets_controller());
    touched.join(" ||\n")
}

/// CEL: the edit touches what Gates ask about, besides the queue.
pub(crate) fn touches_what_gates_ask() -> String {
    format!(
        "{} ||\n{}",
        Entry::label(PRIORITY_CLASS_LABEL).differs(),
        differs("has({}.spec)", "{}.spec")
    )
}

fn entries(options: &Options) -> impl Iterator<Item = Entry<'_>> {
    queue_names(options).chain(gate_annotations())
}

/// CEL: `object` has an entry.
pub(crate) fn concerns(object: &str, options: &Options) -> String {
    any(entries(options), object)
}
