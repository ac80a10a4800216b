//! Which workloads are evicted so that another one gets quota, by priority or by fair shares.
//!
//! Must not know cycles, nor change what is used. Uses `cohort`, `queue`, `workload`, `quota` and `api`.

pub(crate) mod bouncing;
pub(crate) mod candidate_ordering;
pub(crate) mod candidates;
pub(crate) mod classical;
pub(crate) mod fair_sharing;
pub(crate) mod fill_back;
pub(crate) mod preemptor;

pub(crate) mod snapshot;
pub(crate) mod target;
pub(crate) mod target_search;
