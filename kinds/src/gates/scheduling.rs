//! The scheduling gates of a pod or pod template: how a gate annotation's gate is called there, which of them is the
//! queue gate, which stand for gate annotations, and which are none of Sluice's. Reading only.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;
use sluice_crds::{PROPAGATED_GATES_ANNOTATION, QUEUE_GATE};

use crate::field::metadata::annotation_text;
use crate::field::names;
use crate::gates::gate_name::Gate;

/// What every queue gate is called behind its prefix, Volcano's too.
const QUEUE_GATE_NAME: &str = "queue-allocation-gate";

impl Gate {
    /// The name of the scheduling gate that stands for this gate on a pod: its own name where that is
    /// a valid one, else one made from a hash of it. So is a gate that is called like a queue gate.
    pub fn scheduling_gate(&self) -> Cow<'_, str> {
        let name = self.as_str().split_once('/').map_or("", |(_, name)| name);
        if names::is_qualified_name_part(name) && name != QUEUE_GATE_NAME {
            Cow::Borrowed(self.as_str())
        } else {
            Cow::Owned(format!(
                "sluice.dev/gate-{:016x}",
                stable_hash(self.as_str())
            ))
        }
    }
}

/// 64 bits of FNV-1a: the same in every version, as pods keep names made from it.
pub(crate) fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The accepted names of the queue gate, and of the annotation by which a pod asks for it: Sluice's
/// own first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueGates(Vec<String>);

impl QueueGates {
    /// Sluice's own name and the `aliases` that the configuration adds.
    pub fn new(aliases: impl IntoIterator<Item = String>) -> Self {
        let aliases = aliases.into_iter().filter(|alias| alias != QUEUE_GATE);
        Self(
            std::iter::once(QUEUE_GATE.to_owned())
                .chain(aliases)
                .collect(),
        )
    }

    /// Whether `name` is one of them.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The name by which `pod`, a pod or a pod template, asks to be admitted by itself.
    pub fn opt_in(&self, pod: &Value) -> Option<&str> {
        self.names()
            .find(|name| annotation_text(pod, name) == Some("true"))
    }

    /// The queue gate that `pod` carries: the first, should there be several.
    pub fn carried<'a>(&self, pod: &'a Value) -> Option<&'a str> {
        scheduling_gates(pod).find(|name| self.contains(name))
    }

    /// Whether `pod` carries a scheduling gate that is neither a queue gate nor one that Sluice put
    /// there in place of a gate annotation.
    pub(crate) fn has_external(&self, pod: &Value) -> bool {
        let own: BTreeSet<&str> = propagated(pod).collect();
        scheduling_gates(pod).any(|name| !self.contains(name) && !own.contains(name))
    }
}

impl Default for QueueGates {
    fn default() -> Self {
        Self::new([])
    }
}

/// The names of the scheduling gates of `pod`, in order.
pub(crate) fn scheduling_gates(pod: &Value) -> impl Iterator<Item = &str> {
    pod.pointer("/spec/schedulingGates")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|gate| gate.get("name")?.as_str())
}

/// The names of the scheduling gates that `pod` says stand for gate annotations.
pub fn propagated(pod: &Value) -> impl Iterator<Item = &str> {
    annotation_text(pod, PROPAGATED_GATES_ANNOTATION)
        .into_iter()
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// The names of the gates of `pod` that are in `before` and no longer in `after`.
pub fn gates_removed<'a>(before: &'a Value, after: &Value) -> Vec<&'a str> {
    let left: BTreeSet<&str> = scheduling_gates(after).collect();
    scheduling_gates(before)
        .filter(|name| !left.contains(name))
        .collect()
}
