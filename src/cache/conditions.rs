//! The one table of condition types and reasons, and how a condition changes. Time is an argument.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Longest message that is written, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The types of conditions that Sluice writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A queue or cohort admits.
    Active,
    /// A JobKind's objects are watched.
    Ready,
    /// Objects that a Gate applies to are born with its gate.
    Applied,
    /// A Gate holds more than it should, or for longer.
    Backlogged,
    /// A Workload holds quota.
    QuotaReserved,
    /// A Workload holds quota and may run.
    Admitted,
    /// All pods of a Workload's job do their work.
    PodsReady,
    /// The Workload is evicted, or was before its last admission.
    Evicted,
    /// The Workload is preempted, or was at its last eviction.
    Preempted,
    /// A Workload was put back into its queue.
    Requeued,
    /// A Workload's job has ended.
    Finished,
    /// A Workload was evicted and its job has not stopped in time.
    Stalled,
}

impl Type {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Ready => "Ready",
            Self::Applied => "Applied",
            Self::Backlogged => "Backlogged",
            Self::QuotaReserved => "QuotaReserved",
            Self::Admitted => "Admitted",
            Self::PodsReady => "PodsReady",
            Self::Evicted => "Evicted",
            Self::Preempted => "Preempted",
            Self::Requeued => "Requeued",
            Self::Finished => "Finished",
            Self::Stalled => "Stalled",
        }
    }
}

/// The new state of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// The type.
    pub kind: Type,
    /// True or False.
    pub is_true: bool,
    /// One CamelCase word of a closed set.
    pub reason: &'static str,
    /// A sentence for people. Without times and counts that change by themselves.
    pub message: String,
}

/// Whether the condition `kind` is True.
pub fn is_true(conditions: &[Condition], kind: Type) -> bool {
    find(conditions, kind).is_some_and(|c| c.status == "True")
}

/// The condition `kind`.
pub fn find(conditions: &[Condition], kind: Type) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == kind.name())
}

/// Sets one of the `conditions`. `lastTransitionTime` moves only when the status changes. Returns
/// whether anything a reader is told has changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    update: ConditionUpdate,
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let status = if update.is_true { "True" } else { "False" };
    let message = cut(update.message);
    let Some(known) = conditions
        .iter_mut()
        .find(|c| c.type_ == update.kind.name())
    else {
        conditions.push(Condition {
            type_: update.kind.name().to_owned(),
            status: status.to_owned(),
            reason: update.reason.to_owned(),
            message,
            observed_generation: generation,
            last_transition_time: Time(now),
        });
        return true;
    };
    let told = known.status == status && known.reason == update.reason && known.message == message;
    if known.status != status {
        status.clone_into(&mut known.status);
        known.last_transition_time = Time(now);
    }
    update.reason.clone_into(&mut known.reason);
    known.message = message;
    known.observed_generation = generation;
    !told
}

fn cut(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(is_true: bool, message: &str) -> ConditionUpdate {
        ConditionUpdate {
            kind: Type::Admitted,
            is_true,
            reason: "Admitted",
            message: message.to_owned(),
        }
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(100).unwrap());
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, admitted(true, "a"), Some(1), first));
        assert!(!set(&mut conditions, admitted(true, "a"), Some(1), later));
        assert!(set(&mut conditions, admitted(true, "b"), Some(1), later));
        assert_eq!(conditions[0].last_transition_time.0, first);
        assert!(set(&mut conditions, admitted(false, "b"), Some(1), later));
        assert_eq!(conditions[0].last_transition_time.0, later);
        assert_eq!(conditions.len(), 1);
    }
}
