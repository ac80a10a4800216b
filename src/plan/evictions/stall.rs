//! Evictions that do not end: a job that was evicted and runs on, for whatever reason, is told so, and
//! nobody is kept waiting for it any more. Its quota stays in use until its pods are gone.
//! So is one that is deleted together with its pods, and a pod that is deleted, if they do not go.
//! An admitted job that finds no node in time is `unused_quota.rs`.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::reasons::event;
use sluice_crds::{ConditionType, WorkloadStatus};

use crate::cache::conditions::{self, ConditionUpdate};
use crate::cache::{PodRecord, WorkloadRecord};
use crate::plan::writes::plan_and_notes::{Note, Present};

/// How long an evicted job may take to stop, beyond what its pods are given to terminate.
const IN_TIME: SignedDuration = SignedDuration::from_mins(1);
/// Pods set their own grace period, so others wait for at most this much of it.
const GRACE_MAX: SignedDuration = SignedDuration::from_mins(10);
/// What is told when an eviction has ended.
pub(crate) const QUOTA_IS_FREE: &str = "Its pods are gone and its quota is free";
/// How many pods are named.
const NAMED_MAX: usize = 3;

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
    /// Since when it is being deleted together with its pods.
    pub deleted_at: Option<Timestamp>,
}

/// Until when others wait for what is to stop since `since`, and whose last pod may take until `terminate_until`.
pub fn in_time_until(since: Timestamp, terminate_until: Option<Timestamp>) -> Timestamp {
    let after = |time: Timestamp, wait| time.checked_add(wait).unwrap_or(Timestamp::MAX);
    let until = terminate_until.unwrap_or(since).max(since);
    after(until.min(after(since, GRACE_MAX)), IN_TIME)
}

/// Until when others wait for a pod that is being deleted.
pub fn pod_in_time_until(pod: &PodRecord) -> Option<Timestamp> {
    Some(in_time_until(pod.deleted_at?, pod.terminate_until))
}

/// What is told of a pod that is not gone by then.
pub fn pod_overdue() -> Note {
    Note::warning(
        event::DELETION_OVERDUE,
        "Still being deleted: the pod has not terminated in time; check its node and finalizers. Its quota stays in use until it is gone; preemption no longer counts on it",
    )
}

/// What is told of a job without a Workload that is deleted with its pods and is not gone in time.
pub fn deletion_overdue(remains: &Remains) -> Note {
    Note::warning(
        event::DELETION_OVERDUE,
        text("Still being deleted", remains),
    )
}

/// That a job has finished, and pods of it run on: the controllers of some kinds leave them running, as that of MPIJobs does
/// by default.
pub fn pods_run_on(pods: &[String]) -> Note {
    let (verb, their) = if pods.len() == 1 {
        ("runs", "its")
    } else {
        ("run", "their")
    };
    let message = format!(
        "Has finished, and {} {verb} on: {their} quota stays in use until they are gone; delete them, or have its controller do so (as by cleanPodPolicy)",
        named(pods)
    );
    Note::warning(event::PODS_RUN_ON, message)
}

fn text(what: &str, remains: &Remains) -> String {
    format!(
        "{what}: {}. Its quota stays in use until its pods are gone; preemption no longer counts on it",
        what_is_left(remains)
    )
}

/// The status of a Workload whose job was evicted, or is deleted with its pods, and has not stopped in time, and
/// what its user is told; none as long as there is nothing to tell, or once it is told.
pub fn overdue(
    record: &WorkloadRecord,
    remains: &Remains,
    now: Present,
) -> Option<(WorkloadStatus, Note)> {
    if record.is_finished() || record.is_stalled() {
        return None;
    }
    let (since, reason, what) = if record.is_evicting() {
        let since = record.true_since(ConditionType::Evicted)?;
        (
            since,
            event::EVICTION_OVERDUE,
            "Still stopping after its eviction",
        )
    } else {
        (
            remains.deleted_at?,
            event::DELETION_OVERDUE,
            "Still being deleted",
        )
    };
    if now < in_time_until(since, remains.terminate_until) {
        return None;
    }
    let message = text(what, remains);
    let mut status = record.status.clone();
    let update = ConditionUpdate {
        kind: ConditionType::Stalled,
        is_true: true,
        reason,
        message: message.clone(),
    };
    conditions::set(&mut status.conditions, update, record.generation, now);
    Some((status, Note::warning(reason, message)))
}

fn what_is_left(remains: &Remains) -> String {
    let Remains {
        pods,
        is_unsuspended,
        ..
    } = remains;
    if *is_unsuspended {
        return "it could not be suspended".to_owned();
    }
    match pods.as_slice() {
        [] => "its controller has not reported in time that it has stopped".to_owned(),
        [_] => format!(
            "{} has not terminated in time; check its node and finalizers",
            named(pods)
        ),
        _ => format!(
            "{} have not terminated in time; check their nodes and finalizers",
            named(pods)
        ),
    }
}

/// The first of these pods by name.
fn named(pods: &[String]) -> String {
    let first: Vec<_> = (pods.iter().take(NAMED_MAX))
        .map(|name| format!("{name:?}"))
        .collect();
    let first = first.join(", ");
    match pods.len() {
        0 | 1 => format!("pod {first}"),
        2..=NAMED_MAX => format!("pods {first}"),
        _ => format!("pods {first} and others"),
    }
}

/// That an eviction has ended which was overdue.
pub(crate) fn ended(record: &WorkloadRecord) -> Option<ConditionUpdate> {
    let was_stalled = conditions::is_true(&record.status.conditions, ConditionType::Stalled);
    was_stalled.then(|| ConditionUpdate {
        kind: ConditionType::Stalled,
        is_true: false,
        reason: EVICTION_ENDED,
        message: QUOTA_IS_FREE.to_owned(),
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

    /// A pod says itself how long it may take to terminate.
    #[test]
    fn nobody_waits_for_years() {
        let record = evicted_at(1000);
        let years = Remains {
            terminate_until: Some(Timestamp::from_second(1_000_000_000).unwrap()),
            ..Remains::default()
        };
        assert_eq!(told(&record, &years, 1659), None);
        assert!(told(&record, &years, 1660).is_some());
        let far = in_time_until(Timestamp::MAX, Some(Timestamp::MAX));
        assert_eq!(far, Timestamp::MAX);
    }

    #[test]
    fn what_is_deleted_with_its_pods_is_told_of_too() {
        let mut record = evicted_at(0);
        record.status.conditions.clear();
        let deleted = Remains {
            deleted_at: Some(Timestamp::from_second(1000).unwrap()),
            pods: vec!["a".to_owned()],
            ..Remains::default()
        };
        assert_eq!(told(&record, &Remains::default(), 5000), None);
        assert_eq!(told(&record, &deleted, 1059), None);
        let told = told(&record, &deleted, 1060).unwrap();
        assert!(
            told.starts_with("Still being deleted: pod \"a\" has not terminated in time; "),
            "{told}"
        );
    }

    #[test]
    fn pods_that_outlast_their_job_are_named() {
        let told = |pods: &[&str]| {
            let pods: Vec<String> = pods.iter().map(|name| (*name).to_owned()).collect();
            pods_run_on(&pods)
        };
        assert_eq!(told(&["a"]).reason, "PodsRunOn");
        assert_eq!(
            told(&["a", "b"]).message,
            "Has finished, and pods \"a\", \"b\" run on: their quota stays in use until they are gone; delete them, or have its controller do so (as by cleanPodPolicy)"
        );
        let starts = [
            (&["a"][..], "Has finished, and pod \"a\" runs on: "),
            (
                &["a", "b", "c", "d"],
                "Has finished, and pods \"a\", \"b\", \"c\" and others run on: ",
            ),
        ];
        for (pods, start) in starts {
            assert!(told(pods).message.starts_with(start), "{pods:?}");
        }
    }

    #[test]
    fn what_is_left_is_named() {
        let record = evicted_at(0);
        let with = |pods: &[&str], is_unsuspended| Remains {
            pods: pods.iter().map(|name| (*name).to_owned()).collect(),
            is_unsuspended,
            ..Remains::default()
        };
        let cases = [
            (
                with(&[], false),
                "its controller has not reported in time that it has stopped",
            ),
            (
                with(&["a"], false),
                "pod \"a\" has not terminated in time; check its node and finalizers",
            ),
            (
                with(&["a", "b", "c"], false),
                "pods \"a\", \"b\", \"c\" have not terminated in time; check their nodes and finalizers",
            ),
            (
                with(&["a", "b", "c", "d"], false),
                "pods \"a\", \"b\", \"c\" and others have not terminated in time; check their nodes and finalizers",
            ),
            (with(&["a"], true), "it could not be suspended"),
        ];
        for (remains, expected) in cases {
            let told = told(&record, &remains, 60).unwrap();
            assert!(
                told.starts_with(&format!("Still stopping after its eviction: {expected}. ")),
                "{told}"
            );
        }
    }

    #[test]
    fn it_is_told_once_and_taken_back_when_the_quota_is_free() {
        let mut record = evicted_at(0);
        let now = Timestamp::from_second(100).unwrap();
        let (status, note) = overdue(&record, &Remains::default(), now).unwrap();
        assert_eq!(note.reason, event::EVICTION_OVERDUE);
        record.status = status;
        assert!(record.is_stalled());
        assert_eq!(overdue(&record, &Remains::default(), now), None);
        record.status = workload::requeued(&record, workload::Next::Queue, now);
        let stalled = conditions::find(&record.status.conditions, ConditionType::Stalled).unwrap();
        assert_eq!(
            (stalled.status.as_str(), stalled.reason.as_str()),
            ("False", EVICTION_ENDED)
        );
    }
}
