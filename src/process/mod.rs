//! What a process is, whatever it does: its arguments and configuration, its clock, its term as the leader,
//! its certificate, its metrics and its health. Knows nothing of jobs, queues or caches.
//!
//! Must not know what the process is for. Uses no other folder.

pub mod answer;
pub mod args;
pub mod backoff;
pub mod certificate;
pub mod clock;
pub mod config;
pub mod hashing;
pub mod health;
pub mod invariants;
pub mod lease;
pub mod metrics;
pub mod notices;
pub mod pulse;
pub mod recorded_times;
pub mod term;
pub mod watch_freshness;

pub use sluice_webhooks::manifests::FIELD_MANAGER;
