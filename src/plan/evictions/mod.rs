//! Why and when something gives its quota back, for how long it backs off then, and when an eviction has stalled.
//!
//! Must not know how one stops: that is `eviction_steps.rs`.

pub mod cause;
pub mod requeue_backoff;
pub mod stall;
pub mod unused_quota;
