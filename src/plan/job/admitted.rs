//! A job with a stored admission. It is released if it requests no more than it was given, and evicted otherwise. Its
//! progress is passed on. How an evicted job stops: `plan/eviction_steps.rs`.

use sluice_crds::WorkloadSpec;
use sluice_crds::reasons::event;
use sluice_kinds::gates::GateState;
use sluice_kinds::hold::Hold;
use sluice_kinds::view::{LabelledQueue, PodSetView, missing_runtime_classes};

use crate::cache::job::Reading;
use crate::cache::{WorkloadKey, WorkloadRecord};
use crate::plan::eviction_steps::{
    evict, evict_changed, evict_from_queue, evict_missing_class, evict_paused, evict_refused,
    evict_returned, evict_unlabelled,
};
use crate::plan::evictions::cause::Cause;
use crate::plan::progress::{self, Told};
use crate::plan::situation::JobSituation;
use crate::plan::workload::placement;
use crate::plan::workload::priority::Priority;
use crate::plan::workload::{self, Fit};
use crate::plan::write_builders::{release, status_write, update_spec};
use crate::plan::writes::plan_and_notes::{Note, Plan};
use crate::plan::writes::write::StatusPurpose;

/// A job that holds quota: release it, if it asks for no more than it was given.
pub(super) fn plan_admitted(
    situation: &JobSituation<'_>,
    reading: &Reading,
    workload_key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let JobSituation { job, now, .. } = situation;
    if job.is_paused() {
        return evict_paused(workload_key, record, *now);
    }
    if !record.spec.active {
        return evict(workload_key, record, &Cause::deactivated(), *now);
    }
    if situation.lacks_child() {
        return Plan::default();
    }
    let Ok(pod_sets) = &reading.pod_sets else {
        return evict_changed(workload_key, record, *now);
    };
    let brings_pod_set = workload::brings_pod_set(record, pod_sets);
    let pod_sets = &*workload::by_admitted_names(record, pod_sets);
    // While it has pods they need their quota: nobody would stop them.
    if !reading.refusals.is_empty() && situation.live_pods == 0 {
        return evict_refused(workload_key, record, &reading.refusals, *now);
    }
    // Released, it would have no pods. Those that were made before the class was deleted run on.
    let missing = missing_runtime_classes(pod_sets);
    if reading.suspended && !missing.is_empty() && situation.live_pods == 0 {
        return evict_missing_class(workload_key, record, &missing, *now);
    }
    let fit = match job.hold {
        Hold::Suspend if reading.suspended => Fit::Exact,
        Hold::Suspend => Fit::Within,
        Hold::Pods | Hold::EachPod => Fit::EachPodWithin,
    };
    // What it was admitted with is known, and it runs: only what it asked for is not.
    if let (Some(problem), false) = (&record.unreadable, reading.suspended) {
        let message = format!(
            "The spec of its Workload can't be read: {problem}; the job keeps the quota that it was admitted with"
        );
        return Plan::note(Note::warning(event::WORKLOAD_UNREADABLE, message));
    }
    // Released, it would run in a queue that it does not name, and its label could not be put right any more.
    let is_named =
        matches!(&job.queue, LabelledQueue::Named(queue) if *queue == record.spec.queue_name);
    let is_to_be_released = job.hold == Hold::Suspend && reading.suspended;
    if is_to_be_released && !is_named {
        return evict_from_queue(workload_key, record, *now);
    }
    let is_covered = workload::covers(record, pod_sets, fit);
    let wants_reclaimed = is_to_be_released && progress::wants_reclaimed(record, pod_sets);
    // The pods of a set that a new one has replaced run on where nobody deletes them.
    if brings_pod_set || !is_covered || wants_reclaimed {
        return evict_changed(workload_key, record, *now);
    }
    // What its pods use could not be seen any more.
    let unlabelled = pod_sets.iter().find(|set| set.lacks_label());
    let unlabelled = unlabelled.filter(|_| job.hold == Hold::Suspend && !reading.suspended);
    if let (Some(set), true) = (unlabelled, job.was_labelled) {
        return evict_unlabelled(workload_key, record, &set.name, *now);
    }
    if progress::is_refuted(record, pod_sets, situation.live_pods_of_set) {
        return evict_returned(workload_key, record, *now);
    }
    if let Some(spec) = of_other_class(situation, pod_sets, record) {
        return update_spec(workload_key, record, spec);
    }
    if !reading.suspended {
        return running(situation, reading, pod_sets, workload_key, record);
    }
    // Pods that wait behind gates get their flavors' placement themselves.
    let placings = match job.hold {
        Hold::Suspend => placement::placings(record, pod_sets),
        Hold::Pods | Hold::EachPod => Vec::new(),
    };
    match &situation.child {
        // It is about to be suspended, as its owner is: then its templates can be written to.
        Some(child) if child.job.suspended != Some(true) => Plan::default(),
        Some(child) => {
            let prepared = child.prepare(&placings);
            Plan::write(prepared.unwrap_or_else(|| release(situation, &[])))
        }
        None => Plan::write(release(situation, &placings)),
    }
}

/// The spec of its Workload, if the job names another priority class than it was admitted with. A class that has
/// another value by now counts from the next admission on.
fn of_other_class(
    situation: &JobSituation<'_>,
    pod_sets: &[PodSetView],
    record: &WorkloadRecord,
) -> Option<WorkloadSpec> {
    let Priority { value, class } = (situation.priority)().ok()?;
    // The global default counts from the next admission on, as a class with another value does.
    let is_named = situation.job.priority_class.is_some()
        || pod_sets.iter().any(|set| set.priority_class.is_some());
    let is_other = is_named && class != record.spec.priority_class_ref;
    is_other.then(|| WorkloadSpec {
        priority: value,
        priority_class_ref: class,
        ..record.spec.clone()
    })
}

/// A job that holds quota and was released: pass on what it tells of itself.
fn running(
    situation: &JobSituation<'_>,
    reading: &Reading,
    pod_sets: &[PodSetView],
    workload_key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let told = Told {
        ready: reading.ready.as_ref().ok().copied().flatten(),
        lacks_pods: situation.lacks_pods,
        hides_pods: reading.has_status && reading.active && !situation.shows_pods,
        pod_sets,
        counts_pods: situation.job.hold == Hold::Suspend,
        live_pods_of_set: situation.live_pods_of_set,
    };
    let plan = match progress::report(record, &told, situation.now) {
        Some(status) => status_write(workload_key, record, status, StatusPurpose::Report),
        None => Plan::default(),
    };
    if situation.lacks_pods {
        return plan.and_note(progress::no_pods());
    }
    if let Err(problem) = &reading.ready {
        let message = format!("Can't tell whether its pods are ready: {problem}");
        return plan.and_note(Note::warning(event::UNREADABLE, message));
    }
    match &situation.job.gates {
        GateState::None => plan,
        _ => plan.and_note(Note::warning(
            event::GATE_IGNORED,
            "A gate was added after this object was released, and has no effect: gates may only be set at creation",
        )),
    }
}
