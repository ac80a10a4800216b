//! The places of pending jobs as visibility.sluice.dev tells them: those of its queue are counted that the caller may not
//! see.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::super::jobs::{Job, State, sort};
use super::super::listed::{Unseen, read_visible, visible, visible_text};

/// The longest page that the API serves.
const PAGE: usize = 1000;
/// How often all pages are read anew, as they were not of one moment.
const READINGS_MAX: usize = 3;
/// LocalQueues that are asked about; those after them keep the places that are counted here.
const QUEUES_MAX: usize = 200;
/// What a value takes of memory besides twice its text.
const BYTES_OF_VALUE: usize = 128;

/// Who waits in a queue.
#[derive(Debug)]
pub struct InQueue<T> {
    /// How many they are.
    pub total: usize,
    /// The first of them.
    pub items: Vec<T>,
    /// How much is left of the memory that these may take.
    pub bytes_left: usize,
}

#[derive(Debug, Deserialize)]
struct Summary<T> {
    total: usize,
    /// When that was so.
    taken: Option<String>,
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

impl<T> InQueue<T> {
    fn nobody() -> Self {
        Self {
            total: 0,
            items: Vec::new(),
            bytes_left: 0,
        }
    }
}

impl Pending {
    /// Whether it is a pod that is admitted by itself, which stands for itself.
    fn is_pod(&self) -> bool {
        let job = self.job.as_ref();
        job.is_some_and(|job| job.kind == "Pod" && job.name == self.metadata.name)
    }
}

/// Gives each pending job its place and its priority in its queue, as the API tells, and brings them into that order.
/// Of each queue it is asked about the first `most`. Returns the note about the queues that are not asked about, if there are
/// too many.
///
/// # Errors
/// Why the API does not tell; then the jobs after that keep the places that were counted here.
pub async fn tell_places(
    client: &Client,
    jobs: &mut [Job],
    most: usize,
) -> Result<Option<String>, Unseen> {
    let told = place_all(client, jobs, most).await;
    sort(jobs);
    told
}

async fn place_all(
    client: &Client,
    jobs: &mut [Job],
    most: usize,
) -> Result<Option<String>, Unseen> {
    let pending = jobs.iter().filter(|job| job.is_queued());
    let queues: BTreeSet<(String, String)> = pending
        .map(|job| (job.namespace.clone(), job.queue.clone()))
        .collect();
    let left_out = queues.len().saturating_sub(QUEUES_MAX);
    for (namespace, queue) in queues.into_iter().take(QUEUES_MAX) {
        let path = format!("namespaces/{namespace}/localqueues/{queue}");
        let key = |one: &Pending| (one.is_pod(), one.metadata.name.clone());
        let found: InQueue<Pending> =
            match all_pending(client, &path, (most, usize::MAX), key).await {
                // A job may name a queue that is not there.
                Err(Unseen::NotFound(why)) if why.contains("not found") => InQueue::nobody(),
                other => other?,
            };
        let of_queue = |job: &&mut Job| job.namespace == namespace && job.queue == queue;
        place(found.total, &found.items, jobs.iter_mut().filter(of_queue));
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

/// How many wait in the queue below `path`, and the first of them: at most so many, and what is left of a page, which take so
/// many bytes of memory at most. `key` is what one of them is told from the others by.
///
/// # Errors
/// Why the API does not tell.
pub async fn all_pending<T: DeserializeOwned, K: Ord>(
    client: &Client,
    path: &str,
    most: (usize, usize),
    key: impl Fn(&T) -> K,
) -> Result<InQueue<T>, Unseen> {
    for _ in 0..READINGS_MAX {
        if let Some(all) = pages(client, path, most, 0, &key).await? {
            return Ok(all);
        }
    }
    // The queue moves faster than its pages can be read.
    let all = pages(client, path, most, PAGE / 2, &key).await?;
    Ok(all.unwrap_or_else(InQueue::nobody))
}

/// The pages of a queue, each with so many that the page before had: one that moves up meanwhile is missed by none. Without
/// any such, none if they are not of one moment.
async fn pages<T: DeserializeOwned, K: Ord>(
    client: &Client,
    path: &str,
    (most, bytes_max): (usize, usize),
    overlap: usize,
    key: impl Fn(&T) -> K,
) -> Result<Option<InQueue<T>>, Unseen> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    let (mut read, mut taken) = (0_usize, None);
    let (mut limit, mut bytes_left) = (PAGE, bytes_max);
    loop {
        let offset = read.saturating_sub(overlap.min(limit / 2));
        let page = format!("{path}/pendingworkloads?limit={limit}&offset={offset}");
        let text = match visible_text(client, &page).await {
            Err(Unseen::TooLong(_)) if 1 < limit => {
                limit = (limit / 4).max(1);
                continue;
            }
            text => text?,
        };
        let Summary {
            total,
            taken: at,
            items,
        } = read_visible::<Summary<T>>(&text)?;
        if *taken.get_or_insert_with(|| at.clone()) != at && overlap == 0 {
            return Ok(None);
        }
        let left = bytes_left.checked_sub(bytes_of(&text));
        let is_end = items.is_empty() || left.is_none();
        bytes_left = left.unwrap_or_default();
        read = offset.saturating_add(items.len());
        found.extend(items.into_iter().filter(|one| known.insert(key(one))));
        if is_end || total.min(most) <= read {
            return Ok(Some(InQueue {
                total,
                items: found,
                bytes_left,
            }));
        }
    }
}

/// What those take of memory of whom a page says this.
fn bytes_of(text: &[u8]) -> usize {
    let values = text.split(|byte| *byte == b',').count();
    let values = values.saturating_mul(BYTES_OF_VALUE);
    text.len().saturating_mul(2).saturating_add(values)
}

/// Gives the jobs of a LocalQueue their places, if they are in the list, and takes those away that were counted here: the
/// two may not be mixed.
fn place<'a>(total: usize, found: &[Pending], jobs: impl Iterator<Item = &'a mut Job>) {
    let mut pods = BTreeMap::new();
    let mut workloads = BTreeMap::new();
    for pending in found {
        let name = pending.metadata.name.as_str();
        if pending.is_pod() {
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
            job.pending = Some(total);
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::live::tests::waiting as job;

    /// The names that are found of a queue of 2500 jobs, of which the first one is admitted after each of the first pages.
    async fn found(admitted: usize) -> (usize, Vec<String>) {
        let gone = AtomicUsize::new(0);
        let answering = tower::service_fn(move |request: Request<Body>| {
            let gone = gone.fetch_add(1, Ordering::Relaxed).min(admitted);
            let query = request.uri().query().unwrap_or_default().to_owned();
            let offset = query.rsplit('=').next().unwrap().parse::<usize>().unwrap();
            let items = (gone..2500).skip(offset).take(PAGE);
            let items: Vec<_> = items
                .map(|number| {
                    json!({"metadata": {"name": format!("w{number}")}, "positionInClusterQueue": number - gone,
                        "positionInLocalQueue": number - gone})
                })
                .collect();
            let taken = format!("2026-03-01T09:30:{gone:02}Z");
            let page = json!({"total": 2500 - gone, "taken": taken, "items": items}).to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(page.into_bytes()))) }
        });
        let client = Client::new(answering, "default");
        let key = |one: &Pending| one.metadata.name.clone();
        let most = (usize::MAX, usize::MAX);
        let found = all_pending(&client, "queue", most, key).await.unwrap();
        let names = found.items.into_iter().map(|one| one.metadata.name);
        (found.total, names.collect())
    }

    /// Whoever creates jobs decides how much is said of each.
    #[tokio::test]
    async fn what_waits_takes_no_more_memory_than_it_may() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let answering = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let numbers = query.split('&').filter_map(|one| one.rsplit('=').next());
            let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
            let [limit, offset] = numbers[..] else {
                panic!("{query}");
            };
            seen.lock().unwrap().push(limit);
            let items = (0..2500).skip(offset).take(limit);
            let items: Vec<_> = items
                .map(|number| {
                    json!({"metadata": {"name": format!("w{number}")}, "positionInClusterQueue": number,
                        "positionInLocalQueue": number, "message": "x".repeat(10_000)})
                })
                .collect();
            let page = json!({"total": 2500, "items": items}).to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(page.into_bytes()))) }
        });
        let client = Client::new(answering, "default");
        let found = async |bytes_max| {
            let key = |one: &Pending| one.metadata.name.clone();
            let most = (usize::MAX, bytes_max);
            let found = all_pending(&client, "queue", most, key).await.unwrap();
            (found.total, found.items.len())
        };
        assert_eq!(found(usize::MAX).await, (2500, 2500));
        let asked: Vec<usize> = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(asked[..4], [1000, 250, 62, 62]);
        // The page that is more than that is the last.
        assert_eq!(found(2 << 20).await, (2500, 124));
    }

    #[tokio::test]
    async fn pages_of_different_moments_are_not_joined() {
        let from = |first: usize| -> Vec<String> {
            (first..2500).map(|number| format!("w{number}")).collect()
        };
        assert_eq!(found(1).await, (2499, from(1)));
        // It never stands still: nobody is missed, nor told of twice.
        let (total, names) = found(50).await;
        assert!(total < 2500 && names.ends_with(&from(50)), "{total}");
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
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
            tell_places(&client, &mut jobs, usize::MAX).await.unwrap()
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
        place(found.len(), &found, jobs.iter_mut());
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
