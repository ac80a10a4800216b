//! The patches that hold, release and ungate objects, templates and pods; and what nobody but Sluice writes.
//!
//! Must not know when a patch is sent, nor clients. Uses all other folders, and none of them uses it.

pub(crate) mod gating;
pub mod marks;
mod release;
pub(crate) mod ungate;

pub use release::{Placing, Target};
