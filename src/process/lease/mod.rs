//! The Lease: who leads, for how long, and where the leader is found.
//!
//! Must not know what a leader does.

mod election;
mod leader_address;

pub use election::Election;
pub use leader_address::Leader;
