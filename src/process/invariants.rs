//! States that must not occur outside of the engine. The webhooks count theirs in the same place, so the counter is in
//! their crate.

pub use sluice_webhooks::invariants::{found, violated};
