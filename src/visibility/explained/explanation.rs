//! The object that is answered with about one workload: `WorkloadExplanation`. Where a field means what it means in
//! `PendingWorkloadsSummary`, it has the same name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sluice_crds::Quantity;
use sluice_engine::{Amount, LimitingNode, MissReason, Need, Trial, Trials};

use super::findings::{Findings, State, Stated};
use super::quota_holders::{Holding, Named, QuotaHolders, Workloads};
use crate::visibility::discovery::{GROUP, VERSION};
use crate::visibility::pending::positions::{Ahead, Placed, View};
use crate::visibility::pending::summary::{
    Job, WorkloadMetadata, in_seconds, quantities, quantity,
};
use crate::visibility::table::{Column, Row, Tabular, ago, text, wide};

/// How a workload stands, and why.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadExplanation {
    /// WorkloadExplanation.
    kind: &'static str,
    /// The group and version of this API.
    api_version: String,
    /// The Workload; of a pod that is admitted by itself, the pod.
    metadata: WorkloadMetadata,
    /// When that was so.
    taken: Time,
    /// What it stands for: a job, a pod, or by the kind Pod and its name a group of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Job>,
    /// Gated: gates hold it before its queue; OnHold: its user has suspended it; Pending: it waits in its queue; Inactive: it
    /// is deactivated; Admitted: it holds quota and may run; Evicted: it holds its quota until it has stopped; Finished.
    state: State,
    /// Why, in the words of the conditions of its Workload, as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The gates that have to be lifted first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gates: Vec<String>,
    /// The LocalQueue in which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    local_queue_name: Option<String>,
    /// The ClusterQueue in which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_queue_name: Option<String>,
    /// Who has a higher one comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
    /// What it requests in sum; empty if that can't be counted.
    requests: BTreeMap<String, Quantity>,
    /// Since when it has held no quota: its creation, or its last eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Time>,
    /// Since when it has held quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    admitted_since: Option<Time>,
    /// How many of the ClusterQueue are before it, so the first has 0. May be three seconds old.
    #[serde(skip_serializing_if = "Option::is_none")]
    position_in_cluster_queue: Option<usize>,
    /// How many of the LocalQueue are before it, so the first has 0. May be three seconds old.
    #[serde(skip_serializing_if = "Option::is_none")]
    position_in_local_queue: Option<usize>,
    /// Who is before it in the ClusterQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<Workloads>,
    /// Whether it would fit if nothing else used quota, with the queues and flavors as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    can_ever_be_admitted: Option<bool>,
    /// So much has to be freed in its ClusterQueue, or added to its quota, and it fits. Empty if it waits for its turn only.
    #[serde(skip_serializing_if = "Option::is_none")]
    lacking: Option<Vec<Lacking>>,
    /// Each pod set in each flavor, in the order in which they are tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flavors: Vec<Tried>,
    /// Who holds what is lacking.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_by: Vec<Holding>,
    /// Those of them that are evicted: what they hold is free when they have stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopping: Option<Workloads>,
    /// The workloads whose end would let it fit once the evicted ones have stopped, in the order of preemption. Nothing is
    /// preempted for it because it is in this list.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_to_end: Option<Workloads>,
    /// What it holds, as in the status of its Workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pod_set_assignments: Vec<PodSetAssignment>,
}

/// What is lacking of a resource in a flavor.
#[derive(Debug, Serialize, JsonSchema)]
struct Lacking {
    /// The flavor.
    flavor: String,
    /// The resource.
    resource: String,
    /// How much is lacking.
    amount: Quantity,
}

/// What became of a pod set in a flavor.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Tried {
    /// The pod set.
    pod_set: String,
    /// The flavor.
    name: String,
    /// Fits, WaitingForQuota, ExceedsMaxQuota (it requests more than the maximum capacity), NoMatchingNodes or NoQuota.
    reason: &'static str,
    /// The reason in words, where the resources do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// What it needs there, by resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Needed>,
}

/// What it needs of a resource there.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Needed {
    /// The resource.
    name: String,
    /// How much it requests.
    requested: Quantity,
    /// How much is free for it now.
    free: Quantity,
    /// How much there can be for it at most.
    most: Quantity,
    /// How much of what it requests is not free.
    lacking: Quantity,
    /// What allows no more: the ClusterQueue, or the Cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    limited_by: Option<&'static str>,
}

/// What it was admitted with, as in the status of a Workload.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PodSetAssignment {
    /// The pod set.
    name: String,
    /// How many pods it was admitted with.
    count: u32,
    /// The flavor of each resource.
    flavors: BTreeMap<String, String>,
    /// How much of each resource it holds.
    resource_usage: BTreeMap<String, Quantity>,
}

impl WorkloadExplanation {
    /// What was found at that time. Works out who has to end: takes a while where many hold what is lacking.
    pub fn new(findings: Findings, view: Option<&View>, at: Timestamp) -> Self {
        let Findings {
            stated,
            trials,
            holders,
            names,
        } = findings;
        let Stated {
            found,
            id,
            namespace,
            made,
            state,
            why,
            gates,
            local_queue,
            cluster_queue,
            priority,
            since,
            requests,
            admission,
        } = stated;
        let is_pending = state == State::Pending;
        let placed = local_queue
            .as_ref()
            .filter(|_| is_pending)
            .and_then(|key| view?.placed(&id, key));
        let (placed, ahead) = placed.unzip();
        let position = |of: fn(Placed<'_>) -> usize| placed.map(of);
        let held = holders.map(|holders| QuotaHolders::new(holders, &names, &namespace));
        let held = held.unwrap_or_default();
        let is_stopping = 0 < held.stopping.in_namespace + held.stopping.in_other_namespaces;
        let since = since.map(in_seconds);
        let assignments = admission.map(|admission| {
            let pod_sets = admission.pod_sets.iter();
            pod_sets.map(PodSetAssignment::from).collect()
        });
        Self {
            kind: "WorkloadExplanation",
            api_version: format!("{GROUP}/{VERSION}"),
            metadata: WorkloadMetadata {
                name: found.name.to_string(),
                namespace: namespace.to_string(),
                creation_timestamp: made.map(in_seconds),
            },
            taken: in_seconds(at),
            job: found.job.as_ref().map(Job::from),
            state,
            reason: why.as_ref().map(|why| why.reason.to_string()),
            message: why.and_then(|why| why.message).map(|text| text.to_string()),
            gates,
            local_queue_name: local_queue.map(|key| key.name.to_string()),
            cluster_queue_name: cluster_queue.map(|name| name.to_string()),
            priority,
            requests: quantities(&requests),
            waiting_since: since.clone().filter(|_| is_pending),
            admitted_since: since.filter(|_| matches!(state, State::Admitted | State::Evicted)),
            position_in_cluster_queue: position(|placed| placed.in_cluster_queue),
            position_in_local_queue: position(|placed| placed.in_local_queue),
            ahead: ahead.map(Workloads::from),
            can_ever_be_admitted: trials.as_ref().map(|trials| trials.ever_fits),
            lacking: trials.as_ref().map(lacking),
            flavors: trials.map(tried).unwrap_or_default(),
            held_by: held.by,
            stopping: Some(held.stopping).filter(|_| is_stopping),
            has_to_end: held.has_to_end,
            pod_set_assignments: assignments.unwrap_or_default(),
        }
    }
}

impl Tabular for WorkloadExplanation {
    const COLUMNS: &'static [Column] = &[
        text(
            "Name",
            "The Workload, or the pod that is admitted by itself.",
        ),
        text("Job", "What it stands for."),
        text("State", "How far it has come."),
        text("Reason", "Why."),
        text("Cluster Queue", "The ClusterQueue in which it is."),
        text("Before", "How many of the ClusterQueue are before it."),
        text("Since", "For how long it has waited, or held quota."),
        wide("Message", "The reason in words."),
    ];

    fn rows(&self, now: Timestamp) -> Vec<Row> {
        let since = self.waiting_since.as_ref().or(self.admitted_since.as_ref());
        let before = self.position_in_cluster_queue;
        vec![Row {
            cells: vec![
                json!(self.metadata.name),
                Job::cell(self.job.as_ref()),
                json!(self.state),
                json!(self.reason.as_deref().unwrap_or_default()),
                json!(self.cluster_queue_name.as_deref().unwrap_or_default()),
                json!(before.map(|before| before.to_string()).unwrap_or_default()),
                since.map_or(json!(""), |since| ago(Some(since), now)),
                json!(self.message.as_deref().unwrap_or_default()),
            ],
            metadata: json!(self.metadata),
        }]
    }
}

fn lacking(trials: &Trials) -> Vec<Lacking> {
    let lacking = trials.lacking.iter();
    let lacking = lacking.map(|(flavor, resource, amount)| Lacking {
        flavor: flavor.to_string(),
        resource: resource.to_string(),
        amount: quantity(resource, *amount),
    });
    lacking.collect()
}

fn tried(trials: Trials) -> Vec<Tried> {
    trials.flavors.into_iter().map(Tried::from).collect()
}

impl From<Trial> for Tried {
    fn from(trial: Trial) -> Self {
        let fits = trial.fits();
        let (reason, message, needs) = match trial.needs {
            Err(MissReason::NoQuota(resource)) => {
                let text = format!("the flavor has no quota for {:?}", resource.as_str());
                ("NoQuota", Some(text), Vec::new())
            }
            Err(MissReason::Nodes(mismatch)) => {
                ("NoMatchingNodes", Some(mismatch.to_string()), Vec::new())
            }
            // A trial says these by what it needs.
            Err(MissReason::NotFreeNow(_)) => ("WaitingForQuota", None, Vec::new()),
            Err(MissReason::TooLarge(_)) => ("ExceedsMaxQuota", None, Vec::new()),
            Ok(needs) if fits => ("Fits", None, needs),
            Ok(needs) if needs.iter().any(Need::is_too_large) => ("ExceedsMaxQuota", None, needs),
            Ok(needs) => ("WaitingForQuota", None, needs),
        };
        Self {
            pod_set: trial.pod_set.to_string(),
            name: trial.flavor.to_string(),
            reason,
            message,
            resources: needs.into_iter().map(Needed::from).collect(),
        }
    }
}

impl From<Need> for Needed {
    fn from(need: Need) -> Self {
        let amount = |amount: Amount| quantity(&need.resource, amount);
        Self {
            requested: amount(need.request),
            free: amount(need.free),
            most: amount(need.most),
            lacking: amount(need.lacking),
            // The name of a cohort is not the tenant's to know.
            limited_by: need.limit.map(|limit| match limit {
                LimitingNode::Queue(_) => "ClusterQueue",
                LimitingNode::Cohort(_) => "Cohort",
            }),
            name: need.resource.to_string(),
        }
    }
}

impl From<&sluice_engine::PodSetAssignment> for PodSetAssignment {
    fn from(pod_set: &sluice_engine::PodSetAssignment) -> Self {
        let flavors = pod_set.flavors.iter();
        let usage = pod_set.usage.iter();
        Self {
            name: pod_set.name.to_string(),
            count: pod_set.count,
            flavors: flavors
                .map(|(resource, flavor)| (resource.to_string(), flavor.to_string()))
                .collect(),
            resource_usage: usage
                .map(|(resource, amount)| (resource.to_string(), quantity(resource, *amount)))
                .collect(),
        }
    }
}

impl From<Ahead<'_>> for Workloads {
    fn from(ahead: Ahead<'_>) -> Self {
        let items = ahead.first.into_iter().map(|waiting| Named {
            name: waiting.name.to_string(),
            job: waiting.job.as_ref().map(Job::from),
        });
        Self {
            items: items.collect(),
            in_namespace: ahead.of_namespace,
            in_other_namespaces: ahead.of_other_namespaces,
        }
    }
}
