//! What an admitted job tells of itself while it runs: whether its pods do their work, and how many
//! have ended for good, so that their quota is free. When that is written is not decided here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sluice_crds::WorkloadStatus;

use super::Now;
use crate::conditions::{self, Saying, Type};
use crate::world::WorkloadRecord;
use crate::world::job::Reading;

/// The reason of PodsReady for pods that were ready once and are not any more.
const WAIT_FOR_RECOVERY: &str = "WaitForRecovery";

/// The status of an admitted Workload whose job runs, if the job tells something new.
pub fn report(record: &WorkloadRecord, reading: &Reading, now: Now) -> Option<WorkloadStatus> {
    let mut status = record.status.clone();
    if let Ok(Some(is_ready)) = reading.ready
        && let Some(saying) = readiness(&status.conditions, is_ready)
    {
        conditions::say(&mut status.conditions, saying, record.generation, now);
    }
    (status != record.status).then_some(status)
}

/// PodsReady of what has just been admitted, or has to go.
pub(super) fn not_started() -> Saying {
    Saying {
        kind: Type::PodsReady,
        is_true: false,
        reason: "WaitForStart",
        message: "Not all of its pods are ready".to_owned(),
    }
}

/// What PodsReady is to say, if that is something new. That it is not there yet says enough.
fn readiness(known: &[Condition], is_ready: bool) -> Option<Saying> {
    let known = conditions::find(known, Type::PodsReady);
    let was_ready = known.is_some_and(|known| known.status == "True");
    let had_to_recover = known.is_some_and(|known| known.reason == WAIT_FOR_RECOVERY);
    let (reason, message) = match (was_ready, is_ready) {
        (true, true) | (false, false) => return None,
        (true, false) => (
            WAIT_FOR_RECOVERY,
            "Its pods were all ready and not all of them still are",
        ),
        (false, true) if had_to_recover => ("Recovered", "All of its pods are ready again"),
        (false, true) => ("Started", "All of its pods are ready"),
    };
    Some(Saying {
        kind: Type::PodsReady,
        is_true: is_ready,
        reason,
        message: message.to_owned(),
    })
}

#[cfg(test)]
mod tests;
