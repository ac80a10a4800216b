//! What Sluice sees of a pod that it looks after, and which pods those are. Reading never fails:
//! what can't be read is said in the view.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_crds::{
    ADMITTED_ANNOTATION, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION, POD_SET_ANNOTATION,
    PRIORITY_CLASS_LABEL, Quantity,
};

use crate::field::metadata::{self, annotation_text, label};
use crate::field::problem::Problem;
use crate::gates::scheduling::{propagated, scheduling_gates};
use crate::gates::{self, GateState};
use crate::read::claims::{self, CLAIMS_MAX};
use crate::read::place::Place;
use crate::read::pod_set::Reader;
use crate::read::requests::{Amounts, PodDefaults};
use crate::read::view::{LabelledQueue, PodSetView, QueueLabels};

pub use crate::gates::QueueGates;
pub use crate::read::pod_group::{
    GROUP_MARK_BYTES_MAX, GROUP_MARKS, GROUP_PODS_MAX, GROUP_TOTAL, PodGroup, UNCOUNTED_GROUP,
    UNNAMED_GROUP, too_long_marks,
};

#[cfg(test)]
mod tests;

/// The name of the one pod set of a pod.
const POD_SET: &str = "main";

/// What is read of a pod that Sluice looks after.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// The queue that its labels name.
    pub queue: LabelledQueue,
    /// With whom it is admitted.
    pub mode: PodMode,
    /// The queue gate that it still carries: Sluice's own or an alias.
    pub queue_gate: Option<Arc<str>>,
    /// All its other scheduling gates, in order.
    pub other_gates: Vec<Arc<str>>,
    /// Those scheduling gates that stand for gate annotations, its own or its owner's.
    pub propagated: Vec<Arc<str>>,
    /// Its own gate annotations.
    pub gates: GateState,
    /// The name of its WorkloadPriorityClass.
    pub priority_class_label: Option<String>,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// `spec.priorityClassName`.
    pub priority_class: Option<String>,
    /// Whether it has ended.
    pub phase: PodPhase,
    /// Whether it never ends by itself: its containers are always restarted.
    pub never_ends: bool,
    /// Whether it is bound to a node.
    pub is_bound: bool,
    /// The name of its set among the pods of the object that it belongs to.
    pub pod_set: Option<Arc<str>>,
    /// The record of its admission, or what is wrong with it.
    pub admitted: Option<Result<PodAdmission, Problem>>,
    /// What it asks for, as a set of one pod, or what can't be counted. Devices that it claims are not
    /// counted here.
    pub asks: Result<PodSetView, Vec<Problem>>,
}

/// With whom a pod is admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodMode {
    /// By itself.
    Single,
    /// With the pods of its group; or what is wrong with what it says about that.
    Group(Result<PodGroup, Problem>),
    /// With the object that it belongs to; or not at all, if only gates hold it.
    Child,
}

/// Whether a pod has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    /// It waits or runs.
    Live,
    /// It did what it was for.
    Succeeded,
    /// It did not.
    Failed,
}

/// The record of a pod's admission: the value of the annotation `sluice.dev/admitted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAdmission {
    /// The ClusterQueue that its quota is taken from.
    pub cluster_queue: String,
    /// The cohort that the ClusterQueue was in by then: if it is deleted, the usage counts there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: Option<String>,
    /// The flavor of each resource.
    pub flavors: BTreeMap<String, String>,
    /// When.
    pub at: Time,
    /// The term of the leader that wrote this, as in `status.admission.term` of a Workload. None where the
    /// pod's job or group was admitted: that one's Workload says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// The priority that its WorkloadPriorityClass gave it by then; it keeps that. None for a pod
    /// without such a class: its own can't change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The UID of the job that it was released with: it keeps its place there, whatever its owner references say.
    /// None for a pod that was admitted by itself, or with its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The name of the group that it was released with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Most of each kind of thing that a pod which waits may ask for. It is kept as long as the pod waits, many times as large
/// as its text, and Kubernetes has no limit of its own. What runs uses its quota, whatever is added to it.
const ASKED_MAX: usize = 256;
/// The same of the values in its required node affinity.
const VALUES_MAX: usize = 2048;

/// What a pod that waits asks for, if that is not too much to be kept.
fn bounded(asks: PodSetView) -> Result<PodSetView, Vec<Problem>> {
    let field = asks.place.spec_field();
    let values = asks.required_affinity.iter().flat_map(|term| {
        let labels = term.match_expressions.iter().flatten();
        let fields = term.match_fields.iter().flatten();
        labels.chain(fields)
    });
    let values: usize = values
        .map(|requirement| 1 + requirement.values.as_ref().map_or(0, Vec::len))
        .sum();
    let problems: Vec<Problem> = [
        ("containers", "resources", asks.requests.len(), ASKED_MAX),
        (
            "nodeSelector",
            "labels",
            asks.placement.node_selector.len(),
            ASKED_MAX,
        ),
        (
            "tolerations",
            "tolerations",
            asks.placement.tolerations.len(),
            ASKED_MAX,
        ),
        (
            "affinity.nodeAffinity",
            "terms",
            asks.required_affinity.len(),
            ASKED_MAX,
        ),
        ("affinity.nodeAffinity", "values", values, VALUES_MAX),
        ("resourceClaims", "claims", asks.claims.len(), CLAIMS_MAX),
    ]
    .into_iter()
    .filter(|(_, _, count, most)| most < count)
    .map(|(at, what, count, most)| {
        let detail = format!("a pod that waits must have at most {most} {what}");
        Problem::too_many(format!("{field}.{at}"), count, detail)
    })
    .collect();
    if problems.is_empty() {
        Ok(asks)
    } else {
        Err(problems)
    }
}

/// The pod with the requests that its node has not given back yet: a resize shrinks the spec at once, and the status when
/// the kubelet has done it. kube-scheduler counts the larger of the two as well (`determineContainerReqs` in
/// k8s.io/component-helpers/resource).
fn as_allocated(object: &Value) -> Cow<'_, Value> {
    let lists = [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ];
    let mut larger = Vec::new();
    for (list, statuses) in lists {
        let elements = |pointer: String| {
            let list = object.pointer(&pointer).and_then(Value::as_array);
            list.into_iter().flatten()
        };
        let named = elements(format!("/status/{statuses}"));
        let named = named.filter_map(|status| Some((name_of(status)?, status)));
        let named: BTreeMap<&str, &Value> = named.collect();
        for (index, container) in elements(format!("/spec/{list}")).enumerate() {
            let status = name_of(container).and_then(|name| named.get(name));
            let at = format!("/spec/{list}/{index}");
            larger.extend(status.and_then(|status| held_beyond(container, status, &at)));
        }
    }
    // Where the containers alone request, the status has their sum.
    if let (Some(spec), Some(status)) = (object.get("spec"), object.get("status")) {
        larger.extend(held_beyond(spec, status, "/spec"));
    }
    if larger.is_empty() {
        return Cow::Borrowed(object);
    }
    let mut pod = object.clone();
    for (at, requests) in larger {
        if let Some(there) = pod.pointer_mut(&at) {
            *there = requests;
        }
    }
    Cow::Owned(pod)
}

fn name_of(container: &Value) -> Option<&str> {
    container.get("name")?.as_str()
}

/// The requests of a container, or of the pod, which lies at `at`, with what `status` says that it still has, if that is
/// more; and where they lie.
fn held_beyond(asking: &Value, status: &Value, at: &str) -> Option<(String, Value)> {
    let nanos = |amount: &Value| Quantity(amount.as_str()?.to_owned()).nanos().ok();
    let asked = asking.pointer("/resources/requests")?.as_object()?;
    let held = [
        status.pointer("/resources/requests"),
        status.get("allocatedResources"),
    ];
    let mut requests = asked.clone();
    for (name, amount) in &mut requests {
        for held in held.into_iter().flatten().filter_map(|held| held.get(name)) {
            if nanos(amount) < nanos(held) {
                *amount = held.clone();
            }
        }
    }
    (requests != *asked).then(|| (format!("{at}/resources/requests"), requests.into()))
}

impl PodView {
    /// Reads the pod `object`, metadata and all.
    pub fn read(object: &Value, labels: &QueueLabels, gates: &QueueGates) -> Self {
        let queue_gate = gates.carried(object);
        let other_gates: Vec<Arc<str>> = scheduling_gates(object)
            .filter(|name| Some(*name) != queue_gate)
            .map(Into::into)
            .collect();
        let spec = |key: &str| object.get("spec").and_then(|spec| spec.get(key));
        let reader = Reader {
            defaults: &PodDefaults::default(),
            queue_gates: gates,
        };
        let allocated = as_allocated(object);
        let asks = reader.read(POD_SET.into(), Place::pod(), 1, &allocated);
        let is_gated = queue_gate.is_some() || !other_gates.is_empty();
        Self {
            queue: labels.read(&metadata::labels(object, labels.keys())),
            mode: PodMode::read(object, gates),
            queue_gate: queue_gate.map(Into::into),
            other_gates,
            propagated: propagated(object).map(Into::into).collect(),
            gates: gates::read(&gates::gate_annotations(object)),
            priority_class_label: label(object, PRIORITY_CLASS_LABEL).map(str::to_owned),
            priority: spec("priority")
                .and_then(Value::as_i64)
                .and_then(|priority| priority.try_into().ok()),
            priority_class: spec("priorityClassName")
                .and_then(Value::as_str)
                .map(str::to_owned),
            phase: PodPhase::read(object),
            never_ends: never_ends(object),
            is_bound: spec("nodeName")
                .and_then(Value::as_str)
                .is_some_and(|node| !node.is_empty()),
            pod_set: annotation_text(object, POD_SET_ANNOTATION).map(Into::into),
            admitted: annotation_text(object, ADMITTED_ANNOTATION).map(read_admission),
            asks: if is_gated {
                asks.and_then(bounded)
            } else {
                asks
            },
        }
    }

    /// The usage of the pod by its own record, or what can't be counted. Devices that it claims are
    /// counted with the object that it belongs to. One that belongs to none waits if it has such; what runs
    /// already counts the rest.
    ///
    /// # Errors
    /// All that can't be counted.
    pub fn usage(&self) -> Result<PodSetView, Vec<Problem>> {
        let asks = self.asks.clone()?;
        if self.mode == PodMode::Child || asks.claims.is_empty() {
            return Ok(asks);
        }
        if self.queue_gate.is_some() {
            return Err(claims::not_by_itself(
                &asks.claims,
                &asks.place.spec_field(),
            ));
        }
        Ok(PodSetView {
            claims: Arc::default(),
            devices: Ok(Amounts::new()),
            ..asks
        })
    }
}

impl PodMode {
    /// A pod that asks to be admitted by itself is, or with the group that its controller made it for. Of
    /// those without a controller, one with the label of a group belongs to it. A member that is admitted
    /// stays one whatever adopts it: a controller may, in good faith, and its quota is that of the group.
    fn read(object: &Value, gates: &QueueGates) -> Self {
        if gates.opt_in(object).is_some() {
            return PodGroup::of_controller(object).map_or(Self::Single, Self::Group);
        }
        let is_admitted = [POD_GROUP_TOTAL_ANNOTATION, ADMITTED_ANNOTATION]
            .into_iter()
            .all(|key| metadata::annotation(object, key).is_some());
        let is_member = metadata::controller(object).is_none() || is_admitted;
        if label(object, POD_GROUP_LABEL).is_none() || !is_member {
            return Self::Child;
        }
        match PodGroup::read(object) {
            Ok(Some(group)) => Self::Group(Ok(group)),
            Ok(None) => Self::Child,
            Err(problems) => match problems.into_iter().next() {
                Some(problem) => Self::Group(Err(problem)),
                None => Self::Child,
            },
        }
    }
}

impl PodPhase {
    fn read(object: &Value) -> Self {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str);
        // What is always restarted never succeeds by itself: it was deleted, and has stopped in an orderly way.
        let was_stopped = text("/metadata/deletionTimestamp").is_some() && never_ends(object);
        match text("/status/phase") {
            Some("Succeeded") if was_stopped => Self::Failed,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            _ => Self::Live,
        }
    }
}

fn never_ends(pod: &Value) -> bool {
    let policy = pod.pointer("/spec/restartPolicy");
    policy.and_then(Value::as_str) == Some("Always")
}

fn read_admission(text: &str) -> Result<PodAdmission, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let rule = format!("must be the record of an admission: {error}");
        Problem::invalid(gates::field_of(ADMITTED_ANNOTATION), text, rule)
    })
}
