//! Who lets a job go: Sluice does. A user who does it by hand is told what to do instead.

use sluice_kinds::gates::{self, GateState};
use sluice_kinds::problem::Problem;

use crate::queue_label::QueueLabel;

/// What is wrong with releasing a job by hand while these gates or this queue hold it.
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
                "the job is held by {}; it is queued, or started if it has no queue, once the last gate is removed from its annotations",
                names.join(", ")
            );
            Some(Problem::forbidden(field, detail))
        }
        (GateState::None, Some(label)) => {
            let detail = format!(
                "the job starts once LocalQueue {:?} admits it; to run it without Sluice, remove the label {} in the same update",
                label.queue, label.key
            );
            Some(Problem::forbidden(field, detail))
        }
        (GateState::None, None) => None,
    }
}
