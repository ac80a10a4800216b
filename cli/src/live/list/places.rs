//! The places of pending jobs as visibility.sluice.dev tells them: those of its queue are counted that the caller may not
//! see.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::super::jobs::{Job, State, sort};
use super::super::listed::{Unseen, visible};

/// The longest page that the API serves.
const PAGE: usize = 1000;
/// LocalQueues that are asked about; those after them keep the places that are counted here.
const QUEUES_MAX: usize = 200;

#[derive(Debug, Deserialize)]
struct Summary<T> {
    total: usize,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pending {
    metadata: Metadata,
    job: Option<Owner>,
    priority: Option<i32>,
    reason: Option<String>,
    position_in_cluster_queue: usize,
    position_in_local_queue: usize,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Owner {
    kind: String,
    name: String,
}

/// Gives each pending job its place and its priority in its queue, as the API tells, and brings them into that order.
/// Returns the note about the queues that are not asked about, if there are too many.
///
/// # Errors
/// Why the API does not tell; then the jobs after that keep the places that were counted here.
pub async fn tell_places(client: &Client, jobs: &mut [Job]) -> Result<Option<String>, Unseen> {
    let told = place_all(client, jobs).await;
    sort(jobs);
    told
}

async fn place_all(client: &Client, jobs: &mut [Job]) -> Result<Option<String>, Unseen> {
    let pending = jobs.iter().filter(|job| job.is_queued());
    let queues: BTreeSet<(String, String)> = pending
        .map(|job| (job.namespace.clone(), job.queue.clone()))
        .collect();
    let left_out = queues.len().saturating_sub(QUEUES_MAX);
    for (namespace, queue) in queues.into_iter().take(QUEUES_MAX) {
        let path = format!("namespaces/{namespace}/localqueues/{queue}");
        let found: Vec<Pending> = match all_pending(client, &path, usize::MAX).await {
            // A job may name a queue that is not there.
            Err(Unseen::NotFound(why)) if why.contains("not found") => Vec::new(),
            other => other?.1,
        };
        let of_queue = |job: &&mut Job| job.namespace == namespace && job.queue == queue;
        place(&found, jobs.iter_mut().filter(of_queue));
    }
    Ok((0 < left_out).then(|| {
        format!(
            "places are asked of {QUEUES_MAX} LocalQueues, and counted among the jobs listed here in {left_out} more"
        )
    }))
}

/// How many wait in the queue below `path`.
///
/// # Errors
/// Why the API does not tell.
pub async fn total_pending(client: &Client, path: &str) -> Result<usize, Unseen> {
    let page = format!("{path}/pendingworkloads?limit=1");
    let summary: Summary<IgnoredAny> = visible(client, &page).await?;
    Ok(summary.total)
}

/// How many wait in the queue below `path`, and the first of them: at most `most`, and what is left of a page.
///
/// # Errors
/// Why the API does not tell.
pub async fn all_pending<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    most: usize,
) -> Result<(usize, Vec<T>), Unseen> {
    let (mut found, mut total) = (Vec::new(), 1);
    while found.len() < total.min(most) {
        let page = format!(
            "{path}/pendingworkloads?limit={PAGE}&offset={}",
            found.len()
        );
        let summary: Summary<T> = visible(client, &page).await?;
        total = summary.total;
        if summary.items.is_empty() {
            break;
        }
        found.extend(summary.items);
    }
    Ok((total, found))
}

/// Gives the jobs of a LocalQueue their places, if they are in the list, and takes those away that were counted here: the
/// two may not be mixed.
fn place<'a>(found: &[Pending], jobs: impl Iterator<Item = &'a mut Job>) {
    let mut pods = BTreeMap::new();
    let mut workloads = BTreeMap::new();
    for pending in found {
        let name = pending.metadata.name.as_str();
        // A pod that is admitted by itself stands for itself.
        let is_pod =
            (pending.job.as_ref()).is_some_and(|job| job.kind == "Pod" && job.name == name);
        if is_pod {
            pods.insert(name, pending);
        } else {
            workloads.insert(name, pending);
        }
    }
    for job in jobs.filter(|job| job.state == State::Pending) {
        (job.place, job.pending) = (None, None);
        let pending = match &job.workload {
            Some(workload) => workloads.get(workload.as_str()),
            None => pods.get(job.name.as_str()),
        };
        if let Some(pending) = pending {
            job.place = Some(pending.position_in_local_queue.saturating_add(1));
            job.pending = Some(found.len());
            job.ahead = Some(pending.position_in_cluster_queue);
            job.priority = pending.priority.unwrap_or(job.priority);
            // Of a pod that is admitted by itself no object says it.
            if let (None, Some(reason)) = (&job.workload, &pending.reason) {
                job.reason.clone_from(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    fn job(kind: &str, name: &str, workload: Option<&str>) -> Job {
        Job {
            namespace: "blue".to_owned(),
            group: "batch".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            workload: workload.map(str::to_owned),
            queue: "main".to_owned(),
            state: State::Pending,
            priority: 0,
            place: None,
            pending: None,
            ahead: None,
            since: None,
            reason: String::new(),
            message: String::new(),
            start: None,
            no_estimate: None,
            order: (0, String::new()),
        }
    }

    #[tokio::test]
    async fn queues_that_are_too_many_are_told_of() {
        let answering = tower::service_fn(async |_: Request<Body>| {
            let none = json!({"total": 0, "items": []}).to_string();
            Ok::<_, Infallible>(Response::new(Body::from(none.into_bytes())))
        });
        let client = Client::new(answering, "default");
        let told = async |queues| {
            let of_queue = |number: usize| Job {
                queue: format!("q{number}"),
                ..job("Job", "a", Some("a-1"))
            };
            let mut jobs: Vec<Job> = (0..queues).map(of_queue).collect();
            tell_places(&client, &mut jobs).await.unwrap()
        };
        assert_eq!(told(QUEUES_MAX).await, None);
        assert_eq!(
            told(QUEUES_MAX + 2).await.as_deref(),
            Some(
                "places are asked of 200 LocalQueues, and counted among the jobs listed here in 2 more"
            )
        );
    }

    #[test]
    fn a_pod_and_a_workload_of_one_name_have_places_of_their_own() {
        let item = |name: &str, kind: &str, of: &str, all: usize, own: usize| {
            json!({"metadata": {"name": name}, "job": {"kind": kind, "name": of}, "priority": 7,
                "reason": "WaitingForQuota", "positionInClusterQueue": all, "positionInLocalQueue": own})
        };
        let found: Vec<Pending> = serde_json::from_value(json!([
            item("a-1", "Job", "a", 4, 0),
            item("a-1", "Pod", "a-1", 6, 1),
            item("crew-pod-group", "Pod", "crew", 7, 2),
        ]))
        .unwrap();
        let mut new = job("Job", "new", Some("new-1"));
        (new.place, new.pending) = (Some(1), Some(4));
        let mut jobs = [
            job("Job", "a", Some("a-1")),
            job("Pod", "a-1", None),
            job("PodGroup", "crew", Some("crew-pod-group")),
            new,
        ];
        place(&found, jobs.iter_mut());
        let places: Vec<_> = jobs.iter().map(|job| (job.place, job.ahead)).collect();
        assert_eq!(
            places,
            [
                (Some(1), Some(4)),
                (Some(2), Some(6)),
                (Some(3), Some(7)),
                (None, None)
            ]
        );
        // What counts may be a class, of which a pod says nothing in its spec.
        assert_eq!(jobs.each_ref().map(|job| job.priority), [7, 7, 7, 0]);
        let reasons = jobs.each_ref().map(|job| job.reason.as_str());
        assert_eq!(
            reasons,
            ["", "WaitingForQuota", "", ""],
            "others have objects"
        );
    }
}
