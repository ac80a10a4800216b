//! One job, pod group or pod: explained, and with its life.

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde::Serialize;
use sluice_crds::Workload;
use sluice_kinds::gates::{self, GateState};
use sluice_kinds::metadata::group_version;

use super::timeline::{Turn, turns};
use super::viewer::{Answer, Viewer};
use crate::cluster::{ClusterError, POD_GROUP, Resource, answer};
use crate::live::LiveError;
use crate::live::explain::gated::read_object;
use crate::live::explain::{Explained, events_about, explained, workload_of};
use crate::live::jobs::{Called, Job};
use crate::live::list::Keep;
use crate::web::problem::{Problem, Problems};

/// A job with its life.
#[derive(Debug, Serialize)]
pub struct Life {
    /// As `kubectl sluice explain -o json` prints it; none if it is not queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Explained>,
    /// The gates that hold it.
    gates: Vec<String>,
    turns: Vec<Turn>,
}

impl Viewer {
    /// A job by its kind, with or without its group, and its name.
    ///
    /// # Errors
    /// The API server does not answer, or the caller sees no such job.
    pub async fn job(
        &self,
        namespace: &str,
        word: &str,
        name: &str,
    ) -> Result<Answer<Life>, Problem> {
        let mut problems = Problems::default();
        let queues = self.local_queues(Some(namespace), &mut problems).await?;
        let called = called(word, name);
        let kind = called.kind;
        let keep = |job: &Job| {
            if called.is_job(job) {
                Keep::Amounts
            } else {
                Keep::Job
            }
        };
        let objects = self.objects(Some(namespace), queues, &keep, &mut problems);
        let objects = objects.await?;
        let client = &self.client;
        let workload = workload_of(client, &objects, called, &mut problems.tell()).await;
        let workload = problems.or_nothing("its Workload", workload)?;
        let workload = workload.as_ref();
        let found = explained(client, &objects, workload, called, &mut problems.tell()).await;
        drop(objects);
        let mut explained = problems.or_nothing("the explanation", found)?;
        if let Some(explained) = &mut explained {
            without_time(explained);
            if explained.is_of_gated_object() {
                let served = self.served().await;
                // It is read as a whole, and whoever creates it may make it large.
                let _alone = self.turns.object().await;
                let read = read_object(client, served, explained, &mut problems.tell()).await;
                problems.or_nothing("what it requests", read)?;
            }
        }
        let metadata = self.metadata(namespace, called, workload).await;
        let metadata = metadata.map_err(LiveError::from);
        let metadata = problems.or_nothing(&format!("the {kind}"), metadata)?;
        if explained.is_none() && metadata.is_none() {
            let message = format!("you may see no {word} {name:?} in namespace {namespace}");
            return Err(Problem::not_found("the job", message));
        }
        let uids = [
            metadata.as_ref().and_then(|metadata| metadata.uid.clone()),
            workload.and_then(ResourceExt::uid),
        ];
        let mut events: Vec<Event> = Vec::new();
        for uid in uids.into_iter().flatten() {
            let found = events_about(&self.client, namespace, &uid).await;
            events.extend(problems.or_nothing("events", found.map_err(LiveError::from))?);
        }
        let object = metadata.as_ref().map(|metadata| (kind, metadata));
        let annotations = metadata.as_ref().and_then(|m| m.annotations.as_ref());
        let gates = match annotations.map(gates::read) {
            Some(GateState::Held(held)) => held.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let life = Life {
            turns: turns(object, workload, &events),
            explained,
            gates,
        };
        Ok(Answer::new(life, problems))
    }

    /// What is known of the object itself. There is none of a pod group.
    async fn metadata(
        &self,
        namespace: &str,
        called: Called<'_>,
        workload: Option<&Workload>,
    ) -> Result<Option<ObjectMeta>, ClusterError> {
        if called.kind == POD_GROUP && called.group.is_none() {
            return Ok(None);
        }
        let Some(resource) = self.resource(called, workload).await? else {
            return Ok(None);
        };
        let objects = resource.objects(&self.client, Some(namespace));
        match answer("read the object", objects.get_metadata(called.name)).await {
            Ok(object) => Ok(Some(object.metadata)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The resource of a kind that jobs are of: what the Workload says, else what the address means. Others are not asked
    /// for.
    async fn resource(
        &self,
        Called { group, kind, .. }: Called<'_>,
        workload: Option<&Workload>,
    ) -> Result<Option<Resource>, ClusterError> {
        let served = self.served().await?;
        let mut owners = workload.iter().flat_map(|w| w.owner_references());
        let owner = owners.find(|owner| owner.controller == Some(true));
        let resource = match (owner, group) {
            (Some(owner), _) => {
                let (group, version) = group_version(&owner.api_version);
                served.of_kind(group, version, kind)
            }
            (None, Some(group)) => served.of_kind(group, "", kind),
            (None, None) => served.named(kind).ok(),
        };
        Ok(resource.filter(|resource| resource.is_namespaced && resource.api.kind == kind))
    }
}

/// A job by what its address on the page says: its kind, with the API group behind it if that is not the core group.
/// Somebody may have written it without.
pub(super) fn called<'a>(word: &'a str, name: &'a str) -> Called<'a> {
    let (kind, group) = match word.split_once('.') {
        Some((kind, group)) => (kind, Some(group)),
        None => (word, None),
    };
    Called { group, kind, name }
}

/// An explanation says when it was made, so that it would differ each time.
fn without_time(explained: &mut Explained) {
    let explanation = explained.explanation.as_mut();
    if let Some(fields) = explanation.and_then(|explanation| explanation.as_object_mut()) {
        fields.remove("taken");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::simulate::Assumed;

    const SLUICE: &str = "/apis/sluice.dev/v1alpha1/namespaces/blue";
    const VOLCANO: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/blue/jobs";

    /// A cluster with two kinds Job: a job `train` of each waits, and a gate holds `held` of the second.
    fn told(path: &str) -> (u16, Value) {
        let workload = |api_version: &str, name: &str| {
            json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
                "metadata": {"name": name, "namespace": "blue", "ownerReferences": [
                    {"apiVersion": api_version, "kind": "Job", "name": "train", "uid": name, "controller": true}]},
                "spec": {"queueName": "main", "priority": 0, "podSets": [], "active": true}})
        };
        let group = |name: &str, version: &str| {
            json!({"metadata": {"name": name}, "versions": [{"version": version, "resources": [{"resource": "jobs",
                "singularResource": "job", "responseKind": {"kind": "Job"}, "scope": "Namespaced", "verbs": ["get"]}]}]})
        };
        let list = |items: Value| (200, json!({"metadata": {}, "items": items}));
        let refused = |code: u16, reason: &str| {
            let status = json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": "no"});
            (code, status)
        };
        match path {
            "/api" => list(json!([])),
            "/apis" => list(json!([
                group("batch", "v1"),
                group("batch.volcano.sh", "v1alpha1")
            ])),
            "/apis/batch/v1/namespaces/blue/jobs/held" => refused(404, "NotFound"),
            path if path == format!("{SLUICE}/workloads") => list(json!([
                workload("batch/v1", "train-1"),
                workload("batch.volcano.sh/v1alpha1", "train-2"),
            ])),
            path if path == format!("{SLUICE}/workloads/train-1") => {
                (200, workload("batch/v1", "train-1"))
            }
            path if path == format!("{SLUICE}/workloads/train-2") => {
                (200, workload("batch.volcano.sh/v1alpha1", "train-2"))
            }
            path if path == format!("{SLUICE}/localqueues") => list(json!([])),
            "/api/v1/namespaces/blue/pods" => list(json!([])),
            path if path == format!("{VOLCANO}/held") => {
                let annotations = json!({"kueue.x-k8s.io/scheduling-gated-by": "acme.io/budget"});
                let metadata =
                    json!({"name": "held", "namespace": "blue", "annotations": annotations});
                let held = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                    "metadata": metadata});
                (200, held)
            }
            _ => refused(403, "Forbidden"),
        }
    }

    #[tokio::test]
    async fn jobs_of_two_kinds_of_one_name_are_told_apart() {
        let answering = tower::service_fn(async |request: Request<Body>| {
            let (code, body) = told(request.uri().path());
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        });
        let client = Client::new(answering, "default");
        let viewer = Viewer::new(client, String::new(), "blue".to_owned(), Assumed::default());
        let job = async |word, name| {
            let life = viewer.job("blue", word, name).await?;
            Ok::<_, Problem>(serde_json::to_value(life).unwrap())
        };
        for (word, workload) in [
            ("Job.batch.volcano.sh", "train-2"),
            ("Job.batch", "train-1"),
            // Old addresses have no group.
            ("Job", "train-1"),
        ] {
            let life = job(word, "train").await.unwrap();
            assert_eq!(life["explained"]["job"]["workload"], workload, "{word}");
        }
        let life = job("Job.batch.volcano.sh", "held").await.unwrap();
        assert_eq!(life["gates"], json!(["acme.io/budget"]));
        let missing = job("Job.batch", "held").await.unwrap_err();
        assert_eq!(missing.status().as_u16(), 404);
        let all = viewer.start("blue", "Job.batch.volcano.sh", "train").await;
        let starts = serde_json::to_value(all.unwrap()).unwrap();
        assert_eq!(starts["starts"][0]["group"], "batch.volcano.sh");
    }
}
