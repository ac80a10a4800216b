//! What is found about an object: whether it needs a queue and names none, and what would become of it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use sluice_crds::{ENFORCEMENT_LABEL, QUEUE_NAME_LABEL};
use sluice_gates::{ManagedNamespaces, ManagedNamespacesSpec, Unlabelled};
use sluice_kinds::{CompiledKind, gates};

use crate::cluster::Resource;

/// Namespaces that are never managed.
const SYSTEM: [&str; 4] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "sluice-system",
];
/// Kinds whose pods are judged with an object that is listed, or are never judged.
const MAKE_PODS: [&str; 6] = [
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "Node",
];

/// The labels of namespaces, by name.
pub(super) type NamespaceLabels = BTreeMap<String, BTreeMap<String, String>>;

/// A kind whose objects are looked at.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) resource: Resource,
    pub(super) counts: Counts,
    /// How its objects are read; None if no JobKind declares it, or one that can't be used.
    pub(super) rules: Option<CompiledKind>,
}

/// Which label counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// The object's own.
    Own,
    /// The object's own; it is a pod.
    OfPod,
    /// That at this path.
    OfTemplate(&'static str),
}

/// An object that names no queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) namespace: String,
    /// `job.batch/train`.
    pub(super) object: String,
    /// The label of the namespace.
    pub(super) enforcement: Option<String>,
    pub(super) state: State,
}

/// How such an object stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// It is held until it names one.
    Held,
    /// It runs, or may, and this would become of it if it were created now.
    WouldBe(Fate),
    /// No JobKind declares the kind that made it.
    MadeBy(String),
}

/// What would become of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Queued,
    Held,
    Refused,
    Ignored,
}

/// Looks at objects.
pub(super) struct Auditor {
    namespaces: NamespaceLabels,
    declared: BTreeSet<(String, String)>,
    managed: ManagedNamespaces,
}

impl Auditor {
    /// One for these namespaces and kinds, where `unlabelled` becomes of objects in namespaces without a label.
    pub(super) fn new(namespaces: NamespaceLabels, kinds: &[Kind], unlabelled: Unlabelled) -> Self {
        let declared = kinds.iter().filter(|kind| kind.counts == Counts::Own);
        let name = |kind: &Kind| {
            (
                kind.resource.api.group.clone(),
                kind.resource.api.kind.clone(),
            )
        };
        let spec = ManagedNamespacesSpec {
            selector: Some(LabelSelector::default()),
            unlabelled,
            ..ManagedNamespacesSpec::default()
        };
        let managed = ManagedNamespaces::compile(&spec, "").unwrap_or_default();
        Self {
            namespaces,
            declared: declared.map(name).collect(),
            managed: managed.without(SYSTEM.map(str::to_owned)),
        }
    }

    /// What is found about an object of this kind, if it needs a queue and names none.
    pub(super) fn find(&self, kind: &Kind, object: &DynamicObject) -> Option<Finding> {
        let namespace = object.namespace()?;
        let labels = self.namespaces.get(&namespace)?;
        let (group, owner) = controller(object).unzip();
        let is_declared = owner.zip(group).is_some_and(|(kind, group)| {
            self.declared.contains(&(group.to_owned(), kind.to_owned()))
        });
        let state = match (kind.counts, owner) {
            _ if SYSTEM.contains(&namespace.as_str()) || names_queue(kind, object) => return None,
            _ if is_declared || has_ended(kind, object) => return None,
            (Counts::OfPod, Some(owner)) if MAKE_PODS.contains(&owner) => return None,
            (Counts::OfPod, Some(owner)) => State::MadeBy(owner.to_owned()),
            // Of a pod: the worker StatefulSets of a LeaderWorkerSet. What the pod belongs to is listed.
            (Counts::OfTemplate(_), Some(_)) | (Counts::Own, Some("Pod")) => return None,
            _ if is_held(object) => State::Held,
            (counts, _) => State::WouldBe(self.fate(counts, kind, &namespace, labels)),
        };
        Some(Finding {
            object: format!("{}/{}", kind.resource.name, object.name_any()),
            enforcement: labels.get(ENFORCEMENT_LABEL).cloned(),
            namespace,
            state,
        })
    }

    fn fate(
        &self,
        counts: Counts,
        kind: &Kind,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Fate {
        let enforced = self.managed.of_namespace(namespace, labels);
        let is_made_of_pods =
            matches!(counts, Counts::OfTemplate(_)) && kind.resource.api.kind != "CronJob";
        match enforced.unlabelled {
            Unlabelled::Ignore => Fate::Ignored,
            Unlabelled::Refuse => Fate::Refused,
            // What can't be held is refused.
            Unlabelled::Default | Unlabelled::Hold if is_made_of_pods => Fate::Refused,
            Unlabelled::Default => Fate::Queued,
            Unlabelled::Hold => Fate::Held,
        }
    }
}

fn names_queue(kind: &Kind, object: &DynamicObject) -> bool {
    match kind.counts {
        Counts::Own | Counts::OfPod => object.labels().contains_key(QUEUE_NAME_LABEL),
        Counts::OfTemplate(path) => {
            let labels = object.data.pointer(path);
            labels.is_some_and(|labels| labels.get(QUEUE_NAME_LABEL).is_some())
        }
    }
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

fn is_held(object: &DynamicObject) -> bool {
    gates::read(object.annotations()).require_queue()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sluice_crds::JobKind;

    use self::Expected::{Held, MadeBy, Nothing, Would};
    use super::*;
    use crate::rules::shipped::SHIPPED;

    fn kind(group: &str, kind: &str, counts: Counts) -> Kind {
        let api_version = if group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{group}/v1")
        };
        let name = format!("{}.{group}", kind.to_lowercase());
        Kind {
            resource: Resource {
                api: kube::core::ApiResource {
                    group: group.to_owned(),
                    version: "v1".to_owned(),
                    api_version,
                    kind: kind.to_owned(),
                    plural: format!("{}s", kind.to_lowercase()),
                },
                name: name.trim_end_matches('.').to_owned(),
                is_namespaced: true,
            },
            counts,
            rules: None,
        }
    }

    /// A kind that Sluice ships a JobKind for.
    fn shipped(name: &str) -> Kind {
        let (_, text) = SHIPPED.iter().find(|(of, _)| *of == name).unwrap();
        let job_kind: JobKind = serde_saphyr::from_str(text).unwrap();
        let rules = CompiledKind::compile(&job_kind).unwrap();
        let mut shipped = kind(&rules.group, &rules.kind, Counts::Own);
        shipped.rules = Some(rules);
        shipped
    }

    fn found(kind: &Kind, metadata: Value, rest: Value, label: Option<&str>) -> Option<State> {
        let mut object = rest;
        object["metadata"] = metadata;
        object["metadata"]["name"] = json!("x");
        object["metadata"]["namespace"] = json!("n");
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let label = label.map(|value| (ENFORCEMENT_LABEL.to_owned(), value.to_owned()));
        let namespaces = BTreeMap::from([("n".to_owned(), label.into_iter().collect())]);
        let declared = [self::kind("batch", "Job", Counts::Own)];
        let auditor = Auditor::new(namespaces, &declared, Unlabelled::Ignore);
        auditor.find(kind, &object).map(|finding| finding.state)
    }

    fn owned(api_version: &str, kind: &str) -> Value {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": true});
        json!({"ownerReferences": [owner]})
    }

    type Case<'a> = (&'a str, &'a Kind, Value, Value, Option<&'a str>, Expected);

    fn check(cases: &[Case<'_>]) {
        for (name, kind, metadata, rest, label, expected) in cases {
            let state = found(kind, metadata.clone(), rest.clone(), *label);
            assert_eq!(state, expected.state(), "{name}");
        }
    }

    #[derive(Clone, Copy)]
    enum Expected {
        Nothing,
        Held,
        MadeBy(&'static str),
        Would(Fate),
    }

    impl Expected {
        fn state(self) -> Option<State> {
            match self {
                Self::Nothing => None,
                Self::Held => Some(State::Held),
                Self::MadeBy(kind) => Some(State::MadeBy(kind.to_owned())),
                Self::Would(fate) => Some(State::WouldBe(fate)),
            }
        }
    }

    fn queue() -> Value {
        json!({"labels": {QUEUE_NAME_LABEL: "q"}})
    }

    #[test]
    fn jobs_without_a_queue_are_found() {
        let job = &kind("batch", "Job", Counts::Own);
        let none = || json!({});
        let gate =
            json!({"annotations": {gates::ADMISSION_GATED_BY: "a.io/x,sluice.dev/queue-required"}});
        let complete =
            || json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        let of_cron = owned("batch/v1", "CronJob");
        check(&[
            ("alone", job, none(), none(), None, Would(Fate::Ignored)),
            (
                "by default",
                job,
                none(),
                none(),
                Some("Default"),
                Would(Fate::Queued),
            ),
            (
                "to be held",
                job,
                none(),
                none(),
                Some("Hold"),
                Would(Fate::Held),
            ),
            (
                "dry run",
                job,
                none(),
                none(),
                Some("DryRun"),
                Would(Fate::Held),
            ),
            (
                "to be refused",
                job,
                none(),
                none(),
                Some("Refuse"),
                Would(Fate::Refused),
            ),
            ("held", job, gate, none(), Some("Hold"), Held),
            ("queued", job, queue(), none(), Some("Hold"), Nothing),
            (
                "ended",
                &shipped("job"),
                none(),
                complete(),
                Some("Hold"),
                Nothing,
            ),
            (
                "ended in the way of its kind",
                &shipped("sparkapplication"),
                none(),
                json!({"status": {"applicationState": {"state": "COMPLETED"}}}),
                Some("Hold"),
                Nothing,
            ),
            (
                "of a kind that ends in another way",
                &shipped("sparkapplication"),
                none(),
                complete(),
                Some("Hold"),
                Would(Fate::Held),
            ),
            (
                "of a pod",
                job,
                owned("v1", "Pod"),
                none(),
                Some("Hold"),
                Nothing,
            ),
            (
                "of a CronJob",
                job,
                of_cron,
                none(),
                None,
                Would(Fate::Ignored),
            ),
        ]);
    }

    #[test]
    fn pods_and_what_makes_them_are_found() {
        let pod = &kind("", "Pod", Counts::OfPod);
        let path = "/spec/jobTemplate/metadata/labels";
        let cron = &kind("batch", "CronJob", Counts::OfTemplate(path));
        let path = "/spec/template/metadata/labels";
        let set = &kind("apps", "ReplicaSet", Counts::OfTemplate(path));
        let (none, spec) = (|| json!({}), || json!({"spec": {}}));
        let made = json!({"spec": {"jobTemplate": {"metadata": queue()}}});
        let of = |kind: &str| owned("apps/v1", kind);
        check(&[
            (
                "a pod",
                pod,
                none(),
                none(),
                Some("Hold"),
                Would(Fate::Held),
            ),
            ("of a Job", pod, of("Job"), none(), Some("Hold"), Nothing),
            (
                "of a DaemonSet",
                pod,
                of("DaemonSet"),
                none(),
                Some("Hold"),
                Nothing,
            ),
            (
                "of a Train",
                pod,
                of("Train"),
                none(),
                None,
                MadeBy("Train"),
            ),
            (
                "outer label",
                cron,
                queue(),
                spec(),
                Some("Hold"),
                Would(Fate::Held),
            ),
            ("a CronJob", cron, none(), made, Some("Hold"), Nothing),
            (
                "a ReplicaSet",
                set,
                none(),
                spec(),
                Some("Default"),
                Would(Fate::Refused),
            ),
            (
                "of a Deployment",
                set,
                of("Deployment"),
                spec(),
                Some("Hold"),
                Nothing,
            ),
        ]);
    }
}
