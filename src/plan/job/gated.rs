//! A job that gates hold, or nothing any more: no Workload, and not running until its last gate is gone. Of
//! jobs whose pods are admitted by themselves there is no more than that to plan. Which jobs come here is
//! decided in `plan/job.rs`.

use serde_json::json;
use sluice_crds::reasons::event;
use sluice_crds::{HELD_ANNOTATION, RELEASED_ANNOTATION};
use sluice_kinds::gates::Gate;
use sluice_kinds::hold::Hold;
use sluice_kinds::view::LabelledQueue;
use sluice_kinds::{CompiledKind, Suspension};

use crate::cache::JobRecord;
use crate::cache::job::Reading;
use crate::plan::gates::action::{self, GateAction};
use crate::plan::gates::held_note;
use crate::plan::place_in_queue;
use crate::plan::situation::JobSituation;
use crate::plan::write_builders::{delete_workload, runs_unheld, suspend};
use crate::plan::writes::plan_and_notes::{Note, Plan};
use crate::plan::writes::write::{JobPatch, JobPurpose, Write};

/// A job whose pods are admitted by themselves: it has no Workload, and it is suspended only by gates
/// or where its pods would not wait. What there is to do is done to its pods.
pub(super) fn each_pod(situation: &JobSituation<'_>) -> Plan {
    let JobSituation { job, workload, .. } = situation;
    // It has one that is admitted if its JobKind was edited meanwhile.
    if let Some((key, record)) = workload
        && (record.status.admission.is_none() || situation.live_pods == 0)
        && !record.deleting
    {
        return delete_workload(key, record);
    }
    // It makes no pods any more.
    if job.finished().is_some() {
        return Plan::default();
    }
    let is_gated = job.is_held();
    if is_gated && let Some(plan) = act_on_gates(situation) {
        return plan;
    }
    let by_gates = situation.kind.is_suspended_by_gates() && job.reading.is_ok();
    if is_gated && by_gates && job.suspension() == Suspension::None {
        return suspend(situation, held_note(situation));
    }
    if is_gated {
        return held_or_ungated(situation);
    }
    // Who may edit the object can mark it: that alone lets no pods run that would not wait.
    if job.is_marked_held() && (job.is_gated || is_unheld(job)) {
        return start(situation);
    }
    match &job.queue {
        LabelledQueue::Named(_) if !job.is_gated => not_gated(situation),
        LabelledQueue::Invalid(problem) => Plan::note(Note::warning(
            event::INVALID_QUEUE_NAME,
            problem.to_string(),
        )),
        LabelledQueue::Named(_) | LabelledQueue::None => Plan::default(),
    }
}

/// The note about a job that gates hold.
fn held_note(situation: &JobSituation<'_>) -> Note {
    let JobSituation { job, gate, .. } = situation;
    held_note::of((*job).into(), *gate)
}

/// A job that gates hold; or whose pods come without them, so that it is suspended if it can be.
fn held_or_ungated(situation: &JobSituation<'_>) -> Plan {
    let JobSituation { job, kind, .. } = situation;
    let note = held_note(situation);
    match kind.suspend_path() {
        _ if !job.runs_before_gates() => Plan::note(note),
        Some(_) => suspend(situation, note),
        None => Plan::note(Note::warning(
            event::NOT_GATED,
            "Not held by its gates, and its pods run: no webhook put the gates into its pod template when it was created; delete it and create it again",
        )),
    }
}

/// A job whose pods can't be held: they come without Sluice's gate. One that can be suspended is.
pub(super) fn not_gated(situation: &JobSituation<'_>) -> Plan {
    let told = |what: &str| {
        let text = format!(
            "{what}: no webhook put Sluice's gate into its pod template when it was created; delete it and create it again"
        );
        Note::warning(event::NOT_GATED, text)
    };
    match (situation.kind.suspend_path(), situation.job.suspended) {
        (None, _) => Plan::note(told("Not queued, and its pods run")),
        (Some(_), Some(true)) => Plan::note(told("Not queued, and suspended")),
        (Some(_), _) => suspend(situation, told("Not queued, and suspended")),
    }
}

/// A job with gates: no Workload, not running.
pub(super) fn gated(situation: &JobSituation<'_>, reading: &Reading) -> Plan {
    let JobSituation { workload, .. } = situation;
    let note = held_note(situation);
    if runs_unheld(situation, reading) {
        return suspend(situation, note);
    }
    if let Some((workload_key, record)) = workload
        && !record.deleting
    {
        return delete_workload(workload_key, record).and_note(note);
    }
    act_on_gates(situation).unwrap_or_else(|| held_or_ungated(situation))
}

/// What the Gates of its gates ask for about a job, if anything.
fn act_on_gates(situation: &JobSituation<'_>) -> Option<Plan> {
    let JobSituation { job, gate, .. } = situation;
    let action = action::act((*job).into(), *gate, situation.now)?;
    Some(keep_gates(situation, action))
}

/// What is to be put right in what a job tells of its gates, if anything: it was edited where neither a webhook nor a
/// policy saw it. And when a gate was lifted, if that is the place of its pods and nobody else keeps it.
pub(super) fn mend(situation: &JobSituation<'_>) -> Option<Plan> {
    let JobSituation { job, gate, .. } = situation;
    let place_of = |name: &Gate| place_in_queue::of(gate(name).as_ref());
    let is_each = job.hold == Hold::EachPod && !job.is_held();
    let completed =
        is_each.then(|| place_in_queue::complete((*job).into(), &place_of, situation.now));
    let action = completed
        .flatten()
        .or_else(|| GateAction::without_labels(&job.stale_labels))?;
    Some(keep_gates(situation, action))
}

fn keep_gates(situation: &JobSituation<'_>, action: GateAction) -> Plan {
    let JobSituation { key, job, .. } = situation;
    let metadata = action.metadata(&job.revision.0.to_string());
    let write = Write::PatchJob {
        key: (*key).clone(),
        patch: JobPatch::Merge(json!({"metadata": metadata})),
        purpose: JobPurpose::KeepGates,
    };
    Plan {
        write: Some(write),
        notes: action.notes,
    }
}

/// A job without gates and without a queue: Sluice has something to do with it only if it suspended it.
pub(super) fn unqueued(situation: &JobSituation<'_>) -> Plan {
    let JobSituation {
        job,
        kind,
        workload,
        ..
    } = situation;
    if let Some((workload_key, record)) = workload
        && !record.deleting
    {
        let plan = delete_workload(workload_key, record);
        return match left_suspended(job, kind) {
            Some(note) => plan.and_note(note),
            None => plan,
        };
    }
    if job.is_marked_held() {
        return start(situation);
    }
    // It is looked after for what its gates count; else it would have been left, and told so.
    let told = left_suspended(job, kind).filter(|_| job.has_passed_gates());
    told.map_or_else(Plan::default, Plan::note)
}

/// Whether neither a gate nor a queue holds a job.
pub(super) fn is_unheld(job: &JobRecord) -> bool {
    job.queue == LabelledQueue::None && !job.is_held()
}

/// That a job stays suspended though neither a gate nor a queue holds it any more, if it does: its user
/// suspended it.
pub fn left_suspended(job: &JobRecord, kind: &CompiledKind) -> Option<Note> {
    let who = match job.suspension() {
        Suspension::None | Suspension::BySluice => return None,
        Suspension::AtCreation => "as it was created so",
        Suspension::ByUser => "as its user suspended it",
    };
    let field = kind.suspend_path()?.field();
    let message = format!(
        "No gate and no queue holds this object: it stays suspended, {who}; set {field} to false to start it"
    );
    is_unheld(job).then(|| Note::normal(event::LEFT_SUSPENDED, message))
}

/// Starts a job that Sluice suspended, or takes the mark off one that runs. What suspends it from now on
/// is not Sluice's doing.
pub(super) fn start(situation: &JobSituation<'_>) -> Plan {
    let JobSituation { key, job, kind, .. } = situation;
    let mut patch = json!({"metadata": {
        "resourceVersion": job.revision.0.to_string(),
        "annotations": {HELD_ANNOTATION: null, RELEASED_ANNOTATION: &*job.uid},
    }});
    let suspend = kind.suspend_path().filter(|_| job.suspended == Some(true));
    if let Some(path) = suspend {
        path.merge_into(&mut patch, json!(false));
    }
    let plan = Plan::write(Write::PatchJob {
        key: (*key).clone(),
        patch: JobPatch::Merge(patch),
        purpose: JobPurpose::Release,
    });
    let message = match &job.queue {
        LabelledQueue::None => "No gate and no queue holds this object: started",
        LabelledQueue::Named(_) | LabelledQueue::Invalid(_) => "The last gate was removed: started",
    };
    match suspend {
        Some(_) => plan.and_note(Note::normal(event::STARTED, message)),
        None => plan,
    }
}
