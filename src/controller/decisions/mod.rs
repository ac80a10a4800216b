//! What is decided beside the engine: how a job or pod is evicted, whose quota a pod uses, what is late, stalled,
//! in excess or without its job. What fits where is the engine's, and nothing is taken in here. Called by
//! `cycle.rs` and `housekeeping.rs`, and by `intake` and `writes` with what has happened; calls `engine_sync.rs`, and sends.
//!
//! Must not know what fits where, nor clients.

mod admissions;
pub(super) mod child_suspensions;
mod detached_pods;
pub(super) mod ended_term_admissions;
pub(super) mod evictions;
pub(super) mod excess;
pub(super) mod first_decision;
pub(super) mod gone_members;
pub(super) mod orphans;
pub(super) mod pod_usage;
pub(super) mod pods_to_come;
pub(super) mod replaced_pods;
pub(super) mod stalls;
pub(super) mod ungating;
pub(super) mod unreleased;
pub(super) mod unused_quota;
