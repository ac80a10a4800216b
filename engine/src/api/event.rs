//! Events and decisions: what goes into the engine, and what comes out of it.

use crate::api::flavor::Flavor;
use crate::api::names::{ClusterQueueName, CohortName, FlavorName, LocalQueueKey, WorkloadId};
use crate::api::queues::{ClusterQueue, Cohort, LocalQueue};
use crate::api::workload::{Admission, Workload};

/// Something that has changed. Repeating what the engine knows has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flavor was created or changed.
    UpsertFlavor(Flavor),
    /// A flavor was deleted.
    RemoveFlavor(FlavorName),
    /// A cohort was created or changed.
    UpsertCohort(Cohort),
    /// A cohort was deleted. While a queue or cohort names it, it is a root without quota.
    RemoveCohort(CohortName),
    /// A ClusterQueue was created or changed.
    UpsertClusterQueue(ClusterQueue),
    /// A ClusterQueue was deleted. Usage of its name remains.
    RemoveClusterQueue(ClusterQueueName),
    /// A LocalQueue was created or changed.
    UpsertLocalQueue(LocalQueue),
    /// A LocalQueue was deleted.
    RemoveLocalQueue(LocalQueueKey),
    /// A workload was created or changed. While its admission is assumed, `Pending` is taken for an echo
    /// from before the admission and does not end the assumption. The number of bound pods has no effect on
    /// quota.
    UpsertWorkload(Workload),
    /// A workload was deleted, and its usage with it.
    RemoveWorkload(WorkloadId),
    /// An assumed admission could not be written: it is undone, and the workload is pending again.
    AdmissionFailed(WorkloadId),
    /// An eviction could not be written: it will be decided again if its reason still holds.
    EvictionFailed(WorkloadId),
}

/// A decision to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write this admission. Its usage counts from now on (assumed), until an [`Event::UpsertWorkload`]
    /// confirms it or an [`Event::AdmissionFailed`] undoes it.
    Admit {
        /// The workload.
        id: WorkloadId,
        /// Its admission.
        admission: Admission,
    },
    /// Evict this workload. Its usage counts until its record says that it has stopped.
    Evict {
        /// The workload.
        id: WorkloadId,
        /// The reason.
        reason: EvictReason,
    },
}

/// Why an admitted workload is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictReason {
    /// Its ClusterQueue is stopped, with `HoldAndDrain`.
    ClusterQueueStopped,
    /// Its LocalQueue is stopped, with `HoldAndDrain`.
    LocalQueueStopped,
    /// Its pods did not use its quota for longer than its ClusterQueue allows.
    ReservationTimedOut,
    /// It is preempted by another workload.
    Preempted {
        /// The preemptor.
        by: WorkloadId,
        /// The reason of the preemption.
        right: PreemptionRight,
    },
}

/// The reason of a preemption: Kueue's reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptionRight {
    /// The preemptor is ordered before it in the same ClusterQueue.
    InClusterQueue,
    /// The preemptor's queue reclaims its nominal quota.
    InCohortReclamation,
    /// The preemptor has a higher priority, and both queues borrow.
    InCohortReclaimWhileBorrowing,
    /// The preemptor's queue has the smaller share.
    InCohortFairSharing,
}

impl PreemptionRight {
    /// The word for it in conditions and metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::InClusterQueue => "InClusterQueue",
            Self::InCohortReclamation => "InCohortReclamation",
            Self::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
            Self::InCohortFairSharing => "InCohortFairSharing",
        }
    }
}
