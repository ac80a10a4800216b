//! The engine's state.

use crate::amount::Amount;
use crate::event::{Decision, Event};
use crate::explain::{Explanation, Outlook};
use crate::model::Admission;
use crate::names::{CohortName, LocalQueueKey, QueueName, WorkloadId};
use crate::status::{CohortStatus, LocalQueueStatus, QueueStatus, Snapshot};

/// The admission decision.
#[derive(Clone, Debug)]
pub struct Engine {
    pod: Amount,
}
impl Engine {
    /// An engine that knows nothing yet. `pod` is what one pod costs of the resource `pods`, in
    /// the unit that the caller uses for it.
    pub fn new(pod: Amount) -> Self {
        Self { pod }
    }
    /// Takes note of a change.
    pub fn apply(&mut self, event: Event) {
        drop(event);
    }
    /// Decides.
    pub fn decide(&mut self) -> Vec<Decision> {
        Vec::new()
    }
    /// Why a workload waits.
    pub fn explain(&self, _id: &WorkloadId) -> Option<Explanation> {
        None
    }
    /// Live numbers about a workload that waits in a ClusterQueue's order.
    pub fn outlook(&self, _id: &WorkloadId) -> Option<Outlook> {
        None
    }
    /// What a workload holds, assumed or confirmed.
    pub fn admission(&self, _id: &WorkloadId) -> Option<&Admission> {
        None
    }
    /// How a ClusterQueue stands; none if it has no object.
    pub fn queue_status(&self, _name: &QueueName) -> Option<QueueStatus> {
        None
    }
    /// How a LocalQueue stands; none if it has no object.
    pub fn local_queue_status(&self, _key: &LocalQueueKey) -> Option<LocalQueueStatus> {
        None
    }
    /// How a cohort stands; none if nothing names it.
    pub fn cohort_status(&self, _name: &CohortName) -> Option<CohortStatus> {
        None
    }
    /// The state in a form that can be compared.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }
}
