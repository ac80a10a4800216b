//! Why a workload is pending, as data and as one or two sentences for users. The text is stable: it changes
//! with the configuration and the workload, not with other workloads. It is worked out in
//! `explain/diagnose.rs`.

use std::fmt;

use crate::api::amount::Amount;
use crate::api::limits::EXPLAINED_FLAVORS_MAX;
use crate::api::names::{
    FlavorName, LocalQueueKey, PodSetName, QueueName, ResourceName, WorkloadId,
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
        queue: QueueName,
    },
    /// It is evicted but has not stopped yet.
    Evicting {
        /// The ClusterQueue of its admission.
        queue: QueueName,
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
        queue: QueueName,
    },
    /// The ClusterQueue that its LocalQueue points to doesn't exist.
    ClusterQueueNotFound {
        /// The LocalQueue.
        local_queue: LocalQueueKey,
        /// The ClusterQueue.
        queue: QueueName,
    },
    /// The ClusterQueue admits nothing.
    ClusterQueueInactive {
        /// The ClusterQueue.
        queue: QueueName,
        /// Why.
        reason: InactiveReason,
    },
    /// It requests a resource that the ClusterQueue has no quota for.
    NoQuota {
        /// The ClusterQueue.
        queue: QueueName,
        /// The resource.
        resource: ResourceName,
    },
    /// It does not fit.
    DoesNotFit {
        /// The ClusterQueue.
        queue: QueueName,
        /// The pod set without a flavor; none if the workload has only one.
        pod_set: Option<PodSetName>,
        /// Why each flavor does not fit, in the order in which they are tried.
        flavors: Vec<FlavorMiss>,
    },
    /// Each of its pod sets fits by itself, but there can never be enough for all of them together.
    NeverFitsTogether {
        /// The ClusterQueue.
        queue: QueueName,
    },
    /// The ClusterQueue is `StrictFIFO`, and its head does not fit.
    BehindHead {
        /// The ClusterQueue.
        queue: QueueName,
        /// The head. Its name is part of the text where that is given.
        head: WorkloadId,
    },
    /// It backs off until some time.
    BackingOff {
        /// The ClusterQueue, if there is one.
        queue: QueueName,
        /// The time.
        until: Time,
    },
    /// The limit of queued workloads is reached, and all of them come before this one.
    QueueFull {
        /// The ClusterQueue.
        queue: QueueName,
        /// The limit.
        max: usize,
    },
    /// It would fit, but the quota is reserved for earlier workloads that wait for others to stop.
    QuotaReserved {
        /// The ClusterQueue.
        queue: QueueName,
    },
    /// It would have to preempt workloads that were preempted already in this preemption round.
    TargetsProtected {
        /// The ClusterQueue.
        queue: QueueName,
    },
    /// Quota is reserved for it. It is admitted when evicted workloads have stopped.
    Nominated {
        /// The ClusterQueue.
        queue: QueueName,
    },
    /// No reason is known: the next decision will tell.
    Queued {
        /// The ClusterQueue.
        queue: QueueName,
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
            Self::NoQuota { .. } => Some(PendingReason::NoMatchingFlavor),
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
            Self::Uncountable(_) | Self::NoQuota { .. } | Self::NeverFitsTogether { .. } => true,
            Self::DoesNotFit { flavors, .. } => !flavors
                .iter()
                .any(|miss| matches!(miss.reason, MissReason::NotFreeNow(_))),
            _ => false,
        }
    }

    /// The explanation as text; `format` formats amounts.
    pub fn display<'a>(&'a self, format: FormatAmount<'a>) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, format))
    }

    /// The head that blocks this workload, if that is the reason.
    pub fn head(&self) -> Option<&WorkloadId> {
        match self {
            Self::BehindHead { head, .. } => Some(head),
            _ => None,
        }
    }

    /// The explanation as text; `head` names the workload that blocks this one.
    pub fn display_behind<'a>(
        &'a self,
        format: FormatAmount<'a>,
        head: &'a str,
    ) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| match self {
            Self::BehindHead { queue, .. } => write!(
                f,
                "waits in ClusterQueue \"{queue}\" (StrictFIFO) behind {head}, which doesn't fit"
            ),
            _ => self.write(f, format),
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, format: FormatAmount<'_>) -> fmt::Result {
        match self {
            Self::Admitted { queue } => write!(f, "admitted by ClusterQueue \"{queue}\""),
            Self::Evicting { queue } => {
                write!(
                    f,
                    "evicted; still charged to ClusterQueue \"{queue}\" until it has stopped"
                )
            }
            Self::Inactive => f.write_str("the workload is inactive"),
            Self::Finished => f.write_str("the workload has finished"),
            Self::Uncountable(problem) => write!(f, "can't be admitted: {problem}"),
            Self::LocalQueueNotFound(key) => write!(f, "LocalQueue \"{key}\" doesn't exist"),
            Self::LocalQueueStopped(key) => write!(f, "LocalQueue \"{key}\" is stopped"),
            Self::NamespaceNotSelected { local_queue, queue } => write!(
                f,
                "ClusterQueue \"{queue}\" doesn't select the namespace \"{}\"",
                local_queue.namespace
            ),
            Self::ClusterQueueNotFound { local_queue, queue } => {
                write!(
                    f,
                    "ClusterQueue \"{queue}\" of LocalQueue \"{local_queue}\" doesn't exist"
                )
            }
            Self::ClusterQueueInactive { queue, reason } => {
                write!(f, "ClusterQueue \"{queue}\" is inactive: {reason}")
            }
            Self::NoQuota { queue, resource } => {
                write!(
                    f,
                    "ClusterQueue \"{queue}\" has no quota for resource \"{resource}\""
                )
            }
            Self::DoesNotFit {
                queue,
                pod_set,
                flavors,
            } => {
                if self.never_fits() {
                    write!(f, "can never be admitted to ClusterQueue \"{queue}\": ")?;
                } else {
                    write!(f, "couldn't be admitted to ClusterQueue \"{queue}\": ")?;
                }
                if let Some(pod_set) = pod_set {
                    write!(f, "pod set \"{pod_set}\": ")?;
                }
                write_flavors(f, flavors, format)
            }
            Self::NeverFitsTogether { queue } => write!(
                f,
                "can never be admitted to ClusterQueue \"{queue}\": its pod sets need more together than there can ever be"
            ),
            Self::BehindHead { queue, .. } => write!(
                f,
                "waits in ClusterQueue \"{queue}\" (StrictFIFO) behind a workload that doesn't fit"
            ),
            Self::BackingOff { queue, .. } => write!(
                f,
                "backs off before it is queued in ClusterQueue \"{queue}\" again"
            ),
            Self::QueueFull { queue, max } => write!(
                f,
                "is not queued in ClusterQueue \"{queue}\" yet: as many workloads as may be pending (maxPending {max}) come before this one"
            ),
            Self::QuotaReserved { queue } => write!(
                f,
                "waits in ClusterQueue \"{queue}\": the unused quota is reserved for workloads that come before this one and wait for evicted workloads to stop"
            ),
            Self::TargetsProtected { queue } => write!(
                f,
                "waits in ClusterQueue \"{queue}\": the workloads to preempt for it were preempted before, and are not preempted again until something else changes in their cohort"
            ),
            Self::Nominated { queue } => write!(
                f,
                "waits in ClusterQueue \"{queue}\" for evicted workloads to stop: their quota is reserved for this one"
            ),
            Self::Queued { queue } => write!(f, "queued in ClusterQueue \"{queue}\""),
        }
    }
}

fn write_flavors(
    f: &mut fmt::Formatter<'_>,
    flavors: &[FlavorMiss],
    format: FormatAmount<'_>,
) -> fmt::Result {
    if flavors.is_empty() {
        return f.write_str("it has no flavor for the requested resources");
    }
    for (index, miss) in flavors.iter().take(EXPLAINED_FLAVORS_MAX).enumerate() {
        if index > 0 {
            f.write_str("; ")?;
        }
        miss.write(f, format)?;
    }
    match flavors.len().saturating_sub(EXPLAINED_FLAVORS_MAX) {
        0 => Ok(()),
        1 => f.write_str("; and 1 more flavor"),
        more => write!(f, "; and {more} more flavors"),
    }
}

impl FlavorMiss {
    fn write(&self, f: &mut fmt::Formatter<'_>, format: FormatAmount<'_>) -> fmt::Result {
        let flavor = &self.flavor;
        let (shortage, now) = match &self.reason {
            MissReason::Nodes(mismatch) => return write!(f, "flavor \"{flavor}\": {mismatch}"),
            MissReason::NoQuota(resource) => {
                return write!(f, "flavor \"{flavor}\": it has no quota for \"{resource}\"");
            }
            MissReason::NotFreeNow(shortage) => (shortage, true),
            MissReason::TooLarge(shortage) => (shortage, false),
        };
        let resource = &shortage.resource;
        let request = format(resource, shortage.request);
        let nominal = format(resource, shortage.nominal);
        let limit_text = if now {
            "is free now"
        } else {
            "there can ever be"
        };
        write!(
            f,
            "needs {resource} {request} in flavor \"{flavor}\": more than {limit_text} \
             (nominal quota {nominal}"
        )?;
        match shortage.may_borrow {
            None => f.write_str(", may not borrow")?,
            Some(Amount::ZERO) => {}
            Some(amount) => write!(f, ", may borrow {}", format(resource, amount))?,
        }
        f.write_str(")")
    }
}

impl fmt::Display for RequestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative { pod_set, resource } => {
                write!(
                    f,
                    "the request for \"{resource}\" of pod set \"{pod_set}\" is negative"
                )
            }
            Self::TooLarge { resource } => {
                write!(
                    f,
                    "the requests for \"{resource}\" add up to more than can be counted"
                )
            }
        }
    }
}
