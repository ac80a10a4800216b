//! What becomes of one pod: it loses the gates that nobody lifts any more, unless it was taken out of its queue. Both depend
//! on the object that it belongs to, which may be several owners above it, or on its group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::{DynamicObject, Patch};
use sluice_kinds::gates::StillHeld;
use sluice_kinds::patch::{Lifting, lifting_patch};

use crate::cluster::{ClusterError, Resource, answer};
use crate::uninstall::held::{self, PodGates, Why};
use crate::uninstall::named::{Held, Named, Road, TRIES, value, write};
use crate::uninstall::outcome::{UninstallError, UninstallReport};

/// How many owners a pod is followed through.
const OWNERS_MAX: usize = 8;

/// The pods of a cluster.
pub(super) struct Pods<'a> {
    all: &'a Held<'a>,
    /// What is above the pods of the controllers that were asked for, by UID; or why that can't be known.
    known: BTreeMap<String, Result<Above, Arc<ClusterError>>>,
}

/// What is above a pod.
#[derive(Debug, Clone, Default)]
struct Above {
    /// The UIDs of its controller, of that one's controller, and so on.
    controllers: Vec<String>,
    /// What holds it by the uppermost object above it whose kind is known. None if there is no such object.
    held: Option<StillHeld>,
}

impl<'a> Pods<'a> {
    pub(super) fn new(all: &'a Held<'a>) -> Self {
        Self {
            all,
            known: BTreeMap::new(),
        }
    }

    /// The UIDs of what makes the pods of groups that were taken out of their queues.
    pub(super) async fn makers(
        &mut self,
        pods: &[DynamicObject],
        resource: &Resource,
        report: &mut UninstallReport<'_>,
    ) -> Result<BTreeSet<String>, UninstallError> {
        let mut makers = BTreeSet::new();
        for object in pods {
            if !self.all.queued.is_group_inactive(&value(object)) {
                continue;
            }
            match self.above(object).await {
                Ok(above) => makers.extend(above.controllers),
                Err(error) => {
                    // What is above that can't be read, so nothing of its kind can be listed: it stays as it is.
                    makers.extend(controller(object).map(|(_, _, _, uid)| uid.to_owned()));
                    unread(&Named { resource, object }, &error.to_string(), report)?;
                }
            }
        }
        Ok(makers)
    }

    /// Sees to a pod; to the one that has its name by now if it was made again meanwhile, as where the gate was taken out
    /// of the template of a StatefulSet.
    pub(super) async fn of_pod(
        &mut self,
        named: &Named<'_>,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        let mut again: Option<DynamicObject> = None;
        for left in (0..TRIES).rev() {
            let named = Named {
                resource: named.resource,
                object: again.as_ref().unwrap_or(named.object),
            };
            match self.as_read(&named, report).await {
                Err(UninstallError::Cluster(error)) if error.is_conflict() && left > 0 => {}
                Err(UninstallError::Cluster(error)) if error.is_not_found() => break,
                Err(UninstallError::Cluster(error)) => {
                    report.failed(format!("{named}: {error}"))?;
                    break;
                }
                seen_to => return seen_to,
            }
            match named.again(self.all.client).await {
                Ok(None) => break,
                Ok(found) => again = found,
                Err(error) => {
                    report.failed(format!("{named}: {error}"))?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sees to a pod as it was read. The API server's error is that of the write.
    async fn as_read(
        &mut self,
        named: &Named<'_>,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        let pod = value(named.object);
        let queued = &self.all.queued;
        let namespace = named.object.metadata.namespace.as_deref();
        let depends_on_owner = held::depends_on_owner(&pod);
        let may_be_inactive = queued.is_any_inactive_in(namespace.unwrap_or_default())
            && !held::pod_gates(&pod, &StillHeld::All).ours.is_empty();
        let above = if depends_on_owner || may_be_inactive {
            match self.above(named.object).await {
                Ok(above) => above,
                Err(error) => return unread(named, &error.to_string(), report),
            }
        } else {
            Above::default()
        };
        let mut above_it = above.controllers.iter();
        let is_inactive =
            queued.is_group_inactive(&pod) || above_it.any(|uid| queued.is_inactive(uid));
        let held = if depends_on_owner {
            let by_owner = above.held;
            by_owner.unwrap_or_else(|| StillHeld::of_pod_alone(&pod))
        } else {
            StillHeld::All
        };
        let gates = held::pod_gates(&pod, &held);
        self.ungate(named, &gates, is_inactive, report).await?;
        if !gates.others.is_empty() {
            let why = Why::Gates(gates.others);
            report.left(format!("{named} still waits: {why}"))?;
        }
        Ok(())
    }

    /// Takes the gates off a pod that nobody lifts any more, if it is to start.
    async fn ungate(
        &self,
        named: &Named<'_>,
        gates: &PodGates,
        is_inactive: bool,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        if gates.ours.is_empty() {
            return Ok(());
        }
        let ours = gates.ours.join(", ");
        let dry_run = match self.all.road {
            _ if is_inactive => {
                let why = Why::Inactive;
                report.left(format!("{named} stays behind the gate {ours}: {why}"))?;
                return Ok(());
            }
            Road::List => {
                report.left(format!("{named} stays behind the gate {ours}"))?;
                return Ok(());
            }
            Road::Start { dry_run } => dry_run,
        };
        let patch = lifting_patch(&Lifting {
            uid: named.object.metadata.uid.as_deref().unwrap_or_default(),
            gates: gates.ours.iter().map(String::as_str).collect(),
            add: None,
            admission: None,
            resource_version: "",
        });
        write(self.all.client, named, &Patch::Strategic(patch), dry_run).await?;
        report.done(format!("{named}: gate taken off"))?;
        Ok(())
    }

    async fn above(&mut self, pod: &DynamicObject) -> Result<Above, Arc<ClusterError>> {
        let controller = controller(pod).map(|(_, _, _, uid)| uid.to_owned());
        let Some(controller) = controller else {
            return Ok(Above::default());
        };
        if let Some(known) = self.known.get(&controller) {
            return known.clone();
        }
        let found = self.climb(pod).await.map_err(Arc::new);
        self.known.insert(controller, found.clone());
        found
    }

    async fn climb(&self, pod: &DynamicObject) -> Result<Above, ClusterError> {
        let namespace = pod.metadata.namespace.as_deref();
        let mut below = pod.clone();
        let mut above = Above::default();
        for _ in 0..OWNERS_MAX {
            let Some((api_version, kind, name, uid)) = controller(&below) else {
                return Ok(above);
            };
            above.controllers.push(uid.to_owned());
            let (group, version) = sluice_kinds::metadata::group_version(api_version);
            let Some(resource) = self.all.served.of_kind(group, version, kind) else {
                above.held = Some(StillHeld::All);
                return Ok(above);
            };
            let objects = resource.objects(self.all.client, namespace);
            let what = format!("read {}/{name}", resource.name);
            let found = answer(what, objects.get_opt(name)).await?;
            let found = found.filter(|found| found.metadata.uid.as_deref() == Some(uid));
            let Some(owner) = found else {
                above.held = Some(StillHeld::All);
                return Ok(above);
            };
            let key = (group.to_owned(), kind.to_owned());
            // ReplicaSets are passed over: they keep annotations that their Deployments have lost.
            if self.all.kinds.contains_key(&key) {
                above.held = Some(StillHeld::of(&value(&owner)));
            }
            below = owner;
        }
        above.held = Some(StillHeld::All);
        Ok(above)
    }
}

/// Tells that a pod stays, as what is above it can't be read.
fn unread(
    named: &Named<'_>,
    error: &str,
    report: &mut UninstallReport<'_>,
) -> Result<(), UninstallError> {
    let what = "stays behind its gates, as its owner can't be read";
    report.failed(format!("{named} {what}: {error}"))?;
    Ok(())
}

/// API version, kind, name and UID of the controller that owns `object`.
fn controller(object: &DynamicObject) -> Option<(&str, &str, &str, &str)> {
    let mut owners = object.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some((&owner.api_version, &owner.kind, &owner.name, &owner.uid))
}
