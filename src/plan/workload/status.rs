//! What the status of a Workload says at each turn of its job's life. That a condition is written only when
//! a reader would be told something else is seen to by `crate::cache::conditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::reasons::event;
use sluice_crds::{ConditionType, RequeueState, WorkloadStatus};
use sluice_kinds::view::Finished;

use crate::cache::WorkloadRecord;
use crate::cache::conditions::{self, ConditionUpdate};
use crate::plan::evictions::cause::Cause;
use crate::plan::evictions::requeue_backoff::once_more;
use crate::plan::evictions::stall;
use crate::plan::progress;
use crate::plan::workload::pending_reason::{DEACTIVATED, NotReserved, backs_off, in_seconds};
use crate::plan::writes::plan_and_notes::{Note, Present};

/// What a Workload waits for whose user has suspended the job, by this field.
pub fn waits_for_user(field: &str) -> String {
    format!(
        "Suspended by its user: not queued, and no quota is reserved; set {field} to false to queue it again"
    )
}

/// What is told of a Workload whose job is being deleted.
const NOT_QUEUED_AGAIN: &str = "The job is being deleted: it is not queued again";

/// The reason of `Requeued` while a Workload backs off.
const BACKOFF: &str = "Backoff";

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
    now: Present,
) -> WorkloadStatus {
    let queue = &admission.cluster_queue;
    let mut sayings = vec![
        ConditionUpdate {
            kind: ConditionType::QuotaReserved,
            is_true: true,
            reason: "QuotaReserved",
            message: format!("Quota reserved in ClusterQueue {queue:?}"),
        },
        ConditionUpdate {
            kind: ConditionType::Admitted,
            is_true: true,
            reason: "Admitted",
            message: format!("Admitted by ClusterQueue {queue:?}"),
        },
    ];
    let ended = [ConditionType::Evicted, ConditionType::Preempted].into_iter();
    let ended = ended.filter(|kind| conditions::is_true(&record.status.conditions, *kind));
    sayings.extend(ended.map(|kind| ConditionUpdate {
        kind,
        is_true: false,
        reason: "QuotaReserved",
        message: format!("Admitted again by ClusterQueue {queue:?}"),
    }));
    // It may say that it backs off until a time that has passed.
    if conditions::find(&record.status.conditions, ConditionType::Requeued).is_some() {
        sayings.push(ConditionUpdate {
            kind: ConditionType::Requeued,
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
pub fn evicted(record: &WorkloadRecord, cause: &Cause, now: Present) -> WorkloadStatus {
    let mut sayings = vec![
        ConditionUpdate {
            kind: ConditionType::Evicted,
            is_true: true,
            reason: cause.reason,
            message: cause.message.clone(),
        },
        ConditionUpdate {
            kind: ConditionType::Admitted,
            is_true: false,
            reason: "Evicted",
            message: "Its quota is freed when its pods are gone".to_owned(),
        },
    ];
    if let Some(right) = cause.preempted {
        sayings.push(ConditionUpdate {
            kind: ConditionType::Preempted,
            is_true: true,
            reason: right.reason(),
            message: cause.message.clone(),
        });
    }
    if conditions::is_true(&record.status.conditions, ConditionType::PodsReady) {
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

/// What a Workload waits for that has given its quota back.
enum Waits {
    /// For nothing: its job is being deleted.
    Never,
    /// Until somebody reactivates it.
    Deactivated,
    /// For its user, as this says.
    OnHold(String),
    /// Until then, and then for quota.
    BackingOff(Timestamp),
    /// For quota.
    ForQuota,
}

impl Waits {
    fn of(record: &WorkloadRecord, next: Next, now: Present) -> Self {
        match next {
            Next::Never => Self::Never,
            _ if !record.spec.active => Self::Deactivated,
            Next::User(waits) => Self::OnHold(waits),
            Next::QueueAfter(backoff) => {
                let at = now.checked_add(backoff).ok();
                at.map_or(Self::ForQuota, Self::BackingOff)
            }
            Next::Queue => Self::ForQuota,
        }
    }

    /// The reason of `QuotaReserved`, and its message.
    fn not_reserved(&self) -> (NotReserved, String) {
        match self {
            Self::Never => (NotReserved::Deleted, NOT_QUEUED_AGAIN.to_owned()),
            Self::Deactivated => (NotReserved::Deactivated, DEACTIVATED.to_owned()),
            Self::OnHold(waits) => (NotReserved::OnHold, waits.clone()),
            Self::BackingOff(at) => (NotReserved::BACKING_OFF, backs_off(*at)),
            Self::ForQuota => (
                NotReserved::PENDING_EVALUATION,
                "Queued again after its eviction: waits for quota".to_owned(),
            ),
        }
    }

    /// What `Requeued` says.
    fn requeued(&self) -> ConditionUpdate {
        let (reason, message) = match self {
            Self::Never => (NotReserved::Deleted.as_str(), NOT_QUEUED_AGAIN.to_owned()),
            Self::Deactivated => (
                NotReserved::Deactivated.as_str(),
                "The Workload is deactivated".to_owned(),
            ),
            Self::OnHold(_) => (
                NotReserved::OnHold.as_str(),
                "Suspended by its user".to_owned(),
            ),
            Self::BackingOff(at) => (
                BACKOFF,
                format!(
                    "Backs off until {}; then it is queued again",
                    in_seconds(*at)
                ),
            ),
            Self::ForQuota => ("Evicted", "Queued again".to_owned()),
        };
        ConditionUpdate {
            kind: ConditionType::Requeued,
            is_true: matches!(self, Self::ForQuota),
            reason,
            message,
        }
    }
}

/// The status of a Workload that has given its quota back.
pub fn requeued(record: &WorkloadRecord, next: Next, now: Present) -> WorkloadStatus {
    let waits = Waits::of(record, next, now);
    let (reason, message) = waits.not_reserved();
    let quota = ConditionUpdate {
        kind: ConditionType::QuotaReserved,
        is_true: false,
        reason: reason.as_str(),
        message,
    };
    let requeue_at = match waits {
        Waits::BackingOff(at) => Some(Time(at)),
        _ => None,
    };
    let requeue_state = (record.status.requeue_state.as_ref()).filter(|_| record.spec.active);
    let sayings = [quota, waits.requeued()].into_iter();
    WorkloadStatus {
        conditions: said(record, sayings.chain(stall::ended(record)).collect(), now),
        admission: None,
        requeue_state: requeue_state.map(|state| RequeueState {
            count: state.count,
            requeue_at,
        }),
        makes_room_for: None,
        reclaimable_pods: Vec::new(),
    }
}

/// The status of a Workload whose job has ended.
pub fn finished(record: &WorkloadRecord, finished: &Finished, now: Present) -> WorkloadStatus {
    let (reason, text) = outcome(finished);
    let message = if finished.message.is_empty() {
        text.to_owned()
    } else {
        finished.message.clone()
    };
    let mut sayings = vec![ConditionUpdate {
        kind: ConditionType::Finished,
        is_true: true,
        reason,
        message,
    }];
    if let Some(admission) = &record.status.admission {
        let queue = &admission.cluster_queue;
        sayings.push(ConditionUpdate {
            kind: ConditionType::QuotaReserved,
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
    Note::normal(event::FINISHED, format!("{text}; its quota is free"))
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
    now: Present,
) -> Option<WorkloadStatus> {
    let mut status = record.status.clone();
    let update = ConditionUpdate {
        kind: ConditionType::QuotaReserved,
        is_true: false,
        reason: reason.as_str(),
        message,
    };
    if !conditions::set(&mut status.conditions, update, record.generation, now) {
        return None;
    }
    if let Some(again) = queued_again(record, reason) {
        conditions::set(&mut status.conditions, again, record.generation, now);
    }
    Some(status)
}

/// That what kept a Workload out of its queue is over, if it now waits for something else.
fn queued_again(record: &WorkloadRecord, reason: NotReserved) -> Option<ConditionUpdate> {
    let said = conditions::find(&record.status.conditions, ConditionType::Requeued)?;
    let keeps_out = [
        NotReserved::BACKING_OFF,
        NotReserved::Deactivated,
        NotReserved::OnHold,
        NotReserved::Deleted,
    ];
    if said.status != "False" || keeps_out.contains(&reason) {
        return None;
    }
    let over = match said.reason.as_str() {
        BACKOFF => "BackoffFinished",
        reason if reason == NotReserved::Deactivated.as_str() => "Reactivated",
        reason if reason == NotReserved::OnHold.as_str() => "Resumed",
        _ => return None,
    };
    Some(ConditionUpdate {
        kind: ConditionType::Requeued,
        is_true: true,
        reason: over,
        message: "Queued again".to_owned(),
    })
}

fn said(
    record: &WorkloadRecord,
    sayings: Vec<ConditionUpdate>,
    now: Present,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let mut conditions = record.status.conditions.clone();
    for update in sayings {
        conditions::set(&mut conditions, update, record.generation, now);
    }
    conditions
}
