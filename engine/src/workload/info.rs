//! What is known of each workload: its requests, and how far it has come.

use std::sync::Arc;

use crate::api::event::EvictReason;
use crate::api::names::{LocalQueueKey, WorkloadId};
use crate::api::queues::{AdmissionScope, ClusterQueue};
use crate::api::time::Time;
use crate::api::workload::Admission;
use crate::quota::usage::{CountedAs, WorkloadUsage};
use crate::workload::lookup::Lookup;
use crate::workload::preemption_order::PreemptionOrder;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::{ClassId, Shape};

/// All workloads.
pub(crate) type Workloads = Lookup<WorkloadId, WorkloadInfo>;

/// A workload. There are many, so this is small: names and shapes are shared.
#[derive(Clone, Debug)]
pub(crate) struct WorkloadInfo {
    pub(crate) local_queue: LocalQueueKey,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) shape: Arc<Shape>,
    pub(crate) not_before: Option<Time>,
    pub(crate) evictable: bool,
    pub(crate) state: WorkloadPhase,
}

/// How far a workload has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadPhase {
    Pending,
    Inactive,
    Finished,
    /// Admitted by a decision, but not yet in the durable record.
    Assumed(Box<AdmissionUsage>),
    Admitted {
        admitted: Box<AdmissionUsage>,
        /// Set once its eviction was decided.
        eviction_reason: Option<EvictReason>,
    },
    /// Evicted, but still with usage.
    Evicting {
        admitted: Box<AdmissionUsage>,
        /// The preemptor, if it was preempted.
        by: Option<WorkloadId>,
    },
}

/// An admission and its usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionUsage {
    pub(crate) admission: Admission,
    pub(crate) usage: WorkloadUsage,
}

impl WorkloadPhase {
    pub(crate) fn admission_usage(&self) -> Option<&AdmissionUsage> {
        match self {
            Self::Assumed(admitted)
            | Self::Admitted { admitted, .. }
            | Self::Evicting { admitted, .. } => Some(admitted),
            Self::Pending | Self::Inactive | Self::Finished => None,
        }
    }

    pub(crate) fn admission(&self) -> Option<&Admission> {
        self.admission_usage().map(|admitted| &admitted.admission)
    }

    /// As what it counts in the status of its queues, while it has usage.
    pub(crate) fn counted_as(&self) -> CountedAs {
        if self.is_admitted() {
            CountedAs::Admitted
        } else {
            CountedAs::Reserving
        }
    }

    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted { .. })
    }

    /// When its reservation times out where this is the configuration of its queue; none if it is used, or the
    /// eviction is decided already.
    pub(crate) fn deadline(&self, queue: &ClusterQueue) -> Option<Time> {
        let Self::Admitted {
            admitted,
            eviction_reason: None,
        } = self
        else {
            return None;
        };
        let admission = &admitted.admission;
        Some((admission.unused_since?).after(queue.unused_timeout(admission)?))
    }

    /// The preemptor, if its eviction was decided for one.
    pub(crate) fn evicted_by(&self) -> Option<&WorkloadId> {
        match self {
            Self::Evicting { by, .. } => by.as_ref(),
            Self::Admitted {
                eviction_reason: Some(EvictReason::Preempted { by, .. }),
                ..
            } => Some(by),
            _ => None,
        }
    }
}

impl WorkloadInfo {
    pub(crate) fn order(&self, id: &WorkloadId) -> QueueOrder {
        QueueOrder::new(self.priority, self.created, id.clone())
    }

    /// Its class while it is pending; a queue that admits by usage keeps one for each LocalQueue.
    pub(crate) fn class(&self, scope: AdmissionScope) -> ClassId {
        ClassId {
            shape: self.shape.id,
            local_queue: match scope {
                AdmissionScope::ByOrder => None,
                AdmissionScope::ByUsage => Some(Arc::new(self.local_queue.clone())),
            },
        }
    }

    /// Whether it is evicted and still has usage.
    pub(crate) fn is_evicting(&self) -> bool {
        match self.state {
            WorkloadPhase::Evicting { .. } => true,
            WorkloadPhase::Admitted {
                eviction_reason: Some(_),
                ..
            } => self.evictable,
            _ => false,
        }
    }

    /// The preemptor that waits for it to stop.
    pub(crate) fn evicted_for(&self) -> Option<&WorkloadId> {
        self.state.evicted_by().filter(|_| self.is_evicting())
    }

    /// Its place in the order of preemption, if it can be preempted.
    pub(crate) fn preemption_order(&self, id: &WorkloadId) -> Option<PreemptionOrder> {
        match &self.state {
            WorkloadPhase::Admitted {
                admitted,
                eviction_reason: None,
            } if self.evictable => {
                let since = admitted.admission.since;
                Some(PreemptionOrder::new(self.priority, since, id.clone()))
            }
            _ => None,
        }
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.is_same_request(other) && self.state == other.state
    }

    /// Whether all but the state is the same.
    pub(crate) fn is_same_request(&self, other: &Self) -> bool {
        // Names each field, so that a new one can't be forgotten.
        let Self {
            local_queue,
            priority,
            created,
            shape,
            not_before,
            evictable,
            state: _,
        } = self;
        *local_queue == other.local_queue
            && (*priority, *created) == (other.priority, other.created)
            && shape.id == other.shape.id
            && (*not_before, *evictable) == (other.not_before, other.evictable)
    }
}
