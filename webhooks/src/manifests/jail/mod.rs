//! The jail: policies for what Sluice's own account may do.
//!
//! Must not know other accounts. Uses `cel` and `policies/policy.rs`, and the names in `webhooks.rs`,
//! `declared.rs`, `applied.rs` and `conditions`.

mod api_service;
mod cell;
mod declared;
mod difference;
mod entries;
mod every_request;
mod kinds;
mod pods;
mod policies;
mod start_time;
mod system_namespaces;
mod webhook_configurations;
pub(crate) mod webhook_rules;

pub use policies::{policies, yaml};
