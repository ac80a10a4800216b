//! One queue: who waits in it, in order, and who holds its quota. Who waits is told by visibility.sluice.dev; where it does
//! not answer, or is not for the caller to read, by the objects that the caller may list.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use sluice_crds::{GROUP, LocalQueue, Quantity, Workload};

use super::queues::{Local, of_queue};
use super::viewer::{Answer, Viewer};
use crate::cluster::POD_GROUP;
use crate::live::explain::requests::{Requests, held, held_by_pod, of_pod, of_workload};
use crate::live::jobs::{Job, State};
use crate::live::list::{Objects, all_pending};
use crate::live::listed::Unseen;
use crate::live::queues::Node;
use crate::live::status;
use crate::web::problem::{Problem, Problems};

/// Most that are listed of a queue.
const LISTED_MAX: usize = 10_000;

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
    /// The first of them; if it is not known how many they are, those that the caller may list.
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
        let objects = self.objects(namespace, &mut problems).await?;
        let own: Vec<&LocalQueue> = objects.queues.iter().filter(|own| queue.is(own)).collect();
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
        let told = all_pending(&self.client, &queue.path(), LISTED_MAX, Pending::key).await;
        let is_nowhere = node.is_none() && own.is_empty();
        let (total, pending) = match told {
            Ok((total, pending)) => {
                let pending = pending.into_iter().map(|one| one.into_waiter(is_local));
                let mut pending: Vec<Waiter> = pending.collect();
                if !counts_pods(node.as_ref(), &own) {
                    for waiter in &mut pending {
                        waiter.requests.remove(PODS);
                    }
                }
                (Some(total), pending)
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
                let mut waiting = waiting(&objects, &own);
                // Jobs of other namespaces may be among them, which the caller does not see.
                if !is_local {
                    for waiter in &mut waiting {
                        waiter.place = None;
                    }
                }
                (is_local.then_some(waiting.len()), waiting)
            }
        };
        let waiting = Waiting {
            node,
            total,
            pending,
            holding: holding(&objects, &own),
            local_queues: own.into_iter().map(of_queue).collect(),
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

/// The names of these queues, with their namespaces.
fn names(queues: &[&LocalQueue]) -> BTreeSet<(String, String)> {
    let queues = queues.iter();
    queues
        .map(|queue| (queue.namespace().unwrap_or_default(), queue.name_any()))
        .collect()
}

/// The jobs of these queues.
pub(super) fn of_queues(
    objects: &Objects,
    queues: &[&LocalQueue],
) -> impl Iterator<Item = Job> + use<> {
    let names = names(queues);
    let jobs = objects.jobs().into_iter();
    jobs.filter(move |job| names.contains(&(job.namespace.clone(), job.queue.clone())))
}

/// What is said of an object in amounts.
type Amounts<K> = fn(&K) -> Requests;

/// The jobs of these queues that are so, with what is said `of` their Workloads, or of pods that are admitted by
/// themselves.
fn chosen(
    objects: &Objects,
    queues: &[&LocalQueue],
    is_so: impl Fn(&Job) -> bool,
    (of, of_pod): (Amounts<Workload>, Amounts<Pod>),
) -> Vec<Holder> {
    let workloads = by_name(&objects.workloads);
    let pods = by_name(&objects.pods);
    let jobs = of_queues(objects, queues).filter(is_so);
    jobs.map(|job| {
        let called = |name: &String| (job.namespace.clone(), name.clone());
        let requests = match &job.workload {
            Some(name) => workloads.get(&called(name)).map(|workload| of(workload)),
            None => pods.get(&called(&job.name)).map(|pod| of_pod(pod)),
        };
        Holder {
            requests: requests.unwrap_or_default(),
            job,
        }
    })
    .collect()
}

/// Objects by their namespaces and names.
fn by_name<K: ResourceExt>(objects: &[K]) -> BTreeMap<(String, String), &K> {
    let objects = objects.iter();
    objects
        .map(|object| {
            let namespace = object.namespace().unwrap_or_default();
            ((namespace, object.name_any()), object)
        })
        .collect()
}

/// Who waits, by the objects that the caller sees, in the order of the queue.
fn waiting(objects: &Objects, queues: &[&LocalQueue]) -> Vec<Waiter> {
    let mut waiting = chosen(objects, queues, Job::is_queued, (of_workload, of_pod));
    waiting.sort_by_key(|one| (-i64::from(one.job.priority), one.job.order.clone()));
    let waiting = waiting.into_iter().zip(1..);
    waiting
        .map(|(Holder { job, requests }, place)| Waiter {
            place: Some(place),
            namespace: job.namespace,
            group: job.group,
            kind: job.kind,
            name: job.name,
            queue: job.queue,
            priority: job.priority,
            since: job.since,
            requests,
            reason: job.reason,
            message: job.message,
        })
        .collect()
}

/// Who holds quota, the latest first.
fn holding(objects: &Objects, queues: &[&LocalQueue]) -> Vec<Holder> {
    let holds = |job: &Job| matches!(job.state, State::Admitted | State::Evicted);
    let mut holding = chosen(objects, queues, holds, (held, held_by_pod));
    holding.sort_by_key(|holder| Reverse(holder.job.since));
    holding.truncate(LISTED_MAX);
    holding
}

#[cfg(test)]
mod tests;
