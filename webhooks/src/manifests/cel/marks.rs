//! What nobody but Sluice writes into pod templates (`sluice_kinds::marks`), because Sluice acts by
//! it. What the mutating policy itself writes there is right: it does so at each edit of an object
//! that can't be suspended.

use sluice_crds::{
    ADMITTED_ANNOTATION, JobKindSpec, MANAGED_LABEL, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION,
    POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION, PodSetRule, QUEUE_GATE,
};
use sluice_kinds::marks::{LATE_GATE, MUST_ASK, NOT_WITH_A_GROUP, OF_OWNER, STANDS_FOR_ANNOTATION};
use sluice_kinds::pod::{GROUP_MARK_BYTES_MAX, GROUP_MARKS};

use crate::manifests::cel::gating::{has_queue_gate, queue_gates};
use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::{all, filled, forbidden, required, text, too_long, when};
use crate::manifests::options::Options;

/// The rule for what is Sluice's to write.
pub(crate) const BY_SLUICE: &str = "'is set by Sluice alone'";

/// By what Sluice knows the pods of an object: in which map, and the key.
const MARKS: [(&str, &str); 2] = [
    ("labels", MANAGED_LABEL),
    ("annotations", POD_SET_ANNOTATION),
];

/// CEL: what the metadata of the pods of a set has at a key, in `object`, or in `oldObject` with the suffix `Old`.
fn entry(suffix: &str, index: usize, map: &str, key: &str) -> String {
    format!("variables.pod{suffix}{index}.?metadata.?{map}[?'{key}']")
}

/// CEL, a list: what is wrong with the templates of an object of this kind.
pub(crate) fn problems(options: &Options, kind: &JobKindSpec) -> String {
    let sets = kind.pod_sets.iter().enumerate();
    all(sets.map(|(index, set)| of_set(options, kind, set, index)))
}

/// CEL, a list: what is wrong with what the templates of an object of this kind, or the metadata of its pods, say of the
/// groups that a controller makes pods by.
pub(crate) fn group_marks(kind: &JobKindSpec) -> String {
    let sets = kind.pod_sets.iter().enumerate();
    let of_set = |(index, set): (usize, &PodSetRule)| {
        let metadata = match &set.pod_metadata {
            Some(metadata) => Path::parse(metadata),
            None => Path::parse(set.template.as_deref().unwrap_or_default()).below("metadata"),
        };
        let metadata = metadata.field();
        let problems = GROUP_MARKS.map(|key| {
            let of = |suffix: &str| {
                format!("variables.pod{suffix}{index}.?metadata.?annotations[?'{key}']")
            };
            let (now, before) = (of(""), of("Old"));
            let size = format!("size(bytes(string({now}.orValue(''))))");
            when(
                &format!("{GROUP_MARK_BYTES_MAX} < {size} && {now} != {before}"),
                &too_long(
                    &text(&format!("{metadata}.annotations[{key}]")),
                    GROUP_MARK_BYTES_MAX,
                ),
            )
        });
        all(problems)
    };
    all(sets.map(of_set))
}

/// CEL, a list: what is wrong with an edit of the marks in the metadata of pods. Where there is no suspend field, the
/// mutating policy writes them at each edit. Needs `variables.isHeld`.
pub(crate) fn of_metadata(kind: &JobKindSpec, is_queued: &str) -> String {
    if kind.suspend.is_none() {
        return "[]".to_owned();
    }
    let of_set = |(index, set): (usize, &PodSetRule)| {
        let metadata = Path::parse(set.pod_metadata.as_deref().unwrap_or_default());
        let marks = MARKS.map(|(map, key)| {
            let [new, old] = ["", "Old"].map(|suffix| entry(suffix, index, map, key));
            when(
                &format!("{new} != {old} && (variables.isHeld || {new}.hasValue())"),
                &forbidden(
                    &text(&format!("{}.{map}[{key}]", metadata.field())),
                    BY_SLUICE,
                ),
            )
        });
        let ask = when(
            &format!(
                "{is_queued} && variables.optedInOld{index}.size() != 0 && variables.optedIn{index}.size() == 0"
            ),
            &required(
                &text(&format!("{}.annotations[{QUEUE_GATE}]", metadata.field())),
                &text(MUST_ASK),
            ),
        );
        all(marks.into_iter().chain([ask]))
    };
    let problems = all(kind.pod_sets.iter().enumerate().map(of_set));
    let stays = |(index, set): (usize, &PodSetRule)| {
        let metadata = Path::parse(set.pod_metadata.as_deref().unwrap_or_default());
        stays(&metadata.field(), index)
    };
    let stays = all(kind.pod_sets.iter().enumerate().map(stays));
    format!(
        "(request.operation == 'CREATE' ? [] :\n\
         !variables.isHeld && variables.isChild ?\n\
         (variables.isMadeByController ? [] :\n\
         {stays}) :\n\
         {problems})"
    )
}

fn of_set(options: &Options, kind: &JobKindSpec, set: &PodSetRule, index: usize) -> String {
    let template = Path::parse(set.template.as_deref().unwrap_or_default()).field();
    let field = |map: &str, key: &str| text(&format!("{template}.metadata.{map}[{key}]"));
    let entry = |suffix: &str, map: &str, key: &str| entry(suffix, index, map, key);
    let annotation = |key: &str| {
        (
            entry("", "annotations", key),
            entry("Old", "annotations", key),
        )
    };
    let (record, old_record) = annotation(ADMITTED_ANNOTATION);
    let recorded = when(
        &format!("{record}.hasValue() && {record} != {old_record}"),
        &forbidden(&field("annotations", ADMITTED_ANNOTATION), BY_SLUICE),
    );
    let listed = when(
        &format!(
            "variables.listed{index}.exists(g, !(g in variables.listedOld{index}) && (!(g in variables.propagated) ||\n\
             oldObject != null && variables.isHeld && variables.hold == 'Suspend'))"
        ),
        &forbidden(
            &field("annotations", PROPAGATED_GATES_ANNOTATION),
            BY_SLUICE,
        ),
    );
    let member = |suffix: &str| {
        format!(
            "{}.hasValue() && {}.hasValue()",
            entry(suffix, "labels", POD_GROUP_LABEL),
            entry(suffix, "annotations", POD_GROUP_TOTAL_ANNOTATION)
        )
    };
    let grouped = when(
        &format!(
            "variables.isHeld && variables.hold == 'Pods' && {} && !({})",
            member(""),
            member("Old")
        ),
        &forbidden(&field("labels", POD_GROUP_LABEL), &text(NOT_WITH_A_GROUP)),
    );
    // Where templates can be edited, the mutating policy writes this into them.
    let is_written = |condition: &str, new: &str, value: &str| match kind.suspend {
        Some(_) => String::new(),
        None => format!(" && !({condition} && {new}.orValue('') == {value})"),
    };
    let changed = |new: &str, old: &str, condition: &str, value: &str| {
        format!(
            "{new} != {old} && (variables.isHeld || {new}.hasValue()){}",
            is_written(condition, new, value)
        )
    };
    let (managed, old_managed) = (
        entry("", "labels", MANAGED_LABEL),
        entry("Old", "labels", MANAGED_LABEL),
    );
    let managed = when(
        &changed(&managed, &old_managed, "variables.isHeld", "'true'"),
        &forbidden(&field("labels", MANAGED_LABEL), BY_SLUICE),
    );
    let (pod_set, old_pod_set) = annotation(POD_SET_ANNOTATION);
    let is_whole = "variables.isHeld && variables.hold == 'Pods'";
    let pod_set = when(
        &changed(&pod_set, &old_pod_set, is_whole, &text(&set.name)),
        &forbidden(&field("annotations", POD_SET_ANNOTATION), BY_SLUICE),
    );
    let kept = kept(kind, &template, index);
    let gated = match kind.suspend {
        Some(_) => late_gate(options, &template, index),
        None => "[]".to_owned(),
    };
    let stays = stays(&format!("{template}.metadata"), index);
    format!(
        "{recorded} +\n\
         (!variables.isHeld && variables.isChild ?\n\
         (request.operation == 'CREATE' || variables.isMadeByController ? [] :\n\
         {stays}) :\n\
         {listed} +\n\
         {grouped} +\n\
         (request.operation == 'CREATE' ? [] :\n\
         {}))",
        all([managed, pod_set, kept, gated])
    )
}

/// The queue gate says how the object is held, and a gate of others would hold the pods of what waits suspended once it is
/// admitted.
fn late_gate(options: &Options, template: &str, index: usize) -> String {
    let late = format!(
        "(variables.hold == 'Suspend' ? variables.carried{index}.filter(g, !(g in variables.carriedOld{index})) :\n\
         {} ? [] : variables.carried{index}.filter(g, g in {}))",
        has_queue_gate(&format!("Old{index}"), options),
        queue_gates(options)
    );
    when(
        &format!("variables.isHeld && {late}.size() != 0"),
        &forbidden(
            &text(&format!("{template}.spec.schedulingGates")),
            &filled(LATE_GATE, &[&format!("strings.quote({late}[0])")]),
        ),
    )
}

/// CEL, a list. What came down into the templates of a child, or into the metadata of its pods, was written there by its
/// owner's controller, and nobody else changes it.
fn stays(metadata: &str, index: usize) -> String {
    let changes = MARKS.map(|(map, key)| {
        let [new, old] = ["", "Old"].map(|suffix| entry(suffix, index, map, key));
        let field = text(&format!("{metadata}.{map}[{key}]"));
        when(&format!("{new} != {old}"), &forbidden(&field, BY_SLUICE))
    });
    all(changes)
}

/// The gates of the object stay in its templates, and in their lists, as long as they are not lifted.
/// Where templates can be edited freely, the mutating policy puts them back.
fn kept(kind: &JobKindSpec, template: &str, index: usize) -> String {
    if kind.suspend.is_none() {
        return "[]".to_owned();
    }
    let lost = |before: &str, after: &str| {
        format!(
            "variables.propagated.filter(g, g in variables.carriedOld{index} && g in variables.{before}{index} && !(g in variables.{after}{index}))"
        )
    };
    let (carried, listed) = (lost("carriedOld", "carried"), lost("listedOld", "listed"));
    let gate = format!("strings.quote({carried}.sort()[0])");
    let rule = filled(STANDS_FOR_ANNOTATION, &[&gate, &text(OF_OWNER)]);
    format!(
        "(!variables.isHeld || variables.hold == 'Suspend' ? [] :\n\
         {carried}.size() != 0 ? [{}] :\n\
         {listed}.size() != 0 ? [{}] : [])",
        forbidden(&text(&format!("{template}.spec.schedulingGates")), &rule),
        forbidden(
            &text(&format!(
                "{template}.metadata.annotations[{PROPAGATED_GATES_ANNOTATION}]"
            )),
            BY_SLUICE
        )
    )
}
