//! Holds objects of a managed kind: suspends them at their creation, or has their pods born behind
//! scheduling gates. Templates that can be edited are seen to at each edit.

use k8s_openapi::api::admissionregistration::v1::Mutation;
use sluice_crds::{
    HELD_ANNOTATION, JobKindSpec, MANAGED_LABEL, POD_GROUP_LABELS_ANNOTATION,
    POD_GROUP_TOTAL_FROM_ANNOTATION, POD_SET_ANNOTATION, PRIORITY_CLASS_LABEL, PodSetRule,
    QUEUE_GATE,
};
use sluice_kinds::{HeldMark, label_keys};

use crate::manifests::cel::gating::{self, Gating, entry, has_queue_gate};
use crate::manifests::cel::holding::{self, is_there};
use crate::manifests::cel::path::Path;
use crate::manifests::cel::suspension::{self, is_suspended};
use crate::manifests::cel::syntax::{forbidden, text, when};
use crate::manifests::cel::{gates, metadata, owners, queue};
use crate::manifests::conditions;
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, apply};
use crate::manifests::webhook_rules::job_rule;
use crate::rules::hold::NOT_HELD;

/// CEL: the object waits in the queue that it names.
pub(super) const IS_QUEUED: &str = "variables.queue.size() != 0 && !variables.isChild";

/// The mutating policy for this kind, one of `kinds`.
pub(super) fn policy(options: &Options, kind: &HeldKind, kinds: &[HeldKind]) -> Rules<Mutation> {
    let mut variables = metadata::variables();
    variables.push(gates::held_by());
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&[kind], kinds));
    variables.push(gating::propagated("true"));
    variables.extend(holding::variables(options, &kind.job_kind));
    let mut outcomes = Vec::new();
    if let Some(path) = &kind.job_kind.suspend {
        variables.extend(suspension::suspended(path));
        variables.extend(suspension::counts(&kind.job_kind));
        outcomes.push(suspend(path));
        outcomes.push(mark_suspension(&suspension::has_grown(&kind.job_kind)));
    }
    let only_new = match kind.job_kind.suspend {
        Some(_) => "oldObject != null ? Object{} :\n",
        None => "",
    };
    let sets = kind.job_kind.pod_sets.iter().enumerate();
    outcomes.extend(sets.map(|(index, set)| {
        let gate = gate(options, &kind.job_kind, set, &index.to_string());
        format!("{only_new}{gate}")
    }));
    Rules {
        name: kind.policy_name(),
        requests: vec![job_rule(&kind.resource, &[], &["CREATE", "UPDATE"])],
        condition: conditions::jobs::hold_job(options),
        judges_deleted: false,
        variables,
        outcomes: outcomes.into_iter().map(apply).collect(),
    }
}

/// The requests at which objects of this kind are held: templates that hold can be edited.
pub(super) fn operations(kind: &JobKindSpec) -> &'static [&'static str] {
    match kind.suspend {
        Some(_) => &["CREATE"],
        None => &["CREATE", "UPDATE"],
    }
}

/// CEL, a list: what is wrong with an object of this kind that is to be held, and that nothing holds. Needs
/// [`holding::variables`], and `variables.isSuspended` where it can be suspended.
pub(super) fn unheld(options: &Options, kind: &JobKindSpec) -> String {
    let waits_for_queue = format!("({IS_QUEUED} || {})", gates::require_queue());
    let sets = kind.pod_sets.iter().enumerate();
    let are_gated = sets.map(|(index, set)| {
        let suffix = index.to_string();
        let absent = is_there(set, "object").map(|there| format!("!{there} || "));
        format!(
            "({}'{MANAGED_LABEL}' in variables.pod{suffix}.?metadata.?labels.orValue({{}}) &&\n\
             (!{waits_for_queue} || {}) && variables.propagated.all(g, g in variables.carried{suffix}))",
            absent.unwrap_or_default(),
            has_queue_gate(&suffix, options),
        )
    });
    let are_gated = are_gated.collect::<Vec<_>>().join(" &&\n");
    let is_held = match kind.suspend {
        Some(_) => format!("variables.hold == 'Suspend' ? variables.isSuspended : {are_gated}"),
        None => are_gated,
    };
    if_unheld(kind.suspend.is_some(), &is_held)
}

/// CEL, a list: what is told of an object that is to be held, and of which `is_held` does not hold. One that
/// `can_be_suspended` is held at its creation, another one at each edit too. Needs `variables.isHeld`.
pub(super) fn if_unheld(can_be_suspended: bool, is_held: &str) -> String {
    let held_now = if can_be_suspended {
        "request.operation == 'CREATE'"
    } else {
        "request.?subResource.orValue('') == ''"
    };
    let at = "(variables.gateKeys.size() != 0 ? 'metadata.annotations[' + variables.gateKeys[0] + ']' :\n\
              'metadata.labels[' + variables.queue[0].key + ']')";
    when(
        &format!("{held_now} && variables.isHeld && !({is_held})"),
        &forbidden(at, &text(NOT_HELD)),
    )
}

/// Suspends the object, and marks it as suspended by Sluice: what its user created suspended is not
/// marked. So is one that its user paused and resumes: Sluice starts it. Needs `variables.wasSuspended`.
pub(super) fn suspend(path: &str) -> String {
    let path = Path::parse(path);
    let is_resumed = format!(
        "variables.wasSuspended && variables.oldAnnotations[?'{HELD_ANNOTATION}'].orValue('') == '{}'",
        HeldMark::Released.value()
    );
    format!(
        "!variables.isHeld || variables.hold != 'Suspend' || {} ||\n\
         oldObject != null && !({is_resumed}) ? Object{{}} :\n\
         Object{{\n\
         metadata: Object.metadata{{annotations: {{'{HELD_ANNOTATION}': '{}'}}}},\n\
         {}}}",
        is_suspended(&path, "object"),
        HeldMark::Held.value(),
        path.field_set("true")
    )
}

/// Says whose the suspension is that an edit brings: its user's, or Sluice's, if the object joins a queue
/// in the same update, or has grown. Needs `variables.wasSuspended` and `isSuspended`.
pub(super) fn mark_suspension(has_grown: &str) -> String {
    format!(
        "oldObject == null || !variables.isHeld || variables.hold == 'EachPod' ||\n\
         variables.wasSuspended || !variables.isSuspended ? Object{{}} :\n\
         Object{{metadata: Object.metadata{{annotations: {{'{HELD_ANNOTATION}':\n\
         variables.hold == 'Suspend' && (variables.oldQueue.size() == 0 || {has_grown}) ? '{}' : '{}'}}}}}}",
        HeldMark::Held.value(),
        HeldMark::Released.value()
    )
}

/// Has the pods of a set born behind gates.
fn gate(options: &Options, kind: &JobKindSpec, set: &PodSetRule, suffix: &str) -> String {
    let opted_in = format!("variables.optedIn{suffix}");
    let requires_queue = gates::require_queue();
    let each = format!("variables.hold == 'EachPod' && {IS_QUEUED}");
    let by_itself = format!("variables.hold == 'EachPod' && ({IS_QUEUED} || {requires_queue})");
    // By Sluice's own name, if the pods don't ask for another.
    let is_own = format!("{opted_in}.all(g, g == '{QUEUE_GATE}')");
    let mut annotations = vec![
        entry(QUEUE_GATE, &format!("{by_itself} && {is_own}"), "'true'"),
        entry(
            POD_SET_ANNOTATION,
            "variables.hold == 'Pods'",
            &text(&set.name),
        ),
    ];
    annotations.extend(group_marks(kind, &each, suffix));
    let gating = Gating {
        path: Path::parse(set.template.as_deref().unwrap_or_default()),
        suffix,
        labels: labels(options, &each, suffix)
            .iter()
            .map(|(key, condition, value)| entry(key, condition, value))
            .collect(),
        annotations,
        may_stay: format!("variables.listedOld{suffix}"),
        queue_gate: format!(
            "!({IS_QUEUED} || {requires_queue}) ? [] :\n\
             variables.hold == 'EachPod' && {opted_in}.size() != 0 ? {opted_in}.slice(0, 1) : ['{QUEUE_GATE}']"
        ),
    };
    let absent = is_there(set, "object").map(|there| format!(" || !{there}"));
    format!(
        "!variables.isHeld{} ? Object{{}} :\n\
         variables.hold == 'Suspend' ? ({}) : {}",
        absent.unwrap_or_default(),
        gating::unlist(&gating.path, suffix),
        gating.apply(options)
    )
}

/// The annotations by which pods that are queued by themselves (`each`) are admitted by groups. Empty values
/// take back what an earlier object had.
fn group_marks(kind: &JobKindSpec, each: &str, suffix: &str) -> Vec<String> {
    let Some(groups) = &kind.pod_groups else {
        return Vec::new();
    };
    let is_grouped = groups.when.as_deref().unwrap_or("true").trim();
    let marks = [
        (POD_GROUP_LABELS_ANNOTATION, label_keys(groups)),
        (
            POD_GROUP_TOTAL_FROM_ANNOTATION,
            groups.total_annotation.clone(),
        ),
    ];
    let marks = marks.into_iter().map(|(key, value)| {
        let is_there = format!("variables.pod{suffix}.?metadata.?annotations[?'{key}'].hasValue()");
        entry(
            key,
            &format!("{each} && (({is_grouped}) || {is_there})"),
            &format!("({is_grouped}) ? {} : ''", text(&value)),
        )
    });
    marks.collect()
}

/// The labels that the pods of the set with this suffix take from the object if they are queued by
/// themselves (`each`): key, condition and value.
pub(super) fn labels<'a>(
    options: &'a Options,
    each: &str,
    suffix: &str,
) -> Vec<(&'a str, String, String)> {
    let labels = format!("variables.pod{suffix}.?metadata.?labels.orValue({{}})");
    let keys = queue::keys(options);
    let queue = options.queue_labels.iter().map(|key| {
        let is_it = format!(
            "{each} && variables.queue[0].key == '{key}' && !{keys}.exists(k, k in {labels})"
        );
        (key.as_str(), is_it, "variables.queue[0].name".to_owned())
    });
    let class = (
        PRIORITY_CLASS_LABEL,
        format!(
            // What came from the object follows it.
            "{each} && '{PRIORITY_CLASS_LABEL}' in variables.labels && (!('{PRIORITY_CLASS_LABEL}' in {labels}) ||\n\
             '{PRIORITY_CLASS_LABEL}' in variables.oldLabels && {labels}['{PRIORITY_CLASS_LABEL}'] == variables.oldLabels['{PRIORITY_CLASS_LABEL}'])"
        ),
        format!("variables.labels['{PRIORITY_CLASS_LABEL}']"),
    );
    queue.chain([class]).collect()
}
