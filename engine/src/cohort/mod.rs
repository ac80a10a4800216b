//! Which ClusterQueues and cohorts make up which tree, and when a tree is built.
//!
//! Must not know what is decided in a tree. Uses `queue`, `flavor`, `quota` and `api`.

pub(crate) mod build;
pub(crate) mod preemption_round;
pub(crate) mod reopening;
pub(crate) mod tree;
pub(crate) mod tree_cache;
