//! What the controller finds of a tree of cohorts.

use sluice_engine::{NodeName, TreeNode};

use crate::visibility::problem::Problem;

/// The nodes of a tree, in no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenTree {
    /// The ClusterQueue or cohort that was asked about.
    pub of: NodeName,
    /// The nodes, each with how many objects gates hold before its queues.
    pub nodes: Vec<(TreeNode, u64)>,
}

/// There is no such ClusterQueue or cohort.
pub fn not_found(of: &NodeName) -> Problem {
    match of {
        NodeName::Cohort(name) => Problem::not_found("cohorts", name.as_str()),
        NodeName::ClusterQueue(name) => Problem::not_found("clusterqueues", name.as_str()),
    }
}
