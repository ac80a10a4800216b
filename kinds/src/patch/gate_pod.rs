//! How a pod that is being created waits, and the patch that gates it. Which pods are asked about is decided
//! elsewhere.

use json_patch::Patch;
use serde_json::Value;
use sluice_crds::{MANAGED_LABEL, POD_GROUP_LABEL, QUEUE_GATE};

use crate::field::metadata::{self, label};
use crate::gates::scheduling::{QueueGates, propagated};
use crate::gates::{self, GateState};
use crate::patch::gating::{Gating, unlist};
use crate::read::place::Place;
use crate::read::view::QueueLabels;

#[cfg(test)]
mod tests;

/// The annotation on the pods of a kubelet's own manifests: copies, which nothing can hold.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Whom a pod was made for that names a controller, as far as its author is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeFor {
    /// Nobody knows.
    Unknown,
    /// An object that is queued, or waits for its gates, with its pods: they bring what they need.
    Owner,
    /// An object with only the metadata of its pods in it, which waits by them: they list its gates, and get those when
    /// they are created.
    GatedByPods,
}

/// How a pod that is being created is to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodHold {
    /// In a queue, by itself.
    Single,
    /// In a queue, with its group.
    Group,
    /// For its gates alone.
    Gates,
}

impl PodHold {
    /// How `pod` is to wait that is being created; none if Sluice has no part in it.
    ///
    /// A queue label came down from what owns the pod only if its controller is believed: then it is the owner that is
    /// queued. The queue gate says that the pod waits for quota: one that Sluice did not put there by a template waits
    /// in a queue by itself.
    pub fn at_creation(
        pod: &Value,
        labels: &QueueLabels,
        gates: &QueueGates,
        made_for: MadeFor,
    ) -> Option<Self> {
        if metadata::annotation(pod, MIRROR_ANNOTATION).is_some() {
            return None;
        }
        let is_bare = metadata::controller(pod).is_none();
        let goes_with_owner = !is_bare && made_for == MadeFor::Owner;
        let is_labelled = labels.keys().any(|key| label(pod, key).is_some());
        let is_gated = gates.carried(pod).is_some();
        let is_managed = label(pod, MANAGED_LABEL).is_some();
        if gates.opt_in(pod).is_some() {
            Some(Self::Single)
        } else if is_bare && label(pod, POD_GROUP_LABEL).is_some() {
            Some(Self::Group)
        } else if is_labelled && !goes_with_owner || is_gated && !(goes_with_owner && is_managed) {
            Some(Self::Single)
        } else if is_bare && !gates::gate_annotations(pod).is_empty() {
            // It gets its scheduling gates now or never: also the one for a queue that it names later.
            let held_by = gates::read(&gates::gate_annotations(pod));
            Some(if held_by.require_queue() {
                Self::Single
            } else {
                Self::Gates
            })
        } else if made_for == MadeFor::GatedByPods && propagated(pod).next().is_some() {
            Some(Self::Gates)
        } else {
            None
        }
    }

    /// The patch that makes `pod` wait. Applied to its own outcome it is empty. Gate annotations
    /// count on pods without a controller; on others they, and the list of propagated gates, came
    /// down from an owner, which is held by them itself, or by its pods.
    pub fn patch(self, pod: &Value, gates: &QueueGates, made_for: MadeFor) -> Patch {
        let gating = match (metadata::controller(pod), made_for) {
            (None, _) => Gating::behind(&gates::read(&gates::gate_annotations(pod))),
            (Some(_), MadeFor::GatedByPods) => Gating::behind_listed(pod),
            (Some(_), _) => Gating::behind(&GateState::None).after(pod),
        };
        let gating = match self {
            Self::Single => gating.by_itself(pod, gates),
            Self::Group => gating.queue_gate(QUEUE_GATE),
            Self::Gates => gating,
        };
        Patch(gating.patch(pod, &Place::pod(), gates))
    }
}

/// The patch for a `pod` that is being created and does not wait: it lists no gates for Sluice to
/// remove, unless it got them from a controller.
pub fn unlist_patch(pod: &Value) -> Patch {
    let listed = metadata::controller(pod)
        .is_none()
        .then(|| unlist(pod, &Place::pod()));
    Patch(listed.flatten().into_iter().collect())
}
