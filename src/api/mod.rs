//! The way to the API server: clients, watches, writes, events and look-ups. Says how something is asked for
//! or written, never what: that is planned in `crate::plan` and decided in `crate::controller`.
//!
//! Must not know what is planned or decided. Uses `plan`, `cache` and `process`.

pub mod access;
pub mod allowance;
pub mod client;
pub mod events;
pub mod fair_queue;
pub mod lookup;
pub mod notices;
pub mod openapi;
pub mod reports;
pub mod watch;
pub mod write;
