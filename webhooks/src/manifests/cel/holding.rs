//! Whether an object is held, and how, in CEL: by its suspend field, or by gates in its pod templates. The same
//! rules as in `sluice_kinds::hold`.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::{ADMISSION_ANNOTATION, AdmissionMode, JobKindSpec, PodSetRule, WhenAbsent};

use crate::manifests::cel::gating::{self, has_queue_gate};
use crate::manifests::cel::metadata;
use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::{text, variable};
use crate::manifests::options::Options;

/// `variables.isHeld`: whether the object has a reason to be held: a gate, or a queue that did not
/// come down from its owner. Needs `variables.isChild`.
pub(crate) fn is_held() -> Variable {
    variable(
        "isHeld",
        "variables.gateKeys.size() != 0 || variables.queue.size() != 0 && !variables.isChild",
    )
}

/// `variables.wasHeld`: whether the object had a reason to be held. Needs `owners::variables`.
pub(crate) fn was_held() -> Variable {
    variable(
        "wasHeld",
        format!(
            "oldObject != null && ({}.size() != 0 || variables.oldQueue.size() != 0 && !variables.wasChild)",
            metadata::gate_keys("variables.oldAnnotations"),
        ),
    )
}

/// `variables.isHeld`: whether the object has a reason to be: a gate, or a queue that did not come
/// down from its owner. `hold`: how: `Suspend`, `Pods` or `EachPod`. `wasGated` and `isGated`: whether
/// its templates, all of them, carry the queue gate. `gatesPods`: whether one of them brings gates
/// that Sluice has to lift. And those of [`gating::variables`] for the template of each
/// pod set by its index, before with `Old`. Needs `variables.isChild`.
pub(crate) fn variables(options: &Options, kind: &JobKindSpec) -> Vec<Variable> {
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
pub(crate) fn is_there(set: &PodSetRule, object: &str) -> Option<String> {
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
pub(crate) fn each_set(kind: &JobKindSpec, expression: impl Fn(usize) -> String) -> Vec<String> {
    (0..kind.pod_sets.len()).map(expression).collect()
}

/// CEL: the mode that the annotation names, or else this.
fn mode(annotations: &str, otherwise: &str) -> String {
    let key = text(ADMISSION_ANNOTATION);
    format!(
        "{annotations}[?{key}].orValue('') in ['Whole', 'PerPod'] ? {annotations}[{key}] :\n{otherwise}"
    )
}
