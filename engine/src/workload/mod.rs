//! What is known of each workload, and the orders that workloads are sorted by.
//!
//! Must not know queues, trees or decisions. Uses `quota` and `api`.

pub(crate) mod info;
pub(crate) mod lookup;
pub(crate) mod preemption_order;
pub(crate) mod queue_order;
pub(crate) mod shape;
pub(crate) mod transition;
