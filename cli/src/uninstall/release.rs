//! The objects and pods that Sluice holds: lists them, and has each seen to. Objects come before pods, so that no pod is made
//! of a template that still has Sluice's gate.

use std::collections::BTreeMap;
use std::fmt;

use kube::Client;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;
use sluice_crds::{DEACTIVATED_BY_ANNOTATION, GROUP, JobKind, MANAGED_LABEL, VERSION};
use sluice_kinds::CompiledKind;

use crate::cluster::{ClusterError, Resource, Served, pages};
use crate::rules::shipped::compiled;
use crate::uninstall::held::{Queued, Why};
use crate::uninstall::named::{Held, Named, Road, value};
use crate::uninstall::objects;
use crate::uninstall::outcome::{UninstallError, UninstallReport};
use crate::uninstall::pods::Pods;

/// The kinds that Sluice ships, by group and kind. JobKinds may have been deleted before, with their CRD or without; what
/// they held waits still.
fn shipped() -> BTreeMap<(String, String), CompiledKind> {
    let kinds = compiled();
    kinds
        .map(|kind| ((kind.group.clone(), kind.kind.clone()), kind))
        .collect()
}

/// Everything that Sluice holds.
pub(super) async fn all(
    client: &Client,
    served: &Served,
    road: Road,
    report: &mut UninstallReport<'_>,
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
    let mut held = Held {
        client,
        served,
        road,
        kinds,
        queued,
    };
    let pods = served.of_kind("", "v1", "Pod");
    // Their templates are seen to before their pods are.
    if held.queued.is_any_group_inactive()
        && let Some(resource) = &pods
    {
        let pods = list(client, resource, Some(MANAGED_LABEL)).await?;
        let makers = Pods::new(&held).makers(&pods, resource, report).await?;
        held.queued.keep_makers(makers);
    }
    for kind in held.kinds.values() {
        let Some(resource) = served.of_kind(&kind.group, &kind.version, &kind.kind) else {
            continue;
        };
        for object in listed(client, &resource, None, report).await? {
            let named = Named {
                resource: &resource,
                object: &object,
            };
            objects::of_object(&held, kind, &named, report).await?;
        }
    }
    let Some(resource) = pods else {
        return Ok(());
    };
    let mut pods = Pods::new(&held);
    for object in listed(client, &resource, Some(MANAGED_LABEL), report).await? {
        let named = Named {
            resource: &resource,
            object: &object,
        };
        pods.of_pod(&named, report).await?;
    }
    Ok(())
}

/// The objects of a kind. Sluice is gone already: that one kind can't be listed, as of an operator that is gone, too, is told,
/// and the others are seen to.
async fn listed(
    client: &Client,
    resource: &Resource,
    label: Option<&str>,
    report: &mut UninstallReport<'_>,
) -> Result<Vec<DynamicObject>, UninstallError> {
    match list(client, resource, label).await {
        Ok(objects) => Ok(objects),
        Err(error) => {
            let name = &resource.name;
            report.failed(format!(
                "can't list {name}, so what waits of it stays: {error}"
            ))?;
            Ok(Vec::new())
        }
    }
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
        Err(ClusterError::Unserved { .. }) => Ok(Vec::new()),
        listed => listed,
    }
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
            Self::Deactivated(gate) => write!(
                f,
                "gate {gate} has deactivated it; remove its annotation {DEACTIVATED_BY_ANNOTATION} to start it"
            ),
            Self::InactiveGroup => f.write_str("a group of its pods was taken out of its queue"),
            Self::ByUser => f.write_str("its owner suspended it"),
        }
    }
}

#[cfg(test)]
mod tests;
