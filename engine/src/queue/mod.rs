//! What is kept of each ClusterQueue and LocalQueue: who waits there in which order, what is used, and
//! what blocks those that wait.
//!
//! Must not know cohort trees, other queues or preemption targets. Uses `flavor`, `workload`, `quota` and
//! `api`.

pub(crate) mod admission_order;
pub(crate) mod blocking_usage;
pub(crate) mod cluster_queue;
pub(crate) mod demand;
pub(crate) mod equivalence_class;
pub(crate) mod inadmissible;
pub(crate) mod local_queue;
pub(crate) mod never_fits;
pub(crate) mod pending;
pub(crate) mod preemption_policy;
pub(crate) mod queue_limit;
pub(crate) mod queueing_strategy;
