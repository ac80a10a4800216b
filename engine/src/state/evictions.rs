//! Reasons to evict an admitted workload other than preemption, and when they are due.

use crate::api::event::EvictReason;
use crate::api::names::WorkloadId;
use crate::api::queues::{ClusterQueue, StopPolicy};
use crate::api::time::Time;
use crate::queue::local_queue::LocalQueueState;
use crate::state::engine::Engine;
use crate::workload::info::{WorkloadInfo, WorkloadPhase};

impl Engine {
    /// Checks these workloads again in the next decision. Withdraws decided evictions whose reason no
    /// longer holds.
    pub(crate) fn review(&mut self, workloads: impl IntoIterator<Item = WorkloadId>) {
        for id in workloads {
            // Only admitted workloads are reviewed: the others have no quota to give back.
            let Some(info) = self.workloads.get(&id) else {
                continue;
            };
            let WorkloadPhase::Admitted {
                eviction_reason, ..
            } = &info.state
            else {
                continue;
            };
            if eviction_reason
                .as_ref()
                .is_some_and(|reason| self.is_reason_obsolete(info, reason))
            {
                self.set_eviction_reason(&id, None);
            }
            self.to_review.insert(id);
        }
    }

    /// Whether an eviction that was decided has lost its reason. Preemptions and expired timeouts are not
    /// withdrawn.
    fn is_reason_obsolete(&self, info: &WorkloadInfo, reason: &EvictReason) -> bool {
        match reason {
            EvictReason::ClusterQueueStopped | EvictReason::LocalQueueStopped => {
                !self.eviction_reason_holds(info, reason)
            }
            EvictReason::ReservationTimedOut | EvictReason::Preempted { .. } => false,
        }
    }

    /// Whether this reason to evict a workload holds.
    pub(crate) fn eviction_reason_holds(&self, info: &WorkloadInfo, reason: &EvictReason) -> bool {
        match reason {
            EvictReason::ClusterQueueStopped => {
                let queue = info.state.admission().map(|admission| &admission.queue);
                let config = queue.and_then(|queue| self.config.queues.get(queue));
                config.is_some_and(|config| config.stop == StopPolicy::HoldAndDrain)
            }
            EvictReason::LocalQueueStopped => self
                .local_queues
                .get(&info.local_queue)
                .is_some_and(LocalQueueState::is_draining),
            EvictReason::ReservationTimedOut => {
                let deadline = self.deadline(info);
                deadline.is_some_and(|deadline| deadline <= self.now)
            }
            EvictReason::Preempted { .. } => false,
        }
    }

    /// When the reservation timeout of a workload expires.
    pub(crate) fn deadline(&self, info: &WorkloadInfo) -> Option<Time> {
        let queue = &info.state.admission()?.queue;
        info.state.deadline(self.config.queues.get(queue)?)
    }

    pub(super) fn set_deadline(
        &mut self,
        id: &WorkloadId,
        before: Option<&ClusterQueue>,
        after: Option<&ClusterQueue>,
    ) {
        let Some(info) = self.workloads.get(id) else {
            self.check(false, "what has usage is known");
            return;
        };
        let deadline = |queue: Option<&ClusterQueue>| info.state.deadline(queue?);
        let (before, after) = (deadline(before), deadline(after));
        if let Some(deadline) = before {
            let was_there = self.timers.remove(&(deadline, id.clone()));
            self.check(was_there, "a deadline has a timer until it is due");
        }
        if let Some(deadline) = after {
            self.timers.insert((deadline, id.clone()));
        }
    }

    pub(crate) fn eviction_failed(&mut self, id: &WorkloadId) {
        if let Some(info) = self.workloads.get(id)
            && let WorkloadPhase::Admitted {
                eviction_reason, ..
            } = &info.state
        {
            if eviction_reason.is_some() {
                self.end_preemption_round_of(id);
            }
            self.set_eviction_reason(id, None);
            self.to_review.insert(id.clone());
        }
    }

    /// Sets the reason for which the eviction of an admitted workload was decided, or clears it.
    pub(crate) fn set_eviction_reason(&mut self, id: &WorkloadId, reason: Option<EvictReason>) {
        self.remove_from_lists(id);
        if let Some(info) = self.workloads.get_mut(id)
            && let WorkloadPhase::Admitted {
                eviction_reason, ..
            } = &mut info.state
        {
            *eviction_reason = reason;
        }
        self.add_to_lists(id);
    }
}
