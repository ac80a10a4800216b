//! How a job that holds quota gives it back: evicted, stopped, its pods gone, its templates as they
//! were, its quota free; then queued again, at once, after a while, or not at all.

use sluice_crds::reasons::{event, eviction};
use sluice_crds::{MANAGED_LABEL, WorkloadSpec};
use sluice_kinds::Problem;
use sluice_kinds::hold::Hold;
use sluice_kinds::patch::Target;
use sluice_kinds::path::FieldPath;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::LabelledQueue;

use crate::cache::job::Reading;
use crate::cache::{WorkloadKey, WorkloadRecord};
use crate::plan::evictions::cause::Cause;
use crate::plan::evictions::requeue_backoff::Backoff;
use crate::plan::evictions::stall::QUOTA_IS_FREE;
use crate::plan::situation::JobSituation;
use crate::plan::workload::pending_reason::NotReserved;
use crate::plan::workload::placement;
use crate::plan::workload::{self, Next};
use crate::plan::write_builders::{status_write, suspend_write, update_spec};
use crate::plan::writes::plan_and_notes::{Note, Plan, Present};
use crate::plan::writes::write::{JobPatch, JobPurpose, StatusPurpose, Write};

/// An evicted job: suspend it, wait until its pods are gone, give its templates back, free
/// its quota.
pub(super) fn evicting(
    situation: &JobSituation<'_>,
    reading: &Reading,
    workload_key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let JobSituation { job, kind, now, .. } = situation;
    if kind.suspend_path().is_some() && !reading.suspended {
        return suspend_write(situation)
            .map(Plan::write)
            .unwrap_or_default();
    }
    if is_stopping(situation, reading, record) {
        return Plan::default();
    }
    if let Some(write) = restore(situation, reading, record) {
        return Plan::write(write);
    }
    if job.deleting {
        let status = workload::requeued(record, Next::Never, *now);
        let text =
            "Its pods are gone and its quota is free: it is being deleted, and not queued again";
        return status_write(workload_key, record, status, StatusPurpose::Requeue)
            .and_note(Note::normal(NotReserved::Deleted.as_str(), text));
    }
    if job.is_paused() && record.spec.active {
        return requeue_paused(situation, workload_key, record);
    }
    let mut plan = requeue(workload_key, record, (situation.backoff)(record), *now);
    // It can't be queued: its next plan says so, and what becomes of its Workload.
    let is_named = matches!(&job.queue, LabelledQueue::Named(_));
    if !is_named || !reading.refusals.is_empty() {
        plan.notes.retain(|note| note.reason != event::REQUEUED);
    }
    plan
}

/// Whether pods of a job that is to stop run, or may still be made.
fn is_stopping(situation: &JobSituation<'_>, reading: &Reading, record: &WorkloadRecord) -> bool {
    let JobSituation { job, kind, .. } = situation;
    // Controllers do nothing more for what is being deleted: it never says that it has stopped. Those of
    // its children may still make pods.
    let is_left_alone = job.deleting && !kind.makes_objects();
    // Whoever has written no status in all that time does nothing about the job: its pods would be seen.
    let is_ignored =
        record.is_stalled() && reading.suspended && !reading.has_status && situation.shows_pods;
    let is_active = reading.may_have_pods() && !is_left_alone && !is_ignored;
    is_active
        || situation.may_have_unseen_pods
        || situation.child.is_some_and(|child| child.is_active())
        || 0 < situation.live_pods
}

/// The write that gives a job that has stopped its templates back as its user wrote them; none if they are so, or can't
/// be read.
fn restore(
    situation: &JobSituation<'_>,
    reading: &Reading,
    record: &WorkloadRecord,
) -> Option<Write> {
    let JobSituation { key, job, kind, .. } = situation;
    if job.deleting || job.hold != Hold::Suspend {
        return None;
    }
    let pod_sets = reading.pod_sets.as_ref().ok()?;
    let pod_sets = workload::by_admitted_names(record, pod_sets);
    let placings = placement::restorings(record, &pod_sets);
    if placings.is_empty() {
        return None;
    }
    if let Some(child) = &situation.child {
        return Some(child.restore(&placings));
    }
    let target = Target {
        uid: &job.uid,
        generation: job.generation,
    };
    let restore = || Write::PatchJob {
        key: (*key).clone(),
        patch: JobPatch::Json(kind.place_patch(target, &placings)),
        purpose: JobPurpose::Restore,
    };
    Some(Write::clear_start_time(key, job, kind).unwrap_or_else(restore))
}

/// What a suspended job waits for that does not hold what it was admitted with, by `record`, any more, before it is
/// queued again: that it has stopped, and that its templates are as its user wrote them. None if they are.
pub(super) fn give_back(
    situation: &JobSituation<'_>,
    reading: &Reading,
    record: &WorkloadRecord,
) -> Option<Plan> {
    let write = restore(situation, reading, record).filter(|_| reading.suspended)?;
    let plan = if is_stopping(situation, reading, record) {
        Plan::default()
    } else {
        Plan::write(write)
    };
    Some(plan)
}

/// Whether the templates of a job hold nothing any more of what it was admitted with, by `record`.
pub(super) fn is_given_back(situation: &JobSituation<'_>, record: &WorkloadRecord) -> bool {
    let JobSituation { job, .. } = situation;
    job.reading.as_ref().is_ok_and(|reading| {
        let may_be_placed = job.hold == Hold::Suspend && !reading.suspended;
        !may_be_placed && reading.pod_sets.is_ok() && restore(situation, reading, record).is_none()
    })
}

/// Frees the quota of a job that its user has suspended: it waits for its user.
fn requeue_paused(
    situation: &JobSituation<'_>,
    key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let waits = paused_text(situation);
    let status = workload::requeued(record, Next::User(waits.clone()), situation.now);
    status_write(key, record, status, StatusPurpose::Requeue)
        .and_note(Note::normal(event::SUSPENDED, waits))
}

/// What a job waits for that its user has suspended.
pub(super) fn paused_text(situation: &JobSituation<'_>) -> String {
    let field = situation.kind.suspend_path().map(FieldPath::field);
    workload::waits_for_user(field.as_deref().unwrap_or("its suspend field"))
}

/// Tells a job to give its quota back that its user has suspended.
pub(super) fn evict_paused(key: &WorkloadKey, record: &WorkloadRecord, now: Present) -> Plan {
    let cause = Cause::paused();
    let status = workload::evicted(record, &cause, now);
    status_write(key, record, status, StatusPurpose::Evict)
        .and_note(Note::normal(cause.reason, cause.message))
}

/// Frees the quota of a Workload whose pods are gone, and puts it back into its queue.
pub(super) fn requeue(
    key: &WorkloadKey,
    record: &WorkloadRecord,
    backoff: Backoff,
    now: Present,
) -> Plan {
    let next = match backoff {
        Backoff::For(wait) => Next::QueueAfter(wait),
        Backoff::Deactivate if record.spec.active => {
            let spec = WorkloadSpec {
                active: false,
                ..record.spec.clone()
            };
            return update_spec(key, record, spec).and_note(Note::warning(
                event::DEACTIVATED,
                "Deactivated after spec.reservation.backoff.limitCount backoffs, as its ClusterQueue says; set spec.active of its Workload to true to queue it again",
            ));
        }
        Backoff::None | Backoff::Deactivate => Next::Queue,
    };
    let then = match &next {
        _ if !record.spec.active => {
            "deactivated, and not queued again until spec.active of its Workload is true".to_owned()
        }
        Next::QueueAfter(wait) => format!("queued again in {} s", wait.as_secs()),
        _ => "queued again".to_owned(),
    };
    let text = format!("{QUOTA_IS_FREE}: {then}");
    let status = workload::requeued(record, next, now);
    status_write(key, record, status, StatusPurpose::Requeue)
        .and_note(Note::normal(event::REQUEUED, text))
}

pub(super) fn evict_changed(key: &WorkloadKey, record: &WorkloadRecord, now: Present) -> Plan {
    let message =
        "The job requests more than it holds quota for: queued again with the new requests";
    evict(
        key,
        record,
        &Cause::new(eviction::POD_SETS_CHANGED, message),
        now,
    )
}

/// Evicts a job whose pods can't be seen any more. Its next release labels them again.
pub(super) fn evict_unlabelled(
    key: &WorkloadKey,
    record: &WorkloadRecord,
    pod_set: &str,
    now: Present,
) -> Plan {
    let message = format!(
        "The label {MANAGED_LABEL} was removed from the pod template of pod set {pod_set:?}, and pods without it can't be counted: queued again"
    );
    evict(
        key,
        record,
        &Cause::new(eviction::POD_SETS_CHANGED, message),
        now,
    )
}

/// Evicts a job that names another queue, or none, since it was admitted, and that is not released yet.
pub(super) fn evict_from_queue(key: &WorkloadKey, record: &WorkloadRecord, now: Present) -> Plan {
    let queue = &record.spec.queue_name;
    let message = format!(
        "The job does not name LocalQueue {queue:?} any more, through which it was admitted"
    );
    evict(
        key,
        record,
        &Cause::new(eviction::QUEUE_CHANGED, message),
        now,
    )
}

/// Evicts a job that its kind's controller would never run, and that has no pods.
pub(super) fn evict_refused(
    key: &WorkloadKey,
    record: &WorkloadRecord,
    refusals: &[Problem],
    now: Present,
) -> Plan {
    let why = summarize(refusals);
    let message =
        format!("The job's controller would never run it, so it would hold quota for ever: {why}");
    evict(key, record, &Cause::new(eviction::NEVER_RUNS, message), now)
}

/// Evicts a job whose pods the API server would refuse, as their RuntimeClass does not exist.
pub(super) fn evict_missing_class(
    key: &WorkloadKey,
    record: &WorkloadRecord,
    missing: &[Problem],
    now: Present,
) -> Plan {
    let message = format!(
        "The job would hold quota without pods: {}",
        summarize(missing)
    );
    evict(
        key,
        record,
        &Cause::new(eviction::POD_SETS_CHANGED, message),
        now,
    )
}

/// Evicts a job whose pods came back that had ended for good by what it said.
pub(super) fn evict_returned(key: &WorkloadKey, record: &WorkloadRecord, now: Present) -> Plan {
    let message = "More pods run than quota is reserved for, because pods reported as finished were started again: queued again with all pods";
    evict(
        key,
        record,
        &Cause::new(eviction::RECLAIMED_PODS_RETURNED, message),
        now,
    )
}

/// Tells a job to go because of itself.
pub(super) fn evict(
    key: &WorkloadKey,
    record: &WorkloadRecord,
    cause: &Cause,
    now: Present,
) -> Plan {
    let status = workload::evicted(record, cause, now);
    status_write(key, record, status, StatusPurpose::Evict)
        .and_note(Note::warning(event::EVICTED, cause.message.as_str()))
}
