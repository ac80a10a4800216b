//! "Why is my job pending?": the reason and the message of a QuotaReserved condition that is false, and of
//! the event with the same text. What the engine explains is worked out there.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::reasons::event;
use sluice_crds::{Quantity, not_queued};
use sluice_engine::{Amount, Explanation, PendingReason, ResourceName};

use crate::cache::WorkloadRecord;
use crate::plan::writes::plan_and_notes::Note;

/// Gates that are named; the others are counted.
const GATES_NAMED: usize = 5;

/// What a deactivated Workload says that holds no quota.
pub const DEACTIVATED: &str =
    "The Workload is deactivated: set spec.active to true to queue it again";

/// Why a Workload holds no quota: the reason of its QuotaReserved condition, Kueue's where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReserved {
    /// It is queued, or would be but for its queue.
    Pending(PendingReason),
    /// It has no priority, as its class is missing or not allowed. Holds the reason, which its event has too.
    NoPriority(&'static str),
    /// Its pods wait behind scheduling gates of others.
    SchedulingGated,
    /// The job can't be read, or what it requests can't be counted. Holds the reason of its event.
    Uncountable(&'static str),
    /// Its user has suspended the job.
    OnHold,
    /// No JobKind declares the kind of its job any more.
    KindNotDeclared,
    /// The JobKind of its job is not ready.
    KindNotReady,
    /// Not all pods of its group exist.
    GroupIncomplete,
    /// It is deactivated.
    Deactivated,
    /// Its job is being deleted.
    Deleted,
}

impl NotReserved {
    /// Not looked at since it was queued.
    pub const PENDING_EVALUATION: Self = Self::Pending(PendingReason::PendingEvaluation);
    /// It could not use its quota, and waits before it is queued again.
    pub const BACKING_OFF: Self = Self::Pending(PendingReason::BackingOff);

    /// The reason as the condition has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending(reason) => reason.as_str(),
            Self::NoPriority(reason) => reason,
            Self::Uncountable(_) => PendingReason::Misconfigured.as_str(),
            Self::SchedulingGated => not_queued::SCHEDULING_GATED,
            Self::OnHold => not_queued::ON_HOLD,
            Self::KindNotDeclared => not_queued::KIND_NOT_DECLARED,
            Self::KindNotReady => not_queued::KIND_NOT_READY,
            Self::GroupIncomplete => not_queued::GROUP_INCOMPLETE,
            Self::Deactivated => "Deactivated",
            Self::Deleted => not_queued::DELETED,
        }
    }

    /// What the user of the job or pod is told. Of all that can be the matter, events tell two kinds apart:
    /// a warning for what does not change by itself.
    pub fn note(self, message: String) -> Note {
        match self {
            Self::Pending(reason) if !reason.is_inadmissible() => {
                Note::normal(event::PENDING, message)
            }
            Self::KindNotReady => Note::normal(event::PENDING, message),
            Self::Pending(_) | Self::KindNotDeclared | Self::Deactivated => {
                Note::warning(event::INADMISSIBLE, message)
            }
            Self::NoPriority(reason) | Self::Uncountable(reason) => Note::warning(reason, message),
            Self::OnHold => Note::normal(event::SUSPENDED, message),
            Self::SchedulingGated | Self::GroupIncomplete | Self::Deleted => {
                Note::normal(self.as_str(), message)
            }
        }
    }
}

/// The reason and message of a workload that is pending. None for one that isn't. `head` is how the workload
/// is called that it waits behind, if it does and that is known.
pub fn waiting(explanation: &Explanation, head: Option<&str>) -> Option<(NotReserved, String)> {
    let reason = explanation.pending_reason()?;
    let message = match head {
        Some(head) => explanation.display_behind(&format_amount, head).to_string(),
        None => explanation.display(&format_amount).to_string(),
    };
    Some((NotReserved::Pending(reason), message))
}

/// The same for a Workload. One that backs off says until when.
pub fn waiting_workload(
    explanation: &Explanation,
    requeue_at: Option<Timestamp>,
    head: Option<&str>,
) -> Option<(NotReserved, String)> {
    match (explanation, requeue_at) {
        (Explanation::BackingOff { .. }, Some(until)) => {
            Some((NotReserved::BACKING_OFF, backs_off(until)))
        }
        _ => waiting(explanation, head),
    }
}

/// What a Workload waits for that is deactivated.
pub fn deactivated(record: &WorkloadRecord) -> Option<(NotReserved, String)> {
    (!record.spec.active).then(|| (NotReserved::Deactivated, DEACTIVATED.to_owned()))
}

/// What a Workload waits for whose pods are held by these gates; None if there are none.
pub fn behind_gates(gates: &BTreeSet<&str>) -> Option<(NotReserved, String)> {
    if gates.is_empty() {
        return None;
    }
    let named: Vec<&str> = gates.iter().copied().take(GATES_NAMED).collect();
    let more = match gates.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.join(", ");
    let message = format!(
        "Not queued: its pods wait behind the scheduling gates {named}{more}; it is queued when the last of them is gone"
    );
    Some((NotReserved::SchedulingGated, message))
}

/// What a Workload waits for whose pods are yet to be made, and are born behind gates of others.
pub fn behind_gates_to_come() -> (NotReserved, String) {
    let message = "Not queued: its pod template has scheduling gates of others, and not all of its pods exist; it is queued when these gates are gone and all pods exist, or none comes for a minute";
    (NotReserved::SchedulingGated, message.to_owned())
}

/// What the Workload of a group waits for that has lost pods.
pub fn incomplete(present: usize, total: usize) -> (NotReserved, String) {
    let message = format!(
        "Not queued: {present} of {total} pods of this group exist; it is queued when all do"
    );
    (NotReserved::GroupIncomplete, message)
}

/// What the Workloads of a kind wait for whose JobKind is not ready.
pub fn kind_not_ready(job_kind: &str) -> (NotReserved, String) {
    let message = format!(
        "Not queued: JobKind {job_kind:?} is not ready: see its condition Ready; the job is queued once the JobKind is ready"
    );
    (NotReserved::KindNotReady, message)
}

/// What a Workload waits for that backs off until then.
pub fn backs_off(until: Timestamp) -> String {
    format!(
        "Backs off until {}, because it could not use its quota; then it is queued again",
        in_seconds(until)
    )
}

/// A time as people read it in a condition.
pub fn in_seconds(at: Timestamp) -> impl std::fmt::Display {
    at.strftime("%Y-%m-%dT%H:%M:%SZ")
}

fn format_amount(resource: &ResourceName, amount: Amount) -> String {
    Quantity::of(resource.as_str(), amount.get()).0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::fixtures::mk_group_workload;
    use crate::plan::workload;
    use crate::plan::writes::plan_and_notes::Present;

    #[test]
    fn a_workload_that_was_never_admitted_says_that_it_is_deactivated() {
        let waits = json!({"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let (_, mut record) = mk_group_workload(&json!([]), &json!({"conditions": [waits]}));
        assert_eq!(deactivated(&record), None);
        record.spec.active = false;
        let (reason, message) = deactivated(&record).unwrap();
        let now = Present::UNIX_EPOCH;
        record.status = workload::waiting(&record, reason, message.clone(), now).unwrap();
        assert_eq!(record.status.conditions[0].reason, "Deactivated");
        // It says the same as one that has given its quota back.
        let requeued = workload::requeued(&record, workload::Next::Queue, now);
        assert_eq!(requeued.conditions[0].message, message);
    }
}
