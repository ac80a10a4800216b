//! The arithmetic of quota: what each node of a cohort tree has, lends, borrows and uses, and the
//! configuration that it comes from.
//!
//! Must not know workloads, their order, or who decides. Uses `api`.

pub(crate) mod above_quota;
pub(crate) mod availability;
pub(crate) mod config;
pub(crate) mod configured_quotas;
pub(crate) mod dominant_share;
pub(crate) mod flavor_resources;
pub(crate) mod quota_tree;
pub(crate) mod usage;
pub(crate) mod usage_history;
pub(crate) mod view;
pub(crate) mod violations;
