//! The objects and pods that Sluice holds: lists them, and writes to them. Objects come before pods, so that no pod is made
//! of a template that still has Sluice's gate.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::Value;
use sluice_crds::{GROUP, JobKind, MANAGED_LABEL, VERSION};
use sluice_kinds::CompiledKind;
use tokio::time::{Instant, sleep};

use crate::cluster::{ClusterError, Resource, Served, answer, pages};
use crate::rules::shipped::SHIPPED;
use crate::uninstall::held::{Queued, Why};
use crate::uninstall::outcome::{Report, UninstallError};
use crate::uninstall::{objects, pods};

/// How long API servers may take to forget a policy or webhook that was deleted: as a rule a second.
const FORGETTING: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(500);

/// With what objects and pods are read and written.
pub(super) struct Held<'a> {
    pub(super) client: &'a Client,
    pub(super) served: &'a Served,
    pub(super) road: Road,
    /// The kinds, by group and kind.
    pub(super) kinds: BTreeMap<(String, String), CompiledKind>,
    pub(super) queued: Queued,
}

/// What becomes of what Sluice holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Road {
    /// It stays, and is listed.
    List,
    /// It is started.
    Start {
        /// Only the API server is asked.
        is_dry: bool,
    },
}

/// An object, as it is told of.
pub(super) struct Named<'a> {
    pub(super) resource: &'a Resource,
    pub(super) object: &'a DynamicObject,
}

impl Named<'_> {
    /// The object as it is now; None if it is gone.
    pub(super) async fn again(
        &self,
        client: &Client,
    ) -> Result<Option<DynamicObject>, ClusterError> {
        let metadata = &self.object.metadata;
        let objects = self.resource.objects(client, metadata.namespace.as_deref());
        let name = metadata.name.as_deref().unwrap_or_default();
        answer(format!("read {self}"), objects.get_opt(name)).await
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = &self.object.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        write!(f, "{}/{name} in {namespace}", self.resource.name)
    }
}

/// The kinds that Sluice ships, by group and kind. JobKinds may have been deleted before, with their CRD or without; what
/// they held waits still.
fn shipped() -> BTreeMap<(String, String), CompiledKind> {
    let kinds = SHIPPED.iter().filter_map(|(_, text)| {
        let kind: JobKind = serde_saphyr::from_str(text).ok()?;
        let kind = CompiledKind::compile(&kind).ok()?;
        Some(((kind.group.clone(), kind.kind.clone()), kind))
    });
    kinds.collect()
}

/// Everything that Sluice holds.
pub(super) async fn all(
    client: &Client,
    served: &Served,
    road: Road,
    report: &mut Report<'_>,
) -> Result<(), UninstallError> {
    let own = |kind: &str| served.of_kind(GROUP, VERSION, kind);
    let mut queued = Queued::default();
    if let Some(workloads) = own("Workload") {
        queued = Queued::by(&values(&list(client, &workloads, None).await?));
    }
    let mut kinds = shipped();
    if let Some(declared) = own("JobKind") {
        for object in list(client, &declared, None).await? {
            let name = object.metadata.name.clone().unwrap_or_default();
            let kind = serde_json::to_value(object).and_then(serde_json::from_value::<JobKind>);
            let compiled = kind.ok().and_then(|kind| CompiledKind::compile(&kind).ok());
            match compiled {
                Some(kind) => drop(kinds.insert((kind.group.clone(), kind.kind.clone()), kind)),
                None => report.failed(format!("jobkind/{name} can't be read: its objects stay"))?,
            }
        }
    }
    let held = Held {
        client,
        served,
        road,
        kinds,
        queued,
    };
    for kind in held.kinds.values() {
        let Some(resource) = served.of_kind(&kind.group, &kind.version, &kind.kind) else {
            continue;
        };
        for object in list(client, &resource, None).await? {
            let named = Named {
                resource: &resource,
                object: &object,
            };
            objects::of_object(&held, kind, &named, report).await?;
        }
    }
    let Some(resource) = served.of_kind("", "v1", "Pod") else {
        return Ok(());
    };
    let mut pods = pods::Pods::new(&held);
    for object in list(client, &resource, Some(MANAGED_LABEL)).await? {
        let named = Named {
            resource: &resource,
            object: &object,
        };
        pods.of_pod(&named, report).await?;
    }
    Ok(())
}

/// Sends a patch; again while an API server has not yet forgotten a webhook or policy of Sluice that was deleted.
pub(super) async fn write<P: serde::Serialize + fmt::Debug>(
    client: &Client,
    named: &Named<'_>,
    patch: &Patch<P>,
    is_dry: bool,
) -> Result<(), ClusterError> {
    let namespace = named.object.metadata.namespace.as_deref();
    let objects: Api<DynamicObject> = named.resource.objects(client, namespace);
    let name = named.object.metadata.name.as_deref().unwrap_or_default();
    let params = PatchParams {
        dry_run: is_dry,
        ..PatchParams::default()
    };
    let began = Instant::now();
    loop {
        let written = answer(
            format!("patch {named}"),
            objects.patch(name, &params, patch),
        )
        .await;
        match written {
            Ok(_) => return Ok(()),
            // In a dry run they are there still, and will be gone.
            Err(error) if is_dry && is_of_sluice(&error) => return Ok(()),
            Err(error) if is_of_sluice(&error) && began.elapsed() < FORGETTING => sleep(POLL).await,
            Err(error) => return Err(error),
        }
    }
}

/// Whether one of Sluice's own webhooks or policies refuses.
fn is_of_sluice(error: &ClusterError) -> bool {
    let ClusterError::Refused(status) = error else {
        return false;
    };
    let told = &status.message;
    let is_policy = told.contains("AdmissionPolicy 'sluice-");
    is_policy || told.contains("webhook") && told.contains(".sluice.dev\"")
}

async fn list(
    client: &Client,
    resource: &Resource,
    label: Option<&str>,
) -> Result<Vec<DynamicObject>, ClusterError> {
    let objects = resource.objects(client, None);
    let mut params = ListParams::default();
    if let Some(label) = label {
        params = params.labels(label);
    }
    let what = format!("list {}", resource.api.plural);
    match pages::list(&what, &objects, params).await {
        // Discovery tells for a moment of a kind whose CRD was deleted, and its objects with it.
        Err(ClusterError::Refused(status)) if status.code == 404 => Ok(Vec::new()),
        listed => listed,
    }
}

pub(super) fn value(object: &DynamicObject) -> Value {
    // It was made of JSON.
    serde_json::to_value(object).unwrap_or_default()
}

fn values(objects: &[DynamicObject]) -> Vec<Value> {
    objects.iter().map(value).collect()
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gates(gates) => write!(f, "held by {}", gates.join(", ")),
            Self::BadGates => f.write_str("held by a gate annotation that names no gate"),
            Self::Inactive => f.write_str("it was taken out of its queue"),
            Self::ByUser => f.write_str("its owner suspended it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shipped_kinds_are_known_without_a_cluster() {
        assert_eq!(shipped().len(), SHIPPED.len());
    }
}
