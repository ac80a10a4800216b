//! What a plan is: the next write, and what is told with it.
//!
//! Must not know when which of them is due.

pub mod plan_and_notes;
pub mod write;
