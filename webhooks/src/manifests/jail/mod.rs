//! The jail: policies for what Sluice's own account may do.
//!
//! Must not know other accounts. Uses `cel` and `policies/policy.rs`, and the names in `webhooks.rs`.

mod cell;
mod difference;
mod entries;
mod kinds;
mod pods;
mod policies;
mod requests;
mod webhook_configurations;

pub use policies::{policies, yaml};
