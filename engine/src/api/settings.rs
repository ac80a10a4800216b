//! Settings of the whole engine: units, fair sharing, and the half-life of usage.

use std::time::Duration;

use crate::api::amount::Amount;
use crate::api::queues::UndeclaredResources;

/// Settings of the whole engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The amount of the resource `pods` that one pod uses, in the unit of the caller.
    pub pod: Amount,
    /// Whether queues of a cohort share by dominant resource share. If so, these tests decide when a
    /// workload may be preempted for that; the first that allows it counts.
    pub fair_sharing: Option<Vec<FairPreemption>>,
    /// After this time the usage of a LocalQueue counts half, in queues that admit by usage.
    pub usage_half_life: Duration,
    /// What happens to a workload that requests a resource that its queue does not cover, unless the queue
    /// says otherwise.
    pub undeclared_resources: UndeclaredResources,
}

/// When fair sharing preempts: Kueue's `fairSharing.preemptionStrategies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FairPreemption {
    /// If the preemptor's share is then not larger than the remaining share of the target.
    LessThanOrEqualToFinalShare,
    /// If the preemptor's share is then smaller than the previous share of the target.
    LessThanInitialShare,
}

impl FairPreemption {
    /// The default: both, in Kueue's order.
    pub const DEFAULT: [Self; 2] = [
        Self::LessThanOrEqualToFinalShare,
        Self::LessThanInitialShare,
    ];
}

impl Settings {
    /// Without fair sharing; `pod` is the amount of the resource `pods` that one pod uses. Usage of a week
    /// ago counts half. A resource that a queue does not cover blocks.
    pub const fn new(pod: Amount) -> Self {
        Self {
            pod,
            fair_sharing: None,
            usage_half_life: Duration::from_hours(7 * 24),
            undeclared_resources: UndeclaredResources::Block,
        }
    }
}
