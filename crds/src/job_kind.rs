//! `JobKind`: how Sluice reads and holds one kind of Job-like object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::ResourceList;

/// How Sluice reads and holds one kind of Job-like object.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "JobKind",
    plural = "jobkinds",
    shortname = "jk",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    status = "JobKindStatus",
    doc = "How Sluice reads and holds one kind of Job-like object.",
    printcolumn(name = "Group", type_ = "string", json_path = ".spec.group"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.suspend) || has(self.active)").message("active is required with suspend: it determines when the quota of a suspended object is freed"))]
#[x_kube(validation = Rule::new("self.group == oldSelf.group && self.kind == oldSelf.kind").message("group and kind are immutable: create another JobKind"))]
#[x_kube(validation = Rule::new("has(self.podSets) && self.podSets.size() > 0 || has(self.children) && self.children.size() > 0 && has(self.suspend)").message("podSets is required, unless the kind can be suspended and has children whose pods count as its own"))]
pub struct JobKindSpec {
    /// The API group of the kind, for instance `batch`; empty for the core group.
    #[schemars(length(max = 253))]
    pub group: String,
    /// The version that Sluice reads and writes, for instance `v1`. It must be served. The API server
    /// converts objects that were written in another version.
    #[schemars(length(min = 1, max = 63))]
    pub version: String,
    /// The kind, for instance `Job`. It must be namespaced.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The path of the boolean field that stops the kind's controller from making pods, for
    /// instance `.spec.suspend`. Absent: objects of this kind can't be suspended, and their pods are
    /// held behind scheduling gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub suspend: Option<String>,
    /// How objects of this kind are admitted when their annotation `sluice.dev/admission` is absent.
    #[serde(default)]
    pub admission: AdmissionMode,
    /// The sets of equal pods that an object of this kind makes. Absent: its pods are those of its
    /// children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pod_sets: Vec<PodSetRule>,
    /// The groups in which the kind's controller makes pods, for instance a leader and its workers of a
    /// LeaderWorkerSet. With the admission PerPod, each group is admitted as a whole. Absent: each pod
    /// is admitted by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_groups: Option<PodGroupsRule>,
    /// How to tell that an object has ended. Absent: objects of this kind never end by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<FinishedRule>,
    /// A CEL expression over `object`: true while pods of the object run or may still be made. Quota
    /// of a suspended object is freed only once it is false. Required with `suspend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub active: Option<String>,
    /// A CEL expression over `object`: true for a suspended object whose `status.startTime` must go before its
    /// pod templates can be changed, as its API takes no changes of an object that has run. Sluice then
    /// removes the field before it writes to them. Absent: the API takes such changes. Only with `suspend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub clear_start_time: Option<String>,
    /// A CEL expression over `object`: true once all its pods are ready. It becomes the condition
    /// PodsReady of the Workload. Absent: the Workload has no such condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub ready: Option<String>,
    /// Rules for objects that the kind's controller would never run. Such an object is refused if it
    /// has a queue or a gate. If it was stored all the same, it is held, an event says why, and it
    /// holds no quota unless its pods run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub refuse: Vec<RefuseRule>,
    /// The kinds of objects that the kind's controller makes for an object, for instance the Jobs of a
    /// JobSet. Such a child is never queued by itself if its controller reference names an object that
    /// Sluice manages: it is released with its owner. `Pod` may be listed, to name the accounts that
    /// make pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "kind"]))]
    pub children: Vec<ChildKind>,
}

/// How a Job-like object is admitted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionMode {
    /// All or nothing: one Workload, and quota for all pods at once.
    #[default]
    Whole,
    /// Each pod by itself, once there is quota for it.
    PerPod,
}

/// How to read a set of equal pods, or with `forEach` many of them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.template), has(self.templateFrom), has(self.podMetadata)].exists_one(x, x)").message("exactly one of template, templateFrom and podMetadata must be set"))]
#[x_kube(validation = Rule::new("!has(self.partialAdmission) || has(self.template) && !has(self.forEach)").message("partialAdmission requires template and forbids forEach: one annotation can't give a number for each of many pod sets"))]
#[x_kube(validation = Rule::new("has(self.forEach) || !(has(self.nameFrom) || has(self.templateFrom) || has(self.podInfos))").message("nameFrom, templateFrom and podInfos require forEach: they are paths in its elements"))]
pub struct PodSetRule {
    /// The name of the rule, unique in the JobKind. Without `forEach` it is the name of the set.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The path of a list or map each element of which makes a set, for instance
    /// `.spec.workerGroupSpecs`. `[]` goes through a list on the way: `.spec.components[].podSets`.
    /// The other paths of this rule are then paths in the element, and its expressions also see the
    /// element as `item` and its key in the map, or its place in the list, as `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub for_each: Option<String>,
    /// The path, in an element of the list, of the text that names its set, for instance
    /// `.groupName`; in lower case it has to be a DNS label, unique in the object. Absent: the key in
    /// the map, or the name of the rule and the place in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub name_from: Option<String>,
    /// The path of the pod template, for instance `.spec.template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub template: Option<String>,
    /// The path, in an element, of the text that is itself the path of the pod template, in the object
    /// that holds the list: `.path` for `template.spec.template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub template_from: Option<String>,
    /// The path of the labels and annotations that the pods get, for kinds that have no pod template,
    /// for instance `.spec.podMetadata`. What the pods ask for is then known only when they are there:
    /// each is admitted by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub pod_metadata: Option<String>,
    /// The path, beside the list of `forEach`, of another list of the same length whose elements hold
    /// labels, annotations, nodeSelector and tolerations that the kind's controller puts on the pods,
    /// for instance `.podSetInfos`. Sluice writes there instead of into the templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub pod_infos: Option<String>,
    /// What it means if the template, or the list or map of `forEach`, is absent.
    #[serde(default)]
    pub when_absent: WhenAbsent,
    /// Containers that the kind's controller adds to each of these pods: they are counted like those of
    /// the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub add_containers: Vec<AddedContainer>,
    /// A CEL expression over `object`: how many pods run at the same time. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub count: Option<String>,
    /// A CEL expression over `object`: how many of these pods have ended and will not be replaced.
    /// Their quota is freed while the other pods run. Absent: no quota is freed before the object has
    /// ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub reclaimable: Option<String>,
    /// How an object says how few of these pods suffice, and where Sluice writes how many are admitted.
    /// Absent: all of them are admitted, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_admission: Option<PartialAdmission>,
}

/// How objects are admitted with fewer pods than they request, if they allow it and there is not enough
/// quota for all.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PartialAdmission {
    /// The annotation by which an object allows it, for instance `sluice.dev/min-parallelism`. Its
    /// value is the smallest number of pods that suffices. An object without it is admitted with all
    /// its pods or not at all.
    #[schemars(length(min = 1, max = 317))]
    pub annotation: String,
    /// The path of the integer field with the number of pods, for instance `.spec.parallelism`. Sluice
    /// writes the number of admitted pods there when it releases the object, and the former value when
    /// it evicts the object.
    #[schemars(length(min = 2, max = 512))]
    pub field: String,
}

/// What it means if a pod template is absent.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAbsent {
    /// The object can't be counted, and waits until it has a template.
    #[default]
    Reject,
    /// There are no such pods.
    Skip,
    /// There are such pods. Sluice creates the template, with nothing in it but its gates, labels and
    /// annotations. Only for objects that can't be suspended.
    Create,
    /// There are such pods, made from a template of the kind's controller. They have the containers of
    /// `addContainers`. Sluice can't write to the template, so the pods get no nodeSelector and
    /// tolerations from their flavor.
    Assume,
}

/// A container that a kind's controller adds to pods.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AddedContainer {
    /// Its name, unique in the rule.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// A CEL expression over `object`, and with `forEach` over `item` and `key`: whether it is added.
    /// Absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub when: Option<String>,
    /// Whether it is an init container, which runs before the others.
    #[serde(default)]
    pub init: bool,
    /// What it requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub requests: ResourceList,
    /// The path, in the object, of the resources (`requests` and `limits`) that replace these requests
    /// where the object has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub resources_from: Option<String>,
}

/// Groups of pods that are admitted as a whole. The kind's controller must create all pods of a group
/// before one of them runs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupsRule {
    /// The keys of the labels on each pod whose values, joined by `-`, are the name of its group: unique
    /// in the namespace.
    #[schemars(length(min = 1, max = 4), inner(length(min = 1, max = 317)), extend("x-kubernetes-list-type" = "atomic"))]
    pub labels: Vec<String>,
    /// The key of the annotation on each pod that says how many pods its group has.
    #[schemars(length(min = 1, max = 317))]
    pub total_annotation: String,
    /// A CEL expression over `object`, metadata included: false for an object whose controller waits for
    /// some pods of a group before it makes the others. Their pods are admitted each by itself. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub when: Option<String>,
}

/// Objects that the kind's controller would never run.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RefuseRule {
    /// A CEL expression over `object`: true for an object that is refused. A field that the schema of
    /// the kind doesn't have counts as absent, so a rule may name fields of newer versions.
    #[schemars(length(min = 1, max = 2048))]
    pub when: String,
    /// The path of the field that is wrong, for instance `.spec.shutdownAfterJobFinishes` or
    /// `.metadata.name`. Absent: the spec as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    pub field: Option<String>,
    /// The message of the refusal, in the words of the API server: `must be true: …`.
    #[schemars(length(min = 1, max = 512))]
    pub message: String,
    /// The objects that the rule covers.
    #[serde(default)]
    pub applies_to: RefuseScope,
}

/// The objects that a rule covers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefuseScope {
    /// All objects of the kind.
    #[default]
    All,
    /// Objects that wait suspended, not behind gates on their pods: for objects that the kind's
    /// controller can't suspend.
    Suspended,
}

/// A kind of objects that another kind's controller makes.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ChildKind {
    /// Its API group.
    #[schemars(length(max = 253))]
    pub group: String,
    /// Its kind. `Pod` of the core group names the accounts that make the pods of an object.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The user names of the controllers that make such objects, for instance
    /// `system:serviceaccount:jobset-system:jobset-controller-manager`. Only these users may name an
    /// object of this JobKind as the owner of an object in a queue, and administrators, unless all
    /// accounts are those of Kubernetes itself. A service account of the object's own namespace never
    /// may. Absent: service accounts of other namespaces may too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)), extend("x-kubernetes-list-type" = "set"))]
    pub made_by: Vec<String>,
    /// For objects that the controller makes to clean up after an object, such as the Job by which KubeRay
    /// deletes the data of a RayCluster: what the one pod of such an object requests at most. One for each
    /// owner then runs for up to ten minutes although the owner is not admitted, as the owner can't go before
    /// it has ended. It uses no quota. Absent: children run only while their owner is admitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub cleanup_requests: ResourceList,
}

impl ChildKind {
    /// Whether these children are pods.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.group.is_empty() && self.kind == "Pod"
    }
}

/// How to tell that an object has ended.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FinishedRule {
    /// A CEL expression over `object`: true once it has ended and none of its pods runs.
    #[schemars(length(min = 1, max = 2048))]
    pub when: String,
    /// A CEL expression over `object`, read once it has ended: true if it succeeded.
    #[schemars(length(min = 1, max = 2048))]
    pub succeeded: String,
    /// A CEL expression over `object`, read once it has ended: the message for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub message: Option<String>,
}

/// The observed state of a JobKind.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobKindStatus {
    /// Ready: whether objects of the kind are watched, and why not.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
