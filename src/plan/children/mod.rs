//! Objects that belong to another that is queued: whose child each is, and which of them may not run.
//!
//! Must not know what the queued object itself has to do: that is `job.rs`.

pub mod cleanup;
pub mod excess;
pub mod lineage;
