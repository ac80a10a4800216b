//! Which queue somebody waits in, and all who wait in one ClusterQueue, as the controller lists them.

use sluice_engine::{ClusterQueueName, LocalQueueKey};

use super::waiting::Waiting;
use crate::visibility::problem::Problem;

/// How many may wait in a ClusterQueue for it to be listed, and in all that are kept: some 250 bytes each.
pub const WAITING_MAX: usize = 300_000;

/// Where somebody waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueRef {
    /// In a ClusterQueue.
    ClusterQueue(ClusterQueueName),
    /// In a LocalQueue.
    LocalQueue(LocalQueueKey),
}

impl QueueRef {
    /// There is no such queue.
    pub fn not_found(&self) -> Problem {
        match self {
            Self::ClusterQueue(name) => Problem::not_found("clusterqueues", name.as_str()),
            Self::LocalQueue(key) => Problem::not_found("localqueues", &key.name),
        }
    }
}

/// All who wait in one ClusterQueue, in no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its name.
    pub cluster_queue: ClusterQueueName,
    /// Whether it exists. If not, some LocalQueue points to it.
    pub exists: bool,
    /// The LocalQueues that point to it.
    pub local_queues: Vec<LocalQueueKey>,
    /// Those who wait in these. More than [`WAITING_MAX`]: not all.
    pub waiting: Vec<Waiting>,
}
