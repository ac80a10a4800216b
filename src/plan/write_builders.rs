//! The writes that the plans for jobs and groups end in.

use sluice_kinds::hold::Hold;
use sluice_kinds::patch::{Placing, Target};
use sluice_kinds::suspension::MarkAt;

use crate::cache::job::Reading;
use crate::cache::{WorkloadKey, WorkloadRecord};
use crate::plan::situation::JobSituation;
use crate::plan::writes::plan_and_notes::{Note, Plan};
use crate::plan::writes::write::{JobPatch, JobPurpose, StatusPurpose, Write, is_change};

/// Whether a job that waits by being suspended isn't.
pub(super) fn runs_unheld(situation: &JobSituation<'_>, reading: &Reading) -> bool {
    situation.job.hold == Hold::Suspend && !reading.suspended
}

/// The release; before one that changes templates, what makes them open to changes.
pub(super) fn release(situation: &JobSituation<'_>, placings: &[Placing<'_>]) -> Write {
    let JobSituation { key, job, kind, .. } = situation;
    let target = Target {
        uid: &job.uid,
        generation: job.generation,
    };
    if is_change(&kind.prepare_patch(target, placings))
        && let Some(first) = Write::clear_start_time(key, job, kind)
    {
        return first;
    }
    let resource_version = job.revision.0.to_string();
    let mark = if job.has_annotations {
        MarkAt::Annotations
    } else {
        MarkAt::NoAnnotations {
            resource_version: &resource_version,
        }
    };
    Write::PatchJob {
        key: (*key).clone(),
        patch: JobPatch::Json(kind.release_patch(target, placings, mark)),
        purpose: JobPurpose::Release,
    }
}

pub(super) fn update_spec(
    key: &WorkloadKey,
    record: &WorkloadRecord,
    spec: sluice_crds::WorkloadSpec,
) -> Plan {
    Plan::write(Write::UpdateWorkloadSpec {
        key: key.clone(),
        revision: record.revision,
        spec: Box::new(spec),
    })
}

pub(super) fn delete_workload(key: &WorkloadKey, record: &WorkloadRecord) -> Plan {
    Plan::write(Write::DeleteWorkload {
        key: key.clone(),
        uid: record.uid.to_string(),
        unless: None,
    })
}

pub(super) fn hold(situation: &JobSituation<'_>, reading: &Reading, note: Note) -> Plan {
    if runs_unheld(situation, reading) {
        suspend(situation, note)
    } else {
        Plan::note(note)
    }
}

pub(super) fn suspend(situation: &JobSituation<'_>, note: Note) -> Plan {
    match suspend_write(situation) {
        Some(write) => Plan::write(write).and_note(note),
        None => Plan::note(note),
    }
}

pub(super) fn suspend_write(situation: &JobSituation<'_>) -> Option<Write> {
    let patch = situation.kind.suspend_patch(&situation.job.uid)?;
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
