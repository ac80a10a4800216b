//! Gates: the annotations that hold an object, and the scheduling gates that hold a pod.
//!
//! Must not know kinds, or who edits an object. Uses `field`.

mod annotations;
pub(crate) mod scheduling;

pub use annotations::*;
pub use scheduling::{QueueGates, gates_removed, propagated};
