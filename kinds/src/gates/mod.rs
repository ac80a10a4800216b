//! Gates: the annotations that hold an object, and the scheduling gates that hold a pod.
//!
//! Must not know kinds, or who edits an object. Uses `field`.

mod add;
mod annotations;
mod gate_name;
pub mod labels;
mod lift;
mod object;
pub mod record;
pub(crate) mod scheduling;
mod without_sluice;

pub use add::{missing, with};
pub use annotations::*;
pub use gate_name::{GATE_BYTES_MAX, Gate};
pub use lift::without;
pub use record::{GateRecord, Lifted, OF_GATES, OF_RELEASE};
pub(crate) use scheduling::stable_hash;
pub use scheduling::{QueueGates, gates_removed, propagated};
pub use without_sluice::StillHeld;
