//! How far a job, a group or a pod has come for the engine, by its record: waiting, admitted, being evicted, finished,
//! or not considered. So this says when quota is free again, what a restart counts, and what may wait for quota.
//!
//! What else the engine is told of it is not here, but in `controller/engine_sync.rs`.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use sluice_engine::{Admission, Time, WorkloadState};
use sluice_kinds::Problem;
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodAdmission;
use sluice_kinds::view::{LabelledQueue, PodSetView};
use sluice_translate as translate;

use crate::cache::job::Reading;
use crate::cache::{JobRecord, PodRecord, Subject, WorkloadRecord};
use crate::plan::evictions::stall::pod_in_time_until;
use crate::plan::evictions::unused_quota;
use crate::plan::workload::{Fit, covers};
use crate::plan::writes::plan_and_notes::Present;
use crate::process::hashing::HashMap;

/// What an admission does not use.
#[derive(Debug, Clone, Copy)]
pub struct Unused {
    /// Since when a pod of it has no node, or it has no pods.
    pub since: Option<Timestamp>,
    /// Whether all its pods have had nodes before.
    pub had_nodes: bool,
}

/// All that the state of a job or group with a Workload depends on.
pub struct WorkloadSituation<'a> {
    /// Its Workload.
    pub workload: &'a WorkloadRecord,
    /// The job, if there is one.
    pub job: Option<&'a JobRecord>,
    /// What its admission does not use.
    pub unused: Unused,
    /// How many pods of each pod set are bound to nodes.
    pub bound_pods: &'a dyn Fn() -> HashMap<String, u32>,
    /// Whether an admission of it is under way.
    pub admission_in_flight: bool,
    /// Whether the engine counts usage of it, and a write of it is under way. A watch may show what was written before
    /// the reply does.
    pub awaits_reply: bool,
    /// Whether no write of it is under way that matters, and it does not back off after one.
    pub is_free: bool,
    /// Whether nothing but its record keeps it from being admitted.
    pub is_eligible: &'a dyn Fn() -> bool,
}

/// The state of a job or group with a Workload; none while the engine assumes an admission that is under way, or until
/// the reply comes to what queues it again: it goes from evicted to pending at once, as another change between the two
/// would end the preemption round (docs/queues.md, "Preemption comes to an end").
///
/// # Errors
/// Its admission can't be counted.
pub fn state(situation: &WorkloadSituation<'_>) -> Result<Option<WorkloadState>, Vec<Problem>> {
    let WorkloadSituation {
        workload,
        job,
        unused,
        ..
    } = situation;
    let state = match &workload.status.admission {
        _ if workload.is_finished() => WorkloadState::Finished,
        Some(admission) => {
            let ended = |pod_set: &str| workload.reclaimed(pod_set);
            let since = unused_quota::usage_since(workload).map_or(Time::default(), time);
            let counted = translate::admission(admission, ended, &(situation.bound_pods)());
            match counted.map(|admission| Admission { since, ..admission })? {
                // What is deleted together with its pods goes by itself: nobody else has to make
                // quota meanwhile. Nothing waits for what does not end.
                admission
                    if (workload.is_evicting() || job.is_some_and(|job| job.deletes_pods))
                        && !workload.is_stalled() =>
                {
                    let whom = workload.status.makes_room_for.as_deref();
                    WorkloadState::Evicting(admission, whom.map(|whom| Subject::from(whom).id()))
                }
                admission => WorkloadState::Admitted(Admission {
                    unused_since: unused.since.map(time),
                    had_nodes: unused.had_nodes,
                    ..admission
                }),
            }
        }
        // The engine assumes an admission that is under way.
        None if situation.admission_in_flight || situation.awaits_reply => return Ok(None),
        None if situation.is_free
            && !workload.deleting
            && workload.spec.active
            && (situation.is_eligible)() =>
        {
            WorkloadState::Pending
        }
        None => WorkloadState::Inactive,
    };
    Ok(Some(state))
}

/// The priority of a job or group with a Workload. A job that is being deleted is given up by its user: it is preempted
/// before any other.
pub fn priority(workload: &WorkloadRecord, job: Option<&JobRecord>) -> i32 {
    if job.is_some_and(|job| job.deleting) {
        i32::MIN
    } else {
        workload.spec.priority
    }
}

/// Whether a job with a Workload may be admitted: its gates are gone and it asks for what is recorded.
pub fn is_eligible(job: &JobRecord, workload: &WorkloadRecord) -> bool {
    let is_queued =
        matches!(&job.queue, LabelledQueue::Named(queue) if *queue == workload.spec.queue_name);
    let reading = job.reading.as_ref();
    let is_held = job.is_held() || job.is_paused();
    let is_recorded = reading.is_ok_and(|reading| {
        reading.finished.is_none()
            && reading.refusals.is_empty()
            && (reading.suspended || job.hold == Hold::Pods)
            && reading
                .pod_sets
                .as_ref()
                .is_ok_and(|sets| covers(workload, sets, Fit::Exact))
    });
    let can_be_held = job.hold == Hold::Suspend || job.is_gated;
    is_queued && is_recorded && !is_held && !job.deleting && can_be_held
}

/// Whether a job whose Workload somebody has deleted may run: its quota is not free yet.
pub fn may_run_without_workload(job: &JobRecord, may_be_unsuspended: impl Fn() -> bool) -> bool {
    let reading = job.reading.as_ref();
    let may_run = |read: &Reading| !read.suspended || read.active;
    job.finished().is_none()
        && job.hold == Hold::Suspend
        && (reading.map_or(true, may_run) || may_be_unsuspended())
}

/// All that the state of a pod depends on that has a workload of its own.
pub struct PodSituation<'a> {
    /// The pod.
    pub pod: &'a PodRecord,
    /// What it asks for.
    pub asks: &'a PodSetView,
    /// What it is admitted with though that is not recorded on it.
    pub own: Option<&'a PodAdmission>,
    /// Its ClusterQueue and the first flavors there: what a pod uses that runs without an admission.
    pub first_choice: &'a dyn Fn() -> Option<(&'a str, &'a BTreeMap<String, String>)>,
    /// Whether its admission is late, and the engine decides about it once more.
    pub is_undecided: bool,
    /// Whether nothing but its record keeps it from being admitted.
    pub is_eligible: &'a dyn Fn() -> bool,
    /// The present.
    pub now: Present,
}

/// The state of a pod that has a workload of its own: it has usage once Sluice's gate is removed.
pub fn pod_state(situation: &PodSituation<'_>) -> WorkloadState {
    let pod = situation.pod;
    if situation.is_undecided {
        return WorkloadState::Pending;
    }
    if pod.queue_gate.is_some() {
        return if pod.waits_for_quota_alone() && (situation.is_eligible)() {
            WorkloadState::Pending
        } else {
            WorkloadState::Inactive
        };
    }
    let Some(admission) = pod_admission(situation) else {
        return WorkloadState::Inactive;
    };
    // Nothing waits for a pod that does not go.
    let is_waited_for = pod_in_time_until(pod).is_some_and(|until| situation.now < until);
    if is_waited_for {
        WorkloadState::Evicting(admission, None)
    } else {
        WorkloadState::Admitted(Admission {
            since: unused_quota::pod_usage_since(pod).map_or(Time::default(), time),
            unused_since: unused_quota::pod_unused_since(pod).map(time),
            ..admission
        })
    }
}

/// What a pod uses without Sluice's gate.
fn pod_admission(situation: &PodSituation<'_>) -> Option<Admission> {
    let PodSituation { pod, asks, .. } = situation;
    let recorded = pod.recorded_admission();
    let (cluster_queue, cohort, flavors) = if let Some(admitted) = situation.own.or(recorded) {
        let queue = admitted.cluster_queue.as_str();
        (queue, admitted.cohort.as_deref(), &admitted.flavors)
    } else {
        let (queue, flavors) = (situation.first_choice)()?;
        (queue, None, flavors)
    };
    Some(translate::pod_admission(translate::ReleasedPod {
        cluster_queue,
        cohort,
        flavors,
        asks,
        is_bound: pod.is_bound,
    }))
}

/// A moment as the engine is told it.
pub fn time(at: Timestamp) -> Time {
    Time::from_millis(at.as_millisecond())
}
