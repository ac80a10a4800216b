//! Writes and how they end, in words of closed sets: as metrics and logs name them.

use super::reply::Reply;
use crate::plan::{JobPurpose, PodPurpose, StatusPurpose, Write};

/// What a write does, in a word of a closed set.
pub fn operation(write: &Write) -> &'static str {
    match write {
        Write::CreateWorkload(_) => "create_workload",
        Write::UpdateWorkloadSpec { .. } => "update_workload",
        Write::DeleteWorkload { .. } => "delete_workload",
        Write::SetWorkloadStatus { purpose, .. } => match purpose {
            StatusPurpose::Admit => "admit",
            StatusPurpose::Evict => "evict",
            StatusPurpose::Requeue => "requeue",
            StatusPurpose::TakeBack => "take_back",
            StatusPurpose::Finish => "finish",
            StatusPurpose::Report => "report",
            StatusPurpose::Stall => "stall",
            StatusPurpose::Explain => "explain",
        },
        Write::PatchJob { purpose, .. } => match purpose {
            JobPurpose::Suspend => "suspend",
            JobPurpose::Prepare => "prepare",
            JobPurpose::Release => "release",
            JobPurpose::Restore => "restore",
            JobPurpose::ClearStartTime => "clear_start_time",
            JobPurpose::KeepGates => "keep_gates",
        },
        Write::PatchPod { purpose, .. } | Write::DeletePod { purpose, .. } => match purpose {
            PodPurpose::Admit => "admit_pod",
            PodPurpose::Release => "release_pod",
            PodPurpose::LiftGates => "lift_gates",
            PodPurpose::KeepGates => "keep_gates_of_pod",
            PodPurpose::Relabel => "relabel_pod",
            PodPurpose::Evict => "evict_pod",
            PodPurpose::TimeOut => "time_out_pod",
        },
    }
}

/// How a write ended, in such a word.
pub(super) fn outcome(reply: &Reply) -> &'static str {
    match reply {
        Reply::Done(_) => "done",
        Reply::Conflict(_) => "conflict",
        Reply::Refused(_) => "refused",
        Reply::Throttled(_) => "throttled",
        Reply::Unknown(_) => "unknown",
    }
}
