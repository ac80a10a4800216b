//! Which flavors a workload can take, and which it takes at the present usage.
//!
//! Must not know other workloads, queues' order or preemption. Uses `workload`, `quota` and `api`.

pub(crate) mod feasibility;
pub(crate) mod flavor_assigner;
pub(crate) mod fungibility;
pub(crate) mod node_affinity;
pub(crate) mod options;
pub(crate) mod options_cache;
pub(crate) mod undeclared_resources;
pub(crate) mod ways;
