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
use crate::cluster::{ClusterError, Resource, answer};
use crate::live::LiveError;
use crate::live::explain::gated::read_object;
use crate::live::explain::{Explained, events_about, explained};
use crate::live::jobs::Called;
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
    /// A job by its kind and name.
    ///
    /// # Errors
    /// The API server does not answer, or the caller sees no such job.
    pub async fn job(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Answer<Life>, Problem> {
        let mut problems = Problems::default();
        let objects = self.objects(Some(namespace), &mut problems).await?;
        let called = called(kind, name);
        let found = explained(&self.client, &objects, called, &mut problems.tell()).await;
        let mut explained = problems.or_nothing("the explanation", found)?;
        if let Some(explained) = &mut explained {
            without_time(explained);
            if explained.is_of_gated_object() {
                let served = self.served().await;
                let read = read_object(&self.client, served, explained, &mut problems.tell()).await;
                problems.or_nothing("what it requests", read)?;
            }
        }
        let mut workloads = objects.workloads.iter();
        let workload = workloads.find(|workload| called.is_of(workload));
        let metadata = self.metadata(namespace, (kind, name), workload).await;
        let metadata = metadata.map_err(LiveError::from);
        let metadata = problems.or_nothing(&format!("the {kind}"), metadata)?;
        if explained.is_none() && metadata.is_none() {
            let message = format!("you may see no {kind} {name:?} in namespace {namespace}");
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
        (kind, name): (&str, &str),
        workload: Option<&Workload>,
    ) -> Result<Option<ObjectMeta>, ClusterError> {
        if kind == "PodGroup" {
            return Ok(None);
        }
        let Some(resource) = self.resource(kind, workload).await? else {
            return Ok(None);
        };
        let objects = resource.objects(&self.client, Some(namespace));
        match answer("read the object", objects.get_metadata(name)).await {
            Ok(object) => Ok(Some(object.metadata)),
            Err(ClusterError::Refused(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The resource of a kind that jobs are of: what the Workload says, else what the word means. Others are not asked for.
    async fn resource(
        &self,
        kind: &str,
        workload: Option<&Workload>,
    ) -> Result<Option<Resource>, ClusterError> {
        let served = self.served().await?;
        let mut owners = workload.iter().flat_map(|w| w.owner_references());
        let owner = owners.find(|owner| owner.controller == Some(true));
        let resource = match owner {
            Some(owner) => {
                let (group, version) = group_version(&owner.api_version);
                served.of_kind(group, version, kind)
            }
            None => served.named(kind).ok(),
        };
        Ok(resource.filter(|resource| resource.is_namespaced && resource.api.kind == kind))
    }
}

/// A job by what its address on the page says, which has no API group.
pub(super) fn called<'a>(kind: &'a str, name: &'a str) -> Called<'a> {
    Called {
        group: None,
        kind,
        name,
    }
}

/// An explanation says when it was made, so that it would differ each time.
fn without_time(explained: &mut Explained) {
    let explanation = explained.explanation.as_mut();
    if let Some(fields) = explanation.and_then(|explanation| explanation.as_object_mut()) {
        fields.remove("taken");
    }
}
