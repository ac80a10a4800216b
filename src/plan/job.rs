//! The way of one job (design, section 5): held by gates, queued, admitted, let go, finished;
//! evicted and queued again. Says the one next write; the record of each step is in the API, so a
//! restart at any point goes on from there.

use json_patch::PatchOperation;
use serde_json::json;
use sluice_crds::{HELD_ANNOTATION, RELEASED_ANNOTATION};
use sluice_kinds::gates::GateState;
use sluice_kinds::hold::Hold;
use sluice_kinds::patch::{Placing, Target};
use sluice_kinds::problem::summarize;
use sluice_kinds::view::{PodSetView, QueueName, bad_min_counts};
use sluice_kinds::{CompiledKind, Problem};

use super::cause::Cause;
use super::eviction::{evict, evict_changed, evict_returned, evicting};
use super::progress::{self, Told};
use super::reservation::Backoff;
use super::workload::{self, Fit, Priority};
use super::{JobPatch, JobPurpose, Note, Now, Plan, StatusPurpose, Write};
use crate::world::job::Reading;
use crate::world::{JobKey, JobRecord, WorkloadKey, WorkloadRecord};

/// All that the plan for a job depends on.
pub struct Situation<'a> {
    /// Where the job is.
    pub key: &'a JobKey,
    /// The job.
    pub job: &'a JobRecord,
    /// Its kind.
    pub kind: &'a CompiledKind,
    /// The object that has its pods, if its kind has none of its own and that object is there.
    pub child: Option<Child<'a>>,
    /// Its Workload, if there is one.
    pub workload: Option<(&'a WorkloadKey, &'a WorkloadRecord)>,
    /// Whether quota is still charged to a Workload of this job that somebody has deleted.
    pub still_charged: bool,
    /// How many of its pods may run: let go, and not gone.
    pub live_pods: usize,
    /// The same, for one of its pod sets.
    pub live_pods_of_set: &'a dyn Fn(&str) -> LivePods,
    /// How long it stands back after it has given its quota back, if it has to.
    pub backoff: &'a dyn Fn(&WorkloadRecord) -> Backoff,
    /// Its priority, or why that can't be known.
    pub priority: &'a dyn Fn() -> Result<Priority, Note>,
    /// The present.
    pub now: Now,
}

/// An object that has the pods of its owner. Its own controller suspends it and lets it go, as its
/// owner says.
#[derive(Debug, Clone, Copy)]
pub struct Child<'a> {
    /// Where it is.
    pub key: &'a JobKey,
    /// The object.
    pub job: &'a JobRecord,
    /// Its kind.
    pub kind: &'a CompiledKind,
}

impl Child<'_> {
    /// Whether pods of it run or may still be made.
    pub(super) fn is_active(&self) -> bool {
        let reading = self.job.reading.as_ref();
        self.job.suspended != Some(true) || reading.map_or(true, |reading| reading.active)
    }

    fn target(&self) -> Target<'_> {
        Target {
            uid: &self.job.uid,
            generation: self.job.generation,
        }
    }

    /// Writes the placement of an admission into its templates; none if it is there.
    fn prepare(&self, placings: &[Placing<'_>]) -> Option<Write> {
        let patch = self.kind.prepare_patch(self.target(), placings);
        let changes = |operation: &PatchOperation| !matches!(operation, PatchOperation::Test(_));
        patch.iter().any(changes).then(|| Write::PatchJob {
            key: self.key.clone(),
            patch: JobPatch::Json(patch),
            purpose: JobPurpose::Prepare,
        })
    }

    /// Takes out of its templates what was put in.
    pub(super) fn restore(&self, placings: &[Placing<'_>]) -> Write {
        Write::PatchJob {
            key: self.key.clone(),
            patch: JobPatch::Json(self.kind.place_patch(self.target(), placings)),
            purpose: JobPurpose::Restore,
        }
    }
}

/// How many pods of a pod set may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LivePods {
    /// All that are not gone.
    pub all: usize,
    /// Those that nobody has deleted: what is being deleted may already have been replaced.
    pub staying: usize,
}

impl Situation<'_> {
    /// Whether the object is missing that has the job's pods.
    fn lacks_child(&self) -> bool {
        self.kind.has_pods_of_children() && self.child.is_none()
    }
}

/// What to do about a job.
pub fn plan(situation: &Situation<'_>) -> Plan {
    let Situation { job, workload, .. } = situation;
    // What is being deleted takes its Workload with it; its quota is free when it is gone.
    if job.deleting {
        return Plan::default();
    }
    if job.hold == Hold::EachPod {
        return each_pod(situation);
    }
    let reading = match &job.reading {
        Ok(reading) => reading,
        Err(problems) => return unreadable(situation, problems),
    };
    if let Some(finished) = &reading.finished {
        return match workload {
            // Whatever the object says of itself: what its pods use is not free while they run.
            Some((_, record)) if record.status.admission.is_some() && 0 < situation.live_pods => {
                Plan::default()
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
    match admitted {
        Some((key, record)) if record.is_evicting() => evicting(situation, reading, key, record),
        Some((key, record)) => plan_admitted(situation, reading, key, record),
        None if job.gates.is_held() && !job.released => gated(situation, reading),
        None => match &job.queue {
            QueueName::None => unqueued(situation, reading),
            QueueName::Named(queue) => pending(situation, reading, queue),
            QueueName::Invalid(problem) => hold(
                situation,
                reading,
                Note::warning("InvalidQueueName", problem.to_string()),
            ),
        },
    }
}

/// A job that can't be read is held if it must not run: it fails closed.
fn unreadable(situation: &Situation<'_>, problems: &[Problem]) -> Plan {
    let Situation { job, workload, .. } = situation;
    let note = Note::warning(
        "Unreadable",
        format!(
            "This object does not fit its JobKind: {}",
            summarize(problems)
        ),
    );
    let is_admitted = workload.is_some_and(|(_, record)| record.status.admission.is_some());
    let must_wait = !is_admitted && !job.released && job.is_managed();
    let must_go = workload.is_some_and(|(_, record)| record.is_evicting());
    let may_run = job.suspended != Some(true) && job.hold == Hold::Suspend;
    if (must_wait || must_go) && may_run {
        return suspend(situation, note);
    }
    Plan::note(note)
}

/// A job whose pods are admitted by themselves: it has no Workload, and it is suspended only by gates
/// or where its pods would not wait. What there is to do is done to its pods.
fn each_pod(situation: &Situation<'_>) -> Plan {
    let Situation { job, workload, .. } = situation;
    // It has one that is admitted if its JobKind was edited meanwhile.
    if let Some((key, record)) = workload
        && (record.status.admission.is_none() || situation.live_pods == 0)
        && !record.deleting
    {
        return delete_workload(key, record);
    }
    if let (true, Ok(reading)) = (situation.kind.is_suspended_by_gates(), &job.reading) {
        match (job.gates.is_held() && !job.released, job.held) {
            (true, false) => return mark_held(situation, reading).and_note(held_note(job)),
            (true, true) if !reading.suspended => return suspend(situation, held_note(job)),
            (false, true) => return start(situation, reading, "Its last gate is gone: started"),
            (true, true) | (false, false) => {}
        }
    }
    if job.gates.is_held() && !job.released {
        return Plan::note(held_note(job));
    }
    match &job.queue {
        QueueName::Named(_) if !job.is_gated => not_gated(situation),
        QueueName::Invalid(problem) => {
            Plan::note(Note::warning("InvalidQueueName", problem.to_string()))
        }
        QueueName::Named(_) | QueueName::None => Plan::default(),
    }
}

/// A job that had ended and goes on: it has given its quota back, and has to queue for it anew.
fn unfinished(
    situation: &Situation<'_>,
    reading: &Reading,
    key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let note = Note::warning(
        "Unfinished",
        "It had ended and goes on: it is queued anew, as its quota was given back",
    );
    if runs_unheld(situation, reading) {
        return suspend(situation, note);
    }
    if record.deleting {
        return Plan::default();
    }
    delete_workload(key, record).and_note(note)
}

/// Whether a job that waits by being suspended isn't.
fn runs_unheld(situation: &Situation<'_>, reading: &Reading) -> bool {
    situation.job.hold == Hold::Suspend && !reading.suspended
}

/// The note about a job that gates hold.
fn held_note(job: &JobRecord) -> Note {
    match &job.gates {
        GateState::Invalid(problems) => Note::warning(
            "InvalidGate",
            format!(
                "Held because a gate annotation can't be read: {}; remove the annotation, or create the object anew with a valid one",
                summarize(problems)
            ),
        ),
        gates => Note::normal(
            "Gated",
            format!(
                "Held until these gates are removed: {}",
                gates
                    .names()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        ),
    }
}

/// A job whose pods can't be held: they come without Sluice's gate. One that can be suspended is.
fn not_gated(situation: &Situation<'_>) -> Plan {
    let told = |what: &str| {
        let text = format!(
            "{what}: no webhook put Sluice's gate into its pod template when it was created; delete it and create it again"
        );
        Note::warning("NotGated", text)
    };
    match (situation.kind.suspend_path(), situation.job.suspended) {
        (None, _) => Plan::note(told("Not queued, and its pods run")),
        (Some(_), Some(true)) => Plan::note(told("Not queued, and suspended")),
        (Some(_), _) => suspend(situation, told("Not queued, and suspended")),
    }
}

/// A job with gates: no Workload, not running.
fn gated(situation: &Situation<'_>, reading: &Reading) -> Plan {
    let Situation { job, workload, .. } = situation;
    let note = held_note(job);
    if job.queue == QueueName::None && !job.held && job.hold == Hold::Suspend {
        return mark_held(situation, reading).and_note(note);
    }
    if runs_unheld(situation, reading) {
        return suspend(situation, note);
    }
    if let Some((workload_key, record)) = workload
        && !record.deleting
    {
        return delete_workload(workload_key, record).and_note(note);
    }
    Plan::note(note)
}

/// Marks a gated job that names no queue, and suspends it in the same write: if its gate goes right
/// after that, the mark says who held it.
fn mark_held(situation: &Situation<'_>, reading: &Reading) -> Plan {
    let Situation { key, job, kind, .. } = situation;
    let mut patch = json!({"metadata": {
        "resourceVersion": job.revision.0.to_string(),
        "annotations": {HELD_ANNOTATION: "true"},
    }});
    let purpose = match kind.suspend_path() {
        Some(path) if !reading.suspended => {
            path.merge_into(&mut patch, json!(true));
            JobPurpose::Suspend
        }
        Some(_) | None => JobPurpose::MarkHeld,
    };
    Plan::write(Write::PatchJob {
        key: (*key).clone(),
        patch: JobPatch::Merge(patch),
        purpose,
    })
}

/// A job without gates and without a queue: Sluice has something to do with it only if it held it.
fn unqueued(situation: &Situation<'_>, reading: &Reading) -> Plan {
    let Situation { job, workload, .. } = situation;
    if let Some((workload_key, record)) = workload
        && !record.deleting
    {
        return delete_workload(workload_key, record);
    }
    if !job.held {
        return Plan::default();
    }
    let message = "Its last gate is gone and it names no queue: started";
    start(situation, reading, message)
}

/// Starts a job that bears the mark of one that a gate held.
fn start(situation: &Situation<'_>, reading: &Reading, message: &str) -> Plan {
    let Situation { key, job, kind, .. } = situation;
    let mut patch = json!({"metadata": {
        "resourceVersion": job.revision.0.to_string(),
        "annotations": {HELD_ANNOTATION: null, RELEASED_ANNOTATION: "true"},
    }});
    if let Some(path) = kind.suspend_path().filter(|_| reading.suspended) {
        path.merge_into(&mut patch, json!(false));
    }
    Plan::write(Write::PatchJob {
        key: (*key).clone(),
        patch: JobPatch::Merge(patch),
        purpose: JobPurpose::Release,
    })
    .and_note(Note::normal("Started", message))
}

/// A job that waits for quota.
fn pending(situation: &Situation<'_>, reading: &Reading, queue: &str) -> Plan {
    let pod_sets = match &reading.pod_sets {
        Err(_) if situation.lacks_child() => {
            let message = "Waits until its controller has made the object that its pods come from: only there can be read what they ask for";
            return hold(situation, reading, Note::normal("WaitsForChild", message));
        }
        Ok(pod_sets) => pod_sets,
        Err(problems) => {
            let message = format!("Can't be queued: {}", summarize(problems));
            return hold(situation, reading, Note::warning("InvalidPodSets", message));
        }
    };
    let problems = bad_min_counts(pod_sets);
    if !problems.is_empty() {
        let message = format!("Can't be queued: {}", summarize(&problems));
        return hold(situation, reading, Note::warning("InvalidPodSets", message));
    }
    if pod_sets.is_empty() {
        let message =
            "Can't be queued: it has no pod sets, so that nothing would be charged for it";
        return hold(situation, reading, Note::warning("InvalidPodSets", message));
    }
    if situation.job.hold == Hold::Pods && !situation.job.is_gated {
        return not_gated(situation);
    }
    if runs_unheld(situation, reading) {
        let message = format!(
            "Suspended: it ran without being admitted. It starts by itself when LocalQueue {queue:?} has room"
        );
        return suspend(situation, Note::warning("Stopped", message));
    }
    let priority = match (situation.priority)() {
        Ok(priority) => priority,
        Err(note) => return Plan::note(note),
    };
    let mut spec = workload::spec(queue, pod_sets, None, &priority);
    spec.active = situation
        .workload
        .is_none_or(|(_, record)| record.spec.active);
    match situation.workload {
        // Its quota is free, and it can ask for some again, when its pods are gone.
        None if situation.still_charged && (reading.active || 0 < situation.live_pods) => {
            Plan::default()
        }
        None => {
            let workload = workload::object(situation.key, situation.job, situation.kind, spec);
            let plan = Plan::write(Write::CreateWorkload(Box::new(workload)));
            match whole_note(situation.job, queue) {
                Some(note) => plan.and_note(note),
                None => plan,
            }
        }
        Some((key, record)) if record.spec != spec && !record.deleting => {
            Plan::write(Write::UpdateWorkloadSpec {
                key: key.clone(),
                revision: record.revision,
                spec: Box::new(spec),
            })
        }
        // Its pods bring gates of others, and only they can tell when these are gone. They are born
        // behind the queue gate too, so that nothing runs.
        Some(_) if reading.suspended && shows_by_pods(situation.job, pod_sets) => {
            Plan::write(release(situation, &[]))
        }
        Some(_) => Plan::default(),
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
        Note::warning("AdmittedAsAWhole", message)
    })
}

/// A job that holds quota: let it go, if it asks for no more than it was given.
fn plan_admitted(
    situation: &Situation<'_>,
    reading: &Reading,
    workload_key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let Situation { job, now, .. } = situation;
    if situation.lacks_child() {
        return Plan::default();
    }
    let Ok(pod_sets) = &reading.pod_sets else {
        return evict_changed(workload_key, record, *now);
    };
    let fit = match job.hold {
        Hold::Suspend if reading.suspended => Fit::Exact,
        Hold::Suspend => Fit::Within,
        Hold::Pods | Hold::EachPod => Fit::EachPodWithin,
    };
    if !workload::covers(record, pod_sets, fit) {
        return evict_changed(workload_key, record, *now);
    }
    if progress::is_refuted(record, situation.live_pods_of_set) {
        return evict_returned(workload_key, record, *now);
    }
    if !record.spec.active {
        let message = "It was deactivated (spec.active of its Workload)";
        let cause = Cause::new("Deactivated", message);
        return evict(workload_key, record, &cause, *now);
    }
    if !reading.suspended {
        return running(situation, reading, pod_sets, workload_key, record);
    }
    // Pods that wait behind gates get their flavors' placement themselves.
    let placings = match job.hold {
        Hold::Suspend => workload::placings(record, pod_sets),
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

/// A job that holds quota and was let go: pass on what it tells of itself.
fn running(
    situation: &Situation<'_>,
    reading: &Reading,
    pod_sets: &[PodSetView],
    workload_key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Plan {
    let told = Told {
        ready: reading.ready.as_ref().ok().copied().flatten(),
        pod_sets,
        live_pods_of_set: situation.live_pods_of_set,
    };
    let plan = match progress::report(record, &told, situation.now) {
        Some(status) => status_write(workload_key, record, status, StatusPurpose::Report),
        None => Plan::default(),
    };
    if let Err(problem) = &reading.ready {
        let message = format!("Can't tell whether its pods are ready: {problem}");
        return plan.and_note(Note::warning("Unreadable", message));
    }
    match &situation.job.gates {
        GateState::None => plan,
        _ => plan.and_note(Note::warning(
            "GateIgnored",
            "A gate was added after this object was let go: it has no effect. Gates may only be set at creation",
        )),
    }
}

fn release(situation: &Situation<'_>, placings: &[Placing<'_>]) -> Write {
    let Situation { key, job, kind, .. } = situation;
    let target = Target {
        uid: &job.uid,
        generation: job.generation,
    };
    Write::PatchJob {
        key: (*key).clone(),
        patch: JobPatch::Json(kind.release_patch(target, placings)),
        purpose: JobPurpose::Release,
    }
}

pub(super) fn delete_workload(key: &WorkloadKey, record: &WorkloadRecord) -> Plan {
    Plan::write(Write::DeleteWorkload {
        key: key.clone(),
        uid: record.uid.to_string(),
        unless: None,
    })
}

fn hold(situation: &Situation<'_>, reading: &Reading, note: Note) -> Plan {
    if runs_unheld(situation, reading) {
        suspend(situation, note)
    } else {
        Plan::note(note)
    }
}

fn suspend(situation: &Situation<'_>, note: Note) -> Plan {
    match suspend_write(situation) {
        Some(write) => Plan::write(write).and_note(note),
        None => Plan::note(note),
    }
}

pub(super) fn suspend_write(situation: &Situation<'_>) -> Option<Write> {
    // A merge patch makes the objects above the field where they are missing.
    let mut patch = json!({"metadata": {"uid": &*situation.job.uid}});
    let path = situation.kind.suspend_path()?;
    path.merge_into(&mut patch, json!(true));
    Some(Write::PatchJob {
        key: situation.key.clone(),
        patch: JobPatch::Merge(patch),
        purpose: JobPurpose::Suspend,
    })
}

pub(super) fn status_write(
    key: &WorkloadKey,
    record: &WorkloadRecord,
    status: sluice_crds::WorkloadStatus,
    purpose: StatusPurpose,
) -> Plan {
    Plan::write(Write::SetWorkloadStatus {
        key: key.clone(),
        revision: record.revision,
        status: Box::new(status),
        purpose,
    })
}
