//! What an object keeps of its gates in annotations: which were lifted, which have expired, and what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use sluice_crds::{AFTER_ANNOTATION, GATE_FAILURES_ANNOTATION, NOT_BEFORE_ANNOTATION};
use sluice_kinds::gates::{GATE_ANNOTATIONS, GateRecord};

/// What an object keeps of its gates. Most objects keep nothing, and cost nothing then.
#[derive(Debug, Clone, Default)]
pub struct KeptGates(Option<Box<Kept>>);

/// What an object keeps.
#[derive(Debug, Clone)]
struct Kept {
    record: GateRecord,
    /// The gate annotations as they are written; and of an object that has some those that may name a time or
    /// another object, and why it was given some.
    annotations: BTreeMap<String, String>,
}

/// Longest annotation that may name a time or an object, in bytes: the longest KIND.GROUP/NAME has 571.
const NAMING_BYTES_MAX: usize = 576;
/// How much of such annotations is kept of an object, in bytes.
const KEPT_BYTES_MAX: usize = 4096;
/// The annotations that name a time or an object if a Gate names no other. They are kept first.
const USUAL: [&str; 2] = [NOT_BEFORE_ANNOTATION, AFTER_ANNOTATION];

/// That of an object that keeps nothing.
static NOTHING: GateRecord = GateRecord {
    lifted: Vec::new(),
    expired: BTreeSet::new(),
    deactivated_by: None,
};
static NO_GATES: BTreeMap<String, String> = BTreeMap::new();

impl KeptGates {
    /// Reads the annotations of an object.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let record = GateRecord::read(annotations);
        let gates = GATE_ANNOTATIONS.into_iter();
        let gates = gates.filter_map(|key| annotations.get_key_value(key));
        let of_gates: Vec<_> = gates.collect();
        let kept = of_gates.iter().map(|(k, v)| ((*k).clone(), (*v).clone()));
        let mut kept: BTreeMap<String, String> = kept.collect();
        if !kept.is_empty() {
            let failures = annotations.get_key_value(GATE_FAILURES_ANNOTATION);
            kept.extend(failures.map(|(k, v)| (k.clone(), v.clone())));
            keep_naming(annotations, &mut kept);
        }
        let annotations = kept;
        let is_empty = record == NOTHING && annotations.is_empty();
        Self((!is_empty).then(|| {
            Box::new(Kept {
                record,
                annotations,
            })
        }))
    }

    /// Which gates the object was given because it could not be found out whether they apply, and why.
    pub fn failures(&self) -> Option<&str> {
        let failures = self.annotations().get(GATE_FAILURES_ANNOTATION);
        failures.map(String::as_str)
    }

    /// The gate annotations as they are written, and those that may name a time or another object.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        self.0.as_ref().map_or(&NO_GATES, |kept| &kept.annotations)
    }
}

/// Keeps what may name a time or another object: short annotations, the usual ones first. One of these that is too
/// long is cut, and names nothing then.
fn keep_naming(annotations: &BTreeMap<String, String>, kept: &mut BTreeMap<String, String>) {
    let usual = USUAL.into_iter();
    let usual = usual.filter_map(|key| annotations.get_key_value(key));
    let others = annotations.iter();
    let mut others: Vec<_> = others
        .filter(|(_, value)| value.len() <= NAMING_BYTES_MAX)
        .collect();
    // Times are short: they are not to be pushed out.
    others.sort_by_key(|(_, value)| value.len());
    let mut left = KEPT_BYTES_MAX;
    for (key, value) in usual.chain(others) {
        let end = value.floor_char_boundary(NAMING_BYTES_MAX);
        let value = value.get(..end).unwrap_or_default();
        let Some(rest) = left.checked_sub(key.len().saturating_add(value.len())) else {
            continue;
        };
        if !kept.contains_key(key) {
            kept.insert(key.clone(), value.to_owned());
            left = rest;
        }
    }
}

impl Deref for KeptGates {
    type Target = GateRecord;

    fn deref(&self) -> &GateRecord {
        self.0.as_ref().map_or(&NOTHING, |kept| &kept.record)
    }
}

#[cfg(test)]
mod tests {
    use sluice_kinds::gates::ADMISSION_GATED_BY;

    use super::*;

    fn kept(more: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
        let gates = (ADMISSION_GATED_BY.to_owned(), "acme.io/a".to_owned());
        let annotations = more.into_iter().chain([gates]).collect();
        KeptGates::read(&annotations).annotations().clone()
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_usual_annotations_are() {
        let many = (0..200).map(|n| (format!("a/{n}"), "x".repeat(NAMING_BYTES_MAX)));
        let long = (AFTER_ANNOTATION.to_owned(), "a".repeat(10_000));
        let time = ("z".to_owned(), "2026-12-01T08:00:00Z".to_owned());
        let kept = kept(many.chain([long, time, ("b".to_owned(), "y".repeat(10_000))]));
        assert!(kept.contains_key("z"));
        let bytes: usize = kept
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        assert!(bytes < KEPT_BYTES_MAX + 100, "{bytes}");
        assert_eq!(kept[AFTER_ANNOTATION].len(), NAMING_BYTES_MAX);
        assert!(!kept.contains_key("b"));
        assert_eq!(kept[ADMISSION_GATED_BY], "acme.io/a");
    }

    #[test]
    fn an_object_without_gates_keeps_nothing() {
        let named = (AFTER_ANNOTATION.to_owned(), "prepare".to_owned());
        let kept = KeptGates::read(&BTreeMap::from([named]));
        assert!(kept.annotations().is_empty());
    }
}
