//! The match conditions: CEL that the API server evaluates before it asks.
//!
//! Must not know what a webhook or policy says then. Uses `options.rs`.

pub(crate) mod applied;
pub(crate) mod enforced;
pub(crate) mod entry;
pub(crate) mod jobs;
pub(crate) mod lifting;
pub(crate) mod marks;
pub(crate) mod pods;
pub(crate) mod templates;
