//! An object that gates hold and that has no Workload yet: what it asks for by itself, and what visibility.sluice.dev
//! says, which knows it by the name that its Workload will have.

use std::sync::Arc;

use kube::Client;
use kube::api::{DynamicObject, ResourceExt as _};
use sluice_crds::workload_name;

use super::super::list::requests;
use super::super::outcome::LiveError;
use super::explained::{Explained, ask, or_note};

use crate::cluster::{ClusterError, Resource, Served, Tell, Told, answer};

/// What is missing where visibility.sluice.dev does not answer.
const WAITS_FOR: &str = "what its gates wait for";

/// Reads the object of a job, and adds what is known by it. Nothing of a kind that is not served, or that the caller may
/// not read.
///
/// # Errors
/// What is not known can't be told.
pub async fn read_object(
    client: &Client,
    served: Result<Arc<Served>, ClusterError>,
    explained: &mut Explained,
    tell: &mut Tell<'_>,
) -> Result<(), LiveError> {
    let job = &explained.job;
    let read = async {
        let served = served?;
        let Some(resource) = served.of_kind(&job.group, "", &job.kind) else {
            return Ok(None);
        };
        let objects = resource.objects(client, Some(&job.namespace));
        let object = answer("read the object", objects.get(&job.name)).await?;
        Ok(Some((served, resource, object)))
    };
    let read = or_note("what it requests", read.await, tell)?;
    let Some((served, resource, object)) = read else {
        return Ok(());
    };
    add(client, &served, (&resource, &object), explained, tell).await
}

/// Adds what is known by an object that was read.
///
/// # Errors
/// What is not known can't be told.
pub(super) async fn add(
    client: &Client,
    served: &Served,
    (resource, object): (&Resource, &DynamicObject),
    explained: &mut Explained,
    tell: &mut Tell<'_>,
) -> Result<(), LiveError> {
    explained.requests = requests::asked(client, served, resource, object).await;
    let Explained { job, .. } = explained;
    let (resource, name) = if job.kind == "Pod" {
        ("pods", job.name.clone())
    } else {
        let uid = object.uid().unwrap_or_default();
        ("workloads", workload_name(&job.name, &uid))
    };
    match ask(client, job, (resource, &name)).await {
        Ok(explanation) => explained.hear(explanation),
        Err(why) => tell(Told::Note(format!("{WAITS_FOR} is not known: {why}")))?,
    }
    Ok(())
}
