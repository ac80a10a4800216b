//! How a condition changes. Time is an argument.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use sluice_crds::ConditionType;
pub use sluice_crds::conditions::{find, is_true};

/// Longest message that is written, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The new state of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// The type.
    pub kind: ConditionType,
    /// True or False.
    pub is_true: bool,
    /// One CamelCase word of a closed set.
    pub reason: &'static str,
    /// A sentence for people. Without times and counts that change by themselves.
    pub message: String,
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
        .find(|condition| update.kind.is_of(condition))
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
            kind: ConditionType::Admitted,
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
