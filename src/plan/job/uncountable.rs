//! Why a job can't be queued whatever its queue has: it can't be read, or what it requests can't be counted. Told by an
//! event, and by the condition of a Workload that it has from before.

use sluice_crds::reasons::event;
use sluice_kinds::Problem;
use sluice_kinds::devices::uncounted;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::{LabelledQueue, PodSetView, bad_min_counts, missing_runtime_classes};

use crate::cache::JobRecord;
use crate::plan::writes::plan_and_notes::Note;

/// The reason of the event, and what it says.
pub type Uncountable = (&'static str, String);

/// Why a job can't be queued, if so.
pub fn job(job: &JobRecord) -> Option<Uncountable> {
    let reading = match &job.reading {
        Ok(reading) => reading,
        Err(problems) => return Some(unreadable(problems)),
    };
    if let LabelledQueue::Invalid(problem) = &job.queue {
        return Some((event::INVALID_QUEUE_NAME, problem.to_string()));
    }
    match &reading.pod_sets {
        Ok(sets) => pod_sets(sets),
        Err(problems) => Some(unreadable_pod_sets(problems)),
    }
}

/// What is told of a job whose pods are those of an object that is missing.
pub fn waits_for_child() -> Note {
    let message = "Waits until its controller has created the object that creates its pods: their requests are read from that object";
    Note::normal(event::WAITS_FOR_CHILD, message)
}

/// What is told of a job that its controller would never run.
pub fn never_runs(refusals: &[Problem]) -> Note {
    let why = summarize(refusals);
    let message = format!("Can't be queued, as its controller would never run it: {why}");
    Note::warning(event::NEVER_RUNS, message)
}

/// What is told of an object that can't be read.
pub(super) fn unreadable(problems: &[Problem]) -> Uncountable {
    let message = format!(
        "This object does not fit its JobKind: {}",
        summarize(problems)
    );
    (event::UNREADABLE, message)
}

/// What is told of pod sets that can't be read.
pub(super) fn unreadable_pod_sets(problems: &[Problem]) -> Uncountable {
    let message = format!("Can't be queued: {}", summarize(problems));
    (event::INVALID_POD_SETS, message)
}

/// Why what these pod sets request can't be counted, if so.
pub(super) fn pod_sets(sets: &[PodSetView]) -> Option<Uncountable> {
    let mut problems = uncounted(sets);
    problems.extend(missing_runtime_classes(sets));
    problems.extend(bad_min_counts(sets));
    if !problems.is_empty() {
        return Some(unreadable_pod_sets(&problems));
    }
    sets.is_empty().then(|| {
        let message = "Can't be queued: it has no pod sets, so it would run without usage";
        (event::INVALID_POD_SETS, message.to_owned())
    })
}
