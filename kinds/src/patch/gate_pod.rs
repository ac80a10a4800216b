//! The patch that gates a pod that is being created. Which pods wait, and how, is told in `read/pod_hold.rs`.

use std::collections::BTreeMap;

use json_patch::Patch;
use serde_json::Value;
use sluice_crds::{MANAGED_LABEL, QUEUE_GATE};

use crate::field::metadata;
use crate::gates::scheduling::QueueGates;
use crate::gates::{self, GateState};
use crate::patch::gating::{Gating, add_metadata, unlist};
use crate::patch::marks::is_hidden;
use crate::read::place::Place;
use crate::read::pod_hold::{MadeFor, PodHold};

#[cfg(test)]
mod tests;

impl PodHold {
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

/// Whether the controller of `pod` may select its pods by labels of its users. Such a controller gives up a pod whose labels
/// are changed, and makes another one, without end.
fn selects_by_labels(pod: &Value) -> bool {
    metadata::controller(pod)
        .is_some_and(|(group, kind)| group == "apps" || kind == "ReplicationController")
}

/// The patch for a `pod` that is being created and does not wait by itself: it lists no gates for Sluice to
/// remove, unless it got them from a controller; and it does not hide from Sluice. Pods that hide all the same are refused.
pub fn unheld_patch(pod: &Value) -> Patch {
    let listed = metadata::controller(pod)
        .is_none()
        .then(|| unlist(pod, &Place::pod()));
    let mut operations: Vec<_> = listed.flatten().into_iter().collect();
    if is_hidden(pod) && !selects_by_labels(pod) {
        let managed = [(MANAGED_LABEL.to_owned(), "true".to_owned())].into();
        let no_annotations = BTreeMap::new();
        operations.extend(add_metadata(pod, &Place::pod(), &managed, &no_annotations));
    }
    Patch(operations)
}
