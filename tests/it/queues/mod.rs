//! What LocalQueues, ClusterQueues and cohorts share: quota, order, borrowing, preemption.

mod allowed_classes;
mod deleted_queues;
mod devices;
mod fair_sharing;
mod place;
pub mod preemption;
mod priority_change;
mod queue_fields;
pub mod quota;
mod quota_trees;
mod requeue;
mod reservations;
mod reserved_quota;
mod tenants;
mod undeclared_resources;
