//! Answers questions: why a workload waits, and the status of queues and cohorts.
//!
//! Changes nothing, and decides nothing. Uses `state`, `preemption` and all folders below them, but not
//! `cycle`.

pub(crate) mod diagnose;
pub(crate) mod holders;
pub(crate) mod message;
pub(crate) mod not_preempted;
pub(crate) mod outlook;
pub(crate) mod pending;
pub(crate) mod queue_status;
pub(crate) mod standing;
pub(crate) mod tree;
pub(crate) mod trials;
