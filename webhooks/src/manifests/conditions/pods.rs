//! Which pods are asked about: those that wait by themselves, or that nobody but the webhook can tell
//! from those; and edits of what Sluice wrote on a pod.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use sluice_crds::{
    ADMITTED_ANNOTATION, EXPIRED_GATES_ANNOTATION, GATE_FAILURES_ANNOTATION,
    LIFTED_GATES_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL, POD_GROUP_LABELS_ANNOTATION,
    POD_GROUP_TOTAL_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION, POD_SET_ANNOTATION,
    PRIORITY_CLASS_LABEL, PROPAGATED_GATES_ANNOTATION, RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_kinds::gates::VALUE_BYTES_MAX;
use sluice_kinds::pod::GROUP_MARK_BYTES_MAX;
use sluice_kinds::pod_hold::MIRROR_ANNOTATION;

use crate::manifests::conditions::entry::{
    Entry, any, condition, controller, differs, gate_annotations, gets_controller, queue_names,
};
use crate::manifests::conditions::marks::{brings_records, tells_of_gates};
use crate::manifests::options::Options;
use crate::rules::pods::hold_patch::MARKS_OF_POD;

/// The pod is to wait by itself, or hides.
pub(crate) fn hold_pod(options: &Options) -> MatchCondition {
    let expression = format!("{} ||\n{}", waits_by_itself(options), hides());
    condition("waits-by-itself", expression)
}

/// The pod is to wait by itself, or hides; or what it tells of its gates is to be seen to, or what a manifest drops.
pub(crate) fn mutate_pod(options: &Options) -> MatchCondition {
    let expression = format!(
        "request.operation == 'CREATE' && (\n{} ||\n{}) ||\n{} ||\n{}",
        waits_by_itself(options),
        hides(),
        tells_of_own_gates(),
        drops_marks(options)
    );
    condition("waits-by-itself", expression)
}

/// What a bare pod tells of its gates is to be seen to. The gates of other pods came down from their owners.
pub(crate) fn marks_gates_of_pod() -> MatchCondition {
    condition("is-bare-and-tells-of-its-gates", tells_of_own_gates())
}

/// CEL: the edit of a pod that Sluice looks after drops an annotation that says how it waits.
fn drops_marks(options: &Options) -> String {
    let marks = MARKS_OF_POD.into_iter().map(Entry::annotation);
    let dropped: Vec<_> = opt_ins(options)
        .chain(marks)
        .map(|entry| format!("{} && !{}", entry.is_on("oldObject"), entry.is_on("object")))
        .collect();
    format!(
        "request.operation == 'UPDATE' && {} && (\n{})",
        Entry::label(MANAGED_LABEL).is_on("oldObject"),
        dropped.join(" ||\n")
    )
}

/// CEL: the same; or it brings the history of another object.
fn tells_of_own_gates() -> String {
    format!(
        "!{} && {} ||\n{}",
        controller(""),
        tells_of_gates(),
        brings_records()
    )
}

/// The pod is to wait by itself, or hides; or it is one that Sluice looks after, and the edit touches what
/// there are rules for.
pub(crate) fn validate_pod(options: &Options) -> MatchCondition {
    let managed = Entry::label(MANAGED_LABEL);
    let expression = format!(
        "request.operation == 'CREATE' ? (\n{} ||\n{}) : (\n(\n{} || {}) && (\n{}) ||\n{})",
        waits_by_itself(options),
        hides(),
        managed.is_on("object"),
        managed.is_on("oldObject"),
        touched(options),
        late(options)
    );
    condition("waits-by-itself-or-is-managed-and-touched", expression)
}

/// CEL: Sluice has to do with the new pod `object`, and it was not made by a held template. Labels and
/// annotations come down from owners; so gates, their list and groups count on pods without a
/// controller. With a queue label those of Jobs alone are not asked about that the Job controller
/// makes: by far the most, and known without a look at JobKinds. Nor are those that are gated as
/// Sluice gates templates, unless somebody makes them who may use an account of their namespace. Those that list gates
/// which they lack wait for an object of which only the metadata of its pods is known.
fn waits_by_itself(options: &Options) -> String {
    let asking = opt_ins(options).chain([Entry::annotation(ADMITTED_ANNOTATION)]);
    let listed = Entry::annotation(PROPAGATED_GATES_ANNOTATION);
    let alone = group().chain(gate_annotations()).chain([listed]);
    let managed = Entry::label(MANAGED_LABEL).is_on("object");
    let gated = queue_gated(options);
    format!(
        "!{} && (\n{} ||\n({}) && !({JOB_CONTROLLER} && {}) ||\n({}) && !{} ||\n{} ||\n{gated} && !{managed}) &&\n\
         !({managed} && {} && {gated} && !{} &&\n{IS_CONTROLLER})",
        Entry::annotation(MIRROR_ANNOTATION).is_on("object"),
        any(asking, "object"),
        any(queue_names(options), "object"),
        controller(" && o.apiVersion.startsWith('batch/') && o.kind == 'Job'"),
        any(alone, "object"),
        controller(""),
        lacks_listed_gates(),
        controller(""),
        Entry::annotation(ADMITTED_ANNOTATION).is_on("object"),
    )
}

/// CEL: the new pod `object` says that Sluice does not manage it. Some controllers copy labels of their object over those
/// of its template, where Sluice wrote the mark by which pods are watched.
fn hides() -> String {
    format!(
        "{} && object.metadata.labels['{MANAGED_LABEL}'] != 'true' && !{}",
        Entry::label(MANAGED_LABEL).is_on("object"),
        Entry::annotation(MIRROR_ANNOTATION).is_on("object")
    )
}

/// Longest list of gates whose names are looked at, in characters: that of all gates that an object may have is shorter.
const LISTED_MAX: usize = 2 * VALUE_BYTES_MAX;

/// CEL: the pod `object` lists gates that it does not have: those of an object that waits by its pods. Pods that another
/// pod makes, as a Spark driver does, run after that one.
fn lacks_listed_gates() -> String {
    let listed = Entry::annotation(PROPAGATED_GATES_ANNOTATION);
    format!(
        "({} && !{} && [object.metadata.annotations['{PROPAGATED_GATES_ANNOTATION}']].exists(l, {LISTED_MAX} < size(l) || \
         l.split(',').exists(n, !(has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(g, g.name == n)))))",
        listed.is_on("object"),
        controller(" && o.apiVersion == 'v1' && o.kind == 'Pod'")
    )
}

/// CEL: the pod `object` asks for nothing, and no controller of Kubernetes made it for an object of its own.
pub(crate) fn asks_for_nothing(options: &Options) -> String {
    format!("{} && !(\n{})", stands_alone(), waits_by_itself(options))
}

/// CEL: no controller made the pod `object` for an object of its own, nor is it the copy of a manifest on a node.
pub(crate) fn stands_alone() -> String {
    format!(
        "!{} && !({} && {IS_KUBERNETES})",
        Entry::annotation(MIRROR_ANNOTATION).is_on("object"),
        controller(""),
    )
}

/// CEL: the Job controller asks, with an account of its own or that of all controllers.
const JOB_CONTROLLER: &str = "request.userInfo.username in ['system:serviceaccount:kube-system:job-controller', \
     'system:kube-controller-manager']";

/// CEL: a controller of Kubernetes asks. Of other controllers the webhook itself knows which they are.
pub(crate) const IS_KUBERNETES: &str = "(request.userInfo.username == 'system:kube-controller-manager' ||\n\
     request.userInfo.username.startsWith('system:serviceaccount:kube-system:'))";

/// CEL: whoever asks may be a controller: no account of the pod's own namespace.
pub(crate) const IS_CONTROLLER: &str = "(request.userInfo.username == 'system:kube-controller-manager' ||\n\
     request.userInfo.username.startsWith('system:serviceaccount:') && \
     !request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':') ||\n\
     has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups && \
     !request.userInfo.username.startsWith('system:serviceaccount:'))";

/// CEL: the edit brings a pod a gate annotation or a queue label, which it may only be born with, or the record of an
/// admission, which is Sluice's to write. A gate annotation may be removed.
fn late(options: &Options) -> String {
    let admitted = Entry::annotation(ADMITTED_ANNOTATION);
    let entries = queue_names(options).chain(gate_annotations());
    let entries = entries.chain([admitted]);
    let late: Vec<_> = entries
        .map(|entry| format!("{} && {}", entry.is_on("object"), entry.differs()))
        .collect();
    late.join(" ||\n")
}

/// CEL: the edit of a managed pod touches what there are rules for.
fn touched(options: &Options) -> String {
    let ours = [
        Entry::label(MANAGED_LABEL),
        Entry::label(PRIORITY_CLASS_LABEL),
        Entry::annotation(ADMITTED_ANNOTATION),
        Entry::annotation(PROPAGATED_GATES_ANNOTATION),
        Entry::annotation(POD_SET_ANNOTATION),
        Entry::annotation(LIFTED_GATES_ANNOTATION),
        Entry::annotation(EXPIRED_GATES_ANNOTATION),
        Entry::annotation(GATE_FAILURES_ANNOTATION),
    ];
    let mut touched: Vec<_> = ours
        .into_iter()
        .chain(opt_ins(options))
        .chain(group())
        .chain(queue_names(options))
        .chain(gate_annotations())
        .map(|entry| entry.differs())
        .collect();
    touched.push(differs(
        "has({}.spec.schedulingGates)",
        "{}.spec.schedulingGates",
    ));
    // By which labels and annotation the pod's group is told, these two say.
    let marks = [
        Entry::annotation(POD_GROUP_LABELS_ANNOTATION),
        Entry::annotation(POD_GROUP_TOTAL_FROM_ANNOTATION),
    ];
    touched.extend(marks.iter().map(Entry::differs));
    let labels = of_old(POD_GROUP_LABELS_ANNOTATION);
    // More labels than that would cost more than the API server spends, which would then take no status of the pod either.
    touched.push(format!(
        "({GROUP_MARK_BYTES_MAX} < size({labels}) ? {} : {})",
        differs("has({}.metadata.labels)", "{}.metadata.labels"),
        one_differs(&format!("{labels}.split(',')"), "labels")
    ));
    let total = format!("[{}]", of_old(POD_GROUP_TOTAL_FROM_ANNOTATION));
    touched.push(one_differs(&total, "annotations"));
    touched.push(gets_controller());
    // The field is absent where it is empty.
    touched.push("has(request.subResource) && request.subResource == 'resize'".to_owned());
    touched.join(" ||\n")
}

/// CEL: the value of the annotation `key` of the pod as it was; empty without one.
fn of_old(key: &str) -> String {
    let is_there = Entry::annotation(key).is_on("oldObject");
    format!("({is_there} ? oldObject.metadata.annotations['{key}'] : '')")
}

/// CEL: the edit changes one of the labels or annotations of these keys, which are a list in CEL.
fn one_differs(keys: &str, map: &str) -> String {
    let present = format!("has({{}}.metadata.{map}) && k in {{}}.metadata.{map}");
    let differs = differs(&present, &format!("{{}}.metadata.{map}[k]"));
    format!("{keys}.exists(k, {differs})")
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
