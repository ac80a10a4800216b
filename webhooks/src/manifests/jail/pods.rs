//! Pods: gates of Sluice's own go, where the pod may run is added, and Sluice's annotations. Only pods that
//! Sluice looks after may be edited or deleted, and it can't make any pod such a one: the label that
//! says so may be given back only to a pod that shows by what Sluice can't write that it had it.

use sluice_crds::{
    ADMITTED_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL, POD_SET_ANNOTATION,
    PROPAGATED_GATES_ANNOTATION, QUEUE_GATE,
};

use crate::manifests::cel::syntax::{forbidden, required, text, variable, when};
use crate::manifests::jail::cell::{Cell, rule};
use crate::manifests::jail::entries;

/// The policy for pods.
pub(super) fn cell() -> Cell {
    let was = |map: &str| format!("oldObject.metadata.?{map}.orValue({{}})");
    let variables = vec![
        variable("oldLabels", was("labels")),
        variable("oldAnnotations", was("annotations")),
        variable(
            "wasManaged",
            format!("'{MANAGED_LABEL}' in variables.oldLabels"),
        ),
        variable("wasQueued", was_queued()),
        variable("gateProblems", gates()),
        variable("specProblems", spec()),
        variable(
            "problems",
            format!(
                "request.operation == 'DELETE' ?\n{} :\n{} +\n{} +\nvariables.specProblems + variables.gateProblems",
                unmanaged(
                    "!variables.wasManaged",
                    "may be deleted by Sluice's account"
                ),
                unmanaged(
                    "!variables.wasManaged && !variables.wasQueued",
                    "may be edited by Sluice's account"
                ),
                entries::metadata_problems()
            ),
        ),
    ];
    Cell {
        name: "sluice-jail-pods",
        rules: vec![rule("", &["UPDATE", "DELETE"], &["pods"])],
        excluded: Vec::new(),
        compared_with: None,
        variables,
    }
}

fn unmanaged(condition: &str, what: &str) -> String {
    when(
        condition,
        &required(
            &text(&format!("metadata.labels[{MANAGED_LABEL}]")),
            &text(&format!("only pods with this label {what}")),
        ),
    )
}

/// A pod that lost its label shows by what its user or its template wrote, or by the record of its
/// admission, that it waited in a queue. The record could be written by Sluice's account only while the
/// label was there.
fn was_queued() -> String {
    format!(
        "['{ADMITTED_ANNOTATION}', '{POD_SET_ANNOTATION}', '{PROPAGATED_GATES_ANNOTATION}', '{QUEUE_GATE}']\
         .exists(k, k in variables.oldAnnotations) ||\n\
         '{POD_GROUP_LABEL}' in variables.oldLabels ||\n\
         variables.oldLabels.exists(k, k.endsWith('/queue-name'))"
    )
}

/// A gate is Sluice's by its name, by the list of those that stand for a gate annotation, or by the
/// annotation of the same name by which its user has asked for it.
fn gates() -> String {
    let listed = format!(
        "string(variables.oldAnnotations[?'{PROPAGATED_GATES_ANNOTATION}'].orValue('')).split(',').map(g, g.trim())"
    );
    let gates = |object: &str| format!("{object}.spec.?schedulingGates.orValue([]).map(g, g.name)");
    format!(
        "{}.filter(g, !(g in {}))\n\
         .filter(g, !(g.startsWith('{}/') || g in {listed} || variables.oldAnnotations[?g].orValue('') == 'true'))\n\
         .map(g, {})",
        gates("oldObject"),
        gates("object"),
        sluice_crds::GROUP,
        forbidden(
            "'spec.schedulingGates[' + g + ']'",
            &text("is not a gate of Sluice: its account may remove no others")
        )
    )
}

fn spec() -> String {
    let changed = entries::changed("object.spec", "oldObject.spec");
    format!(
        "{changed}\n.filter(k, !(k in ['schedulingGates', 'nodeSelector', 'tolerations']))\n.map(k, {})",
        forbidden(
            "'spec.' + k",
            &text("Sluice's account may change only its gates, node selectors and tolerations")
        )
    )
}
