//! What the controller finds of the jobs of a tree of cohorts.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_engine::{Event, NodeName, Settings, WorkloadId};
use sluice_estimates::finished::FinishedJobs;
use sluice_estimates::standing::StandingJob;

use crate::visibility::explained::findings::Stated;

/// If a tree has more jobs, none is taken: some 200 bytes each.
pub const JOBS_MAX: usize = 10_000;

/// How a workload stands, and with whom it shares quota.
#[derive(Debug)]
pub struct StandingWorkload {
    /// How it stands.
    pub stated: Stated,
    /// The top of the tree of cohorts that its ClusterQueue is in, if it has one.
    pub root: Option<NodeName>,
}

/// The jobs of a tree of cohorts that wait for its quota or hold some, and its queues.
#[derive(Debug)]
pub struct TakenJobs {
    /// What the engine is told once.
    pub settings: Settings,
    /// What makes the queues.
    pub setup: Vec<Event>,
    /// The jobs; none if there are too many.
    pub jobs: BTreeMap<WorkloadId, StandingJob>,
    /// How many there are, if these are more than [`JOBS_MAX`].
    pub too_many: Option<usize>,
    /// Jobs that have finished, of whatever tree.
    pub finished: Arc<FinishedJobs>,
}
