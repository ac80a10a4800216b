//! Who lets a job go: Sluice does. A user who does it by hand is told what to do instead.

use sluice_kinds::gates::{self, GateState};
use sluice_kinds::problem::Problem;

use crate::rules::queue_label::QueueLabel;

/// What is wrong with letting a job go by hand while these gates hold it or this queue has it.
/// `field` is the suspend field.
pub(crate) fn check(
    field: &str,
    gates: &GateState,
    queue: Option<QueueLabel<'_>>,
) -> Option<Problem> {
    match (gates, queue) {
        (GateState::Invalid(problems), _) => {
            let at = problems
                .first()
                .map_or_else(String::new, |p| p.field.clone());
            let detail =
                format!("the job is held by an invalid value of {at}; remove the annotation");
            Some(Problem::forbidden(field, detail))
        }
        (GateState::Held(_), _) => {
            let names: Vec<_> = gates.names().map(gates::Gate::as_str).collect();
            let detail = format!(
                "the job is held by {}; it goes on by itself once the last gate is removed from \
                 its annotations",
                names.join(", ")
            );
            Some(Problem::forbidden(field, detail))
        }
        (GateState::None, Some(label)) => {
            let detail = format!(
                "the job starts by itself once LocalQueue {:?} admits it; to run it outside of \
                 Sluice, remove the label {} in the same update",
                label.queue, label.key
            );
            Some(Problem::forbidden(field, detail))
        }
        (GateState::None, None) => None,
    }
}
