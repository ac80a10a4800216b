//! The generated webhook configurations and policies.

mod applied;
mod cel_functions;
pub(crate) mod conditions;
mod enforced;
mod own;
mod pod_conditions;
mod policies;
mod step;
mod stored;
mod webhooks;
