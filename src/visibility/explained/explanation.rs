//! The object that is answered with about one workload: `WorkloadExplanation`. Where a field means what it means in
//! `PendingWorkloadsSummary`, it has the same name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use sluice_crds::Quantity;
use sluice_engine::{Amount, LimitingNode, MissReason, Need, Trial, Trials};

use super::findings::{Findings, State, Stated};
use super::holding::{Held, Holding, Named, Workloads};
use crate::visibility::discovery::{GROUP, VERSION};
use crate::visibility::pending::summary::{Job, in_seconds, quantities, quantity};
use crate::visibility::pending::view::{Ahead, Placed, View};

/// How a workload stands, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadExplanation {
    kind: &'static str,
    api_version: String,
    metadata: Metadata,
    taken: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Job>,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gates: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_queue_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_queue_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
    requests: BTreeMap<String, Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admitted_since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position_in_cluster_queue: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position_in_local_queue: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<Workloads>,
    #[serde(skip_serializing_if = "Option::is_none")]
    can_ever_be_admitted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lacking: Option<Vec<Lacking>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flavors: Vec<Tried>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_by: Vec<Holding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopping: Option<Workloads>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_to_end: Option<Workloads>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pod_set_assignments: Vec<PodSetAssignment>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    creation_timestamp: Option<Time>,
}

/// What is lacking of a resource in a flavor.
#[derive(Debug, Serialize)]
struct Lacking {
    flavor: String,
    resource: String,
    amount: Quantity,
}

/// What became of a pod set in a flavor.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tried {
    pod_set: String,
    name: String,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Needed>,
}

/// What it needs of a resource there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Needed {
    name: String,
    requested: Quantity,
    free: Quantity,
    most: Quantity,
    lacking: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    limited_by: Option<&'static str>,
}

/// What it was admitted with, as in the status of a Workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodSetAssignment {
    name: String,
    count: u32,
    flavors: BTreeMap<String, String>,
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
        let held = holders.map(|holders| Held::new(holders, &names, &namespace));
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
            metadata: Metadata {
                name: found.name.to_string(),
                namespace: namespace.to_string(),
                creation_timestamp: made.map(in_seconds),
            },
            taken: in_seconds(at),
            job: found.job.as_ref().map(Job::from),
            state,
            reason: why.as_ref().map(|why| why.reason.to_string()),
            message: why.map(|why| why.message.to_string()),
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
