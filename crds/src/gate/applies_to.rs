//! Which objects are born with a gate whether they name it or not. Types and their schema only; what they say of an
//! object is in `sluice-gates`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which objects are born with the gate. All fields that are there must match.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AppliesTo {
    /// The namespaces, by their labels. All objects of managed kinds there, and all pods without a controller, may
    /// match, also those without a queue. An empty selector selects all namespaces. Absent: only objects match that
    /// name a queue or a gate, whatever their namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The kinds. Absent: all managed kinds, and pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub kinds: Vec<AppliedKind>,
    /// The names of LocalQueues. Absent: objects of any queue, and of none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub queues: Vec<String>,
    /// A CEL expression that is true for objects that match. It may name: object (a field of it); queue (string, empty
    /// for an object without a queue); priority (int); requests (what all pods request, by resource, as double: cores,
    /// bytes, devices; a resource that the expression names and the object does not request is 0); pods (int); user
    /// (string) and groups (list of strings) of the request. An object for which it fails gets the gate. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub when: Option<String>,
}

/// A kind of objects.
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord,
)]
#[serde(rename_all = "camelCase")]
pub struct AppliedKind {
    /// The API group. Empty for the core group, as of Pod.
    #[serde(default)]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$")
    )]
    pub group: String,
    /// The kind, such as Job.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")
    )]
    pub kind: String,
}

impl AppliedKind {
    /// Whether pods are meant, which no JobKind declares.
    pub fn is_pod(&self) -> bool {
        self.group.is_empty() && self.kind == "Pod"
    }
}
