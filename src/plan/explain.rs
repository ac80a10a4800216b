//! "Why is my job waiting?": the engine's explanation as the message of the QuotaReserved condition.

use sluice_crds::Quantity;
use sluice_engine::{Amount, Explanation, ResourceName};

use super::{Note, workload};
use crate::world::WorkloadRecord;

/// The reason and message of a Workload that waits. None for one that doesn't. `head` is how the workload
/// is called that it waits behind, if it does and that is known.
pub fn waiting(explanation: &Explanation, head: Option<&str>) -> Option<(&'static str, String)> {
    let reason = match explanation {
        Explanation::Admitted { .. }
        | Explanation::Evicting { .. }
        | Explanation::Finished
        | Explanation::Inactive => return None,
        Explanation::BehindHead { .. } | Explanation::Queued { .. } => "Pending",
        Explanation::BackingOff { .. }
        | Explanation::QueueFull { .. }
        | Explanation::QuotaReserved { .. }
        | Explanation::Nominated { .. } => explanation.reason(),
        Explanation::DoesNotFit { .. } if !explanation.never_fits() => "Pending",
        _ => "Inadmissible",
    };
    let message = match head {
        Some(head) => explanation.display_behind(&format_amount, head).to_string(),
        None => explanation.display(&format_amount).to_string(),
    };
    Some((reason, message))
}

/// The same for a Workload. One that stands back says until when, as it did when it began to.
pub fn waiting_workload(
    explanation: &Explanation,
    record: &WorkloadRecord,
    head: Option<&str>,
) -> Option<(&'static str, String)> {
    match (explanation, record.requeue_at()) {
        (Explanation::BackingOff { .. }, Some(until)) => {
            Some((workload::BACKING_OFF, workload::stands_back(until)))
        }
        _ => waiting(explanation, head),
    }
}

/// What is told about something that waits, by the reason and message of [`waiting`].
pub fn note(reason: &'static str, message: String) -> Note {
    if reason == "Inadmissible" {
        Note::warning(reason, message)
    } else if reason == workload::SUSPENDED {
        Note::normal(reason, message)
    } else {
        Note::normal("Pending", message)
    }
}

fn format_amount(resource: &ResourceName, amount: Amount) -> String {
    Quantity::of(resource.as_str(), amount.get()).0
}
