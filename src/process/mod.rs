//! What a process is, whatever it does: its arguments and configuration, its clock, its term as the leader,
//! its certificate, its metrics and its health. Knows nothing of jobs, queues or caches.

pub mod args;
pub mod certificate;
pub mod clock;
pub mod config;
pub mod freshness;
pub mod hashing;
pub mod health;
pub mod invariants;
pub mod lease;
pub mod metrics;
pub mod pulse;
pub mod term;

/// The name under which our fields are recorded in managedFields.
pub const FIELD_MANAGER: &str = "sluice";
