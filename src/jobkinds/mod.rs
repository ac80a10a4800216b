//! JobKinds outside of the controller: the policy that the webhooks of every replica judge by, what they know of queues, and the rules by
//! which the API server asks them. What the controller knows of each JobKind is in `controller/kinds`.
//!
//! Must not know usage or decisions. Uses `api`, `cache` and `process`.

mod followed;
pub mod policy;
pub mod queue_states;
mod quota_limits;
pub mod webhook_rules;
