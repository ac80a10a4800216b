//! Evictions that do not end: a job that was evicted and runs on, for whatever reason, is told so, and
//! nobody is kept waiting for it any more. Its quota stays in use until its pods are gone.
//! An admitted job that finds no node in time is `unused_quota.rs`.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::WorkloadStatus;

use super::outcome::{Note, Now};
use crate::cache::WorkloadRecord;
use crate::cache::conditions::{self, ConditionUpdate, Type};

/// How long an evicted job may take to stop, beyond what its pods are given to terminate.
const IN_TIME: Duration = Duration::from_mins(1);
/// How many pods are named.
const NAMED_MAX: usize = 3;

/// The reason of `Stalled` while an eviction does not end.
pub const EVICTION_OVERDUE: &str = "EvictionOverdue";
/// Its reason once the quota is free after all.
const EVICTION_ENDED: &str = "EvictionEnded";

/// What is left of an evicted job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// The names of its pods that may run, in order.
    pub pods: Vec<String>,
    /// Until when the last of them may take to terminate.
    pub terminate_until: Option<Timestamp>,
    /// Whether it is not suspended yet, though it can be.
    pub is_unsuspended: bool,
}

/// The status of an evicted Workload whose job has not stopped in time, and what its user is told; none
/// as long as there is nothing to tell, or once it is told.
pub fn overdue(
    record: &WorkloadRecord,
    remains: &Remains,
    now: Now,
) -> Option<(WorkloadStatus, Note)> {
    if !record.is_evicting() || record.is_finished() || record.is_stalled() {
        return None;
    }
    let since = conditions::true_since(&record.status.conditions, Type::Evicted)?;
    let since = since.max(remains.terminate_until.unwrap_or(since));
    let limit = SignedDuration::try_from(IN_TIME).unwrap_or(SignedDuration::MAX);
    if now.duration_since(since) < limit {
        return None;
    }
    let message = format!(
        "Evicted, and {}: its quota stays in use until its pods are gone, and no workload waits for that quota any more",
        what_is_left(remains)
    );
    let mut status = record.status.clone();
    let update = ConditionUpdate {
        kind: Type::Stalled,
        is_true: true,
        reason: EVICTION_OVERDUE,
        message: message.clone(),
    };
    conditions::set(&mut status.conditions, update, record.generation, now);
    Some((status, Note::warning(EVICTION_OVERDUE, message)))
}

fn what_is_left(remains: &Remains) -> String {
    let Remains {
        pods,
        is_unsuspended,
        ..
    } = remains;
    if *is_unsuspended {
        return "it can't be suspended".to_owned();
    }
    let named: Vec<_> = pods
        .iter()
        .take(NAMED_MAX)
        .map(|name| format!("{name:?}"))
        .collect();
    match (named.as_slice(), pods.len().checked_sub(NAMED_MAX)) {
        ([], _) => "its controller has not reported in time that it has stopped".to_owned(),
        ([one], _) => format!("its pod {one} has not ended in time"),
        (some, None | Some(0)) => format!("its pods {} have not ended in time", some.join(", ")),
        (some, Some(_)) => format!(
            "its pods {} and others have not ended in time",
            some.join(", ")
        ),
    }
}

/// That an eviction has ended which was overdue.
pub(super) fn ended(record: &WorkloadRecord) -> Option<ConditionUpdate> {
    let was_stalled = conditions::is_true(&record.status.conditions, Type::Stalled);
    was_stalled.then(|| ConditionUpdate {
        kind: Type::Stalled,
        is_true: false,
        reason: EVICTION_ENDED,
        message: "Its pods are gone and its quota is free".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::fixtures::mk_group_workload;
    use crate::plan::workload;

    fn evicted_at(second: i64) -> WorkloadRecord {
        let at = Timestamp::from_second(second).unwrap();
        let admission = json!({"clusterQueue": "team-a", "podSetAssignments": []});
        let evicted = json!({"type": "Evicted", "status": "True", "reason": "Preempted", "message": "",
            "lastTransitionTime": at.to_string()});
        mk_group_workload(
            &json!([]),
            &json!({"admission": admission, "conditions": [evicted]}),
        )
        .1
    }

    fn told(record: &WorkloadRecord, remains: &Remains, second: i64) -> Option<String> {
        let now = Timestamp::from_second(second).unwrap();
        overdue(record, remains, now).map(|(_, note)| note.message)
    }

    #[test]
    fn an_eviction_is_overdue_after_a_minute_and_after_the_grace_of_its_pods() {
        let record = evicted_at(1000);
        let left = Remains::default();
        assert_eq!(told(&record, &left, 1059), None);
        assert!(told(&record, &left, 1060).is_some());
        let terminating = Remains {
            terminate_until: Some(Timestamp::from_second(1600).unwrap()),
            ..Remains::default()
        };
        assert_eq!(told(&record, &terminating, 1659), None);
        assert!(told(&record, &terminating, 1660).is_some());
    }

    #[test]
    fn what_is_left_is_named() {
        let record = evicted_at(0);
        let with = |pods: &[&str], is_unsuspended| Remains {
            pods: pods.iter().map(|name| (*name).to_owned()).collect(),
            terminate_until: None,
            is_unsuspended,
        };
        let cases = [
            (
                with(&[], false),
                "its controller has not reported in time that it has stopped",
            ),
            (with(&["a"], false), "its pod \"a\" has not ended in time"),
            (
                with(&["a", "b", "c"], false),
                "its pods \"a\", \"b\", \"c\" have not ended in time",
            ),
            (
                with(&["a", "b", "c", "d"], false),
                "its pods \"a\", \"b\", \"c\" and others have not ended in time",
            ),
            (with(&["a"], true), "it can't be suspended"),
        ];
        for (remains, expected) in cases {
            let told = told(&record, &remains, 60).unwrap();
            assert!(
                told.starts_with(&format!("Evicted, and {expected}: ")),
                "{told}"
            );
        }
    }

    #[test]
    fn it_is_told_once_and_taken_back_when_the_quota_is_free() {
        let mut record = evicted_at(0);
        let now = Timestamp::from_second(100).unwrap();
        let (status, note) = overdue(&record, &Remains::default(), now).unwrap();
        assert_eq!(note.reason, EVICTION_OVERDUE);
        record.status = status;
        assert!(record.is_stalled());
        assert_eq!(overdue(&record, &Remains::default(), now), None);
        record.status = workload::requeued(&record, workload::Next::Queue, now);
        let stalled = conditions::find(&record.status.conditions, Type::Stalled).unwrap();
        assert_eq!(
            (stalled.status.as_str(), stalled.reason.as_str()),
            ("False", EVICTION_ENDED)
        );
    }
}
