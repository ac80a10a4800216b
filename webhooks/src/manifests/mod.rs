//! The manifests by which the API server asks the webhooks, judges without them, and keeps Sluice's own account
//! within limits.
//!
//! Must not know the server. Takes texts and constants from `rules` and `sluice_kinds`. Of its folders, `cel`
//! and `conditions` use none, `policies` uses both, and `jail` uses `policies` and `cel`.

mod applied;
mod cel;
mod conditions;
mod declared;
mod enforced;
mod held;
pub mod jail;
mod options;
pub mod own;
mod pod_queues;
pub mod policies;
pub mod step;
mod stored;
mod webhook_rules;
mod webhooks;

pub use applied::APPLIED_MAX;
pub use declared::{
    DECLARED, MUTATE_DECLARED, VALIDATE_DECLARED, declared_mutating, declared_validating,
};
pub use options::{AppliedGate, EnforcedNamespaces, ManagedResource, Options, SYSTEM_NAMESPACES};
pub use stored::{FIELD_MANAGER, ca_bundle};
pub use webhooks::*;
