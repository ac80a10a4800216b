//! The Workload of a job: what its spec and its status say at each turn of the job's life.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ObjectMeta;
use sluice_crds::{
    JOB_UID_LABEL, PodSetAssignment, PriorityClassRef, Quantity, RequeueState, Workload,
    WorkloadSpec, WorkloadStatus,
};
use sluice_kinds::CompiledKind;
use sluice_kinds::metadata::api_version;
use sluice_kinds::patch::Placing;
use sluice_kinds::template::Placement;
use sluice_kinds::view::{Finished, PodSetView, bad_min_counts};
use sluice_translate as translate;

use super::cause::Cause;
use super::reservation::once_more;
use super::{Note, Now, progress};
use crate::conditions::{self, Saying, Type};
use crate::world::workload::workload_name;
use crate::world::{JobKey, JobRecord, WorkloadRecord};

/// The reason of QuotaReserved for a Workload that stands back before it waits again.
pub const BACKING_OFF: &str = "BackingOff";

/// A priority and where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Priority {
    /// The priority.
    pub value: i32,
    /// The class, if there is one.
    pub class: Option<PriorityClassRef>,
}

/// The spec of the Workload of a job that asks for `pod_sets`. With `record`, what Sluice put into
/// the templates is left out.
pub fn spec(
    queue: &str,
    pod_sets: &[PodSetView],
    record: Option<&WorkloadRecord>,
    priority: &Priority,
) -> WorkloadSpec {
    let pod_sets = pod_sets.iter().map(|view| {
        let own = record.and_then(|record| own_placement(record, view));
        let count = record.map_or(view.count, |record| own_count(record, view));
        translate::pod_set_record(view, own.as_ref().unwrap_or(&view.placement), count)
    });
    WorkloadSpec {
        queue_name: queue.to_owned(),
        pod_sets: pod_sets.collect(),
        priority: priority.value,
        priority_class_ref: priority.class.clone(),
        active: record.is_none_or(|record| record.spec.active),
    }
}

/// The Workload of a job, to be created.
pub fn object(key: &JobKey, job: &JobRecord, kind: &CompiledKind, spec: WorkloadSpec) -> Workload {
    Workload {
        metadata: ObjectMeta {
            name: Some(workload_name(&key.name, &job.uid)),
            namespace: Some(key.namespace.to_string()),
            labels: Some([(JOB_UID_LABEL.to_owned(), job.uid.to_string())].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: api_version(&kind.group, &kind.version),
                kind: kind.kind.clone(),
                name: key.name.to_string(),
                uid: job.uid.to_string(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// What is to be said of each pod set when it is let go.
pub fn placings<'a>(record: &WorkloadRecord, pod_sets: &'a [PodSetView]) -> Vec<Placing<'a>> {
    let placings = pod_sets.iter().map(|set| {
        let own = own_placement(record, set).unwrap_or_else(|| set.placement.clone());
        let count = own_count(record, set);
        Placing {
            set,
            to: own.with(&assigned_placement(record, &set.name)),
            count: reduced_count(record, &set.name).map_or(count, |reduced| reduced.min(count)),
        }
    });
    placings.collect()
}

/// What is to be said again of those pod sets of which Sluice has said something else.
pub fn restorings<'a>(record: &WorkloadRecord, pod_sets: &'a [PodSetView]) -> Vec<Placing<'a>> {
    let restorings = placings(record, pod_sets).into_iter().map(|placed| {
        let set = placed.set;
        let own = own_placement(record, set).filter(|_| set.placement == placed.to);
        Placing {
            set,
            to: own.unwrap_or_else(|| set.placement.clone()),
            count: own_count(record, set),
        }
    });
    restorings
        .filter(|own| own.set.placement != own.to || own.set.count != own.count)
        .collect()
}

/// The user's own count of a pod set that may have been let go with fewer pods: it is the recorded one,
/// if there are as many pods as were admitted.
fn own_count(record: &WorkloadRecord, view: &PodSetView) -> u32 {
    let mut recorded = record.spec.pod_sets.iter();
    let recorded = recorded.find(|set| set.name == *view.name);
    let recorded = recorded.and_then(|set| u32::try_from(set.count).ok());
    let is_reduced =
        view.count_at.is_some() && reduced_count(record, &view.name) == Some(view.count);
    recorded.filter(|_| is_reduced).unwrap_or(view.count)
}

/// How many pods of a set were admitted, if these are fewer than it asked for.
fn reduced_count(record: &WorkloadRecord, pod_set: &str) -> Option<u32> {
    let mut recorded = record.spec.pod_sets.iter();
    let recorded = recorded.find(|set| set.name == pod_set)?;
    let admitted = assignment(record, pod_set)?.count;
    u32::try_from(admitted)
        .ok()
        .filter(|_| admitted < recorded.count)
}

/// The user's own placement of a pod set whose template may hold what Sluice put in: it is the
/// recorded one, if the template says that or what follows from it.
fn own_placement(record: &WorkloadRecord, view: &PodSetView) -> Option<Placement> {
    let recorded = record
        .spec
        .pod_sets
        .iter()
        .find(|set| set.name == *view.name)?;
    let own = Placement {
        node_selector: recorded.node_selector.clone(),
        tolerations: recorded.tolerations.clone(),
    };
    let placed = own.with(&assigned_placement(record, &view.name));
    (view.placement == own || view.placement == placed).then_some(own)
}

fn assigned_placement(record: &WorkloadRecord, pod_set: &str) -> Placement {
    assignment(record, pod_set)
        .map(|assignment| Placement {
            node_selector: assignment.node_selector.clone(),
            tolerations: assignment.tolerations.clone(),
        })
        .unwrap_or_default()
}

fn assignment<'a>(record: &'a WorkloadRecord, pod_set: &str) -> Option<&'a PodSetAssignment> {
    let admission = record.status.admission.as_ref()?;
    let mut assignments = admission.pod_set_assignments.iter();
    assignments.find(|assignment| assignment.name == pod_set)
}

/// How closely what a job asks for must be what it was admitted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It is not let go yet: all must be equal.
    Exact,
    /// It runs: fewer pods are fine.
    Within,
    /// Its pods are let go one by one, as many as were admitted: what each asks for counts.
    EachPodWithin,
}

/// Whether what a job asks for is what it was admitted with.
pub fn covers(record: &WorkloadRecord, pod_sets: &[PodSetView], fit: Fit) -> bool {
    if fit == Fit::Exact {
        let queue = &record.spec.queue_name;
        let asked = spec(queue, pod_sets, Some(record), &Priority::default());
        return bad_min_counts(pod_sets).is_empty() && asked.pod_sets == record.spec.pod_sets;
    }
    pod_sets.iter().all(|view| {
        let mut recorded = record.spec.pod_sets.iter();
        let Some(known) = recorded.find(|known| known.name == *view.name) else {
            return false;
        };
        // What a namespace adds to pods may have changed since these were made.
        let asks_no_more = view.declared.iter().all(|(name, asked)| {
            let given = known.requests.get(name).map(Quantity::nanos);
            given.is_some_and(|given| given.is_ok_and(|given| *asked <= given))
        });
        let given = reduced_count(record, &view.name).map_or(known.count, as_count);
        let is_no_more = as_count(view.count) <= given;
        (fit == Fit::EachPodWithin || is_no_more) && asks_no_more
    })
}

fn as_count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Whether a pod of an admitted job asks for no more than each pod of its set was admitted with.
pub fn covers_pod(record: &WorkloadRecord, pod_set: &str, asks: &PodSetView) -> bool {
    let known = record.spec.pod_sets.iter().find(|set| set.name == pod_set);
    known.is_some_and(|known| {
        asks.requests.iter().all(|(name, asked)| {
            let given = known.requests.get(name).map(Quantity::nanos);
            given.is_some_and(|given| given.is_ok_and(|given| *asked <= given))
        })
    })
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
        Saying {
            kind: Type::QuotaReserved,
            is_true: true,
            reason: "QuotaReserved",
            message: format!("Holds quota in ClusterQueue {queue:?}"),
        },
        Saying {
            kind: Type::Admitted,
            is_true: true,
            reason: "Admitted",
            message: format!("Admitted by ClusterQueue {queue:?}: the job is let go"),
        },
    ];
    let ended = [Type::Evicted, Type::Preempted].into_iter();
    let ended = ended.filter(|kind| conditions::is_true(&record.status.conditions, *kind));
    sayings.extend(ended.map(|kind| Saying {
        kind,
        is_true: false,
        reason: "QuotaReserved",
        message: format!("Admitted again by ClusterQueue {queue:?}"),
    }));
    if conditions::is_true(&record.status.conditions, Type::Requeued) {
        sayings.push(Saying {
            kind: Type::Requeued,
            is_true: false,
            reason: "Admitted",
            message: "It has left the queue".to_owned(),
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

/// The status of a Workload that has to go.
pub fn evicted(record: &WorkloadRecord, cause: &Cause, now: Now) -> WorkloadStatus {
    let mut sayings = vec![
        Saying {
            kind: Type::Evicted,
            is_true: true,
            reason: cause.reason,
            message: cause.message.clone(),
        },
        Saying {
            kind: Type::Admitted,
            is_true: false,
            reason: "Evicted",
            message: "Its quota is freed when its pods are gone".to_owned(),
        },
    ];
    if let Some(right) = cause.preempted {
        sayings.push(Saying {
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
        makes_room_for: cause.makes_room_for.clone(),
        reclaimable_pods: record.status.reclaimable_pods.clone(),
    }
}

/// The status of a Workload that has gone and waits again, at once or after `backoff`.
pub fn requeued(
    record: &WorkloadRecord,
    backoff: Option<SignedDuration>,
    now: Now,
) -> WorkloadStatus {
    let requeue_at = backoff.and_then(|backoff| now.checked_add(backoff).ok());
    let (waits, requeued) = match (record.spec.active, requeue_at) {
        (false, _) => (
            "It is deactivated and does not wait for quota: set spec.active to true to queue it again".to_owned(),
            Saying {
                kind: Type::Requeued,
                is_true: false,
                reason: "Deactivated",
                message: "It is deactivated".to_owned(),
            },
        ),
        (true, Some(at)) => (
            stands_back(at),
            Saying {
                kind: Type::Requeued,
                is_true: false,
                reason: "Backoff",
                message: format!("Put back into its queue at {}", in_seconds(at)),
            },
        ),
        (true, None) => (
            "Waits for quota again after its eviction".to_owned(),
            Saying {
                kind: Type::Requeued,
                is_true: true,
                reason: "Evicted",
                message: "Put back into its queue".to_owned(),
            },
        ),
    };
    let quota = Saying {
        kind: Type::QuotaReserved,
        is_true: false,
        reason: match requeue_at {
            _ if !record.spec.active => "Deactivated",
            Some(_) => BACKING_OFF,
            None => "Pending",
        },
        message: waits,
    };
    let requeue_state = record
        .status
        .requeue_state
        .as_ref()
        .filter(|_| record.spec.active);
    WorkloadStatus {
        conditions: said(record, vec![quota, requeued], now),
        admission: None,
        requeue_state: requeue_state.map(|state| RequeueState {
            count: state.count,
            requeue_at: requeue_at.map(Time),
        }),
        makes_room_for: None,
        reclaimable_pods: Vec::new(),
    }
}

/// What a Workload waits for that stands back until then.
pub fn stands_back(until: Timestamp) -> String {
    format!(
        "Stands back until {}, as it could not use its quota; then waits for quota again",
        in_seconds(until)
    )
}

fn in_seconds(at: Timestamp) -> impl std::fmt::Display {
    at.strftime("%Y-%m-%dT%H:%M:%SZ")
}

/// The status of a Workload whose job has ended.
pub fn finished(record: &WorkloadRecord, finished: &Finished, now: Now) -> WorkloadStatus {
    let (reason, text) = outcome(finished);
    let message = if finished.message.is_empty() {
        text.to_owned()
    } else {
        finished.message.clone()
    };
    let mut sayings = vec![Saying {
        kind: Type::Finished,
        is_true: true,
        reason,
        message,
    }];
    if let Some(admission) = &record.status.admission {
        let queue = &admission.cluster_queue;
        sayings.push(Saying {
            kind: Type::QuotaReserved,
            is_true: true,
            reason: "QuotaReserved",
            message: format!("Held quota in ClusterQueue {queue:?} until it finished"),
        });
    }
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
    reason: &'static str,
    message: String,
    now: Now,
) -> Option<WorkloadStatus> {
    let mut status = record.status.clone();
    let saying = Saying {
        kind: Type::QuotaReserved,
        is_true: false,
        reason,
        message,
    };
    conditions::say(&mut status.conditions, saying, record.generation, now).then_some(status)
}

fn said(
    record: &WorkloadRecord,
    sayings: Vec<Saying>,
    now: Now,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let mut conditions = record.status.conditions.clone();
    for saying in sayings {
        conditions::say(&mut conditions, saying, record.generation, now);
    }
    conditions
}
