//! The port of the API: served by the leader, and passed on to it by the others.
//!
//! Must not know what is answered.

mod forward;
mod front_proxy;
pub mod serve;
