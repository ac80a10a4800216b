//! How things stand for a waiting workload at this moment, as data and in a few sentences: what it is
//! short of and where, who comes first, who might make room, and who will not. It changes with every
//! admission, so it is for people who ask, not for a status. Finding it out is `prospect.rs`.

use std::collections::BTreeMap;
use std::fmt;

use crate::amount::Amount;
use crate::explain::FormatAmount;
use crate::limits::NAMES_SHOWN_MAX;
use crate::names::{CohortName, FlavorName, PodSetName, QueueName, ResourceName, WorkloadId};

/// How things stand for a workload that waits in a ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The ClusterQueue.
    pub queue: QueueName,
    /// How many workloads of the same ClusterQueue come before this one.
    pub ahead: usize,
    /// The first of them.
    pub first: Option<WorkloadId>,
    /// What the ClusterQueue could still be charged now, borrowing included.
    pub free: Vec<(FlavorName, ResourceName, Amount)>,
    /// What there is too little of, in each flavor that could be taken; for as many pods as will do.
    pub short: Vec<Short>,
    /// The workloads that are on their way out in the same cohort tree.
    pub leaving: Vec<WorkloadId>,
    /// Why workloads that hold what is short don't have to make room, with how many they are.
    pub spared: BTreeMap<Spared, usize>,
    /// Whose end would make room in the flavors that come first, whatever anybody's rights are: those
    /// that would have to go first, and none in vain. Empty if nobody's would.
    pub room_after: Vec<WorkloadId>,
}

/// How much there is too little of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// The pod set.
    pub pod_set: PodSetName,
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// What the pod set asks for.
    pub request: Amount,
    /// What is free.
    pub free: Amount,
    /// Whose quota or limit is used up.
    pub limit: Limit,
}

/// A node of the cohort tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The ClusterQueue's own: it may not use, or borrow, more.
    Queue(QueueName),
    /// A cohort's: all below it together may not.
    Cohort(CohortName),
}

/// Why a workload does not have to make room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spared {
    /// It doesn't go when it is told to.
    NotEvictable,
    /// It is of the same queue, where nobody is preempted.
    OwnQueueNever,
    /// It is of the same queue and doesn't come after the other one.
    OwnQueueOrder,
    /// It is of another queue, and the queue preempts nobody in its cohort.
    CohortNever,
    /// It is of another queue, of no lower priority.
    CohortPriority,
    /// It is of another queue, which uses no more than is its own.
    WithinItsQuota,
    /// The other one's queue would have to borrow.
    WouldBorrow,
    /// It might have to, but all of those together would not be enough.
    NotEnough,
}

impl Spared {
    /// The reason as part of a sentence about several workloads.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotEvictable => "would not go if told to",
            Self::OwnQueueNever => "of its own queue are safe (withinClusterQueue is Never)",
            Self::OwnQueueOrder => "of its own queue don't come after it",
            Self::CohortNever => "of other queues are safe (reclaimWithinCohort is Never)",
            Self::CohortPriority => "of other queues are not of lower priority",
            Self::WithinItsQuota => "are of queues that use no more than is theirs",
            Self::WouldBorrow => "of other queues are safe as this queue would borrow itself",
            Self::NotEnough => "might have to go but hold too little together",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => write!(f, "ClusterQueue \"{queue}\""),
            Self::Cohort(cohort) => write!(f, "cohort \"{cohort}\""),
        }
    }
}

impl Outlook {
    /// The outlook as text; `format` says how amounts are written, `name` what a workload is called.
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
        match &self.first {
            Some(first) if self.ahead == 1 => write!(f, "comes after {}", name(first))?,
            Some(first) => {
                let ahead = self.ahead;
                write!(f, "comes after {ahead}, the first being {}", name(first))?;
            }
            None => f.write_str("is the first of its queue")?,
        }
        for Short {
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
        for (index, (reason, count)) in self.spared.iter().enumerate() {
            let start = if index == 0 {
                "; nobody has to make room: "
            } else {
                ", "
            };
            write!(f, "{start}{count} {}", reason.text())?;
        }
        write_names(f, "; on their way out: ", &self.leaving, name)?;
        write_names(f, "; there will be room after ", &self.room_after, name)
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
