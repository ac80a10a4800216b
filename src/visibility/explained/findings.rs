//! What the controller finds of one workload.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_engine::{
    Admission, Amount, ClusterQueueName, Holders, LocalQueueKey, ResourceName, Trials, WorkloadId,
};

use crate::process::hashing::HashMap;
use crate::visibility::pending::waiting::{JobRef, Why};
use crate::visibility::problem::Problem;

/// If more hold what is lacking, it is not worked out who has to end: some 200 bytes each.
pub const HOLDERS_MAX: usize = 20_000;

/// Which workload somebody asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadRef {
    /// A job or group, by the Workload that stands for it, or will when no gate is left.
    Workload {
        /// The namespace.
        namespace: Arc<str>,
        /// The name of the Workload.
        name: Arc<str>,
    },
    /// A pod that is admitted by itself.
    Pod {
        /// The namespace.
        namespace: Arc<str>,
        /// The name of the pod.
        name: Arc<str>,
    },
}

impl WorkloadRef {
    /// There is no such workload.
    pub fn not_found(&self) -> Problem {
        match self {
            Self::Workload { name, .. } => Problem::not_found("workloads", name),
            Self::Pod { name, .. } => Problem::not_found("pods", name),
        }
    }
}

/// How far a workload has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub enum State {
    /// Gates hold it before its queue.
    Gated,
    /// Its user has suspended it.
    OnHold,
    /// It waits in its queue, backs off, or can't be queued.
    Pending,
    /// It is deactivated, or is being deleted.
    Inactive,
    /// It holds quota and may run.
    Admitted,
    /// It is evicted, and holds its quota until it has stopped.
    Evicted,
    /// It has ended.
    Finished,
}

/// Who a workload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The name of its Workload, or of the pod that is admitted by itself.
    pub name: Arc<str>,
    /// What it stands for, if that is known.
    pub job: Option<JobRef>,
}

/// How a workload stands.
#[derive(Debug)]
pub struct Stated {
    /// Who it is.
    pub found: Found,
    /// Who it is for the engine.
    pub id: WorkloadId,
    /// The namespace.
    pub namespace: Arc<str>,
    /// When the Workload or pod was created. None for a Workload that is not there yet.
    pub made: Option<Timestamp>,
    /// How far it has come.
    pub state: State,
    /// Why, in one word and in words.
    pub why: Option<Why>,
    /// The gates that hold it.
    pub gates: Vec<String>,
    /// Its LocalQueue.
    pub local_queue: Option<LocalQueueKey>,
    /// The ClusterQueue that it waits in, or whose quota it holds.
    pub cluster_queue: Option<ClusterQueueName>,
    /// Its priority, if it has been queued.
    pub priority: Option<i32>,
    /// Since when it waits, or holds quota.
    pub since: Option<Timestamp>,
    /// The sum of its requests.
    pub requests: Vec<(ResourceName, Amount)>,
    /// What it holds.
    pub admission: Option<Admission>,
}

/// All that is found of a workload.
#[derive(Debug)]
pub struct Findings {
    /// How it stands.
    pub stated: Stated,
    /// How the flavors of its ClusterQueue stand for it, if it is pending.
    pub trials: Option<Trials>,
    /// Who holds what it lacks; more than [`HOLDERS_MAX`]: not all.
    pub holders: Option<Holders>,
    /// Those of them that are of its namespace.
    pub names: HashMap<WorkloadId, Found>,
}
