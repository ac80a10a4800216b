//! All that the plan for a job depends on: the records of the job, its Workload and its child, and what else is
//! known of its pods. What is planned of it lies in `job.rs` and beside.

use sluice_kinds::CompiledKind;
use sluice_kinds::gates::Gate;
use sluice_kinds::patch::{Placing, Target};

use crate::cache::job::Reading;
use crate::cache::{JobKey, JobRecord, WorkloadKey, WorkloadRecord};
use crate::plan::evictions::requeue_backoff::Backoff;
use crate::plan::gates::action::GateNow;
use crate::plan::progress::LivePods;
use crate::plan::workload::priority::{NoPriority, Priority};
use crate::plan::writes::plan_and_notes::Present;
use crate::plan::writes::write::{JobPatch, JobPurpose, Write, is_change};

/// All that the plan for a job depends on.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct JobSituation<'a> {
    /// Where the job is.
    pub key: &'a JobKey,
    /// The job.
    pub job: &'a JobRecord,
    /// Its kind.
    pub kind: &'a CompiledKind,
    /// The object that has its pods, if its kind has none of its own and that object is there.
    pub child: Option<ChildWithPods<'a>>,
    /// Its Workload, if there is one.
    pub workload: Option<(&'a WorkloadKey, &'a WorkloadRecord)>,
    /// The Workload that it was admitted by last, where it has lost that admission and its templates may still hold what
    /// its release put in.
    pub placed_by: Option<&'a WorkloadRecord>,
    /// Whether its namespace is being deleted.
    pub namespace_is_terminating: bool,
    /// Whether a Workload of this job that somebody has deleted still has usage.
    pub still_in_use: bool,
    /// How many of its pods run that were admitted by a Workload which somebody has deleted.
    pub lost_pods: usize,
    /// How many of its pods may run: released, and not gone.
    pub live_pods: usize,
    /// Whether its pods are found by their label, so that where none is seen there is none.
    pub shows_pods: bool,
    /// Whether it is admitted, should have pods, and has had none for long.
    pub lacks_pods: bool,
    /// Whether pods may run that no watch has shown: its controller may have made them a moment ago, or nobody knows
    /// whether it was released.
    pub may_have_unseen_pods: bool,
    /// How many of these will not be gone in a moment: a job that has ended waits for no others.
    pub lasting_pods: usize,
    /// How many of its pods may run, for one of its pod sets.
    pub live_pods_of_set: &'a dyn Fn(&str) -> LivePods,
    /// How long it backs off after it has given its quota back, if it has to.
    pub backoff: &'a dyn Fn(&WorkloadRecord) -> Backoff,
    /// What the Gate of a gate says of the job now, if there is one.
    pub gate: &'a dyn Fn(&Gate) -> Option<GateNow>,
    /// Its priority, or why that can't be known.
    pub priority: &'a dyn Fn() -> Result<Priority, NoPriority>,
    /// The present.
    pub now: Present,
}

/// An object that has the pods of its owner. Its own controller suspends it and releases it, as its
/// owner says.
#[derive(Debug, Clone, Copy)]
pub struct ChildWithPods<'a> {
    /// Where it is.
    pub key: &'a JobKey,
    /// The object.
    pub job: &'a JobRecord,
    /// Its kind.
    pub kind: &'a CompiledKind,
}

impl ChildWithPods<'_> {
    /// Whether pods of it run or may still be made.
    pub(super) fn is_active(&self) -> bool {
        let reading = self.job.reading.as_ref();
        self.job.suspended != Some(true) || reading.map_or(true, Reading::may_have_pods)
    }

    fn target(&self) -> Target<'_> {
        Target {
            uid: &self.job.uid,
            generation: self.job.generation,
        }
    }

    /// Writes the placement of an admission into its templates; none if it is there.
    pub(super) fn prepare(&self, placings: &[Placing<'_>]) -> Option<Write> {
        let patch = self.kind.prepare_patch(self.target(), placings);
        let first = || Write::clear_start_time(self.key, self.job, self.kind);
        is_change(&patch).then(|| {
            first().unwrap_or_else(|| Write::PatchJob {
                key: self.key.clone(),
                patch: JobPatch::Json(patch),
                purpose: JobPurpose::Prepare,
            })
        })
    }

    /// Takes out of its templates what was put in.
    pub(super) fn restore(&self, placings: &[Placing<'_>]) -> Write {
        let restore = || Write::PatchJob {
            key: self.key.clone(),
            patch: JobPatch::Json(self.kind.place_patch(self.target(), placings)),
            purpose: JobPurpose::Restore,
        };
        Write::clear_start_time(self.key, self.job, self.kind).unwrap_or_else(restore)
    }
}

impl JobSituation<'_> {
    /// Whether the object is missing that has the job's pods.
    pub(super) fn lacks_child(&self) -> bool {
        self.kind.has_pods_of_children() && self.child.is_none()
    }
}
