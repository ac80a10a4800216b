//! The gate annotation rules, once, for webhook, controller and CLI.
//!
//! A Job-like object may carry gates at creation; while one is left it is neither queued nor
//! running. Afterwards gates can only go. These functions judge annotations and nothing else: they
//! know neither the kind of the object nor who edits it. What is the name of a gate is in `gate_name.rs`.
//!
//! Two rules hold throughout:
//! * **Fail closed.** A value that breaks the rules and is stored all the same holds the object.
//! * **Ratchet.** An edit is judged by what it brings in. What was stored before, good or bad,
//!   blocks no other edit and may always be removed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::gate_name::{GATE_BYTES_MAX, Gate, NAMES_NO_GATE};
use crate::field::metadata::annotation;
use crate::field::problem::Problem;

#[cfg(test)]
mod tests;

/// The annotation that names exactly one gate.
pub const SCHEDULING_GATED_BY: &str = "kueue.x-k8s.io/scheduling-gated-by";
/// The annotation that names a comma-separated list of gates.
pub const ADMISSION_GATED_BY: &str = "kueue.x-k8s.io/admission-gated-by";
/// Both gate annotations. Their union holds an object.
pub const GATE_ANNOTATIONS: [&str; 2] = [SCHEDULING_GATED_BY, ADMISSION_GATED_BY];

/// Most gates in one list.
pub const GATES_MAX: usize = 16;
/// Longest annotation value in bytes: a full list of 16 × 63 bytes with 15 commas is 1023.
pub const VALUE_BYTES_MAX: usize = 1024;

const _: () = assert!(GATES_MAX * GATE_BYTES_MAX + (GATES_MAX - 1) <= VALUE_BYTES_MAX);

/// The rule that every refused addition breaks.
const CREATE_ONLY: &str = "may only be set at creation and removed later";
/// What a list gets to hear where one name belongs.
const ONE_GATE_ONLY: &str =
    "must be exactly one gate; kueue.x-k8s.io/admission-gated-by takes a comma-separated list";

/// What the gate annotations of an object say, both taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateState {
    /// There is no gate annotation.
    None,
    /// These gates hold the object. Never empty.
    Held(BTreeSet<Gate>),
    /// An annotation breaks the rules. It holds the object until it is removed.
    Invalid(Vec<Problem>),
}

impl GateState {
    /// Whether the object must wait. True for an invalid annotation.
    pub fn is_held(&self) -> bool {
        match self {
            Self::None => false,
            Self::Held(_) | Self::Invalid(_) => true,
        }
    }

    /// The gates, sorted and each once; empty unless [`GateState::Held`].
    pub fn names(&self) -> impl Iterator<Item = &Gate> {
        let held = match self {
            Self::Held(gates) => Some(gates),
            Self::None | Self::Invalid(_) => None,
        };
        held.into_iter().flatten()
    }

    /// Whether `gate` is one of them.
    pub fn contains(&self, gate: &Gate) -> bool {
        match self {
            Self::Held(gates) => gates.contains(gate),
            Self::None | Self::Invalid(_) => false,
        }
    }

    /// Whether one of them holds the object until it names a queue.
    pub fn require_queue(&self) -> bool {
        self.names().any(Gate::is_queue_required)
    }

    /// The scheduling gates that stand for them on pods.
    pub fn scheduling_gates(&self) -> BTreeSet<String> {
        self.names()
            .map(|gate| gate.scheduling_gate().into_owned())
            .collect()
    }
}

/// Reads the gates of an object: the union of both annotations.
pub fn read(annotations: &BTreeMap<String, String>) -> GateState {
    let mut gates = BTreeSet::new();
    let mut problems = Vec::new();
    for (key, value) in present(annotations) {
        match parse_value(key, value) {
            Ok(parsed) => gates.extend(parsed),
            Err(found) => problems.extend(found),
        }
    }
    match (problems.is_empty(), gates.is_empty()) {
        (false, _) => GateState::Invalid(problems),
        (true, true) => GateState::None,
        (true, false) => GateState::Held(gates),
    }
}

/// The gates that the annotations name, whatever else stands there: each element that is the name of a gate. A value
/// that breaks the rules holds by [`read`]; who takes it away takes these with it.
pub fn named(annotations: &BTreeMap<String, String>) -> BTreeSet<Gate> {
    present(annotations)
        .flat_map(|(_, value)| value.split(',').map(str::trim))
        .filter(|name| name.len() <= GATE_BYTES_MAX)
        .filter_map(|name| Gate::parse(name, "").ok())
        .collect()
}

/// What is wrong with the gates of an object that is being created.
pub fn check_create(annotations: &BTreeMap<String, String>) -> Vec<Problem> {
    match read(annotations) {
        GateState::None | GateState::Held(_) => Vec::new(),
        GateState::Invalid(problems) => problems,
    }
}

/// What is wrong with an edit of the gates of an existing object.
///
/// Each annotation is judged by itself: moving a gate from one to the other is an addition.
pub fn check_update(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Vec<Problem> {
    present(new)
        .filter(|(key, value)| old.get(*key).map(String::as_str) != Some(value))
        .flat_map(|(key, value)| match old.get(key) {
            None => vec![Problem::forbidden(field_of(key), CREATE_ONLY)],
            Some(stored) => check_edit(key, stored, value),
        })
        .collect()
}

/// The field path of the annotation `key`.
pub fn field_of(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// The gate annotations of `object`, and no others. A value that is no string can't come from an API
/// server; it is read as its JSON text, which names no gate and so holds the object.
pub fn gate_annotations(object: &Value) -> BTreeMap<String, String> {
    GATE_ANNOTATIONS
        .into_iter()
        .filter_map(|key| annotation(object, key).map(|value| (key.to_owned(), text(value))))
        .collect()
}

/// The gate annotations among `annotations`, in the order of [`GATE_ANNOTATIONS`].
pub(super) fn present(
    annotations: &BTreeMap<String, String>,
) -> impl Iterator<Item = (&'static str, &str)> {
    GATE_ANNOTATIONS
        .into_iter()
        .filter_map(|key| annotations.get(key).map(|value| (key, value.as_str())))
}

/// The gates that the value of annotation `key` names.
fn parse_value(key: &str, value: &str) -> Result<BTreeSet<Gate>, Vec<Problem>> {
    let field = field_of(key);
    if VALUE_BYTES_MAX < value.len() {
        return Err(vec![Problem::too_long(field, VALUE_BYTES_MAX)]);
    }
    if value.trim().is_empty() {
        return Err(vec![Problem::invalid(field, value, NAMES_NO_GATE)]);
    }
    if key == SCHEDULING_GATED_BY {
        if value.contains(',') {
            return Err(vec![Problem::invalid(field, value, ONE_GATE_ONLY)]);
        }
        return Gate::parse(value, &field).map(|gate| BTreeSet::from([gate]));
    }
    parse_list(&field, value)
}

/// The gates of a comma-separated list.
fn parse_list(field: &str, value: &str) -> Result<BTreeSet<Gate>, Vec<Problem>> {
    let mut gates = BTreeSet::new();
    let mut problems = Vec::new();
    let count = value.split(',').count();
    if GATES_MAX < count {
        let detail = format!("must have at most {GATES_MAX} items");
        return Err(vec![Problem::too_many(field, count, detail)]);
    }
    for name in value.split(',').map(str::trim) {
        match Gate::parse(name, field) {
            Err(found) => problems.extend(found),
            Ok(gate) if gates.contains(&gate) => problems.push(Problem::duplicate(field, name)),
            Ok(gate) => {
                gates.insert(gate);
            }
        }
    }
    if problems.is_empty() {
        Ok(gates)
    } else {
        Err(problems)
    }
}

/// What is wrong with replacing `stored` by another `value` under annotation `key`.
///
/// Every element of the new value must be one that was stored, and stand there no more often than
/// before. So nothing that breaks the rules can come in, and what was broken can be mended.
fn check_edit(key: &str, stored: &str, value: &str) -> Vec<Problem> {
    let field = field_of(key);
    if VALUE_BYTES_MAX.max(stored.len()) < value.len() {
        return vec![Problem::too_long(field, VALUE_BYTES_MAX)];
    }
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for name in elements(key, stored) {
        *left.entry(name).or_default() += 1;
    }
    let mut refused = BTreeSet::new();
    let mut problems = Vec::new();
    for name in elements(key, value) {
        match left.get_mut(name) {
            Some(count) if 0 < *count => *count -= 1,
            _ if !refused.insert(name) => {}
            Some(_) => problems.push(Problem::duplicate(field.as_str(), name)),
            None if name.is_empty() => {
                problems.push(Problem::invalid(field.as_str(), value, NAMES_NO_GATE));
            }
            None => return vec![Problem::forbidden(field, CREATE_ONLY)],
        }
    }
    problems
}

/// The names in `value`, as they count in a comparison. Space around a name means nothing in a
/// list; in the annotation for one gate it is part of the (invalid) name.
fn elements<'a>(key: &str, value: &'a str) -> impl Iterator<Item = &'a str> {
    let is_list = key == ADMISSION_GATED_BY;
    value
        .split(',')
        .map(move |name| if is_list { name.trim() } else { name })
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
