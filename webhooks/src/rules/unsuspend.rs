//! Who lets a job go: Sluice does. A user who does it by hand is told what to do instead.

use sluice_kinds::gates::{self, GateState};
use sluice_kinds::problem::{Problem, fill};

use crate::rules::queue_label::QueueLabel;

/// The rules for a job that is held by an invalid annotation, by gates, as a gate was not lifted in time, or by its queue.
pub(crate) const HELD_BY_INVALID: &str =
    "the job is held by an invalid value of {}; remove the annotation";
pub(crate) const HELD_BY_GATES: &str = "the job is held by {}; it is queued, or started if it has no queue, once the last gate is removed from its annotations";
pub(crate) const DEACTIVATED: &str = "the job is deactivated, as the gate {} was not lifted in time; remove the annotation sluice.dev/deactivated-by, and it is queued, or started if it has no queue";
pub(crate) const QUEUED: &str = "Sluice starts the job once it is admitted through LocalQueue {}; to run it without a queue, remove the label {} in the same update (refused where the namespace requires a queue)";

/// What holds a job that is released by hand.
pub(crate) struct HeldBy<'a> {
    /// What its gate annotations say.
    pub(crate) gates: &'a GateState,
    /// The gate that has deactivated it.
    pub(crate) deactivated_by: Option<&'a str>,
    /// The queue that it is in by itself.
    pub(crate) queue: Option<QueueLabel<'a>>,
}

/// What is wrong with releasing a job by hand. `field` is the suspend field.
pub(crate) fn check(field: &str, held_by: &HeldBy<'_>) -> Option<Problem> {
    let HeldBy {
        gates,
        deactivated_by,
        queue,
    } = held_by;
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
        (GateState::None, _) if let Some(gate) = deactivated_by => {
            let gate = format!("{gate:?}");
            Some(Problem::forbidden(field, fill(DEACTIVATED, &[&gate])))
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
