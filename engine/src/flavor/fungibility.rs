//! Which of several flavors is taken (`ClusterQueue.spec.flavorFungibility`): where the search ends by `whenCanBorrow`
//! and `whenCanPreempt`, and what is preferred of borrowing and preemption.
//!
//! Whether a flavor has quota is `quota/availability.rs`.

use crate::api::flavor::{FlavorFungibility, FlavorPreference, WhenCanBorrow, WhenCanPreempt};

/// When a choice is available; better modes come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FitMode {
    /// There is quota now.
    Now,
    /// There will be quota when evicted workloads have stopped, or when workloads with a reservation have
    /// started.
    Later,
    /// There will be quota after preemption in other queues alone: they return what they borrow.
    Reclaim,
    /// There will be quota after preemption that includes the own queue.
    Preempt,
}

/// How good a choice is. Only grades of one kind are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FitGrade {
    ByMode(FitMode, usize),
    ByDistance(usize, FitMode),
}

/// Whether the search ends at a choice, whatever later choices offer. `distance` is what the choice borrows over; zero
/// without borrowing.
pub(super) fn ends_search(fungibility: FlavorFungibility, mode: FitMode, distance: usize) -> bool {
    let may_borrow = fungibility.when_can_borrow == WhenCanBorrow::MayStopSearch;
    let may_wait = fungibility.when_can_preempt == WhenCanPreempt::MayStopSearch;
    (distance == 0 || may_borrow) && (mode == FitMode::Now || may_wait)
}

/// Whether later flavors are tried before one that requires preemption.
pub(crate) fn tries_next_flavor(fungibility: FlavorFungibility) -> bool {
    fungibility.when_can_preempt == WhenCanPreempt::TryNextFlavor
}

/// Whether borrowing is preferred to preemption.
pub(crate) fn prefers_borrowing(fungibility: FlavorFungibility) -> bool {
    fungibility.preference == FlavorPreference::BorrowingOverPreemption
}

/// How good a choice is; less is better.
pub(super) fn grade(fungibility: FlavorFungibility, mode: FitMode, distance: usize) -> FitGrade {
    match fungibility.preference {
        FlavorPreference::BorrowingOverPreemption => FitGrade::ByMode(mode, distance),
        FlavorPreference::PreemptionOverBorrowing => FitGrade::ByDistance(distance, mode),
    }
}
