//! What is found about an object: whether it needs a queue and names none, and what would become of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use sluice_crds::{ENFORCEMENT_LABEL, QUEUE_NAME_LABEL};
use sluice_kinds::{CompiledKind, gates};
use sluice_webhooks::GroupVersionKind;

use super::judge::{Judge, ObjectFate};
use crate::cluster::Resource;

/// Kinds without a JobKind whose pods are judged with an object that is listed, or are never judged.
const MAKE_PODS: [&str; 4] = ["ReplicaSet", "ReplicationController", "DaemonSet", "Node"];

const CRON_JOB: &str = "CronJob";

/// The labels of namespaces, by name.
pub(super) type NamespaceLabels = BTreeMap<String, Arc<BTreeMap<String, String>>>;

/// A kind whose objects are looked at.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) resource: Resource,
    pub(super) counts: CountingLabel,
    /// How its objects are read; None if no JobKind declares it, or one that can't be used.
    pub(super) rules: Option<Arc<CompiledKind>>,
}

/// Which label counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountingLabel {
    /// The object's own.
    Own,
    /// The object's own; it is a pod.
    OfPod,
    /// That of the metadata at this path.
    OfTemplate(&'static str),
}

/// An object that names no queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnqueuedObject {
    pub(super) namespace: String,
    /// `job.batch/train`.
    pub(super) object: String,
    /// The label of the namespace.
    pub(super) enforcement: Option<String>,
    /// The field that names the queue: `metadata.labels[sluice.dev/queue-name]`.
    pub(super) field: String,
    pub(super) state: ObjectState,
}

/// How such an object stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectState {
    /// It is held until it names one.
    Held,
    /// It runs, or may, and this would become of it if it were created now.
    WouldBe(ObjectFate),
    /// The same, unless an exception covers whoever creates it.
    WouldBeUnlessExcepted(ObjectFate),
    /// No JobKind declares the kind that made it.
    MadeBy(String),
}

/// Looks at objects.
pub(super) struct Auditor {
    namespaces: NamespaceLabels,
    declared: BTreeSet<(String, String)>,
    judge: Judge,
}

impl Auditor {
    /// One for these namespaces and kinds.
    pub(super) fn new(namespaces: NamespaceLabels, kinds: &[Kind], judge: Judge) -> Self {
        let declared = kinds
            .iter()
            .filter(|kind| kind.counts == CountingLabel::Own);
        let name = |kind: &Kind| {
            (
                kind.resource.api.group.clone(),
                kind.resource.api.kind.clone(),
            )
        };
        Self {
            namespaces,
            declared: declared.map(name).collect(),
            judge,
        }
    }

    /// What is found about an object of this kind, if it needs a queue and names none.
    pub(super) fn find(&self, kind: &Kind, object: &DynamicObject) -> Option<UnqueuedObject> {
        let namespace = object.namespace()?;
        let labels = self.namespaces.get(&namespace)?;
        let (group, owner) = controller(object).unzip();
        let is_declared = owner.zip(group).is_some_and(|(kind, group)| {
            self.declared.contains(&(group.to_owned(), kind.to_owned()))
        });
        let state = match (kind.counts, owner) {
            _ if self.judge.is_never_managed(&namespace) => return None,
            _ if self.names_queue(kind, object) => return None,
            _ if is_declared || has_ended(kind, object) => return None,
            (CountingLabel::OfPod, Some(owner)) if MAKE_PODS.contains(&owner) => return None,
            (CountingLabel::OfPod, Some(owner)) => ObjectState::MadeBy(owner.to_owned()),
            (CountingLabel::OfTemplate(_), Some(owner)) if runs_pods(kind, object) => {
                ObjectState::MadeBy(owner.to_owned())
            }
            // Of a pod: the worker StatefulSets of a LeaderWorkerSet. What the pod belongs to is listed.
            (CountingLabel::OfTemplate(_), Some(_)) | (CountingLabel::Own, Some("Pod")) => {
                return None;
            }
            _ if is_held(object) => ObjectState::Held,
            _ => self.would_be(kind, &namespace, object),
        };
        Some(UnqueuedObject {
            object: format!("{}/{}", kind.resource.name, object.name_any()),
            enforcement: labels.get(ENFORCEMENT_LABEL).cloned(),
            field: field(kind),
            namespace,
            state,
        })
    }

    fn would_be(&self, kind: &Kind, namespace: &str, object: &DynamicObject) -> ObjectState {
        let api = &kind.resource.api;
        let kind = GroupVersionKind {
            group: api.group.clone(),
            version: api.version.clone(),
            kind: api.kind.clone(),
        };
        let object = serde_json::to_value(object).unwrap_or_default();
        match self.judge.fate(&kind, namespace, object) {
            (fate, true) => ObjectState::WouldBeUnlessExcepted(fate),
            (fate, false) => ObjectState::WouldBe(fate),
        }
    }

    fn names_queue(&self, kind: &Kind, object: &DynamicObject) -> bool {
        match kind.counts {
            CountingLabel::Own | CountingLabel::OfPod => {
                let metadata = serde_json::to_value(&object.metadata).unwrap_or_default();
                self.judge.names_queue(&metadata)
            }
            CountingLabel::OfTemplate(path) => {
                let metadata = object.data.pointer(path);
                metadata.is_some_and(|metadata| self.judge.names_queue(metadata))
            }
        }
    }
}

/// The field by which an object of this kind names a queue.
fn field(kind: &Kind) -> String {
    let metadata = match kind.counts {
        CountingLabel::Own | CountingLabel::OfPod => "/metadata",
        CountingLabel::OfTemplate(path) => path,
    };
    let metadata = metadata.trim_start_matches('/').replace('/', ".");
    format!("{metadata}.labels[{QUEUE_NAME_LABEL}]")
}

/// Group and kind of the controller that owns an object.
fn controller(object: &DynamicObject) -> Option<(&str, &str)> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let (group, _) = owner.api_version.split_once('/').unwrap_or(("", ""));
    Some((group, &owner.kind))
}

/// Whether an object has ended, by the JobKind of its kind. What can't be read goes on.
fn has_ended(kind: &Kind, object: &DynamicObject) -> bool {
    let Some(rules) = &kind.rules else {
        return false;
    };
    let object = serde_json::to_value(object).unwrap_or_default();
    matches!(rules.finished(&object), Ok(Some(_)))
}

/// Whether an object makes pods now: a ReplicaSet of an earlier revision of its Deployment doesn't, and a CronJob makes
/// Jobs, which are listed.
fn runs_pods(kind: &Kind, object: &DynamicObject) -> bool {
    let replicas = object.data.pointer("/spec/replicas");
    kind.resource.api.kind != CRON_JOB && replicas.is_none_or(|replicas| replicas != 0)
}

fn is_held(object: &DynamicObject) -> bool {
    gates::read(object.annotations()).require_queue()
}

#[cfg(test)]
mod tests;
