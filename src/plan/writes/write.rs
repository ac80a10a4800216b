//! What a plan can write, and what each write is for. Which write comes next is not told here, but in `plan/job.rs`,
//! `plan/group.rs` and `plan/pod.rs`.

use std::sync::Arc;

use json_patch::{Patch, PatchOperation};
use sluice_crds::{Workload, WorkloadStatus};
use sluice_kinds::CompiledKind;

use crate::cache::workload::Owner;
use crate::cache::{JobKey, JobRecord, PodKey, Revision, WorkloadKey};

/// The next write for one job or pod. There is at most one in flight for each.
#[derive(Debug, Clone)]
pub enum Write {
    /// Create the job's Workload.
    CreateWorkload(Box<Workload>),
    /// Make the Workload ask for what the job asks for now.
    UpdateWorkloadSpec {
        /// Which.
        key: WorkloadKey,
        /// The revision this was planned from.
        revision: Revision,
        /// The whole spec.
        spec: Box<sluice_crds::WorkloadSpec>,
    },
    /// Write the Workload's status.
    SetWorkloadStatus {
        /// Which.
        key: WorkloadKey,
        /// The revision this was planned from: the write fails if there is a newer one.
        revision: Revision,
        /// The whole status.
        status: Box<WorkloadStatus>,
        /// What it is for.
        purpose: StatusPurpose,
    },
    /// Delete the Workload: its job is not queued any more.
    DeleteWorkload {
        /// Which.
        key: WorkloadKey,
        /// Its UID.
        uid: String,
        /// The job that must be gone first, for a Workload without one: a watch may lag.
        unless: Option<Owner>,
    },
    /// Patch the job.
    PatchJob {
        /// Which.
        key: JobKey,
        /// The patch.
        patch: JobPatch,
        /// What it is for.
        purpose: JobPurpose,
    },
    /// Patch a pod.
    PatchPod {
        /// Which.
        key: PodKey,
        /// A strategic merge patch with the UID in it: gates go by their names, so no other gate is
        /// ever touched and nobody's removal makes ours fail.
        patch: serde_json::Value,
        /// What it is for.
        purpose: PodPurpose,
    },
    /// Delete a pod.
    DeletePod {
        /// Which.
        key: PodKey,
        /// Its UID.
        uid: String,
        /// What it is for.
        purpose: PodPurpose,
    },
}

/// What a write means, whichever object it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// A step of a job's way into its queue.
    Queueing,
    /// What a job waits for is told: it keeps its place in the queue.
    Explanation,
    /// An admission: the engine assumes it.
    Admission,
    /// What has to be written before the templates of a job, or before it is released.
    Preparation,
    /// The release of a job: its pods may run.
    Release,
    /// The release of a pod of a job or group: it may run.
    PodRelease,
    /// An eviction: of a job or group by its Workload, of a pod by its deletion.
    Eviction,
    /// That an eviction, or a deletion, does not end is told.
    Stall,
    /// A gate of the object's own is lifted, or its deadline has passed.
    GateLift,
    /// Anything else.
    Other,
}

impl WriteKind {
    /// Whether a job or pod is released once such a write is done.
    pub fn ends_release(self) -> bool {
        matches!(self, Self::Release | Self::PodRelease)
    }

    /// Whether such a write must not be replaced by another one while nobody knows whether it has happened.
    pub fn happens_once(self) -> bool {
        matches!(self, Self::Admission | Self::PodRelease)
    }
}

impl Write {
    /// What it means.
    pub fn kind(&self) -> WriteKind {
        match self {
            Self::CreateWorkload(_) | Self::UpdateWorkloadSpec { .. } => WriteKind::Queueing,
            Self::SetWorkloadStatus { purpose, .. } => match purpose {
                StatusPurpose::Admit => WriteKind::Admission,
                StatusPurpose::Evict => WriteKind::Eviction,
                StatusPurpose::Explain => WriteKind::Explanation,
                StatusPurpose::Stall => WriteKind::Stall,
                StatusPurpose::Requeue
                | StatusPurpose::Finish
                | StatusPurpose::TakeBack
                | StatusPurpose::Report => WriteKind::Other,
            },
            Self::DeleteWorkload { .. } => WriteKind::Other,
            Self::PatchJob { purpose, .. } => match purpose {
                JobPurpose::Suspend => WriteKind::Queueing,
                JobPurpose::Prepare | JobPurpose::ClearStartTime => WriteKind::Preparation,
                JobPurpose::Release => WriteKind::Release,
                JobPurpose::KeepGates => WriteKind::GateLift,
                JobPurpose::Restore => WriteKind::Other,
            },
            Self::PatchPod { purpose, .. } => match purpose {
                PodPurpose::Admit => WriteKind::Admission,
                PodPurpose::Release => WriteKind::PodRelease,
                PodPurpose::KeepGates => WriteKind::GateLift,
                PodPurpose::LiftGates
                | PodPurpose::Relabel
                | PodPurpose::Evict
                | PodPurpose::TimeOut => WriteKind::Other,
            },
            Self::DeletePod { .. } => WriteKind::Eviction,
        }
    }

    /// The namespace of what is written.
    pub(crate) fn namespace(&self) -> Arc<str> {
        match self {
            Self::CreateWorkload(workload) => {
                let namespace = workload.metadata.namespace.as_deref();
                namespace.unwrap_or_default().into()
            }
            Self::UpdateWorkloadSpec { key, .. }
            | Self::SetWorkloadStatus { key, .. }
            | Self::DeleteWorkload { key, .. } => key.namespace.clone(),
            Self::PatchJob { key, .. } => key.namespace.clone(),
            Self::PatchPod { key, .. } | Self::DeletePod { key, .. } => key.namespace.clone(),
        }
    }

    /// What has to be written before the templates of a suspended object, if its API takes no changes of an object
    /// that has run.
    pub(crate) fn clear_start_time(
        key: &JobKey,
        job: &JobRecord,
        kind: &CompiledKind,
    ) -> Option<Self> {
        let reading = job.reading.as_ref().ok();
        reading.filter(|reading| reading.clears_start_time == Ok(true))?;
        Some(Self::PatchJob {
            key: key.clone(),
            patch: JobPatch::JsonOfStatus(kind.clear_start_time_patch(&job.uid)?),
            purpose: JobPurpose::ClearStartTime,
        })
    }
}

/// Whether a patch does more than test.
pub(crate) fn is_change(patch: &Patch) -> bool {
    let is_change = |operation: &PatchOperation| !matches!(operation, PatchOperation::Test(_));
    patch.iter().any(is_change)
}

/// Why a pod is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPurpose {
    /// It is admitted by itself: this write is its admission.
    Admit,
    /// Its job or group is admitted, or needs no quota.
    Release,
    /// Gates of the annotation that it stands under are gone.
    LiftGates,
    /// A gate of its own is lifted by what its Gate says, or its deadline has passed.
    KeepGates,
    /// It lost the label that it is watched by.
    Relabel,
    /// It is evicted: its job gives its quota back.
    Evict,
    /// It has held quota for too long without a node.
    TimeOut,
}

/// A patch of a job.
#[derive(Debug, Clone)]
pub enum JobPatch {
    /// RFC 6902. A failed `test` means that the job has changed: plan again.
    Json(Patch),
    /// RFC 7386, with the resourceVersion it was planned from.
    Merge(serde_json::Value),
    /// RFC 6902, of the subresource `status`.
    JsonOfStatus(Patch),
}

/// Why a Workload's status is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusPurpose {
    /// It is admitted.
    Admit,
    /// It is evicted.
    Evict,
    /// It has gone: its quota is free.
    Requeue,
    /// Its job has ended.
    Finish,
    /// Its admission does not count and can't: it waits.
    TakeBack,
    /// Say what the job, which runs, tells of itself.
    Report,
    /// Say that its eviction does not end.
    Stall,
    /// Say what it waits for.
    Explain,
}

/// Why a job is patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPurpose {
    /// It may not run (yet).
    Suspend,
    /// Its owner may run: its templates are made ready for that.
    Prepare,
    /// It may run.
    Release,
    /// Take out of its templates what was put in.
    Restore,
    /// Its templates are to be written to: for that it must be as one that never started.
    ClearStartTime,
    /// A gate is lifted by what its Gate says, or its deadline has passed.
    KeepGates,
}
