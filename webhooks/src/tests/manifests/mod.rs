//! The generated webhook configurations and policies.

pub(crate) mod conditions;
mod pod_conditions;
mod policies;
mod step;
mod webhooks;
