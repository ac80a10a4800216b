//! The phase that follows when the durable record of a workload changes, and whether its usage stays the
//! same.

use std::sync::Arc;

use crate::api::workload::{Admission, WorkloadState};
use crate::quota::flavor_resources::FlavorResources;
use crate::quota::usage::usage_of;
use crate::workload::info::{AdmissionUsage, WorkloadInfo, WorkloadPhase};

/// The phase that follows from the durable record and from what was decided before.
pub(crate) fn next_state(
    before: Option<&WorkloadPhase>,
    recorded: WorkloadState,
    cells: &mut FlavorResources,
) -> WorkloadPhase {
    let known = before.and_then(WorkloadPhase::admission_usage);
    let mut admitted = |admission| Box::new(admission_usage(admission, known, cells));
    match (recorded, before) {
        (WorkloadState::Pending, Some(WorkloadPhase::Assumed(admitted))) => {
            WorkloadPhase::Assumed(admitted.clone())
        }
        (WorkloadState::Pending, _) => WorkloadPhase::Pending,
        (WorkloadState::Inactive, _) => WorkloadPhase::Inactive,
        (WorkloadState::Finished, _) => WorkloadPhase::Finished,
        (
            WorkloadState::Admitted(admission),
            Some(WorkloadPhase::Admitted {
                admitted: known,
                eviction_reason,
            }),
        ) if known.admission.queue == admission.queue => WorkloadPhase::Admitted {
            admitted: admitted(admission),
            eviction_reason: eviction_reason.clone(),
        },
        (WorkloadState::Admitted(admission), _) => WorkloadPhase::Admitted {
            admitted: admitted(admission),
            eviction_reason: None,
        },
        (WorkloadState::Evicting(admission, by), _) => WorkloadPhase::Evicting {
            admitted: admitted(admission),
            by: by.or_else(|| before?.evicted_by().cloned()),
        },
    }
}

/// The usage of an admission; unchanged parts are shared with the known one.
pub(crate) fn admission_usage(
    admission: Admission,
    known: Option<&AdmissionUsage>,
    cells: &mut FlavorResources,
) -> AdmissionUsage {
    match known {
        Some(known) if known.admission.pod_sets == admission.pod_sets => AdmissionUsage {
            admission: Admission {
                pod_sets: Arc::clone(&known.admission.pod_sets),
                ..admission
            },
            usage: Arc::clone(&known.usage),
        },
        _ => AdmissionUsage {
            usage: usage_of(&admission, cells),
            admission,
        },
    }
}

/// Whether a change only carries out what the engine decided: an admission is recorded, or a preempted
/// workload stops and is queued again as it was. Any other change ends the preemption round.
pub(crate) fn carries_out_decision(before: &WorkloadInfo, after: &WorkloadInfo) -> bool {
    let was_preempted = before.state.evicted_by().is_some();
    before.is_same_request(after)
        && match &after.state {
            WorkloadPhase::Admitted { .. } => {
                let was_admitted = matches!(
                    before.state,
                    WorkloadPhase::Assumed(_) | WorkloadPhase::Admitted { .. }
                );
                was_admitted && keeps_usage(before, after)
            }
            WorkloadPhase::Evicting { .. } => was_preempted && keeps_usage(before, after),
            WorkloadPhase::Pending => was_preempted,
            WorkloadPhase::Assumed(_) | WorkloadPhase::Inactive | WorkloadPhase::Finished => false,
        }
}

/// Whether a workload requests something else, elsewhere, or is less important: what was evicted for it before
/// was not evicted for this.
pub(crate) fn requests_anew(before: &WorkloadInfo, after: &WorkloadInfo) -> bool {
    before.local_queue != after.local_queue
        || before.shape.id != after.shape.id
        || after.priority < before.priority
}

/// Whether both have the same usage, so that no quota is freed or taken. The nodes of their pods do not
/// matter.
pub(crate) fn keeps_usage(before: &WorkloadInfo, after: &WorkloadInfo) -> bool {
    let (Some(old), Some(new)) = (before.state.admission(), after.state.admission()) else {
        return false;
    };
    old.has_same_usage(new) && before.local_queue == after.local_queue
}
