//! The way of one job: held by gates, queued, admitted, released, finished; evicted and queued again. Says
//! the one next write; the record of each step is in the API, so a restart at any point goes on from there.
//! Which step is next is told here; each is planned in a file of its own, and eviction in `plan/eviction_steps.rs`.

mod admitted;
mod gated;
mod pending;
pub mod uncountable;

use sluice_crds::reasons::{event, eviction};
use sluice_kinds::Problem;
use sluice_kinds::hold::Hold;
use sluice_kinds::view::LabelledQueue;

use crate::cache::job::Reading;
use crate::cache::{WorkloadKey, WorkloadRecord};
use crate::plan::eviction_steps::{evict, evicting, give_back, is_given_back};
use crate::plan::evictions::cause::Cause;
use crate::plan::progress;
use crate::plan::situation::JobSituation;
use crate::plan::workload;
use crate::plan::write_builders::{delete_workload, hold, runs_unheld, status_write, suspend};
use crate::plan::writes::plan_and_notes::{Note, Plan};
use crate::plan::writes::write::StatusPurpose;
use admitted::plan_admitted;
pub use gated::left_suspended;
use gated::{each_pod, gated, is_unheld, mend, start, unqueued};
use pending::pending;

/// What to do about a job.
pub fn plan(situation: &JobSituation<'_>) -> Plan {
    // Nothing can be created there any more.
    if situation.namespace_is_terminating && situation.workload.is_none() {
        return Plan::default();
    }
    if situation.job.deleting {
        return deleting(situation);
    }
    let plan = plan_kept(situation);
    let mended = match plan.write {
        None => mend(situation),
        Some(_) => None,
    };
    match mended {
        Some(mended) => Plan {
            write: mended.write,
            ..plan
        },
        None => plan,
    }
}

/// Whether nothing is left in the templates of a job of the admission that it has lost.
pub fn is_restored(situation: &JobSituation<'_>) -> bool {
    let placed_by = situation.placed_by;
    placed_by.is_some_and(|record| is_given_back(situation, record))
}

/// What to do about a job that nobody deletes.
fn plan_kept(situation: &JobSituation<'_>) -> Plan {
    let JobSituation { job, workload, .. } = situation;
    if job.hold == Hold::EachPod {
        return each_pod(situation);
    }
    let reading = match &job.reading {
        Ok(reading) => reading,
        Err(problems) => return unreadable(situation, problems),
    };
    if let Some(finished) = &reading.finished {
        return match workload {
            // It ended before it was seen to have left its queue.
            Some((key, record))
                if job.queue == LabelledQueue::None
                    && record.status.admission.is_none()
                    && !record.is_finished()
                    && !record.deleting =>
            {
                delete_workload(key, record)
            }
            // Whatever the object says of itself: what its pods use is not free while they run.
            Some((key, record))
                if record.status.admission.is_some() && 0 < situation.lasting_pods =>
            {
                outlasted(situation, reading, key, record)
            }
            Some((key, record)) if !record.is_finished() => {
                let status = workload::finished(record, finished, situation.now);
                status_write(key, record, status, StatusPurpose::Finish)
                    .and_note(workload::finished_note(finished))
            }
            _ => Plan::default(),
        };
    }
    if let Some((key, record)) = workload
        && record.is_finished()
    {
        return unfinished(situation, reading, key, record);
    }
    let admitted = workload.filter(|(_, record)| record.status.admission.is_some());
    // Else what Sluice put in would be taken for the user's own.
    if let (Some(record), None) = (situation.placed_by, admitted)
        && let Some(plan) = give_back(situation, reading, record)
    {
        return plan;
    }
    match admitted {
        Some((key, record)) if record.is_evicting() => evicting(situation, reading, key, record),
        Some((key, record)) => plan_admitted(situation, reading, key, record),
        None if job.is_held() => gated(situation, reading),
        None => match &job.queue {
            LabelledQueue::None => unqueued(situation),
            LabelledQueue::Named(queue) => pending(situation, reading, queue),
            LabelledQueue::Invalid(problem) => hold(
                situation,
                reading,
                Note::warning(event::INVALID_QUEUE_NAME, problem.to_string()),
            ),
        },
    }
}

/// A job that has finished and has pods that run on: they alone use what it holds.
fn outlasted(
    situation: &JobSituation<'_>,
    reading: &Reading,
    key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    // Whoever preempts it counts on all that it holds: that is freed in one step.
    let is_waited_for = record.is_evicting() && !record.is_stalled();
    let pod_sets = reading.pod_sets.as_ref().ok().filter(|_| !is_waited_for);
    let status = pod_sets.and_then(|pod_sets| {
        let pod_sets = workload::by_admitted_names(record, pod_sets);
        progress::report_ended(record, &pod_sets, situation.live_pods_of_set)
    });
    status.map_or_else(Plan::default, |status| {
        status_write(key, record, status, StatusPurpose::Report)
    })
}

/// A job that is being deleted takes its Workload with it, and its quota is free when both are gone.
/// What keeps it may keep it for long: as long as it is there it gives quota back like any other.
fn deleting(situation: &JobSituation<'_>) -> Plan {
    let JobSituation { job, workload, .. } = situation;
    let admitted = workload.filter(|(_, record)| record.holds_quota() && !record.deleting);
    let Some((key, record)) = admitted else {
        return unadmitted_in_deletion(situation);
    };
    let Ok(reading) = &job.reading else {
        return Plan::default();
    };
    match &reading.finished {
        Some(finished) if situation.live_pods == 0 => {
            let status = workload::finished(record, finished, situation.now);
            status_write(key, record, status, StatusPurpose::Finish)
        }
        None if record.is_evicting() => evicting(situation, reading, key, record),
        // Its controller makes no pods any more, and does not say either how it ended.
        None if is_left_without_pods(situation) => {
            let cause = Cause::new(
                eviction::DELETED,
                "The job is being deleted, and its pods are gone",
            );
            evict(key, record, &cause, situation.now)
        }
        Some(_) | None => Plan::default(),
    }
}

/// A job that is being deleted and was not admitted may be started by its user, as nobody is asked about such an object,
/// its labels and marks included. The controllers of some kinds go on with it, for as long as a finalizer keeps it.
fn unadmitted_in_deletion(situation: &JobSituation<'_>) -> Plan {
    let JobSituation { job, workload, .. } = situation;
    let holds_quota =
        situation.still_in_use || workload.is_some_and(|(_, record)| record.holds_quota());
    let may_run = job.hold == Hold::Suspend && job.suspended != Some(true);
    if holds_quota
        || !may_run
        || (is_unheld(job) && !job.was_held(workload.is_some()))
        || job.deletes_pods
        || job.finished().is_some()
    {
        return Plan::default();
    }
    let message = "Suspended because it runs without being admitted; it is being deleted, and something keeps the object: remove its finalizers";
    suspend(situation, Note::warning(event::STOPPED, message))
}

/// Whether a job that is being deleted has no pods and gets none any more: controllers do nothing for
/// such an object. What is deleted after its dependents takes its Workload with it.
fn is_left_without_pods(situation: &JobSituation<'_>) -> bool {
    let JobSituation { job, kind, .. } = situation;
    situation.live_pods == 0
        && !situation.may_have_unseen_pods
        && !job.deletes_pods
        && kind.suspend_path().is_some()
        && !kind.makes_objects()
}

/// A job that can't be read is held if it must not run: it fails closed.
fn unreadable(situation: &JobSituation<'_>, problems: &[Problem]) -> Plan {
    let JobSituation { job, workload, .. } = situation;
    let (reason, message) = uncountable::unreadable(problems);
    let note = Note::warning(reason, message);
    let is_admitted = workload.is_some_and(|(_, record)| record.status.admission.is_some());
    if workload.is_none() && is_unheld(job) && job.is_marked_held() {
        return start(situation);
    }
    let must_wait = !is_admitted && !job.released && job.is_managed();
    let must_go = workload.is_some_and(|(_, record)| record.is_evicting());
    let may_run = job.suspended != Some(true) && job.hold == Hold::Suspend;
    if (must_wait || must_go) && may_run {
        return suspend(situation, note);
    }
    Plan::note(note)
}

/// A job that had ended and goes on: it has given its quota back, and has to queue for it anew.
fn unfinished(
    situation: &JobSituation<'_>,
    reading: &Reading,
    key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let note = Note::warning(
        event::UNFINISHED,
        "The job had finished and was started again: it is queued again, as its quota was freed",
    );
    if runs_unheld(situation, reading) {
        return suspend(situation, note);
    }
    if record.deleting {
        return Plan::default();
    }
    // Its Workload is all that says what its user wrote.
    give_back(situation, reading, record)
        .unwrap_or_else(|| delete_workload(key, record).and_note(note))
}
