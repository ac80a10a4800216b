//! Gates with a Gate: what the Gate asks for about an object that it holds, whose turn it is at a counter, and what the
//! Gate's status says.
//!
//! Must not know who may lift a gate by hand: that is decided by the webhooks.

pub mod action;
pub mod counter;
pub mod held_note;
pub mod status;
