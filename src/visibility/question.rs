//! What the controller is asked, and what it answers. It takes what is asked for in small parts, between two cycles.

use sluice_engine::{LocalQueueKey, QueueName};
use tokio::sync::oneshot;

use super::waiting::Waiting;

/// Questions that may wait for the controller.
pub const ASKED_MAX: usize = 16;

/// How many may wait in a ClusterQueue for it to be listed, and in all that are kept: some 250 bytes each.
pub const WAITING_MAX: usize = 300_000;

/// Where somebody waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a ClusterQueue.
    ClusterQueue(QueueName),
    /// In a LocalQueue.
    LocalQueue(LocalQueueKey),
}

/// Who waits in a ClusterQueue: the one that is named, or that of the LocalQueue.
#[derive(Debug)]
pub struct Asked {
    /// Which queue.
    pub place: Place,
    /// None if there is no such queue.
    pub reply: oneshot::Sender<Option<Taken>>,
}

/// All who wait in one ClusterQueue, in no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its name.
    pub cluster_queue: QueueName,
    /// Whether it exists. If not, some LocalQueue points to it.
    pub exists: bool,
    /// The LocalQueues that point to it.
    pub local_queues: Vec<LocalQueueKey>,
    /// Those who wait in these. More than [`WAITING_MAX`]: not all.
    pub waiting: Vec<Waiting>,
}
