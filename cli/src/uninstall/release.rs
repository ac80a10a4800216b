//! The objects and pods that Sluice holds: lists them, and starts them. Objects come before pods, so that no pod is made
//! of a template that still has Sluice's gate.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::Value;
use sluice_crds::{GROUP, JobKind, MANAGED_LABEL, VERSION};
use sluice_kinds::CompiledKind;
use sluice_kinds::patch::{Lifting, lifting_patch};
use tokio::time::{Instant, sleep};

use crate::cluster::{ClusterError, Resource, Served, answer, pages};
use crate::rules::shipped::SHIPPED;
use crate::uninstall::held::{self, Queued, Todo, Why};
use crate::uninstall::outcome::{Report, UninstallError};

/// How long API servers may take to forget a policy or webhook that was deleted: as a rule a second.
const FORGETTING: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(500);
/// How often an object is looked at again that was changed meanwhile.
const TRIES: usize = 5;

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
struct Named<'a> {
    resource: &'a Resource,
    object: &'a DynamicObject,
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
    for kind in kinds.values() {
        let Some(resource) = served.of_kind(&kind.group, &kind.version, &kind.kind) else {
            continue;
        };
        for object in list(client, &resource, None).await? {
            let named = Named {
                resource: &resource,
                object: &object,
            };
            of_object(client, kind, &named, &queued, road, report).await?;
        }
    }
    let Some(pods) = served.of_kind("", "v1", "Pod") else {
        return Ok(());
    };
    for object in list(client, &pods, Some(MANAGED_LABEL)).await? {
        let named = Named {
            resource: &pods,
            object: &object,
        };
        of_pod(client, &named, road, report).await?;
    }
    Ok(())
}

async fn of_object(
    client: &Client,
    kind: &CompiledKind,
    named: &Named<'_>,
    queued: &Queued,
    road: Road,
    report: &mut Report<'_>,
) -> Result<(), UninstallError> {
    let value = value(named.object);
    if held::is_finished(kind, &value) {
        return Ok(());
    }
    if let Some(patch) = held::ungate(kind, &value) {
        let what = "Sluice's gate is in its pod template, so pods that are still to come wait";
        match road {
            Road::List => report.left(format!("{named}: {what}"))?,
            Road::Start { is_dry } => match write(client, named, &Patch::Json::<()>(patch), is_dry)
                .await
            {
                Ok(()) => report.done(format!("{named}: gate taken out of its pod template"))?,
                Err(error) => report.failed(format!("{named}: {what}: {error}"))?,
            },
        }
    }
    match (held::todo(kind, &value, queued), road) {
        (Todo::Nothing, _) => {}
        (Todo::Leave(why), _) => report.left(format!("{named} stays suspended: {why}"))?,
        (Todo::Start(_), Road::List) => {
            report.left(format!("{named} stays suspended: it was waiting for quota"))?;
        }
        (Todo::Start(patch), Road::Start { is_dry }) => {
            match start(client, kind, named, queued, patch, is_dry).await {
                Ok(true) => report.done(format!("{named} started"))?,
                Ok(false) => {}
                Err(error) => report.failed(format!("{named}: {error}"))?,
            }
        }
    }
    Ok(())
}

/// Starts an object; looks at it again if it was changed meanwhile. False if there is nothing to start any more.
async fn start(
    client: &Client,
    kind: &CompiledKind,
    named: &Named<'_>,
    queued: &Queued,
    mut patch: Value,
    is_dry: bool,
) -> Result<bool, ClusterError> {
    let namespace = named.object.metadata.namespace.as_deref();
    let objects = named.resource.objects(client, namespace);
    let name = named.object.metadata.name.as_deref().unwrap_or_default();
    for _ in 1..TRIES {
        match write(client, named, &Patch::Merge(patch.clone()), is_dry).await {
            Ok(()) => return Ok(true),
            Err(ClusterError::Refused(status)) if status.code == 409 => {}
            Err(ClusterError::Refused(status)) if status.code == 404 => return Ok(false),
            Err(error) => return Err(error),
        }
        let Some(object) = answer(format!("read {named}"), objects.get_opt(name)).await? else {
            return Ok(false);
        };
        match held::todo(kind, &value(&object), queued) {
            Todo::Start(again) => patch = again,
            Todo::Nothing | Todo::Leave(_) => return Ok(false),
        }
    }
    write(client, named, &Patch::Merge(patch), is_dry)
        .await
        .map(|()| true)
}

async fn of_pod(
    client: &Client,
    named: &Named<'_>,
    road: Road,
    report: &mut Report<'_>,
) -> Result<(), UninstallError> {
    let gates = held::pod_gates(&value(named.object));
    if !gates.ours.is_empty() {
        match road {
            Road::List => {
                let ours = gates.ours.join(", ");
                report.left(format!("{named} stays behind the gate {ours}"))?;
            }
            Road::Start { is_dry } => {
                let patch = lifting_patch(&Lifting {
                    uid: named.object.metadata.uid.as_deref().unwrap_or_default(),
                    gates: gates.ours.iter().map(String::as_str).collect(),
                    add: None,
                    admission: None,
                    resource_version: "",
                });
                match write(client, named, &Patch::Strategic(patch), is_dry).await {
                    Ok(()) => report.done(format!("{named}: gate taken off"))?,
                    Err(ClusterError::Refused(status)) if status.code == 404 => {}
                    Err(error) => report.failed(format!("{named}: {error}"))?,
                }
            }
        }
    }
    if !gates.others.is_empty() {
        let why = Why::Gates(gates.others);
        report.left(format!("{named} still waits: {why}"))?;
    }
    Ok(())
}

/// Sends a patch; again while an API server has not yet forgotten a webhook or policy of Sluice that was deleted.
async fn write<P: serde::Serialize + fmt::Debug>(
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

fn value(object: &DynamicObject) -> Value {
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
