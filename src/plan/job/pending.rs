//! A job that waits for quota: what its Workload asks for, and why it can't be queued, if so.

use k8s_openapi::jiff::Timestamp;
use sluice_crds::reasons::event;
use sluice_kinds::gates::Gate;
use sluice_kinds::hold::Hold;
use sluice_kinds::view::PodSetView;

use super::gated::not_gated;
use super::uncountable;
use crate::cache::JobRecord;
use crate::cache::job::Reading;
use crate::plan::eviction_steps::paused_text;
use crate::plan::place_in_queue;
use crate::plan::situation::JobSituation;
use crate::plan::workload;
use crate::plan::write_builders::{
    delete_workload, hold, release, runs_unheld, suspend, update_spec,
};
use crate::plan::writes::plan_and_notes::{Note, Plan};
use crate::plan::writes::write::Write;

/// When the job takes its place in its queue: as its Workload records, if that does.
fn place(situation: &JobSituation<'_>) -> Option<Timestamp> {
    let record = situation.workload.map(|(_, record)| record);
    let recorded = record.and_then(|record| record.spec.job_creation_timestamp.as_ref());
    let place = place_in_queue::kept(recorded.map(|at| at.0), situation.job.created);
    place.or_else(|| {
        let place_of = |gate: &Gate| place_in_queue::of((situation.gate)(gate).as_ref());
        place_in_queue::taken(situation.job.into(), &place_of, situation.now)
    })
}

/// A job that waits for quota, or for its user. What its Workload waits for is told with what others wait
/// for.
pub(super) fn pending(situation: &JobSituation<'_>, reading: &Reading, queue: &str) -> Plan {
    if situation.job.is_paused() {
        return match situation.workload {
            Some(_) => Plan::default(),
            None => Plan::note(Note::normal(event::SUSPENDED, paused_text(situation))),
        };
    }
    if situation.job.hold == Hold::Pods && 0 < situation.lost_pods {
        return lost(situation, reading);
    }
    let pod_sets = match &reading.pod_sets {
        Err(_) if situation.lacks_child() => {
            return hold(situation, reading, uncountable::waits_for_child());
        }
        Ok(pod_sets) => pod_sets,
        Err(problems) => {
            let (reason, message) = uncountable::unreadable_pod_sets(problems);
            return hold(situation, reading, Note::warning(reason, message));
        }
    };
    if !reading.refusals.is_empty() {
        return refused(situation, reading);
    }
    if let Some((reason, message)) = uncountable::pod_sets(pod_sets) {
        return hold(situation, reading, Note::warning(reason, message));
    }
    if situation.job.hold == Hold::Pods && !situation.job.is_gated {
        return not_gated(situation);
    }
    if runs_unheld(situation, reading) {
        let message = format!(
            "Suspended because it ran without being admitted; Sluice starts it once it is admitted through LocalQueue {queue:?}"
        );
        return suspend(situation, Note::warning(event::STOPPED, message));
    }
    let record = situation.workload.map(|(_, record)| record);
    let (priority, place) = ((situation.priority)(), place(situation));
    let (spec, refused) = match workload::queued_spec(queue, pod_sets, record, priority, place) {
        Ok(queued) => queued,
        Err(refused) => return Plan::note(refused.note()),
    };
    match situation.workload {
        // Its quota is free, and it can ask for some again, when its pods are gone.
        None if situation.still_in_use
            && (reading.may_have_pods()
                || situation.may_have_unseen_pods
                || 0 < situation.live_pods) =>
        {
            Plan::default()
        }
        None => {
            let workload = workload::object(situation.key, situation.job, situation.kind, spec);
            let plan = Plan::write(Write::CreateWorkload(Box::new(workload)));
            let note = refused.map(|refused| refused.note());
            match note.or_else(|| whole_note(situation.job, queue)) {
                Some(note) => plan.and_note(note),
                None => plan,
            }
        }
        Some((key, record)) if record.spec != spec && !record.deleting => {
            update_spec(key, record, spec)
        }
        // Its pods bring gates of others, and only they can tell when these are gone. They are born
        // behind the queue gate too, so that nothing runs.
        Some(_) if reading.suspended && shows_by_pods(situation.job, pod_sets) => {
            Plan::write(release(situation, &[]))
        }
        Some(_) => Plan::default(),
    }
}

/// A job whose pods wait behind gates and that has lost its Workload while they run: it is suspended, if it can be, and
/// queued again when they are gone.
fn lost(situation: &JobSituation<'_>, reading: &Reading) -> Plan {
    if reading.suspended {
        return Plan::default();
    }
    suspend(
        situation,
        Note::warning(event::STOPPED, workload::WORKLOAD_DELETED),
    )
}

/// A job that waits for quota and that its kind's controller would never run: it is held, with the
/// reason, and not queued.
fn refused(situation: &JobSituation<'_>, reading: &Reading) -> Plan {
    let note = uncountable::never_runs(&reading.refusals);
    match situation.workload {
        Some((key, record)) if !record.deleting && !runs_unheld(situation, reading) => {
            delete_workload(key, record).and_note(note)
        }
        _ => hold(situation, reading, note),
    }
}

/// Whether only the pods of a job tell whether it may be admitted.
fn shows_by_pods(job: &JobRecord, pod_sets: &[PodSetView]) -> bool {
    job.hold == Hold::Pods && pod_sets.iter().any(|set| set.has_external_gates)
}

/// That a job is queued is told only where that isn't what was asked for: what it waits for is told when
/// that is known, and that it is admitted otherwise.
fn whole_note(job: &JobRecord, queue: &str) -> Option<Note> {
    let is_whole = job.wants_each_pod && job.hold != Hold::EachPod;
    is_whole.then(|| {
        let message = format!(
            "Waits as a whole in LocalQueue {queue:?}: its pods can't be admitted by themselves, as no webhook put Sluice's gate into its pod template when it was created"
        );
        Note::warning(event::ADMITTED_AS_A_WHOLE, message)
    })
}
