//! Holds objects of a managed kind: suspends them at their creation, or has their pods born behind
//! scheduling gates. Templates that can be edited are seen to at each edit.

use k8s_openapi::api::admissionregistration::v1::{Mutation, Variable};
use sluice_crds::{
    ADMISSION_ANNOTATION, AdmissionMode, HELD_ANNOTATION, JobKindSpec, POD_GROUP_LABELS_ANNOTATION,
    POD_GROUP_TOTAL_FROM_ANNOTATION, POD_SET_ANNOTATION, PRIORITY_CLASS_LABEL, PodSetRule,
    QUEUE_GATE, WhenAbsent,
};

use sluice_kinds::{HeldMark, label_keys};

use super::super::job_rule;
use super::cel::{text, variable};
use super::gating::{self, Gating, entry, has_queue_gate};
use super::path::Path;
use super::{HeldKind, Options, Rules, apply, conditions, gates, jobs, metadata, owners, queue};

/// The name of both policies of a kind: resource and API group, as in `kubectl get jobs.batch`.
pub(super) fn name(kind: &HeldKind) -> String {
    let HeldKind { resource, .. } = kind;
    let name = ["sluice-", &resource.resource, ".", &resource.group].concat();
    name.trim_end_matches('.').to_owned()
}

/// The mutating policy for this kind, one of `kinds`.
pub(super) fn policy(options: &Options, kind: &HeldKind, kinds: &[HeldKind]) -> Rules<Mutation> {
    let mut variables = metadata::variables();
    variables.push(gates::held_by());
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&[kind], kinds));
    variables.push(gating::propagated("true"));
    variables.extend(self::variables(options, &kind.job_kind));
    let mut outcomes = Vec::new();
    if let Some(path) = &kind.job_kind.suspend {
        variables.extend(jobs::suspended(path));
        variables.extend(jobs::counts(&kind.job_kind));
        outcomes.push(suspend(path));
        outcomes.push(mark_suspension(&jobs::has_grown(&kind.job_kind)));
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
        name: name(kind),
        requests: vec![job_rule(&kind.resource, &[], &["CREATE", "UPDATE"])],
        condition: conditions::hold_job(options),
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

/// `variables.isHeld`: whether the object has a reason to be held: a gate, or a queue that did not
/// come down from its owner. Needs `variables.isChild`.
pub(super) fn is_held() -> Variable {
    variable(
        "isHeld",
        "variables.gateKeys.size() != 0 || variables.queue.size() != 0 && !variables.isChild",
    )
}

/// `variables.isHeld`: whether the object has a reason to be: a gate, or a queue that did not come
/// down from its owner. `hold`: how: `Suspend`, `Pods` or `EachPod`. `wasGated` and `isGated`: whether
/// its templates, all of them, carry the queue gate. `gatesPods`: whether one of them brings gates
/// that Sluice has to lift. And those of [`gating::variables`] for the template of each
/// pod set by its index, before with `Old`. Needs `variables.isChild`.
pub(super) fn variables(options: &Options, kind: &JobKindSpec) -> Vec<Variable> {
    let mut variables = Vec::new();
    for (index, set) in kind.pod_sets.iter().enumerate() {
        let path = Path::parse(set.template.as_deref().unwrap_or_default());
        let now = path.or("object", "{}");
        let before = format!("oldObject == null ? {{}} : {}", path.or("oldObject", "{}"));
        variables.extend(gating::variables(&now, &index.to_string(), options));
        variables.extend(gating::variables(&before, &format!("Old{index}"), options));
    }
    let had_queue_gate = each_set(kind, |set| has_queue_gate(&format!("Old{set}"), options));
    let is_gated = each_set(kind, |set| has_queue_gate(&set.to_string(), options));
    let has_list = each_set(kind, |set| lists_carried(&set.to_string()));
    let default = match kind.admission {
        AdmissionMode::Whole => "'Whole'",
        AdmissionMode::PerPod => "'PerPod'",
    };
    let by_template = format!(
        "{}.size() != 0 ? 'PerPod' : {default}",
        first_opted_in(kind, Moment::Now)
    );
    variables.extend([
        is_held(),
        variable(
            "wasGated",
            format!(
                "oldObject != null && {}",
                all_that_are_there(kind, &had_queue_gate, Moment::Before)
            ),
        ),
        variable("isGated", all_that_are_there(kind, &is_gated, Moment::Now)),
        variable(
            "gatesPods",
            format!("{} || {}", is_gated.join(" || "), has_list.join(" || ")),
        ),
        variable("mode", mode("variables.annotations", &by_template)),
        variable("oldMode", mode("variables.oldAnnotations", default)),
        variable("hold", hold(kind, &had_queue_gate.join(" || "))),
    ]);
    variables
}

/// CEL: how the object is held. One that its templates hold stays so in the same way, and so does one
/// whose templates can't be edited.
fn hold(kind: &JobKindSpec, had_queue_gate: &str) -> String {
    let opted_in = first_opted_in(kind, Moment::Before);
    if kind.suspend.is_none() {
        return format!(
            "variables.wasGated && {opted_in}.size() != 0 ? 'EachPod' :\n\
             (variables.wasGated ? variables.oldMode : variables.mode) == 'PerPod' ? 'EachPod' : 'Pods'"
        );
    }
    let had_list = each_set(kind, |set| lists_carried(&format!("Old{set}")));
    // A pod with a gate waits anyway, and an object with the queue gate there already is one whose
    // pods are to be held.
    let has_gate = each_set(kind, |set| format!("variables.carried{set}.size() != 0"));
    format!(
        "oldObject == null ? (\n\
         variables.mode == 'PerPod' ? 'EachPod' :\n\
         {} ? 'Pods' : 'Suspend') :\n\
         !({had_queue_gate} || {}) ? 'Suspend' :\n\
         {opted_in}.size() != 0 ||\n\
         !({had_queue_gate}) && variables.oldMode == 'PerPod' ? 'EachPod' : 'Pods'",
        has_gate.join(" || "),
        had_list.join(" || "),
    )
}

/// Which of two states of an object.
#[derive(Clone, Copy)]
enum Moment {
    Now,
    Before,
}

impl Moment {
    /// CEL: the object.
    fn object(self) -> &'static str {
        match self {
            Self::Now => "object",
            Self::Before => "oldObject",
        }
    }

    /// What the names of the variables of a pod set end with.
    fn suffix(self, set: usize) -> String {
        match self {
            Self::Now => set.to_string(),
            Self::Before => format!("Old{set}"),
        }
    }
}

/// CEL: whether there is a template for a set of pods that may be absent; none if it may not.
fn is_there(set: &PodSetRule, object: &str) -> Option<String> {
    let path = Path::parse(set.template.as_deref().unwrap_or_default());
    matches!(set.when_absent, WhenAbsent::Skip | WhenAbsent::Assume).then(|| path.is_in(object))
}

/// CEL: whether what holds of each set, one `expression` for each, holds of all that are there. There
/// has to be one.
fn all_that_are_there(kind: &JobKindSpec, expressions: &[String], moment: Moment) -> String {
    let there: Vec<_> = kind
        .pod_sets
        .iter()
        .map(|set| is_there(set, moment.object()))
        .collect();
    let all: Vec<_> = expressions
        .iter()
        .zip(&there)
        .map(|(holds, there)| match there {
            Some(there) => format!("(!{there} || {holds})"),
            None => holds.clone(),
        })
        .collect();
    let all = all.join(" && ");
    let any: Option<Vec<String>> = there.into_iter().collect();
    match any {
        Some(any) => format!("{all} && ({})", any.join(" || ")),
        None => all,
    }
}

/// CEL, a list: the names of the queue gate that the pods of the first set ask for that is there.
fn first_opted_in(kind: &JobKindSpec, moment: Moment) -> String {
    let sets = kind.pod_sets.iter().enumerate().rev();
    sets.fold("[]".to_owned(), |later, (index, set)| {
        let opted_in = format!("variables.optedIn{}", moment.suffix(index));
        match is_there(set, moment.object()) {
            Some(there) => format!("({there} ? {opted_in} : {later})"),
            None => opted_in,
        }
    })
}

/// CEL: whether the template with this suffix carries gates that its list names. A name without a
/// gate holds nothing.
fn lists_carried(suffix: &str) -> String {
    format!("variables.listed{suffix}.exists(g, g in variables.carried{suffix})")
}

/// An expression for the index of each pod set.
pub(super) fn each_set(kind: &JobKindSpec, expression: impl Fn(usize) -> String) -> Vec<String> {
    (0..kind.pod_sets.len()).map(expression).collect()
}

/// CEL: the mode that the annotation names, or else this.
fn mode(annotations: &str, otherwise: &str) -> String {
    let key = text(ADMISSION_ANNOTATION);
    format!(
        "{annotations}[?{key}].orValue('') in ['Whole', 'PerPod'] ? {annotations}[{key}] :\n{otherwise}"
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

/// CEL: whether `object` is suspended by the field at `path`.
pub(super) fn is_suspended(path: &Path, object: &str) -> String {
    format!("{} == dyn(true)", path.or(object, "false"))
}

/// Has the pods of a set born behind gates.
fn gate(options: &Options, kind: &JobKindSpec, set: &PodSetRule, suffix: &str) -> String {
    let opted_in = format!("variables.optedIn{suffix}");
    let is_queued = "variables.queue.size() != 0 && !variables.isChild";
    let each = format!("variables.hold == 'EachPod' && {is_queued}");
    // By Sluice's own name, if the pods don't ask for another.
    let is_own = format!("{opted_in}.all(g, g == '{QUEUE_GATE}')");
    let mut annotations = vec![
        entry(QUEUE_GATE, &format!("{each} && {is_own}"), "'true'"),
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
            "!({is_queued}) ? [] :\n\
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
            "{each} && '{PRIORITY_CLASS_LABEL}' in variables.labels && !('{PRIORITY_CLASS_LABEL}' in {labels})"
        ),
        format!("variables.labels['{PRIORITY_CLASS_LABEL}']"),
    );
    queue.chain([class]).collect()
}
