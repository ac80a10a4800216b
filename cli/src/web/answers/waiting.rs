//! One queue: who waits in it, in order, and who holds its quota. Who waits is told by visibility.sluice.dev; where it does
//! not answer, or is not for the caller to read, by the objects that the caller may list.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use sluice_crds::{GROUP, LocalQueue, Quantity};

use super::queues::{Local, of_queue};
use super::viewer::{Answer, Viewer};
use crate::cluster::POD_GROUP;
use crate::live::jobs::{Job, State};
use crate::live::list::{Keep, Listed, Objects, all_pending};
use crate::live::listed::Unseen;
use crate::live::queues::Node;
use crate::live::status;
use crate::web::problem::{Problem, Problems};

/// Most that are listed of a queue.
pub(super) const LISTED_MAX: usize = 10_000;

/// The resource that the number of pods is.
const PODS: &str = "pods";

/// Which queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueName {
    /// A ClusterQueue.
    Cluster(String),
    /// A LocalQueue, by its namespace and name.
    Local(String, String),
}

/// A queue in order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The ClusterQueue, if the caller may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Node>,
    /// The LocalQueue, or those of the ClusterQueue that the caller may see.
    local_queues: Vec<Local>,
    /// How many wait, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    /// The first of them, as far as an answer can hold; if it is not known how many they are, those that the caller may list.
    pending: Vec<Waiter>,
    /// Who holds quota, of those that the caller may see.
    holding: Vec<Holder>,
}

/// Who waits.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiter {
    /// Its place in the queue, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<usize>,
    namespace: String,
    /// The API group of its kind; empty for a pod and for a group of pods.
    group: String,
    kind: String,
    name: String,
    queue: String,
    priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    requests: BTreeMap<String, Quantity>,
    reason: String,
    message: String,
}

/// Who holds quota.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Holder {
    #[serde(flatten)]
    job: Job,
    requests: BTreeMap<String, Quantity>,
}

/// Who waits, as visibility.sluice.dev tells.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pending {
    metadata: Metadata,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    local_queue_name: String,
    #[serde(default)]
    position_in_cluster_queue: usize,
    #[serde(default)]
    position_in_local_queue: usize,
    job: Option<Owner>,
    waiting_since: Option<Timestamp>,
    #[serde(default)]
    requests: BTreeMap<String, Quantity>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    #[serde(default)]
    api_group: String,
    kind: String,
    name: String,
}

impl QueueName {
    fn path(&self) -> String {
        match self {
            Self::Cluster(name) => format!("clusterqueues/{name}"),
            Self::Local(namespace, name) => format!("namespaces/{namespace}/localqueues/{name}"),
        }
    }

    pub(super) fn is(&self, queue: &LocalQueue) -> bool {
        match self {
            Self::Cluster(name) => queue.spec.cluster_queue == *name,
            Self::Local(namespace, name) => {
                queue.namespace().as_ref() == Some(namespace) && queue.name_any() == *name
            }
        }
    }
}

impl Pending {
    /// What it is told from others by: a pod that is admitted by itself may have the name of a Workload.
    fn key(&self) -> (String, String, bool) {
        let Metadata { name, namespace } = self.metadata.clone();
        let job = self.job.as_ref();
        let is_pod = job.is_some_and(|job| job.kind == "Pod" && job.name == name);
        (namespace, name, is_pod)
    }

    fn into_waiter(self, is_local: bool) -> Waiter {
        let Metadata { name, namespace } = self.metadata;
        let (group, kind, name) = match self.job {
            // A pod that is admitted by itself stands for itself; else it is a group of pods.
            Some(job) if job.kind == "Pod" && job.name != name => {
                (String::new(), POD_GROUP.to_owned(), job.name)
            }
            Some(job) => (job.api_group, job.kind, job.name),
            None => (GROUP.to_owned(), "Workload".to_owned(), name),
        };
        let position = if is_local {
            self.position_in_local_queue
        } else {
            self.position_in_cluster_queue
        };
        Waiter {
            place: Some(position.saturating_add(1)),
            namespace,
            group,
            kind,
            name,
            queue: self.local_queue_name,
            priority: self.priority,
            since: self.waiting_since,
            requests: self.requests,
            reason: self.reason,
            message: self.message,
        }
    }
}

impl Viewer {
    /// One queue in order.
    ///
    /// # Errors
    /// The API server does not answer, or the caller sees no such queue.
    pub async fn waiting(&self, queue: QueueName) -> Result<Answer<Waiting>, Problem> {
        let mut problems = Problems::default();
        let namespace = match &queue {
            QueueName::Cluster(_) => None,
            QueueName::Local(namespace, _) => Some(namespace.as_str()),
        };
        let queues = self.local_queues(namespace, &mut problems).await?;
        let own: Vec<&LocalQueue> = queues.iter().filter(|own| queue.is(own)).collect();
        let own_names = names(own.iter().copied());
        let name = match &queue {
            QueueName::Cluster(name) => Some(name.clone()),
            QueueName::Local(..) => own.first().map(|own| own.spec.cluster_queue.clone()),
        };
        let node = match &name {
            Some(name) => {
                let found = status::node(&self.client, name, &mut problems.tell()).await;
                problems.or_nothing("the ClusterQueue", found)?
            }
            None => None,
        };
        let is_local = matches!(queue, QueueName::Local(..));
        let most = (LISTED_MAX, self.jobs_bytes_max);
        let told = all_pending(&self.client, &queue.path(), most, Pending::key).await;
        let mut bytes_left = self.jobs_bytes_max;
        let is_nowhere = node.is_none() && own.is_empty();
        let told = match told {
            Ok(told) => {
                bytes_left = told.bytes_left;
                let pending = told.items.into_iter().map(|one| one.into_waiter(is_local));
                let mut pending: Vec<Waiter> = pending.collect();
                if !counts_pods(node.as_ref(), &own) {
                    for waiter in &mut pending {
                        waiter.requests.remove(PODS);
                    }
                }
                Some((Some(told.total), pending))
            }
            // Neither Sluice nor the API server knows it.
            Err(Unseen::NotFound(why)) if is_nowhere && why.contains("not found") => {
                return Err(Problem::not_found("the queue", why));
            }
            Err(_) if is_nowhere && problems.is_empty() => {
                let why = "no queue has this name".to_owned();
                return Err(Problem::not_found("the queue", why));
            }
            Err(why) => {
                let text = format!("only jobs that you may list are shown as waiting: {why}");
                problems.note(text);
                None
            }
        };
        let local_queues = own.into_iter().map(of_queue).collect();
        let is_told = told.is_some();
        let keep = |job: &Job| {
            if own_names.has(job) && (holds(job) || !is_told) {
                Keep::Amounts
            } else {
                Keep::Nothing
            }
        };
        // Those that wait and those that hold quota are one answer.
        let rest = self.clone().with_jobs_bytes(bytes_left);
        let objects = rest
            .objects(namespace, queues, &keep, &mut problems)
            .await?;
        let (total, pending) = told.unwrap_or_else(|| {
            let mut waiting = waiting(&objects);
            // Jobs of other namespaces may be among them, which the caller does not see.
            if !is_local {
                for waiter in &mut waiting {
                    waiter.place = None;
                }
            }
            (is_local.then_some(waiting.len()), waiting)
        });
        let waiting = Waiting {
            node,
            total,
            pending,
            holding: holding(objects),
            local_queues,
        };
        Ok(Answer::new(waiting, problems))
    }
}

/// Whether there is quota for the number of pods: Sluice counts them for all who wait, and else they say nothing.
fn counts_pods(node: Option<&Node>, own: &[&LocalQueue]) -> bool {
    let of_node = node.into_iter().flat_map(|node| &node.resources);
    let statuses = own.iter().filter_map(|queue| queue.status.as_ref());
    let of_own = statuses.flat_map(|status| &status.flavors_usage);
    let of_own = of_own.flat_map(|flavor| &flavor.resources);
    of_node
        .map(|resource| &resource.name)
        .chain(of_own.map(|resource| &resource.name))
        .any(|name| name == PODS)
}

/// The names of LocalQueues, with their namespaces.
pub(super) struct Names(BTreeSet<(String, String)>);

/// The names of these queues.
pub(super) fn names<'a>(queues: impl Iterator<Item = &'a LocalQueue>) -> Names {
    let names = queues.map(|queue| (queue.namespace().unwrap_or_default(), queue.name_any()));
    Names(names.collect())
}

impl Names {
    /// Whether a job is in one of them.
    pub(super) fn has(&self, job: &Job) -> bool {
        self.0.contains(&(job.namespace.clone(), job.queue.clone()))
    }
}

fn holds(job: &Job) -> bool {
    matches!(job.state, State::Admitted | State::Evicted)
}

/// Who waits, by the objects that the caller sees, in the order of the queue.
fn waiting(objects: &Objects) -> Vec<Waiter> {
    let waiting = objects.listed().iter().filter(|one| one.job.is_queued());
    let mut waiting: Vec<&Listed> = waiting.collect();
    waiting.sort_by_key(|one| (-i64::from(one.job.priority), one.job.order.clone()));
    let waiting = waiting.into_iter().zip(1..);
    waiting
        .map(|(Listed { job, requests, .. }, place)| Waiter {
            place: Some(place),
            namespace: job.namespace.clone(),
            group: job.group.clone(),
            kind: job.kind.clone(),
            name: job.name.clone(),
            queue: job.queue.clone(),
            priority: job.priority,
            since: job.since,
            requests: requests.clone(),
            reason: job.reason.clone(),
            message: job.message.clone(),
        })
        .collect()
}

/// Who holds quota, the latest first.
fn holding(objects: Objects) -> Vec<Holder> {
    let holding = objects.into_listed().into_iter();
    let holding = holding.filter(|one| holds(&one.job));
    let mut holding: Vec<Holder> = holding
        .map(|Listed { job, held, .. }| Holder {
            job,
            requests: held,
        })
        .collect();
    holding.sort_by_key(|holder| Reverse(holder.job.since));
    holding.truncate(LISTED_MAX);
    holding
}

#[cfg(test)]
mod tests;
