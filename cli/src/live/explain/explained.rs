//! What is known of a job that is explained, from its objects, its events and visibility.sluice.dev. What is printed of
//! it is in `text.rs`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::Api;
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;
use sluice_crds::{ConditionType, Workload};
use sluice_kinds::gates::{self, GateState};
use sluice_kinds::view::LabelledQueue;

use super::super::jobs::{Called, Job, KindNames, State};
use super::super::list::requests::{Requests, of_workload};
use super::super::list::{Objects, total_pending};
use super::super::listed::{self, Unseen};
use super::super::outcome::LiveError;
use super::super::queues::Node;
use super::super::status;
use super::answer::QueuePlace;
use super::events::last_event;
use crate::cluster::{ClusterError, POD_GROUP, Tell, Told, answer};
use crate::rules::queue_names::QueueNames;
use crate::simulate::Estimate;

/// What is missing where events are not answered.
pub(super) const LAST_TOLD: &str = "what Sluice last told about it";

/// A job, explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The job.
    pub job: Job,
    /// The ClusterQueue of its LocalQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// What it requests in all.
    pub requests: Requests,
    /// The pending jobs of its LocalQueue that come before it.
    pub ahead: Vec<String>,
    /// What its conditions, or the last event about it, say.
    pub told: Vec<(String, String)>,
    /// How its ClusterQueue stands, if the caller may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Node>,
    /// What visibility.sluice.dev says, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Value>,
    /// When it will start, if it waits and that can be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Estimate>,
    /// Why that can't be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_estimate: Option<String>,
}

impl Explained {
    /// A job that is not queued as gates hold it, by its metadata alone, and these gates; none if none do.
    pub(super) fn gated(
        metadata: &ObjectMeta,
        resource: &ApiResource,
        names: &QueueNames,
    ) -> Option<(Self, Vec<String>)> {
        let none = BTreeMap::new();
        let annotations = metadata.annotations.as_ref().unwrap_or(&none);
        let GateState::Held(held) = gates::read(annotations) else {
            return None;
        };
        let held: Vec<String> = held.iter().map(ToString::to_string).collect();
        let named = metadata.labels.as_ref().unwrap_or(&none);
        let queue = match names.labels.read(named) {
            LabelledQueue::Named(queue) => queue,
            LabelledQueue::None | LabelledQueue::Invalid(_) => String::new(),
        };
        let since = metadata.creation_timestamp.as_ref().map(|at| at.0);
        let job = Job::gated(
            (&resource.group, &resource.kind),
            (metadata.namespace.as_deref(), metadata.name.as_deref()),
            &queue,
            since,
            &held,
        );
        let explained = Self {
            told: vec![(job.reason.clone(), job.message.clone())],
            job,
            cluster_queue: None,
            requests: BTreeMap::new(),
            ahead: Vec::new(),
            queue: None,
            explanation: None,
            start: None,
            no_estimate: None,
        };
        Some((explained, held))
    }

    /// Takes what visibility.sluice.dev says of a job that gates hold: also what each of them waits for.
    pub(super) fn hear(&mut self, explanation: Value) {
        let text = |field: &str| explanation.get(field).and_then(Value::as_str);
        if let (Some(reason), Some(message)) = (text("reason"), text("message")) {
            (self.job.reason, self.job.message) = (reason.to_owned(), message.to_owned());
            if !self.told.is_empty() {
                self.told = vec![(reason.to_owned(), message.to_owned())];
            }
        }
        self.explanation = Some(explanation);
    }

    /// Whether it is an object that has no Workload yet, as gates hold it: only the object says what it asks for.
    pub fn is_of_gated_object(&self) -> bool {
        let Job { state, kind, .. } = &self.job;
        *state == State::Gated && self.job.workload.is_none() && kind != "Pod" && kind != POD_GROUP
    }
}

/// The Workload of a job, if it has one that the caller may see: of those that are listed less is kept.
///
/// # Errors
/// What is not known can't be told.
pub async fn workload_of(
    client: &Client,
    objects: &Objects,
    called: Called<'_>,
    tell: &mut Tell<'_>,
) -> Result<Option<Workload>, LiveError> {
    let listed = objects.find(called).map(|one| &one.job);
    let Some((job, name)) = listed.and_then(|job| Some((job, job.workload.as_ref()?))) else {
        return Ok(None);
    };
    let workloads = Api::namespaced(client.clone(), &job.namespace);
    let found = answer("read the Workload", workloads.get_opt(name)).await;
    or_note("what its Workload says", found, tell)
}

/// The job that is called so, explained by the objects of its namespace and its Workload; none if it is not queued.
///
/// # Errors
/// What is not known can't be told.
pub async fn explained(
    client: &Client,
    objects: &Objects,
    workload: Option<&Workload>,
    called: Called<'_>,
    tell: &mut Tell<'_>,
) -> Result<Option<Explained>, LiveError> {
    let jobs = objects.jobs();
    let Some(job) = jobs.iter().find(|job| called.is_job(job)) else {
        return Ok(None);
    };
    let mut queues = objects.queues.iter();
    let cluster_queue = queues.find(|queue| queue.name_any() == job.queue);
    let cluster_queue = cluster_queue.map(|queue| queue.spec.cluster_queue.clone());
    let queue = match &cluster_queue {
        Some(name) => {
            let found = status::cluster_queue(client, name).await;
            or_note("how its ClusterQueue stands", found, tell)?
        }
        None => None,
    };
    let told = if let Some(workload) = workload {
        conditions(workload)
    } else if job.kind == "Pod" {
        let found = last_event(client, &job.namespace, &job.name).await;
        or_note(LAST_TOLD, found, tell)?
    } else {
        Vec::new()
    };
    let explanation = match explanation(client, job).await {
        Ok(explanation) => explanation,
        Err(why) => {
            let text =
                format!("what it lacks and who is ahead in its ClusterQueue is not known: {why}");
            tell(Told::Note(text))?;
            None
        }
    };
    let mut placed = job.clone();
    if let Some(place) = explanation.as_ref().and_then(QueuePlace::read) {
        place.give_to(&mut placed);
        placed.pending = pending(client, &placed).await;
    }
    Ok(Some(Explained {
        start: None,
        no_estimate: None,
        explanation,
        requests: match (workload, objects.find(called)) {
            (Some(workload), _) => of_workload(workload),
            (None, Some(listed)) => listed.requests.clone(),
            (None, None) => Requests::new(),
        },
        ahead: ahead(&jobs, job),
        job: placed,
        cluster_queue,
        told,
        queue,
    }))
}

/// What was found; nothing, and a note, if the caller may not see it or it is not answered.
pub(super) fn or_note<T: Default>(
    what: &str,
    found: Result<T, ClusterError>,
    tell: &mut Tell<'_>,
) -> Result<T, LiveError> {
    match found {
        Ok(found) => Ok(found),
        Err(why) => {
            tell(Told::Note(format!("{what} is not known: {why}")))?;
            Ok(T::default())
        }
    }
}

/// What visibility.sluice.dev says about a job. Of one that gates hold there is no more to say.
async fn explanation(client: &Client, job: &Job) -> Result<Option<Value>, Unseen> {
    let (resource, name) = match (&job.workload, job.kind.as_str()) {
        (Some(workload), _) => ("workloads", workload),
        (None, "Pod") => ("pods", &job.name),
        (None, _) => return Ok(None),
    };
    ask(client, job, (resource, name)).await.map(Some)
}

/// How many are pending in the LocalQueue of a job that has a place there; none if that is not answered, or if it is of a
/// later moment than the place and does not go with it.
async fn pending(client: &Client, job: &Job) -> Option<usize> {
    let place = job.place?;
    let path = format!("namespaces/{}/localqueues/{}", job.namespace, job.queue);
    let total = total_pending(client, &path).await.ok()?;
    Some(total).filter(|total| place <= *total)
}

/// The explanation of a job, by the resource and the name by which visibility.sluice.dev knows it.
pub(super) async fn ask(
    client: &Client,
    job: &Job,
    (resource, name): (&str, &str),
) -> Result<Value, Unseen> {
    let path = format!("namespaces/{}/{resource}/{name}/explanation", job.namespace);
    listed::visible(client, &path).await
}

/// Those that come before a pending job in its LocalQueue.
pub(super) fn ahead(jobs: &[Job], job: &Job) -> Vec<String> {
    let before = jobs.iter().filter(|other| {
        job.place.is_some()
            && other.queue == job.queue
            && other.place < job.place
            && other.state == State::Pending
    });
    let kinds = KindNames::of(jobs.iter().map(|job| (&*job.group, &*job.kind)));
    before
        .map(|other| format!("{}/{}", kinds.name(&other.group, &other.kind), other.name))
        .collect()
}

fn conditions(workload: &Workload) -> Vec<(String, String)> {
    let status = workload.status.as_ref();
    let holds = status.is_some_and(|status| status.admission.is_some());
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    // What it says of an eviction is over when the quota is given back.
    let is_over = |told: &Condition| {
        ConditionType::Admitted.is_of(told) && told.reason == "Evicted" && !holds
    };
    conditions
        .filter(|condition| !is_over(condition))
        .map(|condition| {
            let kind = format!(
                "{}={} ({})",
                condition.type_, condition.status, condition.reason
            );
            (kind, condition.message.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use sluice_crds::LocalQueue;

    use super::*;
    use crate::live::list::Keep;

    const SINGLE: Called<'_> = Called {
        group: Some(""),
        kind: "Pod",
        name: "single",
    };

    /// A pod that waits by itself, read from this cluster.
    async fn objects(client: &Client) -> Objects {
        let mut objects = Objects::new(vec![queue()], QueueNames::default(), usize::MAX);
        let (keep, mut tell) = (|_: &Job| Keep::Amounts, |_| Ok(()));
        let read = objects.add_pods(client, Some("blue"), &keep, &mut tell);
        read.await.unwrap();
        objects
    }

    fn queue() -> LocalQueue {
        serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "LocalQueue",
            "metadata": {"name": "main", "namespace": "blue"}, "spec": {"clusterQueue": "team-a"},
        }))
        .unwrap()
    }

    fn pods() -> Value {
        let gate = "sluice.dev/queue-allocation-gate";
        let pod = json!({
            "metadata": {
                "name": "single", "namespace": "blue", "uid": "u",
                "labels": {"sluice.dev/queue-name": "main", "sluice.dev/managed": "true"},
                "annotations": {gate: "true"},
            },
            "spec": {"schedulingGates": [{"name": gate}], "containers": [{"name": "c"}]},
        });
        json!({"metadata": {}, "items": [pod]})
    }

    #[test]
    fn what_is_over_is_not_shown() {
        let said = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-03-01T11:58:30Z"})
        };
        let workload = |admission: Value| -> Workload {
            serde_json::from_value(json!({
                "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload", "metadata": {"name": "a"},
                "spec": {"queueName": "main", "podSets": []},
                "status": {"admission": admission, "conditions": [
                    said("QuotaReserved", "WaitingForQuota"), said("Admitted", "Evicted"),
                ]},
            }))
            .unwrap()
        };
        let shown = |admission| -> Vec<String> {
            let all = conditions(&workload(admission));
            all.into_iter().map(|(kind, _)| kind).collect()
        };
        let waits = "QuotaReserved=False (WaitingForQuota)";
        assert_eq!(shown(Value::Null), [waits]);
        let stops = json!({"clusterQueue": "q", "podSetAssignments": []});
        assert_eq!(shown(stops), [waits, "Admitted=False (Evicted)"]);
    }

    /// The caller sees one job of his queue, and the leader also knows a class, and jobs that are new.
    #[tokio::test]
    async fn the_place_and_the_priority_are_those_of_the_controller() {
        // What is told of the LocalQueue, and how many wait by that: nothing else says it.
        for (queue, pending) in [
            (json!({"total": 10, "items": []}), Some(10)),
            (json!({"total": 2, "items": []}), None),
            (json!({}), None),
        ] {
            let answering = tower::service_fn(move |request: Request<Body>| {
                let path = request.uri().path();
                let is_pods = path == "/api/v1/namespaces/blue/pods";
                let below = "/apis/visibility.sluice.dev/v1alpha1/namespaces/blue/";
                let body = match path.strip_prefix(below).unwrap_or_default() {
                    "pods/single/explanation" => {
                        json!({"priority": 1000, "positionInLocalQueue": 2, "positionInClusterQueue": 7})
                    }
                    "localqueues/main/pendingworkloads" => queue.clone(),
                    _ if is_pods => pods(),
                    _ => json!({"metadata": {}, "items": []}),
                };
                let body = Body::from(body.to_string().into_bytes());
                async move { Ok::<_, Infallible>(Response::new(body)) }
            });
            let client = Client::new(answering, "default");
            let objects = objects(&client).await;
            let found = explained(&client, &objects, None, SINGLE, &mut |_| Ok(())).await;
            let job = found.unwrap().unwrap().job;
            assert_eq!(
                (job.priority, job.place, job.pending, job.ahead),
                (1000, Some(3), pending, Some(7))
            );
        }
    }

    #[tokio::test]
    async fn what_is_refused_is_noted() {
        let refusing = tower::service_fn(async |_: Request<Body>| {
            let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "not for you"});
            let status = Body::from(status.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(403).body(status).unwrap())
        });
        let client = Client::new(refusing, "default");
        let mut notes = Vec::new();
        let mut tell = |told| {
            if let Told::Note(text) = told {
                notes.push(text);
            }
            Ok(())
        };
        let answering = tower::service_fn(async |_: Request<Body>| {
            let body = Body::from(pods().to_string().into_bytes());
            Ok::<_, Infallible>(Response::new(body))
        });
        let objects = objects(&Client::new(answering, "default")).await;
        let found = explained(&client, &objects, None, SINGLE, &mut tell).await;
        assert!(found.unwrap().is_some());
        let missing: Vec<&str> = notes
            .iter()
            .filter_map(|note| Some(note.split_once(" is not known")?.0))
            .collect();
        assert_eq!(
            missing,
            [
                "how its ClusterQueue stands",
                "what Sluice last told about it",
                "what it lacks and who is ahead in its ClusterQueue",
            ],
            "{notes:?}"
        );
    }
}
