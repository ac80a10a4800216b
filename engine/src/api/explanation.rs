//! Why a workload is pending, as data. It changes with the configuration and the workload, not with other workloads. It
//! is worked out in `explain/diagnose.rs`, and put into words in `explain/message.rs`.

use crate::api::amount::Amount;
use crate::api::names::{
    ClusterQueueName, FlavorName, LocalQueueKey, PodSetName, ResourceName, WorkloadId,
};
use crate::api::node_selection::Mismatch;
use crate::api::status::{InactiveReason, PendingReason};
use crate::api::time::Time;

/// The state of a workload and, if it is pending, the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// It is admitted, or its admission is being written.
    Admitted {
        /// The ClusterQueue of its admission.
        queue: ClusterQueueName,
    },
    /// It is evicted but has not stopped yet.
    Evicting {
        /// The ClusterQueue of its admission.
        queue: ClusterQueueName,
    },
    /// It is not considered for now.
    Inactive,
    /// It has finished.
    Finished,
    /// Its requests are not valid.
    Uncountable(RequestProblem),
    /// Its LocalQueue doesn't exist.
    LocalQueueNotFound(LocalQueueKey),
    /// Its LocalQueue is stopped.
    LocalQueueStopped(LocalQueueKey),
    /// The ClusterQueue does not select this namespace.
    NamespaceNotSelected {
        /// The LocalQueue.
        local_queue: LocalQueueKey,
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
    /// The ClusterQueue that its LocalQueue points to doesn't exist.
    ClusterQueueNotFound {
        /// The LocalQueue.
        local_queue: LocalQueueKey,
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
    /// The ClusterQueue admits nothing.
    ClusterQueueInactive {
        /// The ClusterQueue.
        queue: ClusterQueueName,
        /// Why.
        reason: InactiveReason,
    },
    /// It requests a resource that the ClusterQueue has no quota for.
    NoQuota {
        /// The ClusterQueue.
        queue: ClusterQueueName,
        /// The resource.
        resource: ResourceName,
    },
    /// It does not fit.
    DoesNotFit {
        /// The ClusterQueue.
        queue: ClusterQueueName,
        /// The pod set without a flavor; none if the workload has only one.
        pod_set: Option<PodSetName>,
        /// Why each flavor does not fit, in the order in which they are tried.
        flavors: Vec<FlavorMiss>,
    },
    /// Each of its pod sets fits by itself, but there can never be enough for all of them together.
    NeverFitsTogether {
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
    /// There are more combinations of flavors for its pod sets than are tried, and those that were tried don't fit
    /// whatever the usage.
    TooManyCombinations {
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
    /// The ClusterQueue is `StrictFIFO`, and its head does not fit.
    BehindHead {
        /// The ClusterQueue.
        queue: ClusterQueueName,
        /// The head. Its name is part of the text where that is given.
        head: WorkloadId,
    },
    /// It backs off until some time.
    BackingOff {
        /// The ClusterQueue, if there is one.
        queue: ClusterQueueName,
        /// The time.
        until: Time,
    },
    /// The limit of queued workloads is reached, and all of them come before this one.
    QueueFull {
        /// The ClusterQueue.
        queue: ClusterQueueName,
        /// The limit.
        max: usize,
    },
    /// It would fit, but the quota is reserved for earlier workloads that wait for others to stop.
    QuotaReserved {
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
    /// It would have to preempt workloads that were preempted already in this preemption round.
    TargetsProtected {
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
    /// Quota is reserved for it. It is admitted when evicted workloads have stopped.
    Nominated {
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
    /// No reason is known: the next decision will tell.
    Queued {
        /// The ClusterQueue.
        queue: ClusterQueueName,
    },
}

/// Why requests are not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestProblem {
    /// A request is below zero.
    Negative {
        /// The pod set.
        pod_set: PodSetName,
        /// The resource.
        resource: ResourceName,
    },
    /// The requests of all pods together exceed the limit.
    TooLarge {
        /// The resource.
        resource: ResourceName,
    },
}

/// Why one flavor does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorMiss {
    /// The flavor.
    pub flavor: FlavorName,
    /// The reason.
    pub reason: MissReason,
}

/// Why a flavor does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// Its nodes do not suit the pods.
    Nodes(Mismatch),
    /// The queue has no quota for this resource in this flavor.
    NoQuota(ResourceName),
    /// It will fit when other workloads have finished.
    NotFreeNow(Shortage),
    /// It can never fit.
    TooLarge(Shortage),
}

impl MissReason {
    /// The reason of a workload that fits none of these flavors: of the flavor that comes closest.
    fn of_closest_flavor(flavors: &[FlavorMiss]) -> PendingReason {
        let reasons = flavors.iter().map(|miss| match miss.reason {
            Self::NotFreeNow(_) => PendingReason::WaitingForQuota,
            Self::TooLarge(_) => PendingReason::ExceedsMaxQuota,
            Self::Nodes(_) | Self::NoQuota(_) => PendingReason::NoMatchingFlavor,
        });
        reasons.max().unwrap_or(PendingReason::NoMatchingFlavor)
    }
}

/// How much is requested, and how much there is at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The resource.
    pub resource: ResourceName,
    /// What the pod set requests, including earlier pod sets of the workload.
    pub request: Amount,
    /// The nominal quota of the ClusterQueue.
    pub nominal: Amount,
    /// What it could borrow without any usage; none if it may not borrow.
    pub may_borrow: Option<Amount>,
}

/// Formats an amount of a resource for people.
pub type FormatAmount<'a> = &'a dyn Fn(&ResourceName, Amount) -> String;

impl Explanation {
    /// Why the workload is pending, as one word for conditions and metrics. None for one that is not.
    pub fn pending_reason(&self) -> Option<PendingReason> {
        match self {
            Self::Admitted { .. } | Self::Evicting { .. } | Self::Inactive | Self::Finished => None,
            Self::LocalQueueStopped(_)
            | Self::ClusterQueueInactive {
                reason: InactiveReason::Stopped,
                ..
            } => Some(PendingReason::Suspended),
            Self::Uncountable(_)
            | Self::LocalQueueNotFound(_)
            | Self::NamespaceNotSelected { .. }
            | Self::ClusterQueueNotFound { .. }
            | Self::ClusterQueueInactive { .. } => Some(PendingReason::Misconfigured),
            Self::NoQuota { .. } | Self::TooManyCombinations { .. } => {
                Some(PendingReason::NoMatchingFlavor)
            }
            Self::DoesNotFit { flavors, .. } => Some(MissReason::of_closest_flavor(flavors)),
            Self::NeverFitsTogether { .. } => Some(PendingReason::ExceedsMaxQuota),
            Self::BehindHead { .. } | Self::Queued { .. } => Some(PendingReason::PendingEvaluation),
            Self::BackingOff { .. } => Some(PendingReason::BackingOff),
            Self::QueueFull { .. } => Some(PendingReason::QueueFull),
            Self::QuotaReserved { .. } | Self::TargetsProtected { .. } => {
                Some(PendingReason::WaitingForQuota)
            }
            Self::Nominated { .. } => Some(PendingReason::WaitingForPreemptedWorkloads),
        }
    }

    /// Whether only a change of the configuration or of the workload itself can help.
    pub fn never_fits(&self) -> bool {
        match self {
            Self::Uncountable(_)
            | Self::NoQuota { .. }
            | Self::NeverFitsTogether { .. }
            | Self::TooManyCombinations { .. } => true,
            Self::DoesNotFit { flavors, .. } => !flavors
                .iter()
                .any(|miss| matches!(miss.reason, MissReason::NotFreeNow(_))),
            _ => false,
        }
    }

    /// The head that blocks this workload, if that is the reason.
    pub fn head(&self) -> Option<&WorkloadId> {
        match self {
            Self::BehindHead { head, .. } => Some(head),
            _ => None,
        }
    }
}
