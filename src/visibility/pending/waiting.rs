//! One who waits in a queue, as the controller hands it over: small, as there may be 100,000 of them. Texts that many
//! share are shared.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_engine::{Amount, LocalQueueKey, ResourceName, WorkloadId};

/// A job, group of pods or pod that is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Who it is for the engine.
    pub id: WorkloadId,
    /// Its LocalQueue.
    pub local_queue: LocalQueueKey,
    /// Higher comes first.
    pub priority: i32,
    /// Earlier comes first, at equal priority; then the smaller id.
    pub created: i64,
    /// The name of its Workload, or of the pod that is admitted by itself.
    pub name: Arc<str>,
    /// When that was created.
    pub made: Option<Timestamp>,
    /// Since when it has held no quota.
    pub since: Option<Timestamp>,
    /// What waits.
    pub job: Option<JobRef>,
    /// The sum of its requests.
    pub requests: Arc<[(ResourceName, Amount)]>,
    /// Why it waits, as it was told last.
    pub why: Option<Why>,
}

/// What waits: an object, or a group of pods by the name of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// The API group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// Why somebody waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// In one word.
    pub reason: Arc<str>,
    /// In words, if they are known.
    pub message: Option<Arc<str>>,
}
