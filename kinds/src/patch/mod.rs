//! The patches that hold, release and ungate objects, templates and pods; and what nobody but Sluice writes.
//!
//! Must not know when a patch is sent, nor clients. Uses all other folders, and none of them uses it.

mod gate_object;
mod gate_pod;
mod gate_templates;
mod gating;
mod label_object;
pub mod marks;
mod release;
mod ungate;
mod ungate_templates;

pub use gate_object::gate_object_patch;
pub use gate_pod::unheld_patch;
pub use gate_templates::Waiting;
pub use label_object::label_object_patch;
pub use release::{Placing, Target};
pub use ungate::{Lifting, lifting_patch};
