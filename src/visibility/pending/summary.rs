//! The objects that are answered with: Kueue's `PendingWorkloadsSummary`, with Kueue's names wherever a field means the
//! same.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use sluice_crds::Quantity;
use sluice_engine::{Amount, ResourceName};

use super::page::Page;
use super::place::Place;
use super::view::{Placed, View};
use super::waiting;
use crate::visibility::discovery::{GROUP, VERSION};
use crate::visibility::problem::Problem;

/// A part of those who wait in a queue, in order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingWorkloadsSummary {
    kind: &'static str,
    api_version: String,
    metadata: SummaryMetadata,
    /// How many wait in the queue.
    total: usize,
    /// When they did.
    taken: Time,
    items: Vec<PendingWorkload>,
}

#[derive(Debug, Serialize)]
struct SummaryMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
}

/// One who waits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PendingWorkload {
    metadata: WorkloadMetadata,
    priority: i32,
    local_queue_name: String,
    position_in_cluster_queue: usize,
    position_in_local_queue: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Job>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Time>,
    requests: BTreeMap<String, Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadMetadata {
    name: String,
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    creation_timestamp: Option<Time>,
}

/// What waits, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    api_group: String,
    kind: String,
    name: String,
}

impl PendingWorkloadsSummary {
    /// One page of a queue.
    ///
    /// # Errors
    /// The view is not about this queue.
    pub fn new(view: &View, place: &Place, page: Page) -> Result<Self, Problem> {
        if !view.is_about(place) {
            return Err(place.not_found());
        }
        let (total, placed) = view.page(place, page);
        let metadata = match place {
            Place::ClusterQueue(name) => SummaryMetadata {
                namespace: None,
                name: name.to_string(),
            },
            Place::LocalQueue(key) => SummaryMetadata {
                namespace: Some(key.namespace.to_string()),
                name: key.name.to_string(),
            },
        };
        Ok(Self {
            kind: "PendingWorkloadsSummary",
            api_version: format!("{GROUP}/{VERSION}"),
            metadata,
            total,
            taken: in_seconds(view.taken),
            items: placed.into_iter().map(PendingWorkload::from).collect(),
        })
    }
}

impl From<Placed<'_>> for PendingWorkload {
    fn from(placed: Placed<'_>) -> Self {
        let waiting = placed.waiting;
        Self {
            metadata: WorkloadMetadata {
                name: waiting.name.to_string(),
                namespace: waiting.local_queue.namespace.to_string(),
                creation_timestamp: waiting.made.map(in_seconds),
            },
            priority: waiting.priority,
            local_queue_name: waiting.local_queue.name.to_string(),
            position_in_cluster_queue: placed.in_cluster_queue,
            position_in_local_queue: placed.in_local_queue,
            job: waiting.job.as_ref().map(Job::from),
            waiting_since: waiting.since.map(in_seconds),
            requests: quantities(&waiting.requests),
            reason: waiting.why.as_ref().map(|why| why.reason.to_string()),
            message: waiting.why.as_ref().map(|why| why.message.to_string()),
        }
    }
}

impl From<&waiting::Job> for Job {
    fn from(job: &waiting::Job) -> Self {
        Self {
            api_group: job.group.to_string(),
            kind: job.kind.to_string(),
            name: job.name.to_string(),
        }
    }
}

/// Amounts as they are written.
pub fn quantities(amounts: &[(ResourceName, Amount)]) -> BTreeMap<String, Quantity> {
    let amounts = amounts.iter();
    amounts
        .map(|(resource, amount)| (resource.to_string(), quantity(resource, *amount)))
        .collect()
}

/// An amount as it is written.
pub fn quantity(resource: &ResourceName, amount: Amount) -> Quantity {
    Quantity::of(resource.as_str(), amount.get())
}

/// The time as the API has it: in whole seconds.
pub fn in_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
