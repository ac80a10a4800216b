//! What users read of a workload that waits: why, in a sentence that stays the same while it waits, and for people who ask,
//! what keeps it waiting at this moment. What is true is worked out in `diagnose.rs`, `outlook.rs` and `trials.rs`.

use std::fmt;

use crate::api::amount::Amount;
use crate::api::explanation::{Explanation, FlavorMiss, FormatAmount, MissReason, RequestProblem};
use crate::api::limits::{EXPLAINED_FLAVORS_MAX, NAMES_SHOWN_MAX};
use crate::api::names::WorkloadId;
use crate::api::outlook::{LimitingNode, NotPreempted, Outlook, ShortResource};

impl Explanation {
    /// The explanation as text; `format` formats amounts.
    pub fn display<'a>(&'a self, format: FormatAmount<'a>) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, format))
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
                    "evicted; still uses quota of ClusterQueue \"{queue}\" until it has stopped"
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
                "can never be admitted to ClusterQueue \"{queue}\": its pod sets together request more than the maximum capacity"
            ),
            Self::TooManyCombinations { queue } => write!(
                f,
                "couldn't be admitted to ClusterQueue \"{queue}\": its pod sets have more combinations of flavors than are tried"
            ),
            Self::BehindHead { queue, .. } => write!(
                f,
                "waits in ClusterQueue \"{queue}\" (StrictFIFO) behind a workload that doesn't fit"
            ),
            Self::BackingOff { queue, .. } => write!(
                f,
                "backs off before it is queued in ClusterQueue \"{queue}\" again"
            ),
            Self::QueueFull { queue, max } => {
                let workloads = if *max == 1 { "workload" } else { "workloads" };
                write!(
                    f,
                    "ClusterQueue \"{queue}\" already has {max} pending {workloads} (spec.maxPending) ahead of this one"
                )
            }
            Self::QuotaReserved { queue } => write!(
                f,
                "waits in ClusterQueue \"{queue}\": the unused quota is reserved for workloads that come before this one"
            ),
            Self::TargetsProtected { queue } => write!(
                f,
                "waits in ClusterQueue \"{queue}\": its preemption targets were already preempted, and are not preempted again until something else changes in the cohort"
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
        let (lacking, limit) = if now {
            ("insufficient unused quota", "")
        } else {
            ("insufficient quota", ", more than the maximum capacity")
        };
        write!(
            f,
            "{lacking} for {resource} in flavor \"{flavor}\": requests {request}{limit} \
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

impl NotPreempted {
    /// The reason as part of a sentence about several workloads.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotEvictable => "can't be evicted",
            Self::OwnQueueNever => "of its own queue (withinClusterQueue is Never)",
            Self::OwnQueueOrder => "of its own queue don't come after it",
            Self::OtherLocalQueue => "of other LocalQueues of its own queue (admission by usage)",
            Self::CohortNever => "of other queues (reclaimWithinCohort is Never)",
            Self::CohortPriority => "of other queues are not of lower priority",
            Self::WithinItsQuota => "of queues within their nominal quota",
            Self::WouldBorrow => "of other queues, as this queue would have to borrow",
            Self::PreemptedBefore => {
                "were preempted before, and are not again until something else changes"
            }
            Self::NotEnough => "may be preempted, but hold too little quota together",
        }
    }
}

impl fmt::Display for LimitingNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => write!(f, "ClusterQueue \"{queue}\""),
            Self::Cohort(cohort) => write!(f, "cohort \"{cohort}\""),
        }
    }
}

impl Outlook {
    /// The outlook as text; `format` formats amounts, `name` names workloads.
    pub fn display<'a>(
        &'a self,
        format: FormatAmount<'a>,
        name: &'a dyn Fn(&WorkloadId) -> String,
    ) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| self.write(f, format, name))
    }

    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        format: FormatAmount<'_>,
        name: &dyn Fn(&WorkloadId) -> String,
    ) -> fmt::Result {
        match &self.head {
            Some(head) if self.ahead == 1 => write!(f, "comes after {}", name(head))?,
            Some(head) => {
                let ahead = self.ahead;
                write!(f, "comes after {ahead}, the first being {}", name(head))?;
            }
            None => f.write_str("is the first of its queue")?,
        }
        for ShortResource {
            pod_set: _,
            flavor,
            resource,
            request,
            free,
            limit,
        } in &self.short
        {
            let (request, free) = (format(resource, *request), format(resource, *free));
            write!(
                f,
                "; in flavor \"{flavor}\" it needs {resource} {request}, {free} is free: {limit} has no more"
            )?;
        }
        for (index, (reason, count)) in self.not_preempted.iter().enumerate() {
            let start = if index == 0 {
                "; not preempted: "
            } else {
                ", "
            };
            write!(f, "{start}{count} {}", reason.text())?;
        }
        write_names(f, "; stopping: ", &self.evicting, name)?;
        write_names(f, "; fits after ", &self.fits_after, name)
    }
}

fn write_names(
    f: &mut fmt::Formatter<'_>,
    start: &str,
    ids: &[WorkloadId],
    name: &dyn Fn(&WorkloadId) -> String,
) -> fmt::Result {
    for (index, id) in ids.iter().take(NAMES_SHOWN_MAX).enumerate() {
        let start = if index == 0 { start } else { ", " };
        write!(f, "{start}{}", name(id))?;
    }
    match ids.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}
