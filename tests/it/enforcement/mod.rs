//! What happens to objects without a queue in managed namespaces.

mod config;
mod generated_policies;
mod life;
mod many;
mod modes;
mod outage;
mod starts;
