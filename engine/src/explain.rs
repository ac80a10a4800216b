//! Why a workload waits, as data and as one or two sentences for users. The text is stable: it
//! changes with the configuration and the workload, not as other workloads come and go. Finding
//! the reason is `why.rs`.

use std::fmt;

use crate::amount::Amount;
use crate::limits::EXPLAINED_FLAVORS_MAX;
use crate::names::{FlavorName, LocalQueueKey, PodSetName, QueueName, ResourceName, WorkloadId};
use crate::nodes::Mismatch;
use crate::status::InactiveReason;
use crate::time::Time;

/// How a workload stands, and what keeps it from being admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// It is admitted, or its admission is being written.
    Admitted {
        /// The ClusterQueue that is charged.
        queue: QueueName,
    },
    /// It still holds quota and is on its way out.
    Evicting {
        /// The ClusterQueue that is charged.
        queue: QueueName,
    },
    /// It takes no part for now.
    Inactive,
    /// It has ended.
    Finished,
    /// Its requests can't be counted.
    Uncountable(RequestProblem),
    /// Its LocalQueue doesn't exist.
    LocalQueueNotFound(LocalQueueKey),
    /// Its LocalQueue is stopped.
    LocalQueueStopped(LocalQueueKey),
    /// The ClusterQueue doesn't take workloads from this namespace.
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
    /// It asks for a resource that the ClusterQueue has no quota for.
    NoQuota {
        /// The ClusterQueue.
        queue: QueueName,
        /// The resource.
        resource: ResourceName,
    },
    /// It was looked at and doesn't fit.
    DoesNotFit {
        /// The ClusterQueue.
        queue: QueueName,
        /// The pod set that found no flavor; none when the workload has only one.
        pod_set: Option<PodSetName>,
        /// What speaks against each flavor, in the order in which they are tried.
        flavors: Vec<FlavorMiss>,
    },
    /// The ClusterQueue is `StrictFIFO` and a workload ahead doesn't fit.
    BehindHead {
        /// The ClusterQueue.
        queue: QueueName,
        /// The workload at the head. Not part of the text.
        head: WorkloadId,
    },
    /// It backs off: it is not looked at before a moment.
    BackingOff {
        /// The ClusterQueue, if there is one.
        queue: QueueName,
        /// The moment.
        until: Time,
    },
    /// The ClusterQueue has as many waiting workloads as it takes, and they come before this one.
    QueueFull {
        /// The ClusterQueue.
        queue: QueueName,
        /// How many it takes.
        max: usize,
    },
    /// There would be room, but it is kept for workloads that come before this one and wait for others
    /// to go.
    RoomKept {
        /// The ClusterQueue.
        queue: QueueName,
    },
    /// Room is kept for it, and it is admitted when those that hold it now have gone.
    WaitsForRoom {
        /// The ClusterQueue.
        queue: QueueName,
    },
    /// Nothing is known against it: the next decision will tell.
    Queued {
        /// The ClusterQueue.
        queue: QueueName,
    },
}

/// Why requests can't be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestProblem {
    /// A request is below zero.
    Negative {
        /// The pod set.
        pod_set: PodSetName,
        /// The resource.
        resource: ResourceName,
    },
    /// The requests of all pods together are more than can be counted.
    TooLarge {
        /// The resource.
        resource: ResourceName,
    },
}

/// What speaks against one flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorMiss {
    /// The flavor.
    pub flavor: FlavorName,
    /// What speaks against it.
    pub reason: MissReason,
}

/// What speaks against a flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// Its nodes are not for these pods.
    Nodes(Mismatch),
    /// The queue has no quota for this resource in this flavor.
    NoQuota(ResourceName),
    /// There will be enough when others end.
    NotFreeNow(Shortage),
    /// There will never be enough.
    TooLarge(Shortage),
}

/// How much is wanted, and how much there is at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The resource.
    pub resource: ResourceName,
    /// What the pod set asks for, with what earlier pod sets of the workload take of the same.
    pub request: Amount,
    /// The ClusterQueue's own quota.
    pub nominal: Amount,
    /// What it could borrow if nobody else used anything.
    pub may_borrow: Amount,
}

/// Formats an amount of a resource for people.
pub type FormatAmount<'a> = &'a dyn Fn(&ResourceName, Amount) -> String;

impl Explanation {
    /// A short word for the reason, for conditions and metrics: one of a closed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Admitted { .. } => "Admitted",
            Self::Evicting { .. } => "Evicting",
            Self::Inactive => "Inactive",
            Self::Finished => "Finished",
            Self::Uncountable(_) => "Uncountable",
            Self::LocalQueueNotFound(_) => "LocalQueueNotFound",
            Self::LocalQueueStopped(_) => "LocalQueueStopped",
            Self::NamespaceNotSelected { .. } => "NamespaceNotSelected",
            Self::ClusterQueueNotFound { .. } => "ClusterQueueNotFound",
            Self::ClusterQueueInactive { .. } => "ClusterQueueInactive",
            Self::NoQuota { .. } => "NoQuota",
            Self::DoesNotFit { .. } if self.never_fits() => "NeverFits",
            Self::DoesNotFit { .. } => "DoesNotFit",
            Self::BehindHead { .. } => "BehindHead",
            Self::BackingOff { .. } => "BackingOff",
            Self::QueueFull { .. } => "QueueFull",
            Self::RoomKept { .. } => "RoomKept",
            Self::WaitsForRoom { .. } => "WaitsForRoom",
            Self::Queued { .. } => "Queued",
        }
    }

    /// Whether only a change of the configuration or of the workload itself can help.
    pub fn never_fits(&self) -> bool {
        match self {
            Self::Uncountable(_) | Self::NoQuota { .. } => true,
            Self::DoesNotFit { flavors, .. } => !flavors
                .iter()
                .any(|miss| matches!(miss.reason, MissReason::NotFreeNow(_))),
            _ => false,
        }
    }

    /// The explanation as text; `format` says how amounts are written.
    pub fn display<'a>(&'a self, format: FormatAmount<'a>) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, format))
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
            Self::BehindHead { queue, .. } => write!(
                f,
                "waits in ClusterQueue \"{queue}\" (StrictFIFO) behind a workload that doesn't fit"
            ),
            Self::BackingOff { queue, .. } => write!(
                f,
                "stands back before it is queued in ClusterQueue \"{queue}\" again"
            ),
            Self::QueueFull { queue, max } => write!(
                f,
                "waits outside ClusterQueue \"{queue}\": as many workloads as it queues (maxPending {max}) come before this one"
            ),
            Self::RoomKept { queue } => write!(
                f,
                "waits in ClusterQueue \"{queue}\": what is free is kept for workloads that come before this one and wait for others to stop"
            ),
            Self::WaitsForRoom { queue } => write!(
                f,
                "goes to ClusterQueue \"{queue}\" as soon as evicted workloads have stopped: the room that they leave is kept for it"
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
        return f.write_str("it has no flavor for what is asked for");
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
        let verdict = if now {
            "is free now"
        } else {
            "there can ever be"
        };
        write!(
            f,
            "needs {resource} {request} in flavor \"{flavor}\": more than {verdict} \
             (nominal quota {nominal}"
        )?;
        if shortage.may_borrow > Amount::ZERO {
            write!(f, ", may borrow {}", format(resource, shortage.may_borrow))?;
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
