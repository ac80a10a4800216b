//! Why something that holds quota is evicted, in words: what the conditions of its Workload say, and its
//! events. The engine and the plans decide whom to evict; what the eviction writes is in `eviction_steps.rs`.

use sluice_crds::reasons::{event, eviction};
use sluice_engine::PreemptionRight;

use crate::cache::Subject;
use crate::plan::writes::plan_and_notes::Note;

/// Why something is evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// One CamelCase word of a closed set.
    pub reason: &'static str,
    /// By which right, if it is preempted.
    pub preempted: Option<PreemptionRight>,
    /// By whom, if so.
    pub makes_room_for: Option<Subject>,
    /// A sentence for people, without its full stop.
    pub message: String,
}

impl Cause {
    /// For a reason that is said once in `message`.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            preempted: None,
            makes_room_for: None,
            message: message.into(),
        }
    }

    /// Its ClusterQueue is drained.
    pub fn cluster_queue_stopped() -> Self {
        Self::new(
            eviction::CLUSTER_QUEUE_STOPPED,
            "The ClusterQueue is stopped (spec.stopPolicy is HoldAndDrain)",
        )
    }

    /// Its LocalQueue is drained.
    pub fn local_queue_stopped() -> Self {
        Self::new(
            eviction::LOCAL_QUEUE_STOPPED,
            "The LocalQueue is stopped (spec.stopPolicy is HoldAndDrain)",
        )
    }

    /// Not all pods of a job or group have found nodes in time.
    pub fn timed_out() -> Self {
        Self::new(
            eviction::RESERVATION_TIMEOUT,
            "Not all pods were bound to nodes within spec.reservation.timeoutSeconds of the ClusterQueue",
        )
    }

    /// A job has lost pods, and not all that replace them have found nodes in time.
    pub fn recovery_timed_out() -> Self {
        Self::new(
            eviction::RESERVATION_TIMEOUT,
            "Not all pods that replaced others were bound to nodes within spec.reservation.recoveryTimeoutSeconds of the ClusterQueue",
        )
    }

    /// A pod that is admitted by itself has found no node in time.
    pub fn pod_timed_out() -> Self {
        Self::new(
            eviction::RESERVATION_TIMEOUT,
            "The pod was not bound to a node within spec.reservation.timeoutSeconds of the ClusterQueue",
        )
    }

    /// Pods of a group were made again, for something else or in another number.
    pub fn pods_changed() -> Self {
        Self::new(
            eviction::PODS_CHANGED,
            "The pods were recreated with other requests than were admitted, or in another number: queued again with the new requests",
        )
    }

    /// All pods of a group are gone, and their controller has made no others in a moment.
    pub fn pods_gone() -> Self {
        Self::new(
            eviction::PODS_GONE,
            "All pods are gone, and their controller has not recreated them: the quota is free for others",
        )
    }

    /// All pods of a group were made again, in another queue than this.
    pub fn pods_in_other_queue(queue: &str) -> Self {
        Self::new(
            eviction::QUEUE_CHANGED,
            format!(
                "The pods were recreated and do not name LocalQueue {queue:?} any more, through which the group was admitted"
            ),
        )
    }

    /// Taken out of its queue by a user.
    pub fn deactivated() -> Self {
        Self::new(
            eviction::DEACTIVATED,
            "The Workload was deactivated (spec.active is false)",
        )
    }

    /// Suspended by its user.
    pub fn paused() -> Self {
        Self::new(
            eviction::SUSPENDED,
            "Suspended by its user: its quota is freed when its pods are gone",
        )
    }

    /// The API server, or a webhook, refuses its release.
    pub fn blocked(why: &str) -> Self {
        Self::new(
            eviction::RELEASE_BLOCKED,
            format!("The job can't be released: {why}"),
        )
    }

    /// It is preempted by another one.
    pub fn preempted(by: &Preemptor, right: PreemptionRight) -> Self {
        let why = match right {
            PreemptionRight::InClusterQueue => "due to prioritization in the ClusterQueue",
            PreemptionRight::InCohortReclamation => "due to reclamation within the cohort",
            PreemptionRight::InCohortReclaimWhileBorrowing => {
                "due to reclamation within the cohort while borrowing"
            }
            PreemptionRight::InCohortFairSharing => "due to fair sharing within the cohort",
        };
        Self {
            reason: eviction::PREEMPTED,
            preempted: Some(right),
            makes_room_for: by.subject.clone(),
            message: format!("Preempted by {by} {why}"),
        }
    }

    /// Whether it is evicted because it could not use its quota: then it backs off before it is queued
    /// again, longer each time.
    pub fn is_own_failure(&self) -> bool {
        [eviction::RESERVATION_TIMEOUT, eviction::RELEASE_BLOCKED].contains(&self.reason)
    }

    /// What the user of a job or group is told.
    pub fn note(&self) -> Note {
        let message = self.message.clone();
        match self.preempted {
            Some(_) => Note::normal(event::PREEMPTED, message),
            None if self.is_own_failure() => Note::warning(event::EVICTED, message),
            None => Note::normal(event::EVICTED, message),
        }
    }

    /// What the user of a group is told whose pods are deleted because of it, and that nobody makes again: its
    /// Workload is deleted with them, so nothing else says what became of it.
    pub fn note_for_bare_group(&self) -> Note {
        let reason = self.preempted.map_or(event::EVICTED, |_| event::PREEMPTED);
        let outcome = "its pods are deleted; no controller recreates them";
        Note::warning(reason, format!("{}: {outcome}", self.message))
    }

    /// What the user of a pod is told that is deleted because of it.
    pub fn note_for_pod(&self, replacement: &Replacement) -> Note {
        let reason = self.preempted.map_or(event::EVICTED, |_| event::PREEMPTED);
        let outcome = match replacement {
            Replacement::Nobody => "deleted; no controller recreates it".to_owned(),
            Replacement::Another => {
                "deleted; its controller recreates it, and the new pod is queued".to_owned()
            }
            Replacement::OnRetry(kind) => format!(
                "deleted; its {kind} counts that as a failure, and recreates the pod only if it is configured to retry"
            ),
        };
        Note::warning(reason, format!("{}: {outcome}", self.message))
    }
}

/// Who makes another pod in place of one that is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replacement {
    /// Its controller.
    Another,
    /// Its controller, of this kind, if it retries: the pod is a step, and a deleted step has failed.
    OnRetry(String),
    /// Nobody: it has no controller.
    Nobody,
}

/// The workload that preempts others, as far as those may know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemptor {
    /// Who it is; none for a pod group of another namespace, whose name is for its own.
    pub subject: Option<Subject>,
    /// Its kind and name; none for one of another namespace.
    pub name: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// The ClusterQueue that it waits in.
    pub queue: String,
}

impl std::fmt::Display for Preemptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            priority,
            queue,
            ..
        } = self;
        let name = name.as_deref().unwrap_or("a workload of another namespace");
        write!(f, "{name} (priority {priority}, ClusterQueue {queue:?})")
    }
}

/// What a workload is told that preempts so many targets.
pub fn preempting(targets: usize) -> Note {
    let message = match targets {
        1 => "Preempting 1 workload: admitted when its pods are gone".to_owned(),
        targets => {
            format!("Preempting {targets} workloads: admitted when their pods are gone")
        }
    };
    Note::normal(event::PREEMPTING, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_crds::ConditionType;

    use super::*;
    use crate::cache::WorkloadRecord;
    use crate::cache::conditions;
    use crate::plan::fixtures::mk_group_workload;
    use crate::plan::workload::{self, Next};
    use crate::plan::writes::plan_and_notes::Present;

    #[test]
    fn a_preempted_workload_names_the_preemptor_and_the_reason() {
        let own = Preemptor {
            subject: Some(Subject::Job("u-1".into())),
            name: Some("Job \"urgent\"".to_owned()),
            priority: 100,
            queue: "team-a".to_owned(),
        };
        let stranger = Preemptor {
            subject: Some(Subject::Job("u-1".into())),
            name: None,
            priority: -1,
            queue: "team-b".to_owned(),
        };
        let told = [
            Cause::preempted(&own, PreemptionRight::InClusterQueue),
            Cause::preempted(&stranger, PreemptionRight::InCohortReclamation),
            Cause::preempted(&stranger, PreemptionRight::InCohortReclaimWhileBorrowing),
            Cause::preempted(&stranger, PreemptionRight::InCohortFairSharing),
        ]
        .map(|cause| cause.note().message);
        let foreign = |why: &str| {
            format!(
                "Preempted by a workload of another namespace (priority -1, ClusterQueue \"team-b\") {why}"
            )
        };
        assert_eq!(
            told,
            [
                "Preempted by Job \"urgent\" (priority 100, ClusterQueue \"team-a\") \
                 due to prioritization in the ClusterQueue"
                    .to_owned(),
                foreign("due to reclamation within the cohort"),
                foreign("due to reclamation within the cohort while borrowing"),
                foreign("due to fair sharing within the cohort"),
            ]
        );
    }

    #[test]
    fn a_preempted_workload_says_so_until_it_is_admitted_again() {
        let admission = json!({"clusterQueue": "team-a", "podSetAssignments": []});
        let (_, mut record) = mk_group_workload(&json!([]), &json!({ "admission": admission }));
        let said = |record: &WorkloadRecord, kind| {
            let found = conditions::find(&record.status.conditions, kind);
            found.map(|c| (c.status.clone(), c.reason.clone()))
        };
        let is = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
        let by = Preemptor {
            subject: Some(Subject::Job("u-1".into())),
            name: None,
            priority: 1,
            queue: "team-b".to_owned(),
        };
        let cause = Cause::preempted(&by, PreemptionRight::InCohortFairSharing);
        let now = Present::UNIX_EPOCH;
        record.status = workload::evicted(&record, &cause, now);
        assert_eq!(
            said(&record, ConditionType::Evicted),
            is("True", eviction::PREEMPTED)
        );
        assert_eq!(
            said(&record, ConditionType::Preempted),
            is("True", "InCohortFairSharing")
        );
        assert_eq!(record.status.makes_room_for.as_deref(), Some("u-1"));
        assert_eq!(record.status.requeue_state, None, "it waits again at once");
        let admission = record.status.admission.clone().unwrap();
        record.status = workload::requeued(&record, Next::Queue, now);
        assert_eq!(record.status.makes_room_for, None, "it has left");
        assert_eq!(
            said(&record, ConditionType::Preempted),
            is("True", "InCohortFairSharing")
        );
        record.status = workload::admitted(&record, admission, false, now);
        for kind in [ConditionType::Evicted, ConditionType::Preempted] {
            assert_eq!(said(&record, kind), is("False", "QuotaReserved"));
        }
    }

    #[test]
    fn only_who_could_not_use_its_quota_backs_off() {
        assert!(Cause::timed_out().is_own_failure());
        assert!(Cause::blocked("no").is_own_failure());
        assert!(!Cause::cluster_queue_stopped().is_own_failure());
    }
}
