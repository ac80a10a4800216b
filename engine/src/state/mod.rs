//! The state of the engine, and what each event changes in it.
//!
//! Must not know how a cycle decides. Uses `cohort`, `queue`, `workload`, `quota` and `api`.

pub(crate) mod configuration;
pub(crate) mod deleted_queues;
pub(crate) mod engine;
pub(crate) mod evictions;
pub(crate) mod invariants;
pub(crate) mod lists;
pub(crate) mod nominations;
pub(crate) mod preemption_round_end;
pub(crate) mod queueing;
pub(crate) mod workloads;
