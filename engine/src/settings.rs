//! What holds for the whole engine and is set once: units, fair sharing, how fast use is forgotten.

use std::time::Duration;

use crate::amount::Amount;

/// What holds for the whole engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What one pod costs of the resource `pods`, in the unit that the caller uses for it.
    pub pod: Amount,
    /// Whether the queues of a cohort share by dominant resource share; if so, when a workload may
    /// be preempted for the sake of it, by the first of these that holds.
    pub fair_sharing: Option<Vec<FairPreemption>>,
    /// After this time, what a LocalQueue used counts half, in queues that admit by use.
    pub usage_half_life: Duration,
}

/// When fair sharing preempts: Kueue's `fairSharing.preemptionStrategies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FairPreemption {
    /// If the one that gains has then no larger share than the one that loses is left with.
    LessThanOrEqualToFinalShare,
    /// If the one that gains has then a smaller share than the one that loses had before.
    LessThanInitialShare,
}

impl FairPreemption {
    /// What holds where nothing is said: both, in Kueue's order.
    pub const DEFAULT: [Self; 2] = [
        Self::LessThanOrEqualToFinalShare,
        Self::LessThanInitialShare,
    ];
}

impl Settings {
    /// Without fair sharing; `pod` is what one pod costs of the resource `pods`. What was used a
    /// week ago counts half.
    pub const fn new(pod: Amount) -> Self {
        Self {
            pod,
            fair_sharing: None,
            usage_half_life: Duration::from_hours(7 * 24),
        }
    }
}
