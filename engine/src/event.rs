//! What goes into the engine and what comes out of it.

use crate::model::{Admission, ClusterQueue, Cohort, Flavor, LocalQueue, Workload};
use crate::names::{CohortName, FlavorName, LocalQueueKey, QueueName, WorkloadId};

/// Something that has changed. Telling the engine what it knows already changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flavor exists, like this.
    UpsertFlavor(Flavor),
    /// A flavor is gone.
    RemoveFlavor(FlavorName),
    /// A cohort exists, like this.
    UpsertCohort(Cohort),
    /// A cohort's object is gone. While a queue or cohort names it, it is a root without quota.
    RemoveCohort(CohortName),
    /// A ClusterQueue exists, like this.
    UpsertClusterQueue(ClusterQueue),
    /// A ClusterQueue is gone. What is charged to its name stays charged to its name.
    RemoveClusterQueue(QueueName),
    /// A LocalQueue exists, like this.
    UpsertLocalQueue(LocalQueue),
    /// A LocalQueue is gone.
    RemoveLocalQueue(LocalQueueKey),
    /// A workload exists, like this. While its admission is assumed, `Pending` is taken for an
    /// echo from before the admission, and the assumption stays. That more or fewer of its pods
    /// are bound frees nothing and takes nothing.
    UpsertWorkload(Workload),
    /// A workload is gone, and with it what it held.
    RemoveWorkload(WorkloadId),
    /// An assumed admission couldn't be written: it is taken back, and the workload waits again.
    AdmissionFailed(WorkloadId),
    /// An eviction couldn't be written: it will be decided again if its reason still holds.
    EvictionFailed(WorkloadId),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write this admission. It is charged from now on (assumed), until an
    /// [`Event::UpsertWorkload`] confirms it or an [`Event::AdmissionFailed`] takes it back.
    Admit {
        /// The workload.
        id: WorkloadId,
        /// What it gets.
        admission: Admission,
    },
    /// Let this workload go back. It stays charged until its record says that it has ended.
    Evict {
        /// The workload.
        id: WorkloadId,
        /// Why.
        reason: EvictReason,
    },
}

/// Why an admitted workload has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictReason {
    /// Its ClusterQueue is stopped, with `HoldAndDrain`.
    ClusterQueueStopped,
    /// Its LocalQueue is stopped, with `HoldAndDrain`.
    LocalQueueStopped,
    /// It holds quota that it doesn't use, for longer than its ClusterQueue allows.
    ReservationTimedOut,
    /// It makes room for another one.
    Preempted {
        /// The other one.
        by: WorkloadId,
        /// By which right.
        right: PreemptionRight,
    },
}

/// By which right a workload is preempted: Kueue's reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptionRight {
    /// The other one goes before it in the same ClusterQueue.
    InClusterQueue,
    /// The other one's queue takes back what is its own.
    InCohortReclamation,
    /// The other one goes before it, and both queues borrow.
    InCohortReclaimWhileBorrowing,
    /// The other one's queue has the smaller share.
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
