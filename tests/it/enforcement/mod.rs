//! What happens to objects without a queue in managed namespaces.

mod config;
mod life;
mod many;
mod modes;
mod outage;
mod starts;
