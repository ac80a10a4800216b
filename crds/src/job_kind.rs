//! `JobKind`: how Sluice reads and holds one kind of Job-like object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.suspend) || has(self.active)").message("active is required with suspend: it says when the pods of a suspended object are gone"))]
#[x_kube(validation = Rule::new("self.group == oldSelf.group && self.kind == oldSelf.kind").message("group and kind are immutable: create another JobKind"))]
pub struct JobKindSpec {
    /// The API group of the kind, for instance `batch`.
    #[schemars(length(max = 253))]
    pub group: String,
    /// The version that Sluice reads, for instance `v1`.
    #[schemars(length(min = 1, max = 63))]
    pub version: String,
    /// The kind, for instance `Job`.
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
    /// The sets of equal pods that an object of this kind makes.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pod_sets: Vec<PodSetRule>,
    /// How to tell that an object has ended. Absent: objects of this kind never end by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<FinishedRule>,
    /// A CEL expression over `object`: true while pods of the object run or may still be made. Quota
    /// of a suspended object is freed only once it is false. Required with `suspend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub active: Option<String>,
}

/// How a Job-like object is admitted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionMode {
    /// All or nothing: one Workload, and quota for all pods at once.
    #[default]
    Whole,
    /// Each pod by itself, as quota is there for it.
    PerPod,
}

/// How to read a set of equal pods.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodSetRule {
    /// The name of the set, unique in the JobKind.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The path of the pod template, for instance `.spec.template`.
    #[schemars(length(min = 2, max = 512))]
    pub template: String,
    /// A CEL expression over `object`: how many pods run at the same time. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub count: Option<String>,
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
    /// A CEL expression over `object`, read once it has ended: what to tell the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub message: Option<String>,
}

/// What is known of a JobKind.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobKindStatus {
    /// Ready: whether objects of the kind are watched, and why not.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
