//! Which pods are asked about: those that wait by themselves, and edits of what Sluice wrote on a pod.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::{
    ADMITTED_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION,
    POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION, RETRIABLE_IN_GROUP_ANNOTATION,
};

use super::{Entry, any, condition, differs, gate_annotations, queue_labels};
use crate::manifests::Options;

/// A copy of a pod of a kubelet's own manifests: nothing can hold it.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The pod is to wait by itself.
pub(crate) fn hold_pod(options: &Options) -> MatchCondition {
    condition("waits-by-itself", waits_by_itself(options))
}

/// The pod is to wait by itself; or it is one that Sluice looks after, and the edit touches what
/// there are rules for.
pub(crate) fn validate_pod(options: &Options) -> MatchCondition {
    let managed = Entry::label(MANAGED_LABEL);
    let expression = format!(
        "request.operation == 'CREATE' ? (\n{}) : (\n{} || {}) && (\n{})",
        waits_by_itself(options),
        managed.is_on("object"),
        managed.is_on("oldObject"),
        touched(options)
    );
    condition("waits-by-itself-or-is-managed-and-touched", expression)
}

/// CEL: Sluice has to do with the new pod `object`, and it was not made by a held template. Labels and
/// annotations come down from owners; so a queue label counts on pods without a controller and on
/// those whose controller only copies them, gates, their list and groups on pods without a
/// controller.
fn waits_by_itself(options: &Options) -> String {
    let asking = opt_ins(options).chain([Entry::annotation(ADMITTED_ANNOTATION)]);
    let listed = Entry::annotation(PROPAGATED_GATES_ANNOTATION);
    let alone = group().chain(gate_annotations()).chain([listed]);
    format!(
        "!{} && (\n{} ||\n({}) && !{} ||\n({}) && !{}) &&\n!({} && {} && {} && !{})",
        Entry::annotation(MIRROR).is_on("object"),
        any(asking, "object"),
        any(queue_labels(options), "object"),
        controller(
            " && !(o.apiVersion.startsWith('apps/') && o.kind in ['ReplicaSet', 'StatefulSet'])"
        ),
        any(alone, "object"),
        controller(""),
        Entry::label(MANAGED_LABEL).is_on("object"),
        controller(""),
        queue_gated(options),
        Entry::annotation(ADMITTED_ANNOTATION).is_on("object"),
    )
}

/// CEL: the edit of a managed pod touches what there are rules for.
fn touched(options: &Options) -> String {
    let ours = [
        Entry::label(MANAGED_LABEL),
        Entry::annotation(ADMITTED_ANNOTATION),
        Entry::annotation(PROPAGATED_GATES_ANNOTATION),
        Entry::annotation(POD_SET_ANNOTATION),
    ];
    let mut touched: Vec<_> = ours
        .into_iter()
        .chain(opt_ins(options))
        .chain(group())
        .chain(queue_labels(options))
        .chain(gate_annotations())
        .map(|entry| entry.differs())
        .collect();
    touched.push(differs(
        "has({}.spec.schedulingGates)",
        "{}.spec.schedulingGates",
    ));
    // The field is absent where it is empty.
    touched.push("has(request.subResource) && request.subResource == 'resize'".to_owned());
    touched.join(" ||\n")
}

/// CEL: `object` has a controller `o`, for which what is in `rule` also holds.
fn controller(rule: &str) -> String {
    format!(
        "(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, \
         has(o.controller) && o.controller{rule}))"
    )
}

/// CEL: `object` carries a queue gate.
fn queue_gated(options: &Options) -> String {
    let names: Vec<_> = options
        .queue_gates
        .iter()
        .map(|name| format!("'{name}'"))
        .collect();
    format!(
        "(has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(g, g.name in [{}]))",
        names.join(", ")
    )
}

fn opt_ins(options: &Options) -> impl Iterator<Item = Entry<'_>> {
    options.queue_gates.iter().map(|key| Entry::annotation(key))
}

fn group<'a>() -> impl Iterator<Item = Entry<'a>> {
    [
        Entry::label(POD_GROUP_LABEL),
        Entry::annotation(POD_GROUP_TOTAL_ANNOTATION),
        Entry::annotation(RETRIABLE_IN_GROUP_ANNOTATION),
    ]
    .into_iter()
}
