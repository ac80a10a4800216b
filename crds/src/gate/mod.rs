//! `Gate`: who may lift a gate annotation's gate, until when it is to be lifted, and what it holds. When it is lifted
//! by itself is in `schedule` and `after`; which objects are born with it, in `applies_to`.
//!
//! Must not have behaviour.

mod after;
mod applies_to;
mod schedule;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use after::{AFTER_ANNOTATION, AFTER_KINDS_MAX, After, AfterKind, AfterObject};
pub use applies_to::{AppliedKind, AppliesTo};
pub use schedule::{
    DEFAULT_TIME_ZONE, Exception, NOT_BEFORE_ANNOTATION, NotBefore, Schedule, WINDOW_SECONDS_MAX,
    Window,
};

/// What is known of the gate `<domain>/<path>`, and what it holds. A gate also works without a Gate.
///
/// The name says which gate: `<path>.<domain>`, as CRDs are named. The path ends at the first dot, so a
/// gate whose path is no DNS label has no Gate.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sluice.dev",
    version = "v1alpha1",
    kind = "Gate",
    plural = "gates",
    category = "sluice",
    derive = "PartialEq",
    derive = "Default",
    status = "GateStatus",
    doc = "Who may lift a gate, until when it is to be lifted, and what it holds. The Gate of the gate `acme.io/budget` is named `budget.acme.io`. A gate also works without a Gate.",
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?[.][a-z0-9]')").message("metadata.name must be <path>.<domain>: the Gate of the gate acme.io/budget is named budget.acme.io"),
    validation = Rule::new("size(self.metadata.name) <= 63").message("metadata.name must be at most 63 characters long, as the name of a gate is"),
    printcolumn(name = "Description", type_ = "string", json_path = ".spec.description"),
    printcolumn(name = "Lifting", type_ = "string", json_path = ".spec.lifting", priority = 1),
    printcolumn(name = "Held", type_ = "integer", json_path = ".status.held"),
    printcolumn(name = "Oldest", type_ = "date", json_path = ".status.oldestSince"),
    printcolumn(name = "Deadline", type_ = "integer", json_path = ".spec.deadline.seconds"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.approval), has(self.schedule), has(self.after), has(self.counter)].filter(is, is).size() <= 1").message("must have at most one of approval, schedule, after and counter: a gate is lifted in one way"))]
#[x_kube(validation = Rule::new("!has(self.counter) || !has(self.deadline) || self.deadline.onExpiry != 'Lift'").message("must be Notify or Deactivate with counter: what is lifted at the deadline would exceed the limit").field_path(".deadline.onExpiry"))]
pub struct GateSpec {
    /// What the gate waits for, in a sentence. Users read it on the objects that are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Whom to ask: a team, an address, a channel. Refusals name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub contact: Option<String>,
    /// Who may lift the gate. Owners: only who may `lift` this object, asked for in the namespace of the
    /// held object. Anyone: whoever may edit the held object.
    #[serde(default)]
    pub lifting: Lifting,
    /// Which objects get the gate when they are created, whether they name it or not. Absent: those that name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applies_to: Option<AppliesTo>,
    /// Until when the gate is to be lifted. Absent: it has no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// Somebody lifts the gate. So it is where neither this nor schedule, after or counter is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// When the gate is lifted by itself. Absent: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// After which other object the gate is lifted by itself: a Job that is complete, a claim that is bound.
    /// Absent: after none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// Lets a number of objects through at a time, for instance as many as there are licences. Absent:
    /// somebody lifts the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Counter>,
    /// Where an object takes its place in its queue once the gate is lifted. WhenCreated: by its creation, so that the
    /// gate costs it nothing. WhenLifted: by the time when the gate was lifted, so that nobody queues early.
    #[serde(default, skip_serializing_if = "QueuePlace::is_default")]
    pub place: QueuePlace,
    /// When the condition Backlogged becomes true. Absent: there is no such condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
}

/// Somebody lifts the gate.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Approval {}

/// Lets a number of objects through at a time.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Counter {
    /// How many objects may have passed the gate and not finished. The gate is lifted from the next one by
    /// priority, then age, once it is its last gate. Objects that somebody else lifted the gate from do not count.
    #[schemars(range(min = 0))]
    pub limit: i32,
}

/// Where an object takes its place in its queue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePlace {
    /// By its own creation.
    #[default]
    WhenCreated,
    /// By the time when the gate was lifted.
    WhenLifted,
}

impl QueuePlace {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How much a gate may hold before that is told by its condition Backlogged.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// How many objects may be held. Absent: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub held: Option<i32>,
    /// How long the oldest of them may be held. Absent: for any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub age_seconds: Option<i32>,
}

/// Who may lift a gate.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifting {
    /// Only who may `lift` the Gate.
    #[default]
    Owners,
    /// Whoever may edit the held object.
    Anyone,
}

/// How long an object may be held, and what happens then; or at once, if what it waits for has failed.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Deadline {
    /// How long after its creation an object is to be let through.
    #[schemars(range(min = 1, max = 315_360_000))]
    pub seconds: i32,
    /// What happens to an object that is still held then. Notify: an event tells it. Lift: the gate is
    /// lifted. Deactivate: the object stays held, also when its gates are lifted, until somebody removes
    /// its annotation `sluice.dev/deactivated-by`.
    #[serde(default)]
    pub on_expiry: OnExpiry,
}

/// What happens to an object that is held beyond the deadline of its gate.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExpiry {
    /// An event tells it.
    #[default]
    Notify,
    /// The gate is lifted.
    Lift,
    /// The object stays held until its user reactivates it.
    Deactivate,
}

/// What a gate holds.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GateStatus {
    /// Active: whether the Gate can be followed, and why not. Applied: whether objects that match
    /// spec.appliesTo get the gate when they are created, and why not. Backlogged: whether it holds more objects, or for
    /// longer, than spec.backlog says.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How many objects the gate holds.
    #[serde(default)]
    pub held: i32,
    /// When the oldest of them was created. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_since: Option<Time>,
    /// The ten oldest of them.
    #[serde(default)]
    #[schemars(length(max = 10))]
    pub oldest: Vec<HeldObject>,
    /// How many objects have passed the gate and not finished. Absent without spec.counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<i32>,
    /// From how many objects the gate was lifted, since the Gate was created.
    #[serde(default)]
    pub lifted_total: i64,
    /// For how many objects the deadline has passed, or what they wait for has failed, since the Gate was created.
    #[serde(default)]
    pub expired_total: i64,
}

/// An object that a gate holds.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeldObject {
    /// Its kind, as in `Job.batch`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub since: Time,
}
