//! The preemption round of a cohort tree: which workloads were preempted since anything else changed. The rule
//! and its proof are in docs/queues.md, "Preemption comes to an end".
//!
//! What ends a round is `state/preemption_round_end.rs`.

use std::collections::BTreeSet;

use crate::api::names::WorkloadId;

/// The workloads that were preempted in this round. They are no candidates until it ends, even if they are
/// admitted again.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreemptionRound {
    preempted: BTreeSet<WorkloadId>,
}

impl PreemptionRound {
    /// Whether a workload may not be preempted again in this round.
    pub(crate) fn protects(&self, id: &WorkloadId) -> bool {
        self.preempted.contains(id)
    }

    pub(crate) fn protects_any(&self) -> bool {
        !self.preempted.is_empty()
    }

    /// A workload was preempted; returns whether that is the first time in this round.
    pub(crate) fn add(&mut self, id: WorkloadId) -> bool {
        self.preempted.insert(id)
    }

    /// Begins the next round.
    pub(super) fn end(&mut self) {
        self.preempted.clear();
    }
}
