//! That a gate is lifted after another object: which object, and what is to be true of it. Types and their schema
//! only; what they say of an object is in `sluice-gates`.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The annotation that names the object of [`After`], if the Gate names no other.
pub const AFTER_ANNOTATION: &str = "sluice.dev/after";
/// How many kinds [`After::kinds`] may list.
pub const AFTER_KINDS_MAX: usize = 8;

/// Lifts the gate after another object satisfies a condition.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.object) != (has(self.kinds) && size(self.kinds) > 0)").message("exactly one of object and kinds must be set: object is named here; with kinds, the held job names an object of one of them in its annotation"))]
#[x_kube(validation = Rule::new("!has(self.object) || !has(self.annotation)").message("must not have annotation with object: this Gate names the object"))]
pub struct After {
    /// The object that the gate waits for. Absent: the held object names it in an annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<AfterObject>,
    /// The kinds of objects that a held object may name. They are namespaced, and the named object is in the namespace
    /// of the held object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFTER_KINDS_MAX))]
    pub kinds: Vec<AfterKind>,
    /// The key of the annotation by which a held object names what it waits for: as NAME if there is one kind here,
    /// and as KIND/NAME or KIND.GROUP/NAME, such as Job.batch/prepare, if there are several. Absent:
    /// sluice.dev/after. An object without the annotation stays held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub annotation: Option<String>,
}

/// An object that a Gate names. Who waits for it is told its name, and whether it satisfies the condition.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AfterObject {
    /// Its kind, and what is to be true of it.
    #[serde(flatten)]
    pub kind: AfterKind,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Absent: that of the held object, or none if the kind has no namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// A kind of objects, and what is to be true of one.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AfterKind {
    /// The API group of the kind, for instance `batch`; empty for the core group.
    #[schemars(length(max = 253))]
    pub group: String,
    /// The kind, for instance `Job`. Objects are read in the version that the API server prefers.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// A CEL expression over `object` that gives a bool. The gate is lifted once it is true.
    #[schemars(length(min = 1, max = 2048))]
    pub condition: String,
    /// A CEL expression over `object` that gives a bool: whether the condition is not expected to become true any
    /// more. The deadline of the Gate acts at once then. Absent: it never fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub failed: Option<String>,
}
