//! What to do about what is known: pure functions from records to the next write, events and the
//! engine's view. No I/O; time is an argument. Planning again after the write plans nothing more. A rule about one
//! job, group or pod is always here; a file of `controller` with the same or a similar name applies it. What depends on
//! others is decided in `controller/decisions`.
//!
//! Must not know clients, clocks or what the engine decides. Uses `cache`.

pub mod children;
pub mod engine_state;
mod eviction_steps;
pub mod evictions;
#[cfg(test)]
pub mod fixtures;
pub mod gates;
pub mod group;
pub mod job;
pub mod place_in_queue;
pub mod pod;
pub mod progress;
pub mod situation;
pub mod status;
pub mod transition;
pub mod workload;
mod write_builders;
pub mod writes;

#[cfg(test)]
mod tests;

pub use writes::plan_and_notes::{Note, Plan};
pub use writes::write::{JobPatch, JobPurpose, PodPurpose, StatusPurpose, Write, WriteKind};
