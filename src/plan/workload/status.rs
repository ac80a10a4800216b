//! What the status of a Workload says at each turn of its job's life. That a condition is written only when
//! a reader would be told something else is seen to by `crate::cache::conditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use sluice_crds::{RequeueState, WorkloadStatus};
use sluice_kinds::view::Finished;

use crate::cache::WorkloadRecord;
use crate::cache::conditions::{self, ConditionUpdate, Type};
use crate::plan::evictions::cause::Cause;
use crate::plan::evictions::requeue_backoff::once_more;
use crate::plan::evictions::stall;
use crate::plan::progress;
use crate::plan::workload::pending_reason::{DEACTIVATED, NotReserved, backs_off, in_seconds};
use crate::plan::writes::plan_and_notes::{Note, Now};

/// What a Workload waits for whose user has suspended the job, by this field.
pub fn waits_for_user(field: &str) -> String {
    format!(
        "Suspended by its user: not queued, and no quota is reserved; set {field} to false to queue it again"
    )
}

/// What is told of a Workload whose job is being deleted.
const NOT_QUEUED_AGAIN: &str = "The job is being deleted: it is not queued again";

/// What becomes of a Workload that has given its quota back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It waits in its queue again.
    Queue,
    /// It does so after this time.
    QueueAfter(SignedDuration),
    /// It waits for its user, as this says.
    User(String),
    /// It waits for nothing: its job is being deleted.
    Never,
}

/// The status of a Workload that is admitted. `tells_readiness` says whether its job's kind does.
pub fn admitted(
    record: &WorkloadRecord,
    admission: sluice_crds::Admission,
    tells_readiness: bool,
    now: Now,
) -> WorkloadStatus {
    let queue = &admission.cluster_queue;
    let mut sayings = vec![
        ConditionUpdate {
            kind: Type::QuotaReserved,
            is_true: true,
            reason: "QuotaReserved",
            message: format!("Quota reserved in ClusterQueue {queue:?}"),
        },
        ConditionUpdate {
            kind: Type::Admitted,
            is_true: true,
            reason: "Admitted",
            message: format!("Admitted by ClusterQueue {queue:?}"),
        },
    ];
    let ended = [Type::Evicted, Type::Preempted].into_iter();
    let ended = ended.filter(|kind| conditions::is_true(&record.status.conditions, *kind));
    sayings.extend(ended.map(|kind| ConditionUpdate {
        kind,
        is_true: false,
        reason: "QuotaReserved",
        message: format!("Admitted again by ClusterQueue {queue:?}"),
    }));
    // It may say that it backs off until a time that has passed.
    if conditions::find(&record.status.conditions, Type::Requeued).is_some() {
        sayings.push(ConditionUpdate {
            kind: Type::Requeued,
            is_true: false,
            reason: "Admitted",
            message: "The Workload was admitted".to_owned(),
        });
    }
    if tells_readiness {
        sayings.push(progress::not_started());
    }
    WorkloadStatus {
        conditions: said(record, sayings, now),
        admission: Some(admission),
        requeue_state: record.status.requeue_state.clone(),
        makes_room_for: None,
        reclaimable_pods: Vec::new(),
    }
}

/// The status of an evicted Workload.
pub fn evicted(record: &WorkloadRecord, cause: &Cause, now: Now) -> WorkloadStatus {
    let mut sayings = vec![
        ConditionUpdate {
            kind: Type::Evicted,
            is_true: true,
            reason: cause.reason,
            message: cause.message.clone(),
        },
        ConditionUpdate {
            kind: Type::Admitted,
            is_true: false,
            reason: "Evicted",
            message: "Its quota is freed when its pods are gone".to_owned(),
        },
    ];
    if let Some(right) = cause.preempted {
        sayings.push(ConditionUpdate {
            kind: Type::Preempted,
            is_true: true,
            reason: right.reason(),
            message: cause.message.clone(),
        });
    }
    if conditions::is_true(&record.status.conditions, Type::PodsReady) {
        sayings.push(progress::not_started());
    }
    WorkloadStatus {
        conditions: said(record, sayings, now),
        admission: record.status.admission.clone(),
        requeue_state: cause.is_own_failure().then(|| once_more(record)),
        makes_room_for: cause.makes_room_for.as_ref().map(ToString::to_string),
        reclaimable_pods: record.status.reclaimable_pods.clone(),
    }
}

/// The status of a Workload that has given its quota back.
pub fn requeued(record: &WorkloadRecord, next: Next, now: Now) -> WorkloadStatus {
    let requeue_at = match next {
        Next::QueueAfter(backoff) => now.checked_add(backoff).ok(),
        Next::Queue | Next::User(_) | Next::Never => None,
    };
    let is_over = next == Next::Never;
    let paused = match next {
        Next::User(waits) if record.spec.active => Some(waits),
        Next::Queue | Next::QueueAfter(_) | Next::User(_) | Next::Never => None,
    };
    let is_paused = paused.is_some();
    let (waits, requeued) = match (paused, record.spec.active, requeue_at) {
        (Some(waits), ..) => (
            waits,
            ConditionUpdate {
                kind: Type::Requeued,
                is_true: false,
                reason: NotReserved::OnHold.as_str(),
                message: "Suspended by its user".to_owned(),
            },
        ),
        _ if is_over => (
            NOT_QUEUED_AGAIN.to_owned(),
            ConditionUpdate {
                kind: Type::Requeued,
                is_true: false,
                reason: NotReserved::Deleted.as_str(),
                message: NOT_QUEUED_AGAIN.to_owned(),
            },
        ),
        (None, false, _) => (
            DEACTIVATED.to_owned(),
            ConditionUpdate {
                kind: Type::Requeued,
                is_true: false,
                reason: NotReserved::Deactivated.as_str(),
                message: "The Workload is deactivated".to_owned(),
            },
        ),
        (None, true, Some(at)) => (
            backs_off(at),
            ConditionUpdate {
                kind: Type::Requeued,
                is_true: false,
                reason: "Backoff",
                message: format!(
                    "Backs off until {}; then it is queued again",
                    in_seconds(at)
                ),
            },
        ),
        (None, true, None) => (
            "Queued again after its eviction: waits for quota".to_owned(),
            ConditionUpdate {
                kind: Type::Requeued,
                is_true: true,
                reason: "Evicted",
                message: "Queued again".to_owned(),
            },
        ),
    };
    let quota = ConditionUpdate {
        kind: Type::QuotaReserved,
        is_true: false,
        reason: match requeue_at {
            _ if is_over => NotReserved::Deleted,
            _ if !record.spec.active => NotReserved::Deactivated,
            _ if is_paused => NotReserved::OnHold,
            Some(_) => NotReserved::BACKING_OFF,
            None => NotReserved::PENDING_EVALUATION,
        }
        .as_str(),
        message: waits,
    };
    let requeue_state = record
        .status
        .requeue_state
        .as_ref()
        .filter(|_| record.spec.active);
    let sayings = [quota, requeued].into_iter().chain(stall::ended(record));
    WorkloadStatus {
        conditions: said(record, sayings.collect(), now),
        admission: None,
        requeue_state: requeue_state.map(|state| RequeueState {
            count: state.count,
            requeue_at: requeue_at.map(Time),
        }),
        makes_room_for: None,
        reclaimable_pods: Vec::new(),
    }
}

/// The status of a Workload whose job has ended.
pub fn finished(record: &WorkloadRecord, finished: &Finished, now: Now) -> WorkloadStatus {
    let (reason, text) = outcome(finished);
    let message = if finished.message.is_empty() {
        text.to_owned()
    } else {
        finished.message.clone()
    };
    let mut sayings = vec![ConditionUpdate {
        kind: Type::Finished,
        is_true: true,
        reason,
        message,
    }];
    if let Some(admission) = &record.status.admission {
        let queue = &admission.cluster_queue;
        sayings.push(ConditionUpdate {
            kind: Type::QuotaReserved,
            is_true: true,
            reason: "QuotaReserved",
            message: format!("Quota was reserved in ClusterQueue {queue:?} until it finished"),
        });
    }
    sayings.extend(stall::ended(record));
    WorkloadStatus {
        conditions: said(record, sayings, now),
        admission: record.status.admission.clone(),
        requeue_state: record.status.requeue_state.clone(),
        makes_room_for: None,
        reclaimable_pods: record.status.reclaimable_pods.clone(),
    }
}

/// What the user is told when a job has ended.
pub fn finished_note(finished: &Finished) -> Note {
    let (_, text) = outcome(finished);
    Note::normal("Finished", format!("{text}; its quota is free"))
}

fn outcome(finished: &Finished) -> (&'static str, &'static str) {
    if finished.succeeded {
        ("Succeeded", "The job finished successfully")
    } else {
        ("Failed", "The job failed")
    }
}

/// The status of a Workload that waits, if it is to say something new.
pub fn waiting(
    record: &WorkloadRecord,
    reason: NotReserved,
    message: String,
    now: Now,
) -> Option<WorkloadStatus> {
    let mut status = record.status.clone();
    let update = ConditionUpdate {
        kind: Type::QuotaReserved,
        is_true: false,
        reason: reason.as_str(),
        message,
    };
    conditions::set(&mut status.conditions, update, record.generation, now).then_some(status)
}

fn said(
    record: &WorkloadRecord,
    sayings: Vec<ConditionUpdate>,
    now: Now,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let mut conditions = record.status.conditions.clone();
    for update in sayings {
        conditions::set(&mut conditions, update, record.generation, now);
    }
    conditions
}
