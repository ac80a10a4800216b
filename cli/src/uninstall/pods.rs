//! What becomes of one pod: it loses the gates that nobody lifts any more. Which these are depends on the object that it
//! belongs to, which may be several owners above it.

use std::collections::BTreeMap;

use kube::api::{DynamicObject, Patch};
use sluice_kinds::gates::StillHeld;
use sluice_kinds::patch::{Lifting, lifting_patch};

use crate::cluster::{ClusterError, answer};
use crate::uninstall::held::{self, Why};
use crate::uninstall::named::{Held, Named, Road, value, write};
use crate::uninstall::outcome::{Report, UninstallError};

/// How many owners a pod is followed through.
const OWNERS_MAX: usize = 8;

/// The pods of a cluster.
pub(super) struct Pods<'a> {
    all: &'a Held<'a>,
    /// What holds the pods of the controllers that were asked for, by UID; or why that can't be known.
    known: BTreeMap<String, Result<Option<StillHeld>, String>>,
}

impl<'a> Pods<'a> {
    pub(super) fn new(all: &'a Held<'a>) -> Self {
        Self {
            all,
            known: BTreeMap::new(),
        }
    }

    pub(super) async fn of_pod(
        &mut self,
        named: &Named<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), UninstallError> {
        let pod = value(named.object);
        let held = if held::depends_on_owner(&pod) {
            match self.by_owner(named.object).await {
                Ok(by_owner) => by_owner.unwrap_or_else(|| StillHeld::of_pod_alone(&pod)),
                Err(error) => {
                    let what = "stays behind its gates, as its owner can't be read";
                    report.failed(format!("{named} {what}: {error}"))?;
                    return Ok(());
                }
            }
        } else {
            StillHeld::All
        };
        let gates = held::pod_gates(&pod, &held);
        if !gates.ours.is_empty() {
            match self.all.road {
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
                    match write(self.all.client, named, &Patch::Strategic(patch), is_dry).await {
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

    /// What holds a pod by the uppermost object above it whose kind is known. None if there is no such object.
    async fn by_owner(&mut self, pod: &DynamicObject) -> Result<Option<StillHeld>, String> {
        let controller = controller(pod).map(|(_, _, _, uid)| uid.to_owned());
        let Some(controller) = controller else {
            return Ok(None);
        };
        if let Some(known) = self.known.get(&controller) {
            return known.clone();
        }
        let found = self.climb(pod).await.map_err(|error| error.to_string());
        self.known.insert(controller, found.clone());
        found
    }

    async fn climb(&self, pod: &DynamicObject) -> Result<Option<StillHeld>, ClusterError> {
        let namespace = pod.metadata.namespace.as_deref();
        let mut below = pod.clone();
        let mut uppermost = None;
        for _ in 0..OWNERS_MAX {
            let Some((api_version, kind, name, uid)) = controller(&below) else {
                return Ok(uppermost);
            };
            let (group, version) = sluice_kinds::metadata::group_version(api_version);
            let Some(resource) = self.all.served.of_kind(group, version, kind) else {
                return Ok(Some(StillHeld::All));
            };
            let objects = resource.objects(self.all.client, namespace);
            let what = format!("read {}/{name}", resource.name);
            let found = answer(what, objects.get_opt(name)).await?;
            let found = found.filter(|found| found.metadata.uid.as_deref() == Some(uid));
            let Some(owner) = found else {
                return Ok(Some(StillHeld::All));
            };
            let key = (group.to_owned(), kind.to_owned());
            // ReplicaSets are passed over: they keep annotations that their Deployments have lost.
            if self.all.kinds.contains_key(&key) {
                uppermost = Some(StillHeld::of(&value(&owner)));
            }
            below = owner;
        }
        Ok(Some(StillHeld::All))
    }
}

/// API version, kind, name and UID of the controller that owns `object`.
fn controller(object: &DynamicObject) -> Option<(&str, &str, &str, &str)> {
    let mut owners = object.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some((&owner.api_version, &owner.kind, &owner.name, &owner.uid))
}
