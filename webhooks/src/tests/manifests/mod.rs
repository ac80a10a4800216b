//! The generated webhook configurations and policies.

mod applied;
mod cel_functions;
pub(crate) mod conditions;
mod enforced;
mod pod_conditions;
mod policies;
mod step;
mod webhooks;
