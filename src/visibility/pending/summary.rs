//! The objects that are answered with: Kueue's `PendingWorkloadsSummary`, with Kueue's names wherever a field means the
//! same.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use sluice_crds::Quantity;
use sluice_engine::{Amount, ResourceName};

use super::page::Page;
use super::positions::{Placed, View};
use super::queue_ref::QueueRef;
use super::waiting;
use crate::visibility::discovery::{GROUP, VERSION};
use crate::visibility::problem::Problem;
use crate::visibility::table::{Column, Row, Tabular, ago, number, text, wide};

/// Most resources that are told of one who waits: whoever creates jobs decides how many they name.
const RESOURCES_MAX: usize = 32;

/// A part of those who wait in a queue, in the order of the queue: priority, then creation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingWorkloadsSummary {
    /// PendingWorkloadsSummary.
    kind: &'static str,
    /// The group and version of this API.
    api_version: String,
    /// The queue.
    metadata: SummaryMetadata,
    /// How many wait in the queue, on whatever page.
    total: usize,
    /// When that was so.
    taken: Time,
    /// Those who wait, the first one first: as many as the page has.
    items: Vec<PendingWorkload>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SummaryMetadata {
    /// The namespace of a LocalQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// The name of the queue.
    name: String,
}

/// One who waits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PendingWorkload {
    /// The Workload; of a pod that is admitted by itself, the pod.
    metadata: WorkloadMetadata,
    /// Who has a higher one comes first.
    priority: i32,
    /// The LocalQueue in which it waits.
    local_queue_name: String,
    /// How many of the ClusterQueue are before it, so the first has 0.
    position_in_cluster_queue: usize,
    /// How many of the LocalQueue are before it, so the first has 0.
    position_in_local_queue: usize,
    /// What waits: a job, a pod, or by the kind Pod and its name a group of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Job>,
    /// Since when it has held no quota: its creation, or its last eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Time>,
    /// What it requests in sum; empty if that can't be counted.
    requests: BTreeMap<String, Quantity>,
    /// Why it waits, as the condition QuotaReserved of its Workload says; of a pod that is admitted by itself, as was found
    /// last.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The reason in words. A pod that is admitted by itself has none here.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The metadata of a Workload or pod.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadMetadata {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
}

/// What waits: an object, or a group of pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// The API group; empty for a pod or a group of pods.
    api_group: String,
    /// The kind.
    kind: String,
    /// The name of the object, or of the group of pods.
    name: String,
}

impl PendingWorkloadsSummary {
    /// One page of a queue.
    ///
    /// # Errors
    /// The view is not about this queue.
    pub fn new(view: &View, place: &QueueRef, page: Page) -> Result<Self, Problem> {
        if !view.is_about(place) {
            return Err(place.not_found());
        }
        let (total, placed) = view.page(place, page);
        let metadata = match place {
            QueueRef::ClusterQueue(name) => SummaryMetadata {
                namespace: None,
                name: name.to_string(),
            },
            QueueRef::LocalQueue(key) => SummaryMetadata {
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

impl Tabular for PendingWorkloadsSummary {
    const COLUMNS: &'static [Column] = &[
        text(
            "Name",
            "The Workload, or the pod that is admitted by itself.",
        ),
        text("Job", "What waits."),
        text(
            "Local Queue",
            "The namespace and the name of its LocalQueue.",
        ),
        number("Priority", "Who has a higher one comes first."),
        number("Before", "How many of the ClusterQueue are before it."),
        text("Waiting", "For how long it has held no quota."),
        text("Reason", "Why it waits."),
        wide("Message", "The reason in words."),
    ];

    fn rows(&self, now: Timestamp) -> Vec<Row> {
        let rows = self.items.iter().map(|item| Row {
            cells: vec![
                json!(item.metadata.name),
                Job::cell(item.job.as_ref()),
                json!(format!(
                    "{}/{}",
                    item.metadata.namespace, item.local_queue_name
                )),
                json!(item.priority),
                json!(item.position_in_cluster_queue),
                ago(item.waiting_since.as_ref(), now),
                json!(item.reason.as_deref().unwrap_or_default()),
                json!(item.message.as_deref().unwrap_or_default()),
            ],
            metadata: json!(item.metadata),
        });
        rows.collect()
    }
}

impl Job {
    /// As users name it.
    pub fn cell(job: Option<&Self>) -> Value {
        let text = job.map(|job| format!("{}/{}", job.kind, job.name));
        json!(text.unwrap_or_default())
    }
}

impl From<Placed<'_>> for PendingWorkload {
    fn from(placed: Placed<'_>) -> Self {
        let waiting = placed.waiting;
        let requests = &*waiting.requests;
        let requests = requests.get(..RESOURCES_MAX).unwrap_or(requests);
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
            requests: quantities(requests),
            reason: waiting.why.as_ref().map(|why| why.reason.to_string()),
            message: (waiting.why.as_ref())
                .and_then(|why| why.message.as_ref())
                .map(ToString::to_string),
        }
    }
}

impl From<&waiting::JobRef> for Job {
    fn from(job: &waiting::JobRef) -> Self {
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

#[cfg(test)]
mod tests {
    use sluice_engine::LocalQueueKey;

    use super::*;
    use crate::visibility::pending::positions::tests::{mk_taken, mk_waiting};

    #[test]
    fn no_more_resources_are_told_than_anybody_reads() {
        let queue = LocalQueueKey::new("a", "q");
        let told = |resources: usize| {
            let mut waiting = mk_waiting(&queue, "x", 0, 1);
            let requests = (0..resources).map(|number| {
                let name = ResourceName::from(format!("acme.io/{number}").as_str());
                (name, Amount::new(1))
            });
            waiting.requests = requests.collect();
            let taken = mk_taken(vec![queue.clone()], vec![waiting]);
            let view = View::new(taken, Timestamp::UNIX_EPOCH);
            let (offset, limit) = (0, 1);
            let all = QueueRef::ClusterQueue("cq".into());
            let (_, placed) = view.page(&all, Page { offset, limit });
            let told = placed.into_iter().map(PendingWorkload::from);
            told.map(|one| one.requests.len()).collect::<Vec<_>>()
        };
        assert_eq!(told(RESOURCES_MAX), [RESOURCES_MAX]);
        assert_eq!(told(5000), [RESOURCES_MAX]);
    }
}
