//! Gates: the annotations that hold an object, and the scheduling gates that hold a pod.
//!
//! Must not know kinds, or who edits an object. Uses `field`.

mod add;
mod annotations;
pub mod labels;
mod lift;
mod object;
pub mod record;
pub(crate) mod scheduling;

pub use add::{missing, with};
pub use annotations::*;
pub use lift::without;
pub use record::{GateRecord, Lifted, OF_GATES};
pub use scheduling::{QueueGates, gates_removed, propagated};
