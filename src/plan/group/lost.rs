//! Groups whose pods run and whose Workload somebody has deleted.

use sluice_crds::reasons::event;

use crate::plan::workload::WORKLOAD_DELETED;
use crate::plan::writes::plan_and_notes::Note;

/// Pods that run and were admitted with their group by a Workload that somebody has deleted.
#[derive(Debug, Clone, Copy, Default)]
pub struct LostPods {
    /// How many there are.
    pub count: usize,
    /// Whether their ClusterQueue keeps one of them, as nobody would make it again.
    pub are_kept: bool,
}

/// What is told of a group whose Workload somebody has deleted, and whose pods run.
pub(super) fn note(pods: LostPods) -> Note {
    if pods.are_kept {
        let text = "Its Workload was deleted, but no controller would recreate the pods of this group, and its ClusterQueue keeps such pods (whenNotRestartable: Keep): they stay and hold their quota, and the group is queued again when they have ended; delete them to free the quota";
        return Note::warning(event::NOT_EVICTED, text);
    }
    Note::warning(event::STOPPED, WORKLOAD_DELETED)
}
