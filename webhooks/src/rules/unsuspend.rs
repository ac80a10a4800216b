//! Who lets a job go: Sluice does. A user who does it by hand is told what to do instead.

use sluice_kinds::gates::{self, GateState};
use sluice_kinds::problem::{Problem, fill};

use crate::rules::queue_label::QueueLabel;

/// The rules for a job that is held by an invalid annotation, by gates, or by its queue.
pub(crate) const HELD_BY_INVALID: &str =
    "the job is held by an invalid value of {}; remove the annotation";
pub(crate) const HELD_BY_GATES: &str = "the job is held by {}; it is queued, or started if it has no queue, once the last gate is removed from its annotations";
pub(crate) const QUEUED: &str = "the job starts once LocalQueue {} admits it; to run it without Sluice, remove the label {} in the same update";

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
            Some(Problem::forbidden(field, fill(HELD_BY_INVALID, &[&at])))
        }
        (GateState::Held(_), _) => {
            let names: Vec<_> = gates.names().map(gates::Gate::as_str).collect();
            let names = names.join(", ");
            Some(Problem::forbidden(field, fill(HELD_BY_GATES, &[&names])))
        }
        (GateState::None, Some(label)) => {
            let queue = format!("{:?}", label.queue);
            Some(Problem::forbidden(
                field,
                fill(QUEUED, &[&queue, label.key]),
            ))
        }
        (GateState::None, None) => None,
    }
}
