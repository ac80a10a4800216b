//! What to do about what is known: pure functions from records to the next write, events and the
//! engine's view. No I/O; time is an argument. Planning again after the write plans nothing more. A rule about one
//! job, group or pod is always here; a file of the same name below `controller` applies it. What depends on others is
//! decided in `controller/decisions`.
//!
//! Must not know clients, clocks or what the engine decides. Uses `cache`.

pub mod cause;
mod eviction;
pub mod excess;
#[cfg(test)]
pub mod fixtures;
pub mod gate_counter;
pub mod gate_status;
pub mod gates;
pub mod group;
pub mod job;
pub mod late_admissions;
pub mod lineage;
pub mod pending_reason;
pub mod place_in_queue;
mod placement;
mod plan_and_notes;
pub mod pod;
pub mod progress;
mod requests_comparison;
pub mod requeue_backoff;
pub mod reservation_timeout;
pub mod shares;
pub mod situation;
pub mod stall;
pub mod status;
pub mod turn;
pub mod workload;
pub mod workload_state;
mod write;
mod write_builders;

#[cfg(test)]
mod tests;

pub use plan_and_notes::{Note, Plan};
pub use write::{JobPatch, JobPurpose, PodPurpose, StatusPurpose, Write};
