//! What makes a pod, or the pods of a template, wait: labels, annotations and scheduling gates that
//! are to be there, as an ApplyConfiguration. The order of the gates that are there stays.
//!
//! What ApplyConfiguration can't do is take away: a list of propagated gates that a user wrote becomes
//! empty.

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::{MANAGED_LABEL, PROPAGATED_GATES_ANNOTATION};

use crate::manifests::cel::gates;
use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::{texts, variable};
use crate::manifests::options::Options;

/// The names that the queue gate can have, and the annotation by which a pod asks for it: Sluice's
/// own first.
pub(crate) fn queue_gates(options: &Options) -> String {
    texts(options.queue_gates.iter().map(String::as_str))
}

/// `variables.propagated`: the scheduling gates that stand for gate annotations, under a condition.
/// Needs `variables.gates`.
pub(crate) fn propagated(condition: &str) -> Variable {
    variable(
        "propagated",
        format!(
            "!({condition}) ? [] : variables.gates.filter(g, {})",
            gates::is_scheduling_gate("g")
        ),
    )
}

/// What is read of a pod or template. The names of the variables end with `suffix`: `pod…` is the
/// pod or template itself, `carried…` the names of its gates, `optedIn…` the names of the queue gate
/// that it asks for, `listed…` the names in its list of propagated gates.
pub(crate) fn variables(pod: &str, suffix: &str, options: &Options) -> Vec<Variable> {
    let it = format!("variables.pod{suffix}");
    vec![
        variable(&format!("pod{suffix}"), pod),
        variable(
            &format!("carried{suffix}"),
            format!("{it}.?spec.?schedulingGates.orValue([]).map(g, string(g.name))"),
        ),
        variable(
            &format!("optedIn{suffix}"),
            format!(
                "{}.filter(g, {it}.?metadata.?annotations[?g].orValue('') == 'true')",
                queue_gates(options)
            ),
        ),
        variable(
            &format!("listed{suffix}"),
            format!(
                "string({it}.?metadata.?annotations[?'{PROPAGATED_GATES_ANNOTATION}'].orValue('')).split(',')\n\
                 .map(g, g.trim()).filter(g, g != '')"
            ),
        ),
    ]
}

/// CEL: whether the pod or template with this suffix carries a queue gate.
pub(crate) fn has_queue_gate(suffix: &str, options: &Options) -> String {
    format!(
        "variables.carried{suffix}.exists(g, g in {})",
        queue_gates(options)
    )
}

/// A pod, or the template of pods, that is to wait.
pub(crate) struct Gating<'a> {
    /// Where it lies in the object.
    pub(crate) path: Path,
    /// What the names of its variables end with.
    pub(crate) suffix: &'a str,
    /// Entries of maps.
    pub(crate) labels: Vec<String>,
    pub(crate) annotations: Vec<String>,
    /// CEL, a list: what may stay in the list of propagated gates as long as it is carried.
    pub(crate) may_stay: String,
    /// CEL, a list: the queue gate, if it waits for a queue.
    pub(crate) queue_gate: String,
}

impl Gating<'_> {
    /// The ApplyConfiguration.
    pub(crate) fn apply(&self, options: &Options) -> String {
        let Self {
            path,
            suffix,
            labels,
            annotations,
            may_stay,
            queue_gate,
        } = self;
        let name = path.type_name();
        // A name without a gate could be that of a gate that others put on the pods later.
        let listed = format!(
            "({may_stay}.filter(g, g in variables.carried{suffix}) + variables.propagated)"
        );
        let has_list = format!(
            "variables.propagated.size() != 0 || \
             variables.pod{suffix}.?metadata.?annotations[?'{PROPAGATED_GATES_ANNOTATION}'].hasValue()"
        );
        let managed = format!("'{MANAGED_LABEL}': 'true'");
        let labels: Vec<_> = std::iter::once(managed)
            .chain(labels.iter().cloned())
            .collect();
        let propagated = entry(
            PROPAGATED_GATES_ANNOTATION,
            &has_list,
            &format!("{listed}.distinct().sort().join(',')"),
        );
        let annotations: Vec<_> = annotations.iter().cloned().chain([propagated]).collect();
        path.set(&format!(
            "{name}{{\n\
             metadata: {name}.metadata{{\n\
             labels: {{{}}},\n\
             annotations: {{\n{}}}}},\n\
             spec: {name}.spec{{\n\
             schedulingGates: (({} ? [] : {queue_gate}) +\n\
             variables.propagated).map(g, {name}.spec.schedulingGates{{name: g}})}}}}",
            labels.join(",\n"),
            annotations.join(",\n"),
            has_queue_gate(suffix, options),
        ))
    }
}

/// CEL, an ApplyConfiguration: the pod or template with this suffix, which lies at `path`, lists no
/// propagated gates.
pub(crate) fn unlist(path: &Path, suffix: &str) -> String {
    let name = path.type_name();
    let empty = path.set(&format!(
        "{name}{{metadata: {name}.metadata{{annotations: {{'{PROPAGATED_GATES_ANNOTATION}': ''}}}}}}"
    ));
    format!("variables.listed{suffix}.size() == 0 ? Object{{}} :\n{empty}")
}

/// The entry of a map that is there under a condition. `value` is an expression.
pub(crate) fn entry(key: &str, condition: &str, value: &str) -> String {
    format!("?'{key}': {condition}\n? optional.of({value}) : optional.none()")
}
