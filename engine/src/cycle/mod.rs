//! The decision: which workloads are admitted, for which ones quota is reserved, and which are preempted.
//!
//! Must not know how anything is explained. Uses `state`, `preemption` and all folders below them.

pub(crate) mod admit;
pub(crate) mod assignment_to_nominated;
pub(crate) mod context;
pub(crate) mod decide;
pub(crate) mod fair_ordering;
pub(crate) mod fit_or_preempt;
pub(crate) mod head_ordering;
pub(crate) mod heads;
pub(crate) mod nominated;
pub(crate) mod outranked_heads;
pub(crate) mod partial_admission;
pub(crate) mod preempt;
pub(crate) mod progress;
pub(crate) mod run;
pub(crate) mod strict_head_reservation;
