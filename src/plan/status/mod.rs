//! What the statuses of queues and cohorts say, from what the engine tells of them.
//!
//! Must not know what a Workload's status says: that is `workload/status.rs`.

pub mod queues;
pub mod shares;
