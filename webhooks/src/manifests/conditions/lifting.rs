//! Which edits may lift a gate.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;

use crate::manifests::conditions::entry::{
    Entry, any, condition, gate_annotations, gets_controller,
};

/// The object had a gate, and the edit touches its gate annotations, or gives it to a controller.
pub(crate) fn may_lift() -> MatchCondition {
    let touched: Vec<_> = gate_annotations()
        .map(|entry: Entry<'_>| entry.differs())
        .chain([gets_controller()])
        .collect();
    let expression = format!(
        "({}) && (\n{})",
        any(gate_annotations(), "oldObject"),
        touched.join(" ||\n")
    );
    condition("may-lift-a-gate", expression)
}
