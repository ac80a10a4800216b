//! The patch that makes a pod, or the pods of a template, wait: labels, annotations and scheduling
//! gates that are to be there. Applied to its own outcome it is empty; what is there already, and
//! the order of the gates, stays.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::{Map, Value, json};
use sluice_crds::{MANAGED_LABEL, PROPAGATED_GATES_ANNOTATION, QUEUE_GATE};

use crate::field::metadata::label;
use crate::gates::GateState;
use crate::gates::scheduling::{QueueGates, propagated, scheduling_gates};
use crate::read::place::Place;

/// What is to be there.
#[derive(Debug, Default)]
pub(crate) struct Gating {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    queue_gate: Option<String>,
    propagated: BTreeSet<String>,
    may_stay: BTreeSet<String>,
}

impl Gating {
    /// A pod that Sluice looks after, behind one scheduling gate for each gate of `gates`.
    pub(crate) fn behind(gates: &GateState) -> Self {
        Self {
            propagated: gates.scheduling_gates(),
            ..Self::default()
        }
        .label(MANAGED_LABEL, "true")
    }

    /// A pod that Sluice looks after, behind one scheduling gate for each that it lists: its object is held by them.
    pub(crate) fn behind_listed(pod: &Value) -> Self {
        let listed = propagated(pod).map(str::to_owned).collect();
        Self {
            propagated: listed,
            ..Self::behind(&GateState::None)
        }
    }

    /// What `before` lists as propagated gates may stay listed. Nothing else may: Sluice removes the
    /// gates that are listed, and would remove those of others.
    pub(crate) fn after(mut self, before: &Value) -> Self {
        self.may_stay = propagated(before).map(str::to_owned).collect();
        self
    }

    /// It also has this label.
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// It also has this annotation.
    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// It also waits behind the queue gate.
    pub(crate) fn queue_gate(mut self, name: &str) -> Self {
        self.queue_gate = Some(name.to_owned());
        self
    }

    /// It also waits in a queue by itself: behind the queue gate, and marked by the annotation of
    /// the same name. Where `pod` asks for that under an alias, the alias is both.
    pub(crate) fn by_itself(self, pod: &Value, gates: &QueueGates) -> Self {
        match gates.opt_in(pod) {
            Some(alias) if alias != QUEUE_GATE => self.queue_gate(alias),
            _ => self.queue_gate(QUEUE_GATE).annotation(QUEUE_GATE, "true"),
        }
    }

    /// The patch for `pod`, a pod or a pod template, which is written at `place`.
    pub(crate) fn patch(
        &self,
        pod: &Value,
        place: &Place,
        gates: &QueueGates,
    ) -> Vec<PatchOperation> {
        let mut annotations = self.annotations.clone();
        let mut operations = Vec::new();
        let listed = self.listed(pod, place);
        if listed.is_empty() {
            operations.extend(unlist(pod, place));
        } else {
            annotations.insert(PROPAGATED_GATES_ANNOTATION.to_owned(), listed);
        }
        operations.extend(add_metadata(pod, place, &self.labels, &annotations));
        operations.extend(self.add_gates(pod, place, gates));
        operations
    }

    /// Whether `pod` is looked after by Sluice, and waits behind all gates that it is to wait behind.
    pub(crate) fn holds(&self, pod: &Value, place: &Place, gates: &QueueGates) -> bool {
        let is_managed = label(pod, MANAGED_LABEL).is_some();
        // Of pods with only their metadata there: they get their gates when they are created.
        let has_no_spec = place.spec(&[]).is_none();
        let is_queued = if has_no_spec {
            gates.opt_in(pod).is_some()
        } else {
            gates.carried(pod).is_some()
        };
        let is_carried = |gate: &str| scheduling_gates(pod).any(|carried| carried == gate);
        let is_there = |gate: &String| {
            propagated(pod).any(|listed| listed == gate) && (has_no_spec || is_carried(gate))
        };
        is_managed
            && (is_queued || self.queue_gate.is_none())
            && self.propagated.iter().all(is_there)
    }

    /// The names in the annotation of propagated gates. Those that may stay do so as long as the
    /// gates are there: a name without a gate could be that of a gate that others put on the pods
    /// later. Of pods with only their metadata there, each name stays: to take it away would be a change of the spec,
    /// which may make their controller begin anew.
    fn listed(&self, pod: &Value, place: &Place) -> String {
        let stays = |name: &&str| self.may_stay.contains(*name);
        let mut names: BTreeSet<&str> = match place {
            Place::Metadata(_) => propagated(pod).filter(stays).collect(),
            _ => scheduling_gates(pod).filter(stays).collect(),
        };
        names.extend(self.propagated.iter().map(String::as_str));
        names.into_iter().collect::<Vec<_>>().join(",")
    }

    fn add_gates(&self, pod: &Value, place: &Place, gates: &QueueGates) -> Vec<PatchOperation> {
        let queue_gate = self
            .queue_gate
            .as_deref()
            .filter(|_| gates.carried(pod).is_none());
        let missing: Vec<Value> = queue_gate
            .into_iter()
            .chain(self.propagated.iter().map(String::as_str))
            .filter(|name| !scheduling_gates(pod).any(|carried| carried == *name))
            .map(|name| json!({"name": name}))
            .collect();
        // Pods of which only the metadata is written get their gates when they are created.
        let Some(list) = place
            .spec(&["schedulingGates"])
            .filter(|_| !missing.is_empty())
        else {
            return Vec::new();
        };
        let Some(spec) = pod.get("spec").filter(|spec| spec.is_object()) else {
            let spec = json!({"schedulingGates": missing});
            return place
                .spec(&[])
                .map(|at| add(at, spec))
                .into_iter()
                .collect();
        };
        if spec.get("schedulingGates").is_some_and(Value::is_array) {
            let end = place.spec(&["schedulingGates", "-"]);
            return missing
                .into_iter()
                .filter_map(|gate| Some(add(end.clone()?, gate)))
                .collect();
        }
        vec![add(list, missing.into())]
    }
}

/// Removes the list of propagated gates from `pod`, a pod or a pod template, which is written at
/// `place`.
pub(crate) fn unlist(pod: &Value, place: &Place) -> Option<PatchOperation> {
    crate::field::metadata::annotation(pod, PROPAGATED_GATES_ANNOTATION)?;
    Some(PatchOperation::Remove(RemoveOperation {
        path: place.metadata(&["annotations", PROPAGATED_GATES_ANNOTATION]),
    }))
}

/// Adds to the metadata of `pod`, making `metadata`, `labels` and `annotations` where absent.
pub(crate) fn add_metadata(
    pod: &Value,
    place: &Place,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Vec<PatchOperation> {
    let maps = [("labels", labels), ("annotations", annotations)]
        .into_iter()
        .filter(|(_, map)| !map.is_empty());
    let Some(metadata) = pod.get("metadata").filter(|m| m.is_object()) else {
        let made: Map<String, Value> = maps
            .map(|(key, map)| (key.to_owned(), json!(map)))
            .collect();
        return vec![add(place.metadata(&[]), made.into())];
    };
    let mut operations = Vec::new();
    for (key, map) in maps {
        let Some(there) = metadata.get(key).filter(|there| there.is_object()) else {
            operations.push(add(place.metadata(&[key]), json!(map)));
            continue;
        };
        for (name, value) in map {
            if there.get(name).and_then(Value::as_str) != Some(value) {
                operations.push(add(place.metadata(&[key, name]), json!(value)));
            }
        }
    }
    operations
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}
