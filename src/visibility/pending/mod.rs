//! Who waits in a queue, in order, a page at a time. What is listed comes from the controller; it is sorted here.
//!
//! Must not know how the controller is asked.

pub mod page;
pub mod positions;
pub mod queue_ref;
pub mod summary;
pub mod waiting;
