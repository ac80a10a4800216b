//! What users are told: what a job waits for, what it tells of itself, how queues and JobKinds stand. Only what
//! is news is written, and only so much in a second. Called by `cycle.rs` and `housekeeping.rs`; nobody is admitted or evicted here.
//!
//! Must not know who is admitted next, nor clients.

mod backlog;
pub(super) mod events;
pub(super) mod explaining;
pub(super) mod finding;
mod gate_statuses;
mod job_kinds;
pub(super) mod levels;
pub(super) mod progress;
pub(super) mod standing;
pub(super) mod statuses;
pub(super) mod tree;
pub(super) mod turns;
mod unqueued;
pub(super) mod unreadable;
pub(super) mod waiting;
