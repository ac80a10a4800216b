//! The generated webhook configurations and policies.

mod administrators;
mod applied;
mod cel_functions;
pub(crate) mod conditions;
mod enforced;
mod enforced_policies;
mod jail_rules;
mod own;
mod pod_conditions;
mod policies;
mod step;
mod stored;
mod webhooks;
